//! Backups, as an operator makes them: of servers under load, through pipes, one on top of the other; and
//! what is said of those that are damaged, not complete, or have no room.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use longarm_client::{Client, Options};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::group::{Group, TIMES, in_sync};
use crate::harness::{Server, contents, finish, make_tree, program, text, wait};

/// Keys that a writer writes in turn.
const KEYS: u64 = 400;

fn arg(path: &Path) -> String {
    path.display().to_string()
}

/// A server that keeps its data in this directory, at an address of this kind.
fn start(kind: &str, data: &Path) -> Server {
    let directory = TempDir::new().expect("a directory");
    let address = match kind {
        "shm" => format!("shm:{}", directory.path().join("s").display()),
        _ => "tcp://127.0.0.1:0".to_string(),
    };
    Server::start_at(directory, address, &["--data", &arg(data)])
}

/// Runs the program without a server; stdout, stderr and exit code.
fn run(args: &[&str], stdin: &[u8]) -> (Vec<u8>, String, i32) {
    let mut command = program();
    command.env("LONGARM_MEMORY", "64MiB").args(args);
    let output = finish(command, stdin);
    (output.stdout, text(&output.stderr), output.status.code().expect("not killed"))
}

fn ok(args: &[&str]) -> String {
    let (out, err, code) = run(args, b"");
    assert_eq!(code, 0, "{args:?}: {err}");
    text(&out)
}

/// Writes numbers to the keys in turn, until told to stop. What of a key is divisible by seven is a delete.
fn write_on(address: &str, stop: &AtomicBool, done: &AtomicU64) {
    let address = address.parse().expect("an address");
    let options = Options { timeout: Duration::from_secs(20), ..Options::default() };
    let mut client = Client::connect(&address, options).expect("connected");
    for number in 1u64.. {
        // Relaxed: a flag and a counter; the thread is joined.
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("turn {}", number % KEYS);
        let made = match number % 7 {
            0 => client.delete(key.as_bytes()).map(|_| ()),
            _ => client.put(key.as_bytes(), &value(number)).map(|_| ()),
        };
        made.expect("written");
        // Relaxed: as above.
        done.store(number, Ordering::Relaxed);
    }
}

fn value(number: u64) -> Vec<u8> {
    let len = [20, 300, 5_000, 40_000][(number / KEYS % 4) as usize];
    format!("{number} ").into_bytes().into_iter().cycle().take(len).collect()
}

/// The keys after so many numbers.
fn after(numbers: u64) -> BTreeMap<String, Vec<u8>> {
    let mut items = BTreeMap::new();
    for number in 1..=numbers {
        let key = format!("turn {}", number % KEYS);
        match number % 7 {
            0 => items.remove(&key),
            _ => items.insert(key, value(number)),
        };
    }
    items
}

/// The items that a server has under `turn`.
fn turns(server: &Server) -> BTreeMap<String, Vec<u8>> {
    let out = server.path("turns.jsonl");
    server.ok(&["dump", "--prefix", "turn ", "--output", &arg(&out)]);
    let lines = std::fs::read_to_string(&out).expect("dumped");
    let item = |line: &str| {
        let it: Value = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| it[name].as_str().expect("text").to_string();
        (text("key"), text("value").into_bytes())
    };
    lines.lines().map(item).collect()
}

