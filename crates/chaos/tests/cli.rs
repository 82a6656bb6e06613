//! The program as its users meet it. Its nodes are `longarm-chaos server`, because cargo builds no other
//! program for these tests; a copy named `longarm` shows that it takes the program of that name beside it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The longest that one call of the program may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The program.
const CHAOS: &str = env!("CARGO_BIN_EXE_longarm-chaos");

/// Runs the program; returns its stdout, its stderr and the exit code. Temporary files go to `directory`.
fn run(program: &Path, directory: &Path, args: &[&str]) -> (String, String, i32) {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LONGARM_") {
            command.env_remove(name);
        }
    }
    command.args(args).env("TMPDIR", directory).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let read = |pipe: &mut dyn Read| {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("read");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (read_out, read_err) =
        (std::thread::spawn(move || read(&mut out)), std::thread::spawn(move || read(&mut err)));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("our child") {
            break status;
        }
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the program did not end within {PATIENCE:?}");
        }
        std::thread::park_timeout(Duration::from_millis(5));
    };
    let (out, err) = (read_out.join().expect("joined"), read_err.join().expect("joined"));
    (out, err, status.code().expect("not killed"))
}

/// The program under another name, in a directory where nothing else is.
fn copy(directory: &TempDir, name: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::hard_link(CHAOS, &path).expect("the directory is on the disk where the program is");
    path
}

/// A directory on the disk where the program is.
fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let directory = TempDir::new().expect("a directory");
    let run = |args: &[&str]| run(Path::new(CHAOS), directory.path(), args);
    let (_, err, code) = run(&["--only", "cut-leader"]);
    assert!(code == 2 && err.contains("no network to cut") && err.contains("--transport tcp"), "{err}");
    for (args, hint) in [
        (["--only", "kill-two", "--nodes", "3"], "--nodes 5"),
        (["--only", "add-node", "--groups", "2"], "--groups"),
        (["--only", "kill-all", "--durability", "memory"], "use --durability async or sync"),
    ] {
        let (_, err, code) = run(&args);
        assert!(code == 2 && err.contains(hint), "{err}");
    }
    let (_, err, code) = run(&["--groups", "16", "--replica-workers", "5"]);
    assert!(code == 2 && err.contains("a node has 64"), "{err}");
    let (_, err, code) = run(&["--json", "--no-such-flag"]);
    assert!(code == 2 && err.contains("`longarm-chaos --help` lists its flags"), "{err}");
    let (out, _, code) = run(&["--check-config"]);
    assert!(code == 0 && out.contains("the configuration is good"), "{out}");
}

#[test]
fn without_the_program_beside_it_it_says_how_to_build_it() {
    let (bare, files) = (directory(), TempDir::new().expect("a directory"));
    let (out, err, code) = run(&copy(&bare, "longarm-chaos"), files.path(), &[]);
    assert_eq!(code, 7, "{out} {err}");
    assert!(err.contains("cargo build --release -p longarm -p longarm-chaos"), "{err}");
    let (_, err, code) = run(Path::new(CHAOS), files.path(), &["--program", "nowhere/longarm"]);
    assert!(code == 2 && err.contains("--program nowhere/longarm"), "{err}");
}

#[test]
fn groups_that_are_tortured_answer_for_all() {
    let (programs, files) = (directory(), TempDir::new().expect("a directory"));
    copy(&programs, "longarm");
    let beside = copy(&programs, "longarm-chaos");
    let kinds = ["--only", "kill-leader", "--only", "stop-follower", "--clients", "2"];
    let times = ["--time", "3s", "--suspect", "500ms", "--election", "2s"];
    for (program, args) in [
        (beside.as_path(), &["--transport", "shm", "--groups", "2"][..]),
        (Path::new(CHAOS), &["--transport", "tcp", "--program", CHAOS]),
    ] {
        let (out, err, code) = run(program, files.path(), &[args, &kinds, &times].concat());
        assert_eq!(code, 0, "{out} {err}");
        assert!(out.contains("PASSED: every answer is explained"), "{out}");
    }
    assert_eq!(std::fs::read_dir(files.path()).expect("a directory").count(), 0, "nothing is left");
}
