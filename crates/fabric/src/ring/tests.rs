//! The ring over a queue pair that is nothing but the receiver's memory: messages of any size in any rhythm.

use std::collections::VecDeque;
use std::time::Duration;

use longarm_memory::{Backing, OwnedWords, Region, RegionOptions};
use proptest::prelude::*;

use super::*;
use crate::{Broken, Completions, Granted, SetupError};

/// Delivers WRITE_WITH_IMM into the receiver's ring, and remembers what was announced.
struct Wire {
    into: Mapped,
    arrived: VecDeque<(u32, u32)>,
    room: usize,
}

impl QueuePair for Wire {
    fn post(&mut self, op: Op<'_>, _: Ticket) -> Result<(), PostError> {
        let Op::WriteImm { offset, bytes, imm, .. } = op else { panic!("a ring only uses WRITE_WITH_IMM") };
        if self.arrived.len() == self.room {
            return Err(PostError::Full);
        }
        assert!(bytes.len() <= WRITE_MAX && bytes.len().is_multiple_of(8));
        self.into.copy_in(offset, bytes);
        self.arrived.push_back((imm, bytes.len() as u32));
        Ok(())
    }
    fn ring(&mut self) {}
    fn poll(&mut self, _: &mut Completions) -> usize {
        0
    }
    fn landing(&self, _: u32, _: u32) -> &[u8] {
        &[]
    }
    fn message(&self, _: u16, _: u32) -> &[u8] {
        &[]
    }
    fn release(&mut self, _: u16) {}
    fn arm(&mut self) -> bool {
        false
    }
    fn ready(&mut self) -> bool {
        false
    }
    fn attend(&mut self, _: &crate::Channel) -> Result<(), SetupError> {
        Ok(())
    }
    fn wait(&mut self, _: Duration) {}
    fn state(&self) -> Result<(), Broken> {
        Ok(())
    }
    fn granted(&self) -> &[Granted] {
        &[]
    }
    fn revoke(&mut self) -> Result<(), SetupError> {
        Ok(())
    }
    fn describe(&self) -> String {
        "wire".into()
    }
}

fn memory(bytes: u64) -> Mapped {
    let options = RegionOptions { name: "ring".into(), bytes, backing: Backing::Memory };
    Region::create(&options).expect("memfd").memory().clone()
}

/// Two mailboxes and the wires between them.
fn pair(bytes: u64, room: usize, message_max: usize) -> (Mailbox, Wire, Mailbox, Wire) {
    let (a, b) = (memory(bytes), memory(bytes));
    let wire = |into: &Mapped| Wire { into: into.clone(), arrived: VecDeque::new(), room };
    let (to_b, to_a) = (wire(&b), wire(&a));
    let mail = |own| Mailbox::new(own, RegionId(16), bytes, message_max);
    (mail(a), to_b, mail(b), to_a)
}

