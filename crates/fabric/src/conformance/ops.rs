//! Each operation does what its name says, at all sizes, for both sides.

use longarm_base::limits::READ_MAX;
use longarm_base::{Place, RegionId};
use longarm_memory::{OwnedWords, Words};

use super::Setup;
use super::harness::*;
use crate::{Completion, Op, PostError, QueuePair, SEND_MAX, Ticket, WRITE_MAX};

pub fn every_operation_round_trips<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, _) = server.connection();
    let all = server.memory.all.memory().clone();
    all.store(64, 5);

    assert_eq!(read(&mut theirs, ALL, 64, 8), 5u64.to_le_bytes());
    let word = 6u64.to_le_bytes();
    run(&mut theirs, Op::Write { region: ALL, offset: 64, bytes: &word }).expect("write");
    assert_eq!(all.load(64), 6);
    assert_eq!(run(&mut theirs, Op::FetchAdd { region: ALL, offset: 64, add: 10 }), Ok(6));
    assert_eq!(all.load(64), 16);
    let swap = |expected, new| Op::CompareSwap { region: ALL, offset: 64, expected, new };
    assert_eq!(run(&mut theirs, swap(16, 3)), Ok(16));
    assert_eq!(run(&mut theirs, swap(16, 4)), Ok(3), "it was another word");
    assert_eq!(all.load(64), 3);
    assert_eq!(run(&mut theirs, Op::FetchAdd { region: ALL, offset: 64, add: u64::MAX }), Ok(3), "wraps");
    assert_eq!(all.load(64), 2);

    let bytes = pattern(1, 48);
    run(&mut theirs, Op::WriteImm { region: DROP_BOX, offset: 128, bytes: &bytes, imm: 0xfedc_ba98 })
        .expect("imm");
    assert_eq!(take(&mut ours, 1), [Completion::Arrived { imm: 0xfedc_ba98, len: 48 }]);
    let mut found = [0; 48];
    server.memory.drop_box.memory().copy_out(128, &mut found);
    assert_eq!(found[..], bytes);

    run(&mut theirs, Op::Send { bytes: b"a message" }).expect("send");
    let Completion::Message { buffer, len } = take(&mut ours, 1)[0] else { panic!("a message") };
    assert_eq!(ours.message(buffer, len), b"a message");
    ours.release(buffer);
    assert!(ours.state().is_ok() && theirs.state().is_ok());
    assert!(!ours.describe().is_empty() && !theirs.describe().is_empty());
}

pub fn sizes_odd_and_longest_come_back<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, _) = server.connection();
    let bytes = pattern(2, BYTES as usize);
    server.memory.look.memory().copy_in(0, &bytes);
    for len in [1, 7, 8, 9, 63, 64, 65, 100, 511, 512, 513, 4095, 4096, 4097, 70_001, READ_MAX] {
        for (offset, into) in
            [(0u64, 0u32), (8, 16), (4088, 8), (BYTES - u64::from(len).next_multiple_of(8), 0)]
        {
            let from = Place::new(LOOK, offset, len);
            run(&mut theirs, Op::Read { from, into }).expect("read");
            let from = offset as usize;
            assert!(
                theirs.landing(into, len) == &bytes[from..from + len as usize],
                "{len} bytes at {offset}"
            );
        }
    }
    let all = server.memory.all.memory().clone();
    for (seed, len) in [8, 16, 56, 64, 72, 504, 512, 520, 4096, WRITE_MAX].into_iter().enumerate() {
        let bytes = pattern(seed as u64, len);
        let (before, after) = (all.load(4096 - 8), all.load(4096 + len as u64));
        run(&mut theirs, Op::Write { region: ALL, offset: 4096, bytes: &bytes }).expect("write");
        let mut found = vec![0; len];
        all.copy_out(4096, &mut found);
        assert!(found == bytes, "{len} bytes");
        assert_eq!((all.load(4096 - 8), all.load(4096 + len as u64)), (before, after), "and nothing beside");
    }
    for len in [1, 8, 9, 1000, SEND_MAX] {
        let bytes = pattern(len as u64, len);
        run(&mut theirs, Op::Send { bytes: &bytes }).expect("send");
        let Completion::Message { buffer, len: found } = take(&mut ours, 1)[0] else { panic!("a message") };
        assert_eq!(found as usize, len);
        assert!(ours.message(buffer, found) == bytes);
        ours.release(buffer);
    }
}

