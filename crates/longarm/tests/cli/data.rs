//! A server that keeps its data, as a new user tries it: loaded, killed, started again; and directories that
//! are of no use to it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use longarm_client::{Client, Options};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::{Server, contents, finish, make_tree, program, text, wait};
use crate::lanes::{Lane, look, write};

/// Persistent memory that a server serves from, where the other modes have a copy.
const SERVED: &str = "served from pmem";

/// The durability of a mode, and how its index replaces records.
fn form(mode: &str) -> (&str, &str) {
    if mode == SERVED { ("pmem", "out-of-place") } else { (mode, "in-place") }
}

fn flags<'a>(durability: &'a str, updates: &'a str) -> [&'a str; 6] {
    ["--durability", durability, "--pmem", "file", "--index-updates", updates]
}

fn start(directory: TempDir, data: &Path, more: &[&str]) -> Server {
    let address = format!("shm:{}", directory.path().join("s").display());
    let data = data.display().to_string();
    Server::start_at(directory, address, &[&["--data", &data], more].concat())
}

/// What a server says that does not start on this directory.
fn refused(data: &Path, more: &[&str]) -> (String, Option<i32>) {
    let directory = TempDir::new().expect("a directory");
    let address = format!("shm:{}", directory.path().join("s").display());
    let mut command = program();
    command.env("LONGARM_MEMORY", "64MiB").args(["server", "--address", &address, "--data"]);
    command.arg(data).args(more);
    let output = finish(command, b"");
    (text(&output.stderr), output.status.code())
}

