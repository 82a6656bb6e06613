//! One run of the machine: its folder, QEMU, the output as it comes, and how it ended.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::cache::Ready;
use super::options::Options;
use super::relay::Relay;
use super::{host, job};

pub const WIRE: &str = include_str!("guest/wire.sh");
/// The guest's kernel: a panic or an oops ends the machine, and so the run. Its clock is the counter that the
/// emulated CPUs share: with the default, HPET, each look at the time leaves the emulated machine.
const KERNEL: &str = "console=ttyS0 panic=-1 oops=panic quiet loglevel=4 random.trust_cpu=on tsc=reliable";
/// Lines of the kernel's console that an error shows; more if that is where the trouble begins.
const TAIL: usize = 20;
const TAIL_MAX: usize = 80;
/// What the kernel, and our init, begin with when something is wrong.
const TROUBLE: [&str; 5] = ["longarm-vm:", "Kernel panic", "BUG:", "Oops:", "Out of memory"];
const POLL: Duration = Duration::from_millis(20);

/// How a run ended.
#[derive(PartialEq, Eq, Debug)]
pub enum Ended {
    /// With the command's status.
    Status(u8),
    /// By the time limit: what was going on.
    Late(String),
}

/// A folder that goes when we do, however we go: a shell removes it when its input, held by us, ends.
struct Folder {
    path: PathBuf,
    janitor: Child,
}

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = fresh(&std::env::temp_dir())?;
        // In a group of its own, so that an interrupt from the terminal spares it.
        let janitor = Command::new("sh")
            .args(["-c", "read -r _; rm -rf \"$1\"", "janitor"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("sh: {error}"))?;
        Ok(Folder { path, janitor })
    }

    /// Puts a file where the guest sees it.
    fn give(&self, name: &str, content: &[u8]) -> Result<(), String> {
        let path = self.path.join("share").join(name);
        std::fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// What the guest has put there.
    fn taken(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path.join("share").join(name)).ok().filter(|text| !text.is_empty())
    }

    fn text(&self, name: &str) -> String {
        let bytes = std::fs::read(self.path.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

/// A new folder for us alone, with the folder `share` in it.
fn fresh(parent: &Path) -> Result<PathBuf, String> {
    for i in 0..100 {
        let path = parent.join(format!("longarm-vm-{}-{i}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        match made.and_then(|()| std::fs::create_dir(path.join("share"))) {
            Ok(()) => return Ok(path),
            // Left by a process of the same number, of which not even the janitor lived on.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Err(format!("{} is full of folders longarm-vm-*", parent.display()))
}

/// QEMU, which does not outlive this value.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the command in a new machine, until the deadline.
pub fn run(ready: &Ready, options: &Options, deadline: Instant) -> Result<Ended, String> {
    let here = std::env::current_dir().map_err(|error| format!("the current directory: {error}"))?;
    let writable = match &options.writable {
        None => None,
        Some(path) => Some(path.canonicalize().map_err(|error| format!("-w {}: {error}", path.display()))?),
    };
    if let Some(path) = writable.as_ref().filter(|path| !path.is_dir()) {
        return Err(format!("-w {}: not a folder", path.display()));
    }
    let folder = Folder::new()?;
    let variables: Vec<_> = std::env::vars_os().collect();
    folder.give("job", &job::script(options, &here, &variables))?;
    folder.give("wire", WIRE.as_bytes())?;
    folder.give("devices", options.devices.to_string().as_bytes())?;
    if let Some(path) = &writable {
        folder.give("writable", path.as_os_str().as_encoded_bytes())?;
    }
    let out = Relay::new(&folder.path.join("out"), std::io::stdout())?;
    let err = Relay::new(&folder.path.join("err"), std::io::stderr())?;
    let words = words(ready, options, &folder.path, writable.as_deref())?;
    let log = folder.path.join("qemu");
    let log = std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    // Should we be killed, QEMU dies as well.
    let qemu = host::command("setpriv")
        .args(["--pdeathsig", "KILL", "--", host::QEMU])
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    let mut qemu = Qemu(qemu.map_err(|error| format!("setpriv: {error}"))?);
    let ended = loop {
        let status = qemu.0.try_wait().map_err(|error| format!("{}: {error}", host::QEMU))?;
        if status.is_some() || Instant::now() > deadline {
            break status;
        }
        std::thread::park_timeout(POLL);
    };
    drop(qemu);
    out.finish();
    err.finish();
    if let Some(status) = folder.taken("status") {
        return match status.trim().parse() {
            Ok(status) => Ok(Ended::Status(status)),
            Err(_) => Err(format!("the guest says that the status is {status:?}")),
        };
    }
    let started = folder.taken("started").is_some();
    let rest = format!("{}{}", folder.text("qemu"), tail(&folder.text("console")));
    match ended {
        None => Ok(Ended::Late(format!("{}\n{rest}", late(started, options.limit)))),
        Some(status) => Err(format!("{}\n{rest}", early(started, &status.to_string()))),
    }
}

fn late(started: bool, limit: Duration) -> String {
    let limit = limit.as_secs();
    match started {
        true => format!("the command did not end within {limit} s (-t), the start included"),
        false => format!("the machine did not get as far as the command within {limit} s (-t)"),
    }
}

fn early(started: bool, status: &str) -> String {
    match started {
        true => format!("the machine ended under the command, without a status ({status})"),
        false => format!("the machine did not get as far as the command ({status})"),
    }
}

/// The end of the kernel's console.
fn tail(console: &str) -> String {
    let lines: Vec<&str> = console.lines().map(|line| line.trim_end_matches('\r')).collect();
    if lines.is_empty() {
        return "the kernel's console is empty".into();
    }
    let trouble = lines.iter().position(|line| TROUBLE.iter().any(|word| line.contains(word)));
    let first = lines.len().saturating_sub(TAIL).min(trouble.unwrap_or(usize::MAX));
    let first = first.max(lines.len().saturating_sub(TAIL_MAX));
    format!("the kernel's console ends:\n{}", lines[first..].join("\n"))
}

/// QEMU's arguments.
fn words(
    ready: &Ready,
    options: &Options,
    folder: &Path,
    writable: Option<&Path>,
) -> Result<Vec<String>, String> {
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_string);
        text.ok_or(format!("{}: not UTF-8, which QEMU's arguments must be", path.display()))
    };
    // In a list of properties QEMU reads a doubled comma as one.
    let property = |path: &Path| Ok::<_, String>(text(path)?.replace(',', ",,"));
    let (accel, cpu) =
        if host::has_kvm() { ("kvm", "host") } else { ("tcg,thread=multi", "max,-erms,-fsrm") };
    let mut line = format!(
        "-accel {accel} -cpu {cpu} -smp {} -m {} -nodefaults -no-user-config -display none -no-reboot \
         -device virtio-serial-pci -device virtconsole,chardev=out -device virtconsole,chardev=err \
         -serial chardev:console",
        options.cpus, options.mib
    );
    let mut shares = vec![("root", Path::new("/"), ",readonly=on")];
    let share = folder.join("share");
    shares.push(("vm", &share, ""));
    shares.extend(writable.map(|path| ("writable", path, "")));
    for (name, ..) in &shares {
        line.push_str(&format!(" -device virtio-9p-pci,fsdev={name},mount_tag={name}"));
    }
    let mut words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    let mut add = |option: &str, value: String| words.extend([option.to_string(), value]);
    for (name, path, mode) in shares {
        let path = property(path)?;
        add("-fsdev", format!("local,id={name},path={path},security_model=none,multidevs=remap{mode}"));
    }
    for name in ["out", "err", "console"] {
        add("-chardev", format!("file,id={name},path={}", property(&folder.join(name))?));
    }
    add("-kernel", text(&ready.kernel)?);
    add("-initrd", text(&ready.initramfs)?);
    add("-append", KERNEL.into());
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_value() {
        let folder = Folder::new().expect("a temporary folder");
        folder.give("a", b"1").expect("it is ours");
        assert_eq!((folder.taken("a"), folder.taken("b")), (Some("1".into()), None));
        let path = folder.path.clone();
        let second = Folder::new().expect("another one").path.clone();
        assert_ne!(path, second);
        drop(folder);
        assert!(!path.exists() && !second.exists());
        assert!(fresh(&path).is_err(), "a folder for temporary files is not made up");
    }

    #[test]
    fn a_console_is_cut_to_its_end() {
        assert_eq!(tail(""), "the kernel's console is empty");
        let long: String = (0..100).map(|i| format!("line {i}\r\n")).collect();
        let cut = tail(&long);
        assert!(cut.contains("line 80\nline 81\n") && !cut.contains("line 79"), "{cut}");
        let panicked = tail(&long.replace("line 60", "Kernel panic"));
        assert!(panicked.contains("panic\nline 61\n") && !panicked.contains("line 59"), "{panicked}");
        assert!(!tail(&long.replace("line 0", "BUG:")).contains("BUG:"), "too far from the end");
    }

    #[test]
    fn paths_reach_qemu_whole() {
        let ready = Ready { kernel: "/a b,/k".into(), initramfs: "/i".into() };
        let super::super::options::Asked::Run(options) =
            super::super::options::parse(&["-m", "512", "true"]).expect("good options")
        else {
            panic!("no help was asked for")
        };
        let words = words(&ready, &options, Path::new("/t"), Some(Path::new("/x,y"))).expect("all UTF-8");
        let has = |word: &str| words.iter().any(|other| other == word);
        assert!(has("/a b,/k") && has("512") && has("file,id=out,path=/t/out"));
        assert!(has("local,id=writable,path=/x,,y,security_model=none,multidevs=remap"));
        assert!(has("local,id=root,path=/,security_model=none,multidevs=remap,readonly=on"));
    }
}
