//! The demo, from its beginning to what it leaves behind: nothing.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::harness::{PATIENCE, finish, make_tree, program, text, wait};

#[test]
fn a_demo_passes_and_leaves_nothing_behind() {
    let directory = TempDir::new().expect("a directory");
    let tree = directory.path().join("tree");
    make_tree(&tree);
    let demo = |tree: &Path, time: &str| {
        let mut command = program();
        command.args(["demo", "--items", "20000"]).args(["--time", time]).arg("--tree").arg(tree);
        command.env("TMPDIR", directory.path());
        command
    };
    let output = finish(demo(&tree, "1s"), b"");
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out} {}", text(&output.stderr));
    assert!(out.contains("PASSED") && out.contains("transport shm") && out.contains("205 files"), "{out}");
    let left = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory.path()).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| *path != tree).collect()
    };
    assert_eq!(left(), Vec::<PathBuf>::new());
    let pid = |out: &str| -> i32 {
        let word = out.split("pid ").nth(1).and_then(|rest| rest.split(',').next()).expect("a pid");
        word.parse().expect("a number")
    };
    let gone = |pid: i32| {
        let began = Instant::now();
        while Path::new(&format!("/proc/{pid}")).exists() {
            assert!(began.elapsed() < PATIENCE, "process {pid} is still there");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    };
    gone(pid(&out));
    // A demo that is interrupted in the middle leaves nothing behind, either.
    let mut child = demo(&tree, "50s").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let child = child.as_mut().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let first = lines.next().expect("a line").expect("text");
    kill_process(Pid::from_child(child), Signal::INT).expect("our child");
    let rest = lines.map_while(Result::ok).count();
    assert_eq!(wait(child).code(), Some(7), "interrupted, after {rest} more lines");
    gone(pid(&first));
    assert_eq!(left(), Vec::<PathBuf>::new());
}

#[test]
fn a_group_loses_leaders_and_no_write_and_leaves_nothing_behind() {
    let directory = TempDir::new().expect("a directory");
    let mut command = program();
    command.args(["demo", "--group"]).env("TMPDIR", directory.path());
    let output = finish(command, b"");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    // On a machine that keeps a leader from its core for long the group kills it, and the demo says so.
    let disturbed = output.status.code() == Some(7) && err.contains("taken for lost");
    if !disturbed {
        assert_eq!(output.status.code(), Some(0), "{out} {err}");
        assert!(out.contains("PASSED      two leaders killed") && out.contains("in sync after"), "{out}");
        assert_eq!(out.matches("read back").count(), 2, "{out}");
        assert!(out.contains(" in the order of their keys, in "), "{out}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
    let pids = out.split("pids ").nth(1).and_then(|rest| rest.split(": ").next()).expect("pids");
    for pid in pids.split(", ") {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is still there");
    }
}
