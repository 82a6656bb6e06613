//! Rules 5 and 6: what is not allowed changes nothing and breaks its own queue pair, at both ends.

use longarm_base::{Place, RegionId};
use longarm_memory::{OwnedWords, Words};

use super::Setup;
use super::harness::*;
use crate::{Completion, Op, PEER_DEATH, PostError, QueuePair, Ticket, WorkError};

const WORD: [u8; 8] = [0xff; 8];

fn violations() -> Vec<(&'static str, Op<'static>)> {
    let read = |region, offset, len| Op::Read { from: Place::new(region, offset, len), into: 0 };
    let write = |region, offset| Op::Write { region, offset, bytes: &WORD };
    let add = |region, offset| Op::FetchAdd { region, offset, add: 1 };
    let swap = |region, offset| Op::CompareSwap { region, offset, expected: 0, new: 1 };
    vec![
        ("a READ over the end", read(ALL, BYTES - 8, 16)),
        ("a READ behind the end", read(ALL, BYTES + 4096, 8)),
        ("a READ whose end overflows", read(ALL, u64::MAX - 7, 16)),
        ("a READ of a region nobody lent", read(RegionId(99), 0, 8)),
        ("a READ of a region with a far name", read(RegionId(u32::MAX), 0, 8)),
        ("a READ where only WRITE is allowed", read(DROP_BOX, 0, 8)),
        ("a WRITE where only READ is allowed", write(LOOK, 0)),
        ("a WRITE behind the end", write(ALL, BYTES)),
        ("a WRITE whose end overflows", write(ALL, u64::MAX - 7)),
        ("a WRITE to a region nobody lent", write(RegionId(5), 0)),
        ("a WRITE to our own region's name", write(BACK, 0)),
        ("a WRITE_WITH_IMM where only READ is allowed", {
            Op::WriteImm { region: LOOK, offset: 0, bytes: &WORD, imm: 1 }
        }),
        ("an FAA where only READ is allowed", add(LOOK, 0)),
        ("an FAA where only WRITE is allowed", add(DROP_BOX, 0)),
        ("an FAA behind the end", add(ALL, BYTES)),
        ("a CAS where only WRITE is allowed", swap(DROP_BOX, 0)),
        ("a CAS in a region nobody lent", swap(RegionId(3), 0)),
    ]
}

pub fn requests_not_allowed_break_only_their_queue_pair<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut bystander_ours, mut bystander, _) = server.connection();
    for (what, op) in violations() {
        for ticket in [Ticket(5), Ticket::SILENT] {
            let (mut ours, mut theirs, _) = server.connection();
            theirs.post(op, ticket).expect("malformed it is not");
            theirs.ring();
            let (completions, _) = until_broken(&mut theirs, SOON);
            assert_eq!(completions, [Completion::Done(ticket, Err(WorkError::Access))], "{what}");
            assert_eq!(theirs.post(op, Ticket(6)), Err(PostError::Broken), "{what}");
            let (completions, _) = until_broken(&mut ours, PEER_DEATH);
            assert_eq!(completions, [], "{what}: nothing arrives");
            let refused = Op::Read { from: Place::new(BACK, 0, 8), into: 0 };
            assert_eq!(ours.post(refused, Ticket(1)), Err(PostError::Broken), "{what}: both ends");
        }
    }
    for region in [&server.memory.look, &server.memory.all, &server.memory.drop_box] {
        let changed = (0..BYTES).step_by(8).find(|&at| region.memory().load(at) != 0);
        assert_eq!(changed, None, "{}: nothing changed", region.name());
    }
    run(&mut bystander, Op::FetchAdd { region: ALL, offset: 0, add: 1 }).expect("others go on");
    assert!(bystander_ours.state().is_ok());
    run_on(&mut bystander_ours, &mut bystander, Op::Read { from: Place::new(BACK, 0, 8), into: 0 })
        .expect("in both directions");
}

pub fn before_a_violation_all_completes_and_after_it_nothing<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (_ours, mut theirs, _) = server.connection();
    let look = server.memory.look.memory();
    look.store(64, 11);
    let read = |offset| Op::Read { from: Place::new(LOOK, offset, 8), into: 0 };
    theirs.post(Op::FetchAdd { region: ALL, offset: 0, add: 1 }, Ticket(0)).expect("post");
    theirs.post(read(64), Ticket(1)).expect("post");
    theirs.post(read(BYTES), Ticket(2)).expect("post");
    let mut expected = vec![(0, None), (1, None), (2, Some(WorkError::Access))];
    // A transport that has found out already says so.
    for (ticket, op) in [(3, read(64)), (4, Op::FetchAdd { region: ALL, offset: 8, add: 1 })] {
        match theirs.post(op, Ticket(ticket)) {
            Ok(()) => expected.push((ticket, Some(WorkError::Flushed))),
            other => assert_eq!(other, Err(PostError::Broken)),
        }
    }
    theirs.ring();
    let (completions, _) = until_broken(&mut theirs, SOON);
    let found: Vec<_> = completions
        .into_iter()
        .map(|completion| match completion {
            Completion::Done(Ticket(ticket), result) => (ticket, result.err()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!(theirs.landing(0, 8), 11u64.to_le_bytes());
    assert_eq!(server.memory.all.memory().load(0), 1);
    assert_eq!(server.memory.all.memory().load(8), 0, "nothing behind the violation had an effect");
}
