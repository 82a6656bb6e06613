//! Rules 6 and 9: peers that leave, and peers that die.

use std::time::Instant;

use longarm_base::Place;

use super::Setup;
use super::child::Process;
use super::harness::*;
use crate::{Broken, Completion, Op, PEER_DEATH, PostError, QueuePair, Ticket, WorkError};

pub fn a_closed_peer_is_told_from_a_lost_one<S: Setup>() {
    let mut server = TestServer::<S>::new();
    for client_leaves in [true, false] {
        let (ours, theirs, _) = server.connection();
        let (mut leaves, mut stays) = (theirs, ours);
        let mut region = ALL;
        if !client_leaves {
            std::mem::swap(&mut leaves, &mut stays);
            region = BACK;
        }
        for imm in 0..5 {
            let op = Op::WriteImm { region, offset: 0, bytes: &[1; 8], imm };
            run_on(&mut leaves, &mut stays, op).expect("write");
            assert_eq!(take(&mut stays, 1), [Completion::Arrived { imm, len: 8 }]);
        }
        drop(leaves);
        let started = Instant::now();
        let (completions, broken) = until_broken(&mut stays, PEER_DEATH);
        assert!(started.elapsed() < PEER_DEATH);
        assert_eq!((completions, broken), (Vec::new(), Broken::Closed));
        assert_eq!(stays.post(Op::Send { bytes: &[] }, Ticket(1)), Err(PostError::Broken));
    }
}

pub fn what_was_outstanding_completes_exactly_once<S: Setup>() {
    let mut server = TestServer::<S>::new();
    for round in 0..20u64 {
        let (ours, mut theirs, _) = server.connection();
        let mut posted = Vec::new();
        let mut post = |theirs: &mut Qp<S>, ticket| {
            let from = Place::new(LOOK, 0, 4096);
            if theirs.post(Op::Read { from, into: 0 }, Ticket(ticket)).is_ok() {
                posted.push(Ticket(ticket));
            }
        };
        (0..100).for_each(|ticket| post(&mut theirs, ticket));
        theirs.ring();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(ours));
            (100..100 + round * 5).for_each(|ticket| post(&mut theirs, ticket));
            theirs.ring();
        });
        let (completions, _) = until_broken(&mut theirs, PEER_DEATH);
        let mut flushed = false;
        let tickets: Vec<_> = completions
            .into_iter()
            .map(|completion| match completion {
                Completion::Done(ticket, Ok(_)) => {
                    assert!(!flushed, "a success behind a flushed request");
                    ticket
                }
                Completion::Done(ticket, Err(WorkError::Flushed)) => {
                    flushed = true;
                    ticket
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(tickets, posted);
    }
}

pub fn a_killed_client_is_noticed<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let starting = server.address.clone();
    let (mut ours, mut process) = std::thread::scope(|scope| {
        let process = scope.spawn(|| Process::start::<S>("client", &starting).0);
        (server.accept(), process.join().expect("the child's thread"))
    });
    assert!(ours.state().is_ok());
    process.kill();
    let started = Instant::now();
    let (_, broken) = until_broken(&mut ours, PEER_DEATH);
    assert!(started.elapsed() < PEER_DEATH);
    assert!(matches!(broken, Broken::PeerLost(_)), "{broken:?}");
    drop(ours);
    let (_ours, mut theirs, _) = server.connection();
    run(&mut theirs, Op::Read { from: Place::new(LOOK, 0, 8), into: 0 }).expect("the server goes on");
}

pub fn a_killed_server_is_noticed<S: Setup>() {
    let (mut process, said) = Process::start::<S>("server", &S::address());
    let address = said.parse().expect("an address");
    let grant = crate::Grant { id: BACK, region: region("back"), rights: everything() };
    let mut theirs = connect::<S>(&address, vec![grant]).expect("connect").qp;
    run(&mut theirs, Op::FetchAdd { region: ALL, offset: 0, add: 1 }).expect("it works");
    process.kill();
    let started = Instant::now();
    let (_, broken) = until_broken(&mut theirs, PEER_DEATH);
    assert!(started.elapsed() < PEER_DEATH);
    assert!(matches!(broken, Broken::PeerLost(_)), "{broken:?}");
    drop(theirs);
    let error = connect::<S>(&address, Vec::new()).map(|_| ()).expect_err("it is dead");
    assert!(matches!(error, crate::SetupError::Unreachable { .. }), "{error}");
    if let crate::Address::Shm(path) = &address {
        // What a killed server leaves, the next one replaces; here there is none.
        std::fs::remove_file(path).expect("the dead server's socket file");
    }
}