#[test]
fn what_was_loaded_is_there_after_kills_and_orderly_ends() {
    for mode in ["async", "sync", "pmem", SERVED] {
        let (durability, updates) = form(mode);
        let (home, mut directory) =
            (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
        let (tree, data) = (home.path().join("tree"), home.path().join("data"));
        make_tree(&tree);
        for life in 0..3 {
            let mut server = start(directory, &data, &flags(durability, updates));
            if life == 0 {
                server.ok(&["load", &tree.display().to_string()]);
                server.ok(&["put", "gone", "x"]);
                server.ok(&["del", "gone"]);
                // What was acknowledged from memory is on disk when its window is over.
                std::thread::park_timeout(Duration::from_millis(300));
            }
            let stats: serde_json::Value =
                serde_json::from_str(&server.ok(&["stats", "--json"])).expect("JSON");
            assert_eq!(stats["disk"]["durability"], durability);
            let out = home.path().join(format!("out-{life}"));
            server.ok(&["dump", "--format", "tree", "--output", &out.display().to_string()]);
            assert_eq!(contents(&out), contents(&tree), "life {life}, {mode}");
            let sound = server.ok(&["inspect"]);
            assert!(sound.contains("sound"), "{sound}");
            if life == 0 {
                server.signal(Signal::KILL);
                wait(&mut server.child);
                directory = std::mem::replace(&mut server.directory, TempDir::new().expect("a directory"));
            } else {
                directory = server.stop();
            }
        }
    }
}

#[test]
fn a_directory_that_is_of_no_use_is_refused_with_what_to_do() {
    let home = TempDir::new().expect("a directory");
    let foreign = home.path().join("foreign");
    std::fs::create_dir(&foreign).expect("a directory");
    std::fs::write(foreign.join("thesis.tex"), "years of work").expect("written");
    let (err, code) = refused(&foreign, &[]);
    assert!(code == Some(7) && err.contains("thesis.tex") && err.contains("an empty one"), "{err}");
    assert_eq!(std::fs::read(foreign.join("thesis.tex")).expect("there"), b"years of work");
    let (err, code) = refused(Path::new("/proc/longarm"), &[]);
    assert!(code == Some(7) && err.contains("cannot make it"), "{err}");
    let disk = rustix::fs::statvfs(home.path()).expect("a disk");
    // Where there is room for all that a server may have, nothing is refused.
    if disk.f_bavail * disk.f_frsize < 1 << 40 {
        let large = home.path().join("large");
        let (err, code) = refused(&large, &["--memory", "1TiB"]);
        assert!(code == Some(7) && err.contains("are free") && err.contains("lower the memory"), "{err}");
        let left = std::fs::read_dir(&large).expect("there").flatten().map(|file| file.file_name());
        assert!(left.into_iter().all(|name| name == "identity" || name == "promise"), "no half of a file");
    }
    // A directory for tests is on no persistent memory.
    let (err, code) = refused(&home.path().join("pmem"), &["--durability", "pmem"]);
    assert!(
        code == Some(7) && err.contains("on no persistent memory") && err.contains("--pmem file"),
        "{err}"
    );
    let one = home.path().join("one");
    let served = start(TempDir::new().expect("a directory"), &one, &flags("pmem", "out-of-place"));
    served.ok(&["put", "large", &"l".repeat(3000)]);
    let check = |word: &str, more: &[&str]| {
        let mut command = program();
        command.arg(word).args(more).arg(&one);
        let output = finish(command, b"");
        (text(&output.stdout) + &text(&output.stderr), output.status.code())
    };
    let (said, code) = check("check", &[]);
    assert!(code == Some(4) && said.contains("a server serves from it"), "{said}");
    drop(served.stop());
    for (word, more) in [("check", &[][..]), ("inspect", &["--data"])] {
        let (said, code) = check(word, more);
        assert!(code == Some(0) && said.contains("items       1, 1 of them entries"), "{said}");
        assert!(said.contains("sound: every record"), "{said}");
    }
    let entries = std::fs::read(one.join("entries")).expect("read");
    let mut hurt = entries.clone();
    let at = hurt.windows(9).position(|window| window == b"lllllllll").expect("it is there");
    hurt[at + 1000] ^= 1;
    std::fs::write(one.join("entries"), &hurt).expect("written");
    let (said, code) = check("check", &[]);
    assert!(code == Some(6) && said.contains("the entry of version 1 at"), "{said}");
    std::fs::write(one.join("entries"), entries).expect("written");
    let (err, code) = refused(&one, &flags("pmem", "in-place"));
    assert!(code == Some(7) && err.contains("serves from persistent memory"), "{err}");
    let (err, code) = refused(&one, &[&flags("pmem", "out-of-place")[..], &["--memory", "128MiB"]].concat());
    assert!(code == Some(7) && err.contains("start it with the memory that it had"), "{err}");
    let (err, code) = refused(&one, &[&flags("pmem", "out-of-place")[..], &["--slot", "16"]].concat());
    assert!(code == Some(7) && err.contains("slot bytes 64") && err.contains("start it as before"), "{err}");
    let mut root = std::fs::read(one.join("root")).expect("read");
    root[256..768].fill(7);
    std::fs::write(one.join("root"), root).expect("written");
    let (err, code) = refused(&one, &flags("pmem", "out-of-place"));
    assert!(
        code == Some(7) && err.contains("it is damaged") && err.contains("copy of the directory"),
        "{err}"
    );
    let (err, code) = refused(&home.path().join("lru"), &["--eviction", "lru"]);
    assert!(code == Some(2) && err.contains("eviction"), "{err}");
}

#[test]
fn promises_may_be_on_another_disk_and_are_not_forgotten_there() {
    let (home, mut directory) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let (data, vault) = (home.path().join("data"), home.path().join("vault"));
    let vault = vault.display().to_string();
    for flags in [&[][..], &["--vault-dir", &vault], &["--vault-dir", &vault]] {
        let server = start(directory, &data, flags);
        let life = server.run(&["get", "life"]).0;
        server.ok(&["put", "life", &format!("{life}x")]);
        directory = server.stop();
    }
    assert!(!data.join("promise").exists(), "it moved");
    let (err, code) = refused(&data, &[]);
    assert!(code == Some(7) && err.contains("name that with --vault-dir"), "{err}");
    let (err, code) = refused(&data, &["--vault-dir", &home.path().join("other").display().to_string()]);
    assert!(code == Some(7) && err.contains("has nothing of it"), "{err}");
    let mut check = program();
    check.arg("check").arg(&data);
    let output = finish(check, b"");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let server = start(directory, &data, &["--vault-dir", &vault]);
    assert_eq!(server.ok(&["get", "life"]), "xxx");
}

#[test]
fn damage_is_named_and_a_second_server_is_kept_out() {
    let (home, directory) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let data = home.path().join("data");
    let server = start(directory, &data, &[]);
    server.ok(&["put", "whole", &"w".repeat(300)]);
    server.ok(&["put", "hurt", &"h".repeat(300)]);
    let (err, code) = refused(&data, &[]);
    assert!(code == Some(7) && err.contains("in use by another process"), "{err}");
    let directory = server.stop();
    let mode = data.join("arena").metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others may not read it");
    let mut bytes = std::fs::read(data.join("arena")).expect("read");
    let at = bytes.windows(9).position(|window| window == b"hhhhhhhhh").expect("it is there");
    bytes[at + 100] ^= 1;
    std::fs::write(data.join("arena"), bytes).expect("written");
    let (err, code) = refused(&data, &[]);
    assert!(
        code == Some(7) && err.contains("is damaged: 1 entries") && err.contains("--accept-damage"),
        "{err}"
    );
    let (err, code) = refused(&data, &["--memory", "128MiB"]);
    assert!(code == Some(7) && err.contains("start it with the memory that it had"), "{err}");
    let server = start(directory, &data, &["--accept-damage"]);
    assert_eq!(server.ok(&["get", "whole"]), "w".repeat(300));
    assert_eq!(server.run(&["get", "hurt"]).1, 1, "it was given up");
    let directory = server.stop();
    std::fs::remove_file(data.join("arena")).expect("removed");
    let (err, code) = refused(&data, &[]);
    assert!(code == Some(7) && err.contains("arena is missing") && err.contains("backup"), "{err}");
    drop(directory);
    let mut doctor = Command::new(program().get_program());
    doctor.args(["doctor", "--data"]).arg(&data);
    let output = finish(doctor, b"");
    assert!(text(&output.stdout).contains("sync"), "{}", text(&output.stdout));
}

fn connect(address: &str, seconds: u64) -> Client {
    let timeout = Duration::from_secs(seconds);
    let options = Options { timeout, connect_timeout: timeout, ..Options::default() };
    Client::connect(&address.parse().expect("an address"), options).expect("connected")
}

/// The server is killed at any moment while three clients write, and started again. `LONGARM_KILLS` says how
/// often; a test run has a few.
#[test]
fn acknowledged_writes_outlive_kills_at_any_moment() {
    let kills: u64 = std::env::var("LONGARM_KILLS").map_or(3, |kills| kills.parse().expect("a number"));
    let modes = ["sync", "async", "pmem", SERVED].into_iter();
    for (mode, transport) in modes.flat_map(|mode| [(mode, "shm"), (mode, "tcp")]) {
        let (durability, updates) = form(mode);
        let home = TempDir::new().expect("a directory");
        let data = home.path().join("data");
        let mut lanes = [Lane::default(); 3];
        for kill in 0..kills {
            let directory = TempDir::new().expect("a directory");
            let address = match transport {
                "shm" => format!("shm:{}", directory.path().join("s").display()),
                _ => "tcp://127.0.0.1:0".into(),
            };
            let data = data.display().to_string();
            let own = ["--data", &data, "--workers", "2"];
            let flags = [&own[..], &flags(durability, updates)].concat();
            let mut server = Server::start_at(directory, address, &flags);
            let address = server.address.clone();
            let there = [0, 1, 2].map(|lane| {
                let mut client = connect(&address, 20);
                look(lane, |key| client.get(key).expect("read"))
            });
            for (lane, (known, last)) in lanes.iter().zip(there).enumerate() {
                let least = if durability == "async" { known.settled } else { known.acknowledged };
                assert!(
                    (least..=known.sent).contains(&last),
                    "{mode} over {transport}, lane {lane}: {last} is there, {least} was acknowledged"
                );
            }
            std::thread::scope(|scope| {
                let writers: Vec<_> = (0..)
                    .zip(there)
                    .map(|(lane, from)| {
                        scope.spawn({
                            let address = &address;
                            move || {
                                // Once the server is gone there is nothing to wait for.
                                let mut client = connect(address, 1);
                                write(lane, from, |key, value| client.put(key, value).is_ok())
                            }
                        })
                    })
                    .collect();
                std::thread::park_timeout(Duration::from_millis(40 + kill * 137 % 400));
                server.signal(Signal::KILL);
                wait(&mut server.child);
                for (known, writer) in lanes.iter_mut().zip(writers) {
                    *known = writer.join().expect("it wrote");
                }
            });
        }
        assert!(lanes.iter().all(|lane| lane.sent > 0));
    }
}
