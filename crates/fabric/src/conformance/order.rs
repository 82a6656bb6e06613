//! Rules 1 to 4: completions in order and up to the depth, effects in order, arrivals after their bytes,
//! back-pressure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use longarm_base::Place;
use longarm_base::limits::QUEUE_DEPTH;
use longarm_memory::{OwnedWords, Words};

use super::Setup;
use super::harness::*;
use crate::{Completion, Completions, Op, PostError, QueuePair, RECEIVES, Ticket};

pub fn completions_come_in_posting_order_up_to_the_depth<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (_ours, mut theirs, _) = server.connection();
    let word = 1u64.to_le_bytes();
    for round in 0..5u64 {
        for i in 0..QUEUE_DEPTH as u64 {
            let offset = i * 64;
            let op = match i % 4 {
                0 => Op::Write { region: ALL, offset, bytes: &word },
                1 => Op::FetchAdd { region: ALL, offset, add: 1 },
                2 => Op::CompareSwap { region: ALL, offset, expected: 0, new: 1 },
                _ => Op::Read { from: Place::new(ALL, offset, 64), into: i as u32 * 64 },
            };
            assert_eq!(theirs.post(op, Ticket(round * 1000 + i)), Ok(()), "request {i}");
        }
        let more = Op::Write { region: ALL, offset: BYTES - 8, bytes: &word };
        assert_eq!(theirs.post(more, Ticket(9)), Err(PostError::Full));
        theirs.ring();
        for (i, completion) in take(&mut theirs, QUEUE_DEPTH).into_iter().enumerate() {
            let Completion::Done(ticket, Ok(_)) = completion else { panic!("{completion:?}") };
            assert_eq!(ticket, Ticket(round * 1000 + i as u64));
        }
    }
    assert_eq!(server.memory.all.memory().load(BYTES - 8), 0, "what was refused did nothing");
    assert_eq!(server.memory.all.memory().load(64), 5, "each took effect once");
}

pub fn silent_requests_report_nothing<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, _) = server.connection();
    for i in 0..3 * QUEUE_DEPTH as u64 {
        let word = i.to_le_bytes();
        let op = match i % 3 {
            0 => Op::Write { region: ALL, offset: 0, bytes: &word },
            1 => Op::Read { from: Place::new(ALL, 0, 8), into: 0 },
            _ => Op::FetchAdd { region: ALL, offset: 8, add: 1 },
        };
        post(&mut theirs, op, Ticket::SILENT).expect("post");
    }
    theirs.ring();
    let last = Op::FetchAdd { region: ALL, offset: 8, add: 0 };
    assert_eq!(run(&mut theirs, last), Ok(QUEUE_DEPTH as u64), "all had their effect, none was reported");
    for i in 0..RECEIVES {
        theirs.post(Op::Send { bytes: &[i as u8] }, Ticket::SILENT).expect("post");
    }
    theirs.ring();
    assert_eq!(take(&mut ours, RECEIVES).len(), RECEIVES);
    assert_eq!(theirs.poll(&mut Completions::new(8)), 0);
}

pub fn writes_take_effect_in_order<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (_ours, mut theirs, _) = server.connection();
    let all = server.memory.all.memory().clone();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=20_000u64 {
                let word = i.to_le_bytes();
                for offset in [8192, 0] {
                    let op = Op::Write { region: ALL, offset, bytes: &word };
                    post(&mut theirs, op, Ticket::SILENT).expect("post");
                }
                theirs.ring();
            }
            run(&mut theirs, Op::FetchAdd { region: ALL, offset: 16, add: 1 }).expect("the last one");
            // Relaxed: only ends the loop below.
            over.store(true, Ordering::Relaxed);
        });
        // Relaxed: pairs with the store above.
        while !over.load(Ordering::Relaxed) {
            let second = all.load(0);
            let first = all.load(8192);
            assert!(first >= second, "the second write {second} before the first {first}");
        }
    });
    assert_eq!((all.load(0), all.load(8192)), (20_000, 20_000));
}

