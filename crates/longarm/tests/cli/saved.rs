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

/// A server that is killed in the middle of a write leaves a slot that is neither old nor new.
#[test]
fn a_slot_that_was_half_written_keeps_nothing_else_from_being_dumped() {
    let (directory, arena) = saved_arena(true);
    let dump = |name: &str| {
        let mut command = program();
        command.args(["dump", "--json", "--arena"]).arg(&arena);
        command.arg("--output").arg(directory.path().join(name));
        let output = finish(command, b"");
        let report: serde_json::Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
        (report, text(&output.stderr), output.status.code())
    };
    let (whole, err, code) = dump("whole");
    assert_eq!((code, &whole["slots_not_verified"]), (Some(0), &0.into()), "{err}");
    let path = arena.join("index.arena");
    let mut bytes = std::fs::read(&path).expect("a file");
    let at = bytes.windows(7).rposition(|window| window == b"small 3").expect("it is there");
    bytes[at + 3] ^= 0x10;
    std::fs::write(&path, bytes).expect("written");
    let (rest, err, code) = dump("rest");
    assert!(code == Some(6) && err.contains("passed over 1 slots and 0 pairs"), "{err}");
    assert_eq!(
        (rest["items"].as_u64(), &rest["slots_not_verified"]),
        (whole["items"].as_u64().map(|n| n - 1), &1.into())
    );
    let lines = |name: &str| {
        let text = std::fs::read_to_string(directory.path().join(name)).expect("a file");
        text.lines().map(str::to_string).collect::<std::collections::BTreeSet<_>>()
    };
    let gone: Vec<_> = lines("whole").difference(&lines("rest")).cloned().collect();
    assert!(gone.len() == 1 && gone[0].contains("small 3"), "{gone:?}");
    let (out, err, code) = inspect(&arena, &[]);
    assert!(
        code == Some(0) && out.contains("under way   1 changes") && out.contains("but for what"),
        "{out} {err}"
    );
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
