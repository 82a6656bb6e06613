//! What is started ends, whatever happens, and what cannot be started is told why.

use std::path::Path;
use std::time::{Duration, Instant};

use super::orders::{free_ports, words};
use super::*;
use crate::driver::tests::options;
use crate::open::{TargetOptions, open};

/// Until something is so; `false` if it is not within ten seconds.
fn becomes(what: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !what() {
        if begun.elapsed() > Duration::from_secs(10) {
            return false;
        }
        pause(Duration::from_millis(5));
    }
    true
}

#[test]
fn kinds_have_names() {
    for kind in PeerKind::ALL {
        assert_eq!(PeerKind::named(kind.name()), Some(kind));
    }
    assert_eq!(PeerKind::named("etcd"), None, "one etcd is not what a group is compared with");
}

#[test]
fn ports_are_different() {
    let mut ports: [u16; 8] = free_ports().expect("ports");
    ports.sort_unstable();
    assert!(ports.windows(2).all(|two| two[0] != two[1]), "{ports:?}");
}

#[test]
fn a_directory_that_is_named_from_where_we_are_is_gone_when_we_are_done() {
    let scratch = Scratch::new(Some(Path::new("."))).expect("a directory");
    let path = scratch.path().to_path_buf();
    assert!(path.is_absolute() && path.is_dir() && !scratch.is_in_memory());
    drop(scratch);
    assert!(!path.exists());
}

#[test]
fn a_scratch_directory_goes_with_its_owner() {
    let scratch = Scratch::new(None).expect("a directory");
    let path = scratch.path().to_path_buf();
    std::fs::write(path.join("file"), b"x").expect("written");
    drop(scratch);
    assert!(!path.exists());
}

#[test]
fn a_scratch_directory_goes_when_its_owner_is_killed() {
    let mut scratch = Scratch::new(None).expect("a directory");
    let path = scratch.path().to_path_buf();
    std::fs::write(path.join("file"), b"x").expect("written");
    // What the kernel does to a process that is killed: its end of the pipe is closed.
    drop(scratch.guard.stdin.take());
    assert!(becomes(|| !path.exists()));
}

#[test]
fn a_server_that_ends_says_why() {
    let scratch = Scratch::new(None).expect("a directory");
    let said = scratch.path().join("said");
    let arguments = words(["-c", "echo one; echo two >&2; exit 3"]);
    let mut process = Process::start(Path::new("/bin/sh"), &arguments, &said).expect("a shell");
    assert!(becomes(|| std::fs::read_to_string(&said).is_ok_and(|said| said.contains("two"))));
    let mut why = Ok(());
    let begun = Instant::now();
    while why.is_ok() && begun.elapsed() < Duration::from_secs(10) {
        why = process.check();
    }
    let why = why.expect_err("it has ended");
    assert!(why.contains("exit status: 3") && why.contains("one / two"), "{why}");
}

#[test]
fn all_servers_of_a_group_end_with_it() {
    let kind = PeerKind::RedisGroup;
    if let Err(hint) = kind.find() {
        eprintln!("SKIPPED: {hint}");
        return;
    }
    let factory = open(kind.name(), &options()).expect("installed servers start");
    let info = factory.describe().expect("it answers");
    assert_eq!(info.pids.len(), GROUP, "{info:?}");
    drop(factory);
    let gone = |pid: &u32| crate::cpu::seconds_of(&[*pid]).is_none();
    assert!(info.pids.iter().all(gone), "{info:?}");
}

#[test]
fn what_cannot_be_started_says_what_to_do() {
    let why = |text: &str| open(text, &TargetOptions::default()).err().expect("an error");
    assert!(why("etcd").contains("etcd-group"), "{}", why("etcd"));
}