pub fn malformed_requests_change_nothing<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (_ours, mut theirs, _) = server.connection();
    let long = vec![1; WRITE_MAX + 8];
    let place = |offset, len| Place::new(ALL, offset, len);
    let write = |offset, bytes| Op::Write { region: ALL, offset, bytes };
    for (op, what) in [
        (Op::Read { from: place(4, 8), into: 0 }, "a READ at half a word"),
        (Op::Read { from: place(0, 8), into: 4 }, "a READ to half a word"),
        (Op::Read { from: place(0, READ_MAX + 1), into: 0 }, "a READ too long"),
        (Op::Read { from: place(0, 16), into: LANDING - 8 }, "a READ beyond the landing buffer"),
        (Op::Read { from: place(0, 8), into: u32::MAX - 7 }, "a READ far beyond the landing buffer"),
        (write(0, &long), "a WRITE too long"),
        (write(4, &long[..8]), "a WRITE at half a word"),
        (write(0, &long[..12]), "a WRITE of a word and a half"),
        (Op::WriteImm { region: ALL, offset: 1, bytes: &long[..8], imm: 0 }, "an unaligned WRITE_WITH_IMM"),
        (Op::Send { bytes: &long[..SEND_MAX + 1] }, "a SEND too long"),
        (Op::FetchAdd { region: ALL, offset: 12, add: 1 }, "an unaligned FAA"),
        (Op::CompareSwap { region: ALL, offset: 1, expected: 0, new: 1 }, "an unaligned CAS"),
    ] {
        assert_eq!(theirs.post(op, Ticket(1)), Err(PostError::Malformed), "{what}");
    }
    assert_eq!(read(&mut theirs, ALL, 0, 24), [0; 24], "nothing happened, and the queue pair stands");
    let edge = Op::Read { from: place(BYTES - 8, 8), into: LANDING - 8 };
    assert!(run(&mut theirs, edge).is_ok(), "the last word into the last word");
}

pub fn the_listener_side_operates_too<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, back) = server.connection();
    let bytes = pattern(3, 4096);
    back.memory().copy_in(0, &bytes);
    let from = Place::new(BACK, 0, 4096);
    run_on(&mut ours, &mut theirs, Op::Read { from, into: 8 }).expect("read");
    assert!(ours.landing(8, 4096) == bytes);
    let word = 9u64.to_le_bytes();
    run_on(&mut ours, &mut theirs, Op::WriteImm { region: BACK, offset: 8, bytes: &word, imm: 1 })
        .expect("write");
    assert_eq!(take(&mut theirs, 1), [Completion::Arrived { imm: 1, len: 8 }]);
    assert_eq!(back.memory().load(8), 9);
    assert_eq!(run_on(&mut ours, &mut theirs, Op::FetchAdd { region: BACK, offset: 8, add: 1 }), Ok(9));
    run_on(&mut ours, &mut theirs, Op::Send { bytes: b"to the client" }).expect("send");
    let Completion::Message { buffer, len } = take(&mut theirs, 1)[0] else { panic!("a message") };
    assert_eq!(theirs.message(buffer, len), b"to the client");
    theirs.release(buffer);
}

fn hammer<S: Setup>(each: impl Fn(&mut Qp<S>) + Sync) -> u64 {
    let mut server = TestServer::<S>::new();
    let pairs: Vec<_> = (0..2).map(|_| server.connection()).collect();
    let mut kept = Vec::new();
    std::thread::scope(|scope| {
        for (ours, mut theirs, _) in pairs {
            kept.push(ours);
            let each = &each;
            scope.spawn(move || each(&mut theirs));
        }
    });
    server.memory.all.memory().load(0)
}

const ROUNDS: u64 = 2000;

pub fn atomics_of_two_queue_pairs_add_up<S: Setup>() {
    let sum = hammer::<S>(|qp| {
        let mut last = None;
        for _ in 0..ROUNDS {
            let before = run(qp, Op::FetchAdd { region: ALL, offset: 0, add: 3 }).expect("add");
            assert!(last.is_none_or(|last| before > last), "it only grows");
            last = Some(before);
        }
    });
    assert_eq!(sum, 2 * ROUNDS * 3);
}

pub fn compare_and_swap_counts_exactly<S: Setup>() {
    let region = RegionId(ALL.0);
    let sum = hammer::<S>(|qp| {
        let mut seen = 0;
        for _ in 0..ROUNDS {
            loop {
                let op = Op::CompareSwap { region, offset: 0, expected: seen, new: seen + 1 };
                let before = run(qp, op).expect("swap");
                if before == seen {
                    seen += 1;
                    break;
                }
                seen = before;
            }
        }
    });
    assert_eq!(sum, 2 * ROUNDS);
}