/// Rule 4, hammered: slots of a ring are filled by a WRITE and announced by a WRITE_WITH_IMM elsewhere.
pub fn arrivals_follow_their_bytes_and_all_earlier_ones<S: Setup>() {
    const COUNT: u32 = 20_000;
    const SLOTS: u32 = 64;
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, _) = server.connection();
    let all = server.memory.all.memory().clone();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut credit = SLOTS;
            for i in 0..COUNT {
                if credit == 0 {
                    poll_until(&mut theirs, |_, completion| {
                        assert!(matches!(completion, Completion::Arrived { .. }));
                        credit += SLOTS / 2;
                        true
                    });
                }
                credit -= 1;
                let (slot, bytes) = (u64::from(i % SLOTS), pattern(u64::from(i), 640));
                let (first, second) = bytes.split_at(64);
                let op = Op::Write { region: ALL, offset: slot * 64, bytes: first };
                post(&mut theirs, op, Ticket::SILENT).expect("post");
                let offset = (64 << 10) + slot * 576;
                let op = Op::WriteImm { region: ALL, offset, bytes: second, imm: i };
                post(&mut theirs, op, Ticket::SILENT).expect("post");
                theirs.ring();
            }
        });
        let mut next = 0;
        while next < COUNT {
            let Completion::Arrived { imm, len } = take(&mut ours, 1)[0] else { panic!("an arrival") };
            assert_eq!((imm, len), (next, 576));
            let slot = u64::from(next % SLOTS);
            let mut found = vec![0; 640];
            let (first, second) = found.split_at_mut(64);
            all.copy_out(slot * 64, first);
            all.copy_out((64 << 10) + slot * 576, second);
            assert!(found == pattern(u64::from(next), 640), "arrival {next} before its bytes");
            next += 1;
            if next % (SLOTS / 2) == 0 && next < COUNT {
                let op = Op::WriteImm { region: BACK, offset: 0, bytes: &[0; 8], imm: next };
                post(&mut ours, op, Ticket::SILENT).expect("post");
                ours.ring();
            }
        }
        drop(sender);
    });
}

pub fn atomics_and_writes_keep_their_order<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (_ours, mut theirs, _) = server.connection();
    for i in 0..500u64 {
        let word = (i * 10).to_le_bytes();
        theirs.post(Op::Write { region: ALL, offset: 0, bytes: &word }, Ticket::SILENT).expect("post");
        theirs.post(Op::FetchAdd { region: ALL, offset: 0, add: 1 }, Ticket(1)).expect("post");
        let swap = Op::CompareSwap { region: ALL, offset: 0, expected: i * 10 + 1, new: 7 };
        theirs.post(swap, Ticket(2)).expect("post");
        theirs.post(Op::FetchAdd { region: ALL, offset: 0, add: 0 }, Ticket(3)).expect("post");
        theirs.ring();
        let results = take(&mut theirs, 3);
        let done = |ticket, word| Completion::Done(Ticket(ticket), Ok(word));
        assert_eq!(results, [done(1, i * 10), done(2, i * 10 + 1), done(3, 7)]);
    }
}

/// Rule 3: a READ sees each aligned word whole.
pub fn a_read_racing_with_stores_sees_whole_words<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (_ours, mut theirs, _) = server.connection();
    let look = server.memory.look.memory().clone();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut i = 0u64;
            // Relaxed: only ends this loop; pairs with the store below.
            while !over.load(Ordering::Relaxed) {
                i += 1;
                let word = (i & 0xff) * 0x0101_0101_0101_0101;
                for at in (0..1024).step_by(8) {
                    look.store(at, word);
                }
            }
        });
        // Also when an assertion fails: else the test would wait for the thread and never say so.
        let _ends = Ends(&over);
        let (mut changes, mut last) = (0, 0);
        let until = Instant::now() + SOON;
        // Long enough for the race to have taken place, whenever the other thread gets its turn.
        while changes < 200 {
            for len in [64, 1024] {
                let bytes = read(&mut theirs, LOOK, 0, len);
                for word in bytes.chunks(8) {
                    assert!(word.iter().all(|&byte| byte == word[0]), "a torn word: {word:x?}");
                }
                changes += u32::from(bytes[0] != last);
                last = bytes[0];
            }
            assert!(Instant::now() < until, "the race did not take place");
        }
    });
}

/// Says that it is over when dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        // Relaxed: only ends a loop.
        self.0.store(true, Ordering::Relaxed);
    }
}

