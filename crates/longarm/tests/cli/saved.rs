//! Arenas kept in files: inspected and dumped after their server is gone.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::{Server, contents, finish, make_tree, program, text, wait};

/// Fills an arena that is kept in files, and gives its directory and the server's.
fn saved_arena(kill: bool) -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("a directory");
    let arena = directory.path().join("arena");
    std::fs::create_dir(&arena).expect("a directory");
    let address = format!("shm:{}", directory.path().join("s").display());
    let mut server = Server::start_at(directory, address, &["--arena-dir", &arena.display().to_string()]);
    let tree = server.path("tree");
    make_tree(&tree);
    server.ok(&["load", &tree.display().to_string()]);
    for i in 0..50 {
        server.ok(&["put", &format!("small {}", i % 10), &format!("{i}")]);
    }
    let live = server.ok(&["inspect", "--segments"]);
    assert!(
        live.contains("live server over shm") && live.contains("215:") && live.contains("sound"),
        "{live}"
    );
    if kill {
        server.signal(Signal::KILL);
        wait(&mut server.child);
        let directory = std::mem::replace(&mut server.directory, TempDir::new().expect("a directory"));
        return (directory, arena);
    }
    (server.stop(), arena)
}

fn inspect(arena: &Path, more: &[&str]) -> (String, String, Option<i32>) {
    let mut command = program();
    command.arg("inspect").arg("--arena").arg(arena).args(more);
    let output = finish(command, b"");
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn a_saved_arena_is_sound_and_can_be_dumped() {
    for kill in [false, true] {
        let (directory, arena) = saved_arena(kill);
        let (out, err, code) = inspect(&arena, &["--key", "large"]);
        assert_eq!(code, Some(0), "{out} {err}");
        assert!(out.contains("sound") && out.contains("value_bytes 3145728"), "{out}");
        assert_eq!(out.contains("said goodbye"), !kill, "{out}");
        assert_eq!(inspect(&arena, &["--key", "nothing"]).2, Some(1));
        let out = directory.path().join("out");
        let mut command = program();
        command.args(["dump", "--format", "tree", "--prefix", "many/"]).arg("--arena").arg(&arena);
        command.arg("--output").arg(&out);
        assert_eq!(finish(command, b"").status.code(), Some(0));
        assert_eq!(contents(&out), contents(&directory.path().join("tree/many")));
    }
}

#[test]
fn inspect_finds_a_flipped_byte() {
    let (_directory, arena) = saved_arena(false);
    let flip = |file: &str, needle: &[u8]| {
        let path = arena.join(file);
        let bytes = std::fs::read(&path).expect("a file");
        let at = bytes.windows(needle.len()).rposition(|window| window == needle).expect("it is there");
        let mut changed = bytes.clone();
        changed[at + needle.len() / 2] ^= 0x10;
        std::fs::write(&path, changed).expect("written");
        let found = inspect(&arena, &[]);
        let json = inspect(&arena, &["--json"]);
        std::fs::write(&path, bytes).expect("written");
        let report: serde_json::Value = serde_json::from_str(&json.0).expect("JSON");
        assert_eq!((json.2, &report["sound"]), (Some(6), &false.into()), "{}", json.0);
        found
    };
    let (out, err, code) = flip("segments.arena", "quoted".as_bytes());
    assert!(code == Some(6) && err.contains("arena: segment") && err.contains("checksum"), "{out} {err}");
    let (out, err, code) = flip("index.arena", b"small 3");
    assert!(code == Some(6) && err.contains("index: pair") && err.contains("does not verify"), "{out} {err}");
    assert_eq!(inspect(&arena, &[]).2, Some(0), "sound again");
    // What is no arena, or is not whole, is said in words.
    let path = arena.join("index.arena");
    let whole = std::fs::metadata(&path).expect("a file").len();
    std::fs::OpenOptions::new().write(true).open(&path).and_then(|f| f.set_len(whole / 2)).expect("cut");
    let (_, err, code) = inspect(&arena, &[]);
    assert!(code == Some(6) && err.contains("index.arena"), "{err}");
    assert_eq!(inspect(Path::new("/"), &[]).2, Some(7));
}
