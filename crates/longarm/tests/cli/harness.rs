//! Runs the program and servers, with bounds on every wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The most time that one call of the program may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longarm"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LONGARM_") {
            command.env_remove(name);
        }
    }
    // Many tests share few cores: an operation may wait for its turn.
    command.env("LONGARM_TIMEOUT", "20s");
    command
}

/// Runs a command to its end, with a bound.
pub fn finish(mut command: Command, stdin: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("piped");
    let stdin = stdin.to_vec();
    // A program that reads nothing closes the pipe.
    let feeder = std::thread::spawn(move || drop(input.write_all(&stdin)));
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let read_out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let read_err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).map(|_| bytes)
    });
    let status = wait(&mut child);
    feeder.join().expect("fed");
    Output {
        status,
        stdout: read_out.join().expect("joined").expect("read"),
        stderr: read_err.join().expect("joined").expect("read"),
    }
}

pub fn wait(child: &mut Child) -> std::process::ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("our child") {
            return status;
        }
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the program did not end within {PATIENCE:?}");
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server in a directory of its own.
pub struct Server {
    pub directory: TempDir,
    pub child: Child,
    pub address: String,
}

impl Server {
    pub fn start(flags: &[&str]) -> Server {
        let directory = TempDir::new().expect("a directory");
        let address = format!("shm:{}", directory.path().join("s").display());
        Server::start_at(directory, address, flags)
    }

    pub fn start_at(directory: TempDir, address: String, flags: &[&str]) -> Server {
        let mut command = program();
        command.env("LONGARM_MEMORY", "64MiB").args(["server", "--address", &address]).args(flags);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut server = Server { directory, child: child.expect("the program runs"), address };
        server.learn_address();
        server
    }

    /// Reads "listening at ADDRESS"; a thread reads the rest, so that the server never waits for the test.
    fn learn_address(&mut self) {
        let lines = BufReader::new(self.child.stderr.take().expect("piped"));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                // The receiver is gone once the address is known.
                let _ = sender.send(line);
            }
        });
        let mut said = Vec::new();
        while let Ok(line) = receiver.recv_timeout(PATIENCE) {
            if let Some(rest) = line.split("listening at ").nth(1) {
                self.address = rest.split(' ').next().expect("a word").to_string();
                return;
            }
            said.push(line);
        }
        panic!("the server did not come up: {said:?}");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.env("LONGARM_ADDRESS", &self.address).args(args);
        command
    }

    /// Runs a client command; gives stdout and the exit code.
    pub fn run(&self, args: &[&str]) -> (String, i32) {
        let (out, _, code) = self.run_with(args, b"");
        (out, code)
    }

    pub fn run_with(&self, args: &[&str], stdin: &[u8]) -> (String, String, i32) {
        let output = finish(self.command(args), stdin);
        (text(&output.stdout), text(&output.stderr), output.status.code().expect("not killed"))
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let (out, err, code) = self.run_with(args, b"");
        assert_eq!(code, 0, "{args:?}: {out} {err}");
        out
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our child");
    }

    /// Ends the server in good order and keeps its directory.
    pub fn stop(mut self) -> TempDir {
        self.signal(Signal::TERM);
        let status = wait(&mut self.child);
        assert_eq!(status.code(), Some(0), "SIGTERM is a good end");
        std::mem::replace(&mut self.directory, TempDir::new().expect("a directory"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A tree with everything that makes trees hard.
pub fn make_tree(root: &Path) {
    let file = |path: &[u8], bytes: &[u8]| {
        let path = root.join(std::ffi::OsStr::from_bytes(path));
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, bytes).expect("a file");
    };
    file(b"empty", b"");
    file(b"deep/er/text.txt", b"text\nand\tmore\\ \"quoted\", and, commas\r\n");
    file(b"binary", &(0..=255u8).collect::<Vec<_>>());
    file(b"name \xFF\xFE that is no text", b"\xFF\xFE\x00 no text either");
    file(b"large", &vec![0xA5; 3 << 20]);
    for i in 0..200 {
        file(format!("many/{}/{i}", i % 7).as_bytes(), format!("{i}").repeat(i).as_bytes());
    }
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).expect("a link");
}

pub fn contents(root: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a kind");
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                let below = entry.path().strip_prefix(root).expect("below").to_path_buf();
                files.insert(below, std::fs::read(entry.path()).expect("a file"));
            }
        }
    }
    files
}