pub fn messages_arrive_and_buffers_push_back<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, _) = server.connection();
    let mut sent = 0u64;
    let mut received = 0u64;
    for _ in 0..20 {
        loop {
            match theirs.post(Op::Send { bytes: &pattern(sent, 100) }, Ticket::SILENT) {
                Ok(()) => sent += 1,
                Err(PostError::Full) => break,
                Err(other) => panic!("{other}"),
            }
            assert!(sent - received <= RECEIVES as u64, "more are unreceived than there are buffers");
        }
        theirs.ring();
        assert_eq!(sent - received, RECEIVES as u64, "as many as there are buffers");
        let mut held = Vec::new();
        for completion in take(&mut ours, RECEIVES) {
            let Completion::Message { buffer, len } = completion else { panic!("{completion:?}") };
            assert!(ours.message(buffer, len) == pattern(received, 100), "message {received}");
            received += 1;
            held.push((buffer, received - 1));
        }
        for (buffer, number) in &held {
            assert!(ours.message(*buffer, 100) == pattern(*number, 100), "held buffers keep their bytes");
        }
        assert_eq!(
            theirs.post(Op::Send { bytes: &[1] }, Ticket(1)),
            Err(PostError::Full),
            "received is not released"
        );
        held.reverse();
        held.iter().for_each(|(buffer, _)| ours.release(*buffer));
        ours.ring();
        // All have come back once as many can be posted; the loop above posts them, so wait for the first
        // here.
        post(&mut theirs, Op::Send { bytes: &pattern(sent, 100) }, Ticket::SILENT).expect("a buffer is free");
        sent += 1;
        while sent - received < RECEIVES as u64 {
            post(&mut theirs, Op::Send { bytes: &pattern(sent, 100) }, Ticket::SILENT)
                .expect("a buffer is free");
            sent += 1;
        }
    }
}

pub fn arrivals_push_back_and_none_is_lost<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, _) = server.connection();
    let mut completions = Completions::new(QUEUE_DEPTH);
    let mut sent = 0u32;
    // Long ones, so that no buffer of a kernel hides the limit.
    let bytes = vec![7; 32 << 10];
    let full = (0..100_000).any(|_| {
        let op = Op::WriteImm { region: DROP_BOX, offset: 0, bytes: &bytes, imm: sent };
        let result = theirs.post(op, Ticket::SILENT);
        theirs.ring();
        theirs.poll(&mut completions);
        assert!(completions.as_slice().is_empty());
        sent += u32::from(result.is_ok());
        result == Err(PostError::Full)
    });
    assert!(full, "the sender is told that nobody drains");
    for (i, completion) in take(&mut ours, sent as usize).into_iter().enumerate() {
        assert_eq!(completion, Completion::Arrived { imm: i as u32, len: 32 << 10 });
    }
    let op = Op::WriteImm { region: DROP_BOX, offset: 0, bytes: &bytes, imm: 9 };
    post(&mut theirs, op, Ticket::SILENT).expect("there is room again");
    theirs.ring();
    assert!(matches!(take(&mut ours, 1)[0], Completion::Arrived { .. }));
}

pub fn completions_beyond_the_room_wait<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, _) = server.connection();
    for i in 0..10u32 {
        let op = Op::WriteImm { region: ALL, offset: 0, bytes: &[0; 8], imm: i };
        theirs.post(op, Ticket(u64::from(i))).expect("post");
    }
    theirs.ring();
    let mut few = Completions::new(1);
    for (qp, done) in [(&mut theirs, true), (&mut ours, false)] {
        let mut next = 0;
        let until = Instant::now() + SOON;
        while next < 10 {
            assert!(Instant::now() < until);
            if qp.poll(&mut few) == 0 {
                qp.wait(std::time::Duration::from_millis(1));
                continue;
            }
            assert_eq!(qp.poll(&mut few), 0, "there is no room");
            let expected = match done {
                true => Completion::Done(Ticket(u64::from(next)), Ok(8)),
                false => Completion::Arrived { imm: next, len: 8 },
            };
            match (few.as_slice()[0], done) {
                // What a WRITE's completion carries is nobody's business.
                (Completion::Done(ticket, Ok(_)), true) => assert_eq!(ticket, Ticket(u64::from(next))),
                (other, _) => assert_eq!(other, expected),
            }
            few.clear();
            next += 1;
        }
    }
}