proptest! {
    #[test]
    fn messages_arrive_whole_and_in_order(
        ring in prop_oneof![Just(4096u64), Just(16384), Just(65536)],
        sizes in proptest::collection::vec(prop_oneof![1usize..200, 1usize..30_000], 1..60),
        rhythm in proptest::collection::vec(0usize..5, 1..40),
        room in 1usize..20,
    ) {
        let (mut a, mut to_b, mut b, mut to_a) = pair(ring, room, 40_000);
        let message = |i: usize| vec![i as u8 ^ 0x5A; sizes[i]];
        let (mut sent, mut got) = (0, 0);
        for round in 0.. {
            prop_assert!(round < 200_000, "no progress: sent {sent}, got {got}");
            if got == sizes.len() {
                break;
            }
            for _ in 0..=rhythm[round % rhythm.len()] {
                if sent < sizes.len() {
                    let body = message(sent);
                    let (left, right) = body.split_at(body.len() / 2);
                    match a.send(&mut to_b, &[left, right]) {
                        Ok(()) => sent += 1,
                        Err(PostError::Full) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            a.pump(&mut to_b).expect("pump");
            if rhythm[round % rhythm.len()] == 0 {
                // It is no message, and ends none.
                assert!(matches!(a.probe(&mut to_b), Ok(()) | Err(PostError::Full)));
            }
            for _ in 0..rhythm[(round + 1) % rhythm.len()] + 1 {
                let Some((imm, len)) = to_b.arrived.pop_front() else { break };
                let mut beginning = [0; 16];
                let seen = b.peek(imm, len, &mut beginning);
                if len as usize == HEADER {
                    prop_assert!(!b.receive(imm, len).expect("well formed"), "a probe");
                    continue;
                }
                prop_assert!(seen.first().is_none_or(|byte| *byte == got as u8 ^ 0x5A), "{seen:?}");
                prop_assert_eq!(seen.len(), (len as usize - HEADER).min(16), "all that is there");
                if b.receive(imm, len).expect("well formed") {
                    prop_assert_eq!(b.message(), &message(got)[..]);
                    got += 1;
                }
            }
            b.pump(&mut to_a).expect("pump");
            while let Some((imm, len)) = to_a.arrived.pop_front() {
                prop_assert!(!a.receive(imm, len).expect("credit"), "nothing but credit comes back");
            }
        }
        prop_assert!(!a.is_sending());
    }

    #[test]
    fn hostile_frames_are_refused(words in proptest::collection::vec(any::<u64>(), 512),
        imm in any::<u32>(), len in any::<u32>()) {
        let own = memory(4096);
        for (i, word) in words.iter().enumerate() {
            own.store(i as u64 * 8, *word);
        }
        let mut mail = Mailbox::new(own, RegionId(16), 4096, 10_000);
        for (imm, len) in [(imm, len), (imm % 256, len % 4096), (0, len % 4096), (0, 16)] {
            prop_assert!(mail.peek(imm, len, &mut [0; 40]).len() <= 40);
            if mail.receive(imm, len).is_ok() {
                prop_assert!(mail.message().len() <= 10_000);
            }
        }
    }
}

#[test]
fn a_full_ring_says_so_and_credit_frees_it() {
    let (mut a, mut to_b, mut b, mut to_a) = pair(4096, 1000, 10_000);
    let mut sent = 0;
    while a.send(&mut to_b, &[&[7; 100]]) == Ok(()) {
        sent += 1;
    }
    assert_eq!(sent, 32, "4096 / (16 + 112)");
    for _ in 0..sent {
        let (imm, len) = to_b.arrived.pop_front().expect("announced");
        assert!(b.receive(imm, len).expect("well formed"));
    }
    assert_eq!(a.send(&mut to_b, &[&[7; 100]]), Err(PostError::Full), "no credit came yet");
    b.send(&mut to_a, &[b"answer"]).expect("room");
    let (imm, len) = to_a.arrived.pop_front().expect("announced");
    assert!(a.receive(imm, len).expect("well formed") && a.message() == b"answer");
    assert_eq!(a.send(&mut to_b, &[&[7; 100]]), Ok(()), "the answer carried the credit");
}

/// Where the frames of a sender lie that sends so many of this size, waits for the answers to all, and sends
/// as many again. Nothing but messages and their answers travels.
fn footprint(bytes: u64, together: usize, size: usize) -> u64 {
    let (mut a, mut to_b, mut b, mut to_a) = pair(bytes, 1000, 10_000);
    let mut end = 0;
    for _ in 0..3_000 {
        for _ in 0..together {
            a.send(&mut to_b, &[&vec![7; size]]).expect("the peer keeps up");
            let &(imm, len) = to_b.arrived.back().expect("announced");
            end = end.max(u64::from(imm) * 16 + u64::from(len));
        }
        assert_eq!(to_b.arrived.len(), together, "messages alone");
        while let Some((imm, len)) = to_b.arrived.pop_front() {
            assert!(b.receive(imm, len).expect("well formed") && b.message() == vec![7; size]);
            b.send(&mut to_a, &[b"answer"]).expect("room");
            b.pump(&mut to_a).expect("nothing to tell");
        }
        assert_eq!(to_a.arrived.len(), together, "answers alone");
        while let Some((imm, len)) = to_a.arrived.pop_front() {
            assert!(a.receive(imm, len).expect("well formed"));
            a.pump(&mut to_b).expect("nothing to tell");
        }
    }
    end
}

#[test]
fn a_ring_takes_as_much_memory_as_is_under_way() {
    assert!(footprint(256 << 10, 1, 60) <= 2 * HOME, "one at a time");
    assert!(footprint(256 << 10, 32, 60) <= 2 * HOME, "a pipeline of short ones");
    let long = footprint(256 << 10, 32, 2000);
    assert!((60 << 10..100 << 10).contains(&long), "a pipeline of long ones: {long}");
    assert!(footprint(4096, 1, 60) <= 4096);
}

/// A sender that went home has the whole ring before it, though it has no credit for what it skipped: a short
/// answer, and a long one behind it, to somebody who says nothing meanwhile.
#[test]
fn whoever_went_home_waits_for_no_credit() {
    let (mut a, mut to_b, mut b, mut to_a) = pair(64 << 10, 1000, 100_000);
    for size in [9_000, 10, 60_000] {
        a.send(&mut to_b, &[b"ask"]).expect("room");
        let (imm, len) = to_b.arrived.pop_front().expect("announced");
        assert!(b.receive(imm, len).expect("well formed"));
        b.send(&mut to_a, &[&vec![size as u8; size]]).expect("room");
        if size == 10 {
            // The long one follows before anything is taken.
            continue;
        }
        for _ in 0..100 {
            b.pump(&mut to_a).expect("pump");
            while let Some((imm, len)) = to_a.arrived.pop_front() {
                a.receive(imm, len).expect("well formed");
            }
            a.pump(&mut to_b).expect("pump");
            while let Some((imm, len)) = to_b.arrived.pop_front() {
                assert!(!b.receive(imm, len).expect("well formed"), "credit alone");
            }
        }
        assert!(!b.is_sending(), "{size} bytes");
    }
}

#[test]
fn too_long_a_message_is_refused_by_the_receiver() {
    let (mut a, mut to_b, mut b, _) = pair(4096, 1000, 2000);
    a.send(&mut to_b, &[&[1; 3000]]).expect("the sender may try");
    let refused =
        std::iter::from_fn(|| to_b.arrived.pop_front()).any(|(imm, len)| b.receive(imm, len).is_err());
    assert!(refused);
}

#[test]
fn credit_sent_within_a_long_message_does_not_end_it() {
    let (mut a, mut to_b, mut b, mut to_a) = pair(4096, 1000, 20_000);
    // A short message first, so that the frames of the long one leave some room that only a small frame fits.
    a.send(&mut to_b, &[b"short"]).expect("room");
    a.send(&mut to_b, &[&[9; 10_000]]).expect("taken");
    let (imm, len) = to_b.arrived.pop_front().expect("announced");
    assert!(b.receive(imm, len).expect("well formed"));
    // Now a owes b so much credit that it says so at once.
    for _ in 0..3 {
        b.send(&mut to_a, &[&[1; 1000]]).expect("room");
    }
    while let Some((imm, len)) = to_a.arrived.pop_front() {
        assert!(a.receive(imm, len).expect("well formed"));
    }
    let mut whole = 0;
    for _ in 0..100 {
        a.pump(&mut to_b).expect("pump");
        if let Some((imm, len)) = to_b.arrived.pop_front()
            && b.receive(imm, len).expect("well formed")
        {
            assert_eq!(b.message(), [9; 10_000]);
            whole += 1;
        }
        b.pump(&mut to_a).expect("pump");
        while let Some((imm, len)) = to_a.arrived.pop_front() {
            assert!(!a.receive(imm, len).expect("well formed"));
        }
    }
    assert_eq!(whole, 1);
}
