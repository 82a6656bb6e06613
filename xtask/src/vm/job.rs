//! The command as a shell script for the guest: where, with which variables, under which limits, what.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::options::Options;

/// What the guest has for itself; the other variables of the host mean nothing inside.
/// The outputs are terminals there, but who knows what they end in here: so no colours.
const OWN: [(&str, &str); 5] =
    [("HOME", "/root"), ("USER", "root"), ("TERM", "dumb"), ("NO_COLOR", "1"), ("LANG", "C.UTF-8")];
const PASSED: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];
/// A plain user's `PATH` need not lead to `tc` and its kin, but the command is root.
const SYSTEM: &str = ":/usr/sbin:/sbin";
const PASSED_PREFIXES: [&str; 3] = ["CARGO", "RUST", "LONGARM_"];

/// Whether the command sees the host's variable of this name. A runner named inside would start a VM in the
/// VM.
pub fn is_passed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let runner = name.starts_with("CARGO_TARGET_") && name.ends_with("_RUNNER");
    !runner && (PASSED.contains(&name) || PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// The script. `env` sets the variables, because a shell refuses some names that cargo uses.
pub fn script(options: &Options, folder: &Path, variables: &[(OsString, OsString)]) -> Vec<u8> {
    let mut script = b"cd ".to_vec();
    quote(&mut script, folder.as_os_str());
    script.extend_from_slice(b" || exit 126\n");
    let memlock = options.memlock_kib.map_or("unlimited".to_string(), |kib| kib.to_string());
    script.extend_from_slice(format!("ulimit -l {memlock} || exit 126\nexec env -i").as_bytes());
    let own = OWN.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    for (name, value) in own.chain(variables.iter().filter(|(name, _)| is_passed(name)).cloned()) {
        script.push(b' ');
        let more = if name == "PATH" { SYSTEM } else { "" };
        let assignment = [name.as_bytes(), b"=", value.as_bytes(), more.as_bytes()].concat();
        quote(&mut script, &OsString::from_vec(assignment));
    }
    let start: &[u8] = match options.memlock_kib {
        // Root may exceed the limit by CAP_IPC_LOCK; what this exec does not leave in the bounding set is
        // gone.
        Some(_) => b" setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock --",
        // It does nothing, but `env` alone would take a command with `=` in its path for a variable.
        None => b" nice -n 0 --",
    };
    script.extend_from_slice(start);
    for word in &options.command {
        script.push(b' ');
        quote(&mut script, OsStr::new(word));
    }
    script.push(b'\n');
    script
}

/// In single quotes, in which a shell takes everything but the single quote for itself.
fn quote(script: &mut Vec<u8>, word: &OsStr) {
    script.push(b'\'');
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => script.extend_from_slice(b"'\\''"),
            _ => script.push(byte),
        }
    }
    script.push(b'\'');
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::options::{Asked, parse};
    use super::*;

    fn text(args: &[&str], variables: &[(&str, &str)]) -> String {
        let Ok(Asked::Run(options)) = parse(args) else { panic!("{args:?}") };
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        String::from_utf8(script(&options, Path::new("/"), &variables)).expect("all words are UTF-8")
    }

    #[test]
    fn variables_of_cargo_rust_and_ours_are_passed() {
        let passed = ["PATH", "CARGO", "CARGO_BIN_EXE_a-b", "RUST_BACKTRACE", "LONGARM_X", "LD_LIBRARY_PATH"];
        assert!(passed.iter().all(|name| is_passed(OsStr::new(name))));
        let kept = ["HOME", "TMPDIR", "XLONGARM_", "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"];
        assert!(!kept.iter().any(|name| is_passed(OsStr::new(name))));
    }

    /// The script without its limit, which a plain user may not raise, run here by the shell.
    #[test]
    fn words_and_values_arrive_as_they_are() {
        let words = ["--", "printf", "%s|", "it's", "$HOME `x` \"y\" \\", "", "a\nb"];
        let path = std::env::var("PATH").unwrap_or_default();
        let variables = [("LONGARM_A-B", "1 '2' $3"), ("PATH", path.as_str()), ("OTHER", "x")];
        let shell = |args: &[&str]| {
            let script = text(args, &variables).replace("ulimit -l unlimited || exit 126\n", "");
            let done = Command::new("sh").arg("-c").arg(script).output().expect("there is a shell");
            (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
        };
        assert_eq!(shell(&words), (Some(0), "it's|$HOME `x` \"y\" \\||a\nb|".into()));
        assert!(shell(&["env"]).1.lines().any(|line| line == "LONGARM_A-B=1 '2' $3"));
        assert!(!shell(&["env"]).1.contains("OTHER"));
        assert_eq!(shell(&["sh", "-c", "exit 42"]).0, Some(42));
        assert_eq!(shell(&["no=such/command"]).0, Some(127));
    }

    #[test]
    fn a_limit_on_locked_memory_takes_the_right_to_exceed_it() {
        let limited = text(&["--memlock", "64", "true"], &[]);
        assert!(limited.contains("ulimit -l 64 ") && limited.contains("--bounding-set -ipc_lock"));
        let free = text(&["true"], &[]);
        assert!(free.contains("ulimit -l unlimited ") && !free.contains("setpriv"));
    }
}
