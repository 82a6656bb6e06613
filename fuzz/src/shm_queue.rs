//! The queue page of two processes: news in order while both are honest, and errors, never indexes, once
//! somebody scribbles on it.
//!
//! Oracles: a model queue until the first scribble; afterwards every accepted piece of news is within the
//! limits of its kind, a receive buffer is lent once at a time, and nothing panics or loops.

use std::cell::RefCell;
use std::collections::VecDeque;

use longarm_fabric::shm::fuzzing::{Consumer, PAGE, Producer, Said};
use longarm_fabric::{RECEIVES, SEND_MAX, WRITE_MAX};
use longarm_memory::{Backing, Mapped, OwnedWords, Region, RegionOptions};

use crate::{COMMANDS_MAX, Input};

/// Descriptors of a lane.
const RING: u64 = 1024;

thread_local! {
    /// One page for all inputs: a mapping of its own for each would be most of the work.
    static MEMORY: RefCell<Mapped> = RefCell::new({
        let options = RegionOptions { name: "queue".into(), bytes: PAGE, backing: Backing::Memory };
        Region::create(&options).expect("a memory file").memory().clone()
    });
}

/// One input.
pub fn run(bytes: &[u8]) {
    MEMORY.with_borrow(|page| {
        page.copy_in(0, &vec![0; PAGE as usize]);
        let mut input = Input(bytes);
        let lane = u64::from(input.u8() & 1);
        let mut both = Both {
            page,
            producer: Producer::new(page.clone(), lane),
            consumer: Consumer::new(page.clone(), lane),
            honest: Some(VecDeque::new()),
            held: 0,
            lane,
            taken: 0,
        };
        for _ in 0..COMMANDS_MAX {
            if input.is_empty() || !both.step(&mut input) {
                return;
            }
        }
    });
}

struct Both<'a> {
    page: &'a Mapped,
    producer: Producer,
    consumer: Consumer,
    /// What was announced and not taken, while nobody scribbled.
    honest: Option<VecDeque<(Said, Vec<u8>)>>,
    held: u32,
    lane: u64,
    /// Pieces of news that the consumer has seen.
    taken: u64,
}

impl Both<'_> {
    /// One command; `false` once a side has seen a word that cannot be.
    fn step(&mut self, input: &mut Input<'_>) -> bool {
        match input.u8() % 8 {
            0 | 1 => return self.write(input),
            2 => return self.send(input),
            3 | 4 => {
                for _ in 0..=input.u8() {
                    match self.take() {
                        Some(true) => {}
                        Some(false) => return false,
                        None => break,
                    }
                }
            }
            5 => self.release(input),
            6 => self.bell(),
            _ => self.scribble(input),
        }
        true
    }

    /// A word anywhere, one that is looked at, or the descriptor that is looked at next.
    fn scribble(&mut self, input: &mut Input<'_>) {
        self.honest = None;
        let start = self.lane * PAGE / 2;
        match input.u8() % 4 {
            0 => self.page.store(input.below(PAGE / 8) * 8, input.u64()),
            1 => {
                let word = [0x2000, 0x2008, 0x2040][input.below(3) as usize];
                self.page.store(start + word, input.near(2048));
            }
            _ => {
                let (imm, len) = (u64::from(input.u32()), input.near(0x1_0010) & 0xf_ffff);
                let (buffer, kind) = (input.near(20) & 0x3f, input.near(7) & 0x1f);
                let lap = (self.taken / RING + 1) & 1;
                let word = imm | len << 32 | buffer << 52 | kind << 58 | lap << 63;
                self.page.store(start + self.taken % RING * 8, word);
            }
        }
    }

    fn write(&mut self, input: &mut Input<'_>) -> bool {
        // Bursts reach the end of the ring and its next laps with few bytes.
        let (count, imm) = (input.u8(), input.u32());
        let len = input.below(WRITE_MAX as u64 / 8 + 1) as u32 * 8;
        for i in 0..=u32::from(count) {
            let imm = imm.wrapping_add(i);
            match self.producer.write(imm, len) {
                Ok(true) => {
                    let _ = self.honest.as_mut().map(|q| q.push_back((Said::Write { imm, len }, Vec::new())));
                }
                Ok(false) => return true,
                Err(_) => {
                    assert!(self.honest.is_none(), "an honest consumer is accused");
                    return false;
                }
            }
        }
        true
    }

    fn send(&mut self, input: &mut Input<'_>) -> bool {
        let (fill, len) = (input.u8(), input.below(SEND_MAX as u64 + 1));
        let bytes = vec![fill; len as usize];
        match self.producer.send(&bytes) {
            Ok(Some(buffer)) => {
                assert!(usize::from(buffer) < RECEIVES);
                let said = Said::Send { buffer, len: len as u32 };
                let _ = self.honest.as_mut().map(|q| q.push_back((said, bytes)));
                true
            }
            Ok(None) => true,
            Err(_) => {
                assert!(self.honest.is_none(), "an honest consumer is accused");
                false
            }
        }
    }

    /// `Some(false)` ends the connection.
    fn take(&mut self) -> Option<bool> {
        let taken = self.consumer.take();
        let expected = self.honest.as_mut().map(VecDeque::pop_front);
        let Some(said) = taken else {
            assert!(expected.is_none_or(|e| e.is_none()), "news was lost");
            return None;
        };
        self.taken += 1;
        let Ok(said) = said else {
            assert!(expected.is_none(), "an honest producer is accused");
            return Some(false);
        };
        match said {
            Said::Write { len, .. } => assert!(len as usize <= WRITE_MAX && len.is_multiple_of(8)),
            Said::Send { buffer, len } => {
                assert!(usize::from(buffer) < RECEIVES && len as usize <= SEND_MAX);
                assert_eq!(self.held >> buffer & 1, 0, "buffer {buffer} lent twice");
                self.held |= 1 << buffer;
                let mut bytes = vec![0; len as usize];
                self.consumer.copy_out(buffer, &mut bytes);
                if let Some(Some((_, sent))) = &expected {
                    assert_eq!(&bytes, sent);
                }
            }
            Said::Closed | Said::Revoked | Said::Broke => assert!(expected.is_none(), "nobody said {said:?}"),
        }
        if let Some(expected) = expected {
            assert_eq!(expected.map(|(said, _)| said), Some(said), "news out of order");
        }
        Some(true)
    }

    fn release(&mut self, input: &mut Input<'_>) {
        let buffer = input.near(RECEIVES as u64) as u16;
        let held = usize::from(buffer) < RECEIVES && self.held >> buffer & 1 == 1;
        assert_eq!(self.consumer.release(buffer), held);
        if held {
            self.held &= !(1 << buffer);
        }
    }

    fn bell(&mut self) {
        let news = self.consumer.arm();
        let rung = self.producer.take_armed();
        if let Some(waiting) = &self.honest {
            assert_eq!(news, !waiting.is_empty());
            assert_eq!(rung, !news, "the bell rings for a consumer that sleeps, and only then");
        }
        let _ = self.consumer.bell_rang();
    }
}