#[test]
fn a_server_under_load_is_backed_up_at_one_moment_and_restored_elsewhere() {
    for kind in ["shm", "tcp"] {
        let home = TempDir::new().expect("a directory");
        let at = |name: &str| home.path().join(name);
        let mut server = start(kind, &at("data"));
        make_tree(&at("tree"));
        server.ok(&["load", &arg(&at("tree"))]);
        server.ok(&["put", "brief", "x", "--ttl", "1h"]);
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let (before, after_it, said) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_on(&server.address, &stop, &done));
            // Relaxed: the writer stores it after the answer came.
            while done.load(Ordering::Relaxed) < 2 * KEYS {
                std::thread::park_timeout(Duration::from_millis(2));
            }
            let before = done.load(Ordering::Relaxed);
            let said = server.ok(&["backup", &arg(&at("b")), "--rate", "40MiB/s", "--json"]);
            let after_it = done.load(Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            writer.join().expect("it wrote");
            (before, after_it, said)
        });
        assert!(after_it > before, "nothing was written meanwhile");
        let said: Value = serde_json::from_str(&said).expect("JSON");
        server.signal(Signal::KILL);
        wait(&mut server.child);
        assert!(ok(&["check", &arg(&at("b"))]).starts_with("sound: version"));
        ok(&["restore", &arg(&at("b")), "--data", &arg(&at("elsewhere"))]);
        let again = start(kind, &at("elsewhere"));
        again.ok(&["dump", "--format", "tree", "--output", &arg(&at("out"))]);
        let mut out = contents(&at("out"));
        out.retain(|path, _| !path.to_string_lossy().starts_with("turn ") && path != Path::new("brief"));
        assert_eq!(out, contents(&at("tree")), "{kind}");
        // One writer's numbers were written in order: what is there is a beginning of them.
        let turns = turns(&again);
        let number = |value: &Vec<u8>| text(value).split(' ').next().and_then(|word| word.parse().ok());
        let newest: u64 = turns.values().filter_map(number).max().expect("there are some");
        assert!((before..=after_it + 1).contains(&newest) || newest == before - 1, "{kind}: {newest}");
        // Behind the newest value at most one delete.
        let moment = (newest..=newest + 1).find(|numbers| after(*numbers) == turns);
        assert!(moment.is_some(), "{kind}: it is what was held at no moment of the backup");
        let brief: Value = serde_json::from_str(&again.ok(&["get", "brief", "--json"])).expect("JSON");
        assert_eq!(brief["value"], "x", "{brief}");
        // Versions go on above that of the backup.
        let put: Value = serde_json::from_str(&again.ok(&["put", "new", "1", "--json"])).expect("JSON");
        assert!(put["version"].as_u64() > said["version"].as_u64(), "{put} {said}");
        assert!(again.ok(&["inspect"]).contains("sound"));
    }
}

#[test]
fn a_backup_through_a_pipe_is_one_too_and_a_cut_one_is_none() {
    let home = TempDir::new().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let server = start("shm", &at("data"));
    make_tree(&at("tree"));
    server.ok(&["load", &arg(&at("tree"))]);
    let output = finish(server.command(&["backup", "-"]), b"");
    assert!(output.status.success() && text(&output.stderr).contains("backup of version"), "{output:?}");
    let stream = output.stdout;
    let sound = run(&["check", "-"], &stream);
    assert!(sound.2 == 0 && text(&sound.0).contains("sound"), "{}", sound.1);
    let cut = &stream[..stream.len() - 5];
    let mut flipped = stream.clone();
    flipped[4000] ^= 4;
    for (wrong, named) in [(cut, "its manifest is missing"), (&flipped, "sum of part 0 does not hold")] {
        let (_, err, code) = run(&["restore", "-", "--data", &arg(&at("cut"))], wrong);
        assert!(code == 6 && err.contains(named), "{code} {err}");
        assert!(!at("cut").exists(), "something is left");
    }
    let (_, err, code) = run(&["restore", "-", "--data", &arg(&at("d"))], &stream);
    assert_eq!(code, 0, "{err}");
    let again = start("shm", &at("d"));
    again.ok(&["dump", "--format", "tree", "--output", &arg(&at("out"))]);
    assert_eq!(contents(&at("out")), contents(&at("tree")));
}

#[test]
fn what_an_older_backup_has_is_not_copied_again() {
    let home = TempDir::new().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let mut server = start("shm", &at("data"));
    for i in 0..200 {
        server.ok(&["put", &format!("old {i}"), &"o".repeat(30_000)]);
    }
    server.ok(&["backup", &arg(&at("full"))]);
    server.ok(&["put", "old 7", "changed"]);
    server.ok(&["del", "old 8"]);
    server.ok(&["put", "new", "n"]);
    let more = server.ok(&["backup", &arg(&at("more")), "--since", &arg(&at("full")), "--json"]);
    let more: Value = serde_json::from_str(&more).expect("JSON");
    assert!(more["segments_of_since"].as_u64() >= Some(3), "{more}");
    assert!(more["copied"].as_u64() < Some(6 << 20), "{more}");
    // A restart is a change of leader: what was full stays known.
    server.signal(Signal::TERM);
    wait(&mut server.child);
    drop(server);
    let server = start("shm", &at("data"));
    let last = server.ok(&["backup", &arg(&at("last")), "--since", &arg(&at("more")), "--json"]);
    let last: Value = serde_json::from_str(&last).expect("JSON");
    assert!(last["segments_of_since"].as_u64() >= Some(3), "{last}");
    drop(server);
    let whole = ok(&["check", &arg(&at("last"))]);
    assert!(whole.contains("with 2 older ones"), "{whole}");
    ok(&["restore", &arg(&at("last")), "--data", &arg(&at("d"))]);
    let again = start("shm", &at("d"));
    assert_eq!(again.ok(&["get", "old 7"]), "changed");
    assert_eq!(again.run(&["get", "old 8"]).1, 1);
    assert_eq!(again.ok(&["get", "old 9"]), "o".repeat(30_000));
    assert_eq!(again.ok(&["get", "new"]), "n");
    // It is another server, of which the older backup is not.
    let (_, err, code) = again.run_with(&["backup", &arg(&at("x")), "--since", &arg(&at("full"))], b"");
    assert!(code == 2 && err.contains("it is of group") && err.contains("without --since"), "{code} {err}");
    assert!(!at("x").exists());
    std::fs::rename(at("full"), at("gone")).expect("moved");
    let (_, err, code) = run(&["restore", &arg(&at("last")), "--data", &arg(&at("d2"))], b"");
    assert!(code == 7 && err.contains("rests on the backup") && !at("d2").exists(), "{code} {err}");
}

