//! Bounds: queue pairs, locked memory; and what their users are told.

use std::process::Command;

use longarm_base::Place;
use longarm_fabric::conformance::Setup;
use longarm_fabric::conformance::harness::*;
use longarm_fabric::verbs::usage;
use longarm_fabric::{Channel, Grant, Incoming, ListenOptions, Listener, Op, Rights, SetupError, Transport};

use crate::suite::OverVerbs;

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn more_clients_than_queue_pairs_are_refused_with_a_reason() {
    let transport = OverVerbs::listening().with_connections(2);
    let mut listener = transport.listen(&OverVerbs::address(), ListenOptions::default()).expect("listen");
    let address = listener.address();
    let (channel, memory) = (Channel::new().expect("channel"), Memory::new());
    let mut enter = || {
        std::thread::scope(|scope| {
            let theirs = scope.spawn(|| connect::<OverVerbs>(&address, Vec::new()).expect("connect").qp);
            let incoming = listener.accept(SOON).expect("accept").expect("a peer");
            let ours = incoming.accept(b"", memory.grants(), 0, &channel).expect("let in");
            (ours, theirs.join().expect("the client's thread"))
        })
    };
    let (first, second) = (enter(), enter());
    let error = connect::<OverVerbs>(&address, Vec::new()).map(|_| ()).expect_err("one too many");
    assert!(matches!(&error, SetupError::Refused(why) if why.text.contains("all 2 queue pairs")), "{error}");
    let (mut ours, mut theirs) = second;
    let add = Op::FetchAdd { region: ALL, offset: 0, add: 1 };
    run_on(&mut theirs, &mut ours, add).expect("those inside go on");
    drop(first);
    // One left: there is room for one.
    let (_ours, mut theirs) = enter();
    run(&mut theirs, add).expect("it works");
}

/// What a term's leader may write: one registration for all of its connections, whose key ends with them.
#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn what_is_lent_again_when_nobody_has_it_any_more_has_another_key() {
    let (transport, clients) = (OverVerbs::listening(), OverVerbs::transport());
    let mut listener = transport.listen(&OverVerbs::address(), ListenOptions::default()).expect("listen");
    let address = listener.address();
    let channel = Channel::new().expect("channel");
    let grant = Grant { id: LOOK, region: region("look"), rights: Rights::READ.and(Rights::WRITE) };
    let bytes = usage().registered_bytes;
    listener.prepare(std::slice::from_ref(&grant)).expect("registered");
    assert_eq!(usage().registered_bytes, bytes + BYTES, "ready before anybody comes");
    let mut enter = || {
        std::thread::scope(|scope| {
            let theirs = scope.spawn(|| clients.connect(&address, request(Vec::new())).expect("connect").qp);
            let incoming = listener.accept(SOON).expect("accept").expect("a peer");
            let ours = incoming.accept(b"", vec![grant.clone()], 0, &channel).expect("let in");
            (ours, theirs.join().expect("the client's thread"))
        })
    };
    let mut seen = Vec::new();
    for _ in 0..5 {
        let (_one, mut first) = enter();
        let (_two, second) = enter();
        assert_eq!(first.remote_keys(), second.remote_keys(), "registered once");
        assert!(!seen.contains(&first.remote_keys()), "the key of connections that are over");
        seen.push(first.remote_keys());
        run(&mut first, Op::Read { from: Place::new(LOOK, 0, 8), into: 0 }).expect("it is the right one");
    }
}

const POOR: &str = "LONGARM_TEST_POOR";

/// What the next test starts, with little memory to lock and without the right to lock more.
#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_poor_process() {
    if std::env::var_os(POOR).is_none() {
        return;
    }
    let (_listener, address) = listen::<OverVerbs>(ListenOptions::default());
    let error = connect::<OverVerbs>(&address, Vec::new()).map(|_| ()).expect_err("too poor");
    let text = error.to_string();
    for part in ["may lock 64 KiB", "ulimit -l", "LimitMEMLOCK"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_registration_beyond_memlock_is_said_with_the_remedy() {
    let binary = std::env::current_exe().expect("own path");
    let script = "ulimit -l 64 && exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \"$@\"";
    let output = Command::new("bash")
        .args(["-c", script, "bash"])
        .arg(binary)
        .args(["--exact", "limits::a_poor_process", "--include-ignored", "--nocapture"])
        .env(POOR, "1")
        .output()
        .expect("start a child");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
