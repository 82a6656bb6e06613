//! Bounds: queue pairs, locked memory; and what their users are told.

use std::process::Command;

use longarm_base::Place;
use longarm_fabric::conformance::Setup;
use longarm_fabric::conformance::harness::*;
use longarm_fabric::{Channel, Grant, Incoming, ListenOptions, Listener, Op, SetupError, Transport};

use crate::suite::OverVerbs;

#[test]
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
    assert!(matches!(&error, SetupError::Refused(why) if why.contains("all 2 queue pairs")), "{error}");
    let (mut ours, mut theirs) = second;
    let add = Op::FetchAdd { region: ALL, offset: 0, add: 1 };
    run_on(&mut theirs, &mut ours, add).expect("those inside go on");
    drop(first);
    // One left: there is room for one.
    let (_ours, mut theirs) = enter();
    run(&mut theirs, add).expect("it works");
}

#[test]
fn keys_are_renewed_for_later_connections() {
    let (transport, clients) = (OverVerbs::listening(), OverVerbs::transport());
    let mut listener = transport.listen(&OverVerbs::address(), ListenOptions::default()).expect("listen");
    let address = listener.address();
    let channel = Channel::new().expect("channel");
    let look = region("look");
    let mut enter = || {
        std::thread::scope(|scope| {
            let theirs = scope.spawn(|| clients.connect(&address, request(Vec::new())).expect("connect").qp);
            let grant = Grant { id: LOOK, region: look.clone(), rights: longarm_fabric::Rights::READ };
            let incoming = listener.accept(SOON).expect("accept").expect("a peer");
            let ours = incoming.accept(b"", vec![grant], 0, &channel).expect("let in");
            (ours, theirs.join().expect("the client's thread"))
        })
    };
    let (_one, mut first) = enter();
    let (_two, second) = enter();
    assert_eq!(first.remote_keys(), second.remote_keys(), "registered once");
    transport.renew_keys();
    let (_three, mut third) = enter();
    assert_ne!(first.remote_keys(), third.remote_keys(), "what is lent from here on has fresh keys");
    for qp in [&mut first, &mut third] {
        run(qp, Op::Read { from: Place::new(LOOK, 0, 8), into: 0 }).expect("standing ones keep theirs");
    }
}

const POOR: &str = "LONGARM_TEST_POOR";

/// What the next test starts, with little memory to lock and without the right to lock more.
#[test]
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
fn a_registration_beyond_memlock_is_said_with_the_remedy() {
    let binary = std::env::current_exe().expect("own path");
    let script = "ulimit -l 64 && exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \"$@\"";
    let output = Command::new("bash")
        .args(["-c", script, "bash"])
        .arg(binary)
        .args(["--exact", "limits::a_poor_process", "--nocapture"])
        .env(POOR, "1")
        .output()
        .expect("start a child");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