#[test]
fn what_is_damaged_or_in_use_or_no_backup_is_named() {
    let home = TempDir::new().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let server = start("shm", &at("data"));
    server.ok(&["put", "whole", &"w".repeat(300)]);
    server.ok(&["put", "hurt", &"h".repeat(300)]);
    server.ok(&["backup", &arg(&at("b"))]);
    let (_, err, code) = run(&["check", &arg(&at("data"))], b"");
    assert!(code == 4 && err.contains("in use: a server runs on it"), "{code} {err}");
    std::thread::park_timeout(Duration::from_millis(300));
    let live = ok(&["inspect", "--data", &arg(&at("data")), "--key", "hurt", "--segments"]);
    assert!(live.contains("sound") && live.contains("key         ") && live.contains("segment 1"), "{live}");
    let (_, err, code) = server.run_with(&["backup", &arg(&at("b"))], b"");
    assert!(code == 2 && err.contains("is not empty: it holds"), "{code} {err}");
    drop(server.stop());
    let report: Value = serde_json::from_str(&ok(&["check", &arg(&at("data")), "--json"])).expect("JSON");
    assert_eq!((&report["sound"], &report["entries"]), (&true.into(), &2.into()), "{report}");
    assert_eq!(report["note"]["ended"], true);
    let hurt = |path: &Path| {
        let mut bytes = std::fs::read(path).expect("read");
        let at = bytes.windows(9).position(|window| window == b"hhhhhhhhh").expect("it is there");
        bytes[at + 100] ^= 1;
        std::fs::write(path, bytes).expect("written");
    };
    hurt(&at("data").join("arena"));
    let (out, err, code) = run(&["check", &arg(&at("data")), "--json"], b"");
    assert!(code == 6 && err.contains("is not what was written"), "{code} {err}");
    let report: Value = serde_json::from_str(&text(&out)).expect("JSON");
    assert_eq!((&report["sound"], &report["damaged"]), (&false.into(), &1.into()), "{report}");
    assert_eq!(run(&["inspect", "--data", &arg(&at("data"))], b"").2, 6);
    hurt(&at("b").join("part-000000"));
    for args in [vec!["check", "B"], vec!["restore", "B", "--data", "D"]] {
        let (b, d) = (arg(&at("b")), arg(&at("d")));
        let args: Vec<&str> = args
            .iter()
            .map(|it| {
                if *it == "B" {
                    &b
                } else if *it == "D" {
                    &d
                } else {
                    *it
                }
            })
            .collect();
        let (_, err, code) = run(&args, b"");
        assert!(code == 6 && err.contains("part-000000 is damaged: its sum"), "{code} {err}");
        assert!(!at("d").exists());
    }
    std::fs::remove_file(at("b").join("manifest")).expect("removed");
    let (_, err, code) = run(&["check", &arg(&at("b"))], b"");
    assert!(code == 6 && err.contains("was not completed"), "{code} {err}");
    let (_, err, code) = run(&["inspect", "--data", &arg(home.path())], b"");
    assert!(code == 2 && err.contains("is no data directory"), "{code} {err}");
}

#[test]
fn what_is_no_backup_and_no_place_for_one_is_named_with_what_to_do() {
    let home = TempDir::new().expect("a directory");
    let at = |name: &str| arg(&home.path().join(name));
    let server = start("shm", &home.path().join("data"));
    server.ok(&["put", "key", "value"]);
    std::fs::write(at("file"), "no backup").expect("written");
    let refused = |err: &str, code: i32, part: &str| {
        assert!(code == 2 && err.contains(part), "{part}: {code} {err}");
    };
    let asked = |args: &[&str], part: &str| {
        let (_, err, code) = server.run_with(args, b"");
        refused(&err, code, part);
    };
    let tried = |args: &[&str], part: &str| {
        let (_, err, code) = run(args, b"");
        refused(&err, code, part);
    };
    let no_directory = "file is a file, and not a directory. Name a new";
    asked(&["backup", &at("file")], no_directory);
    asked(&["backup", &at("b"), "--group", "2"], "--group goes with --cluster");
    for (name, part) in [
        ("none", "none does not exist: name the directory of a backup"),
        ("file", "file is a file, and a backup is a directory. One that was written as a stream"),
        ("data", "data is the data directory of a server, and no backup"),
    ] {
        asked(&["backup", &at("b"), "--since", &at(name)], part);
        tried(&["restore", &at(name), "--data", &at("d")], part);
        if name != "data" {
            tried(&["check", &at(name)], part);
        }
    }
    assert!(!Path::new(&at("b")).exists() && !Path::new(&at("d")).exists(), "nothing is left behind");
    // Directories above it are made, too.
    server.ok(&["backup", &at("a/b/c")]);
    ok(&["check", &at("a/b/c")]);
    tried(&["restore", &at("a/b/c"), "--data", &at("file")], no_directory);
}

#[test]
fn a_server_without_a_trace_of_deletes_is_refused_and_so_is_a_full_target() {
    let server = Server::start(&[]);
    let (_, err, code) = server.run_with(&["backup", &arg(&server.path("b"))], b"");
    assert!(code == 4 && err.contains("memory alone") && err.contains("longarm dump"), "{code} {err}");
    assert!(!server.path("b").exists());
    let server = Server::start(&["--ordered", "true"]);
    std::fs::write(server.path("large"), vec![7; 9 << 20]).expect("a file");
    server.ok(&["put", "large", "--file", &arg(&server.path("large"))]);
    // A process that ignores the signal has its write refused: of a part, and of the arena of a restore. The
    // memory of a client's connection is smaller.
    let limited = |blocks: &str, args: &[&str]| {
        let mut command = Command::new("sh");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_longarm")]).args(args);
        command.env("LONGARM_ADDRESS", &server.address).env("LONGARM_TIMEOUT", "20s");
        let output = finish(command, b"");
        (text(&output.stderr), output.status.code())
    };
    let (b, d) = (arg(&server.path("b")), arg(&server.path("d")));
    let (err, code) = limited("12288", &["backup", &b]);
    assert!(code == Some(7) && err.contains("cannot write") && err.contains("part-000000"), "{err}");
    assert!(!server.path("b").exists(), "half of a backup is left");
    let (err, code) = limited("unlimited", &["backup", &b]);
    assert_eq!(code, Some(0), "{err}");
    let (err, code) = limited("12288", &["restore", &b, "--data", &d, "--memory", "64MiB"]);
    assert!(code == Some(7) && err.contains("needs 68157440 bytes on its disk"), "{err}");
    assert!(!server.path("d").exists(), "half of a directory is left");
}

#[test]
fn a_group_without_disks_is_backed_up_from_its_leader() {
    let place = |node: usize, dir: &Path| format!("shm:{}", dir.join(format!("n{node}")).display());
    let mut group = Group::init(Vec::new(), &TIMES, place);
    let first = group.start_all();
    for i in 0..50 {
        group.client(&["put", &format!("k{i}"), &format!("v{i}").repeat(i)]);
    }
    group.client(&["del", "k3"]);
    let said = group.client(&["backup", "b"]);
    assert!(said.contains("backup of version"), "{said}");
    group.end(first, Signal::KILL);
    group.until("new leader", |status| status["leader"] != first && in_sync(status) == 2);
    // The next leader has full segments of the term before, and the others are copied anew.
    group.client(&["backup", "b2", "--since", "b"]);
    assert!(group.run(&["check", "b2"]).0.contains("with an older one"));
    let (out, err, code) = group.run(&["restore", "b2", "--data", "d"]);
    assert_eq!(code, 0, "{out} {err}");
    let again = start("shm", &group.path("d"));
    assert_eq!(again.ok(&["get", "k9"]), "v9".repeat(9));
    assert_eq!(again.run(&["get", "k3"]).1, 1);
}
