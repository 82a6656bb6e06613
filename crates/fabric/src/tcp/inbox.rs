//! What a connection has for its user: completions in order, the landing buffer, the receive buffers.
//!
//! An [`TcpInbox`] belongs to the user's thread. Where a NIC thread does the receiving, it fills a [`Relay`]
//! under the link's lock, and the user's next poll takes the whole relay and empties it into the inbox
//! without the lock: so the bytes a user may look at are written by no other thread.

use std::collections::VecDeque;

use crate::{Completion, Completions, RECEIVES, SEND_MAX};

/// Arrivals that may wait for a poll; then the connection is read no further until there is one.
pub const ARRIVALS_MAX: usize = 1024;

/// Where a session puts what happens.
pub trait Deliver {
    /// A request of ours is over.
    fn done(&mut self, completion: Completion);
    /// Bytes of a READ; its completion follows.
    fn landed(&mut self, into: u32, bytes: &[u8]);
    /// A WRITE_WITH_IMM of the peer was executed.
    fn arrived(&mut self, imm: u32, len: u32);
    /// A SEND of the peer. The session sees to it that no more than [`RECEIVES`] are unreleased.
    fn message(&mut self, bytes: &[u8]);
    /// Whether no further arrival may be delivered.
    fn is_full(&self) -> bool;
    /// Forgets arrivals and messages that were not polled: the peer is fenced off.
    fn fence(&mut self);
}

/// What the user polls.
#[derive(Debug)]
pub struct TcpInbox {
    ready: VecDeque<Completion>,
    landing: Box<[u8]>,
    /// Empty until the peer sends something.
    receives: Vec<u8>,
    /// Bit `i`: receive buffer `i` is with the user.
    used: u16,
    /// Of `ready`: completions of requests of ours.
    own: usize,
    arrivals: usize,
}

const _: () = assert!(RECEIVES <= 16, "one bit of `used` each");

impl TcpInbox {
    /// An empty inbox with a landing buffer of `landing` bytes.
    pub fn new(landing: u32) -> TcpInbox {
        TcpInbox {
            ready: VecDeque::new(),
            landing: vec![0; landing as usize].into_boxed_slice(),
            receives: Vec::new(),
            used: 0,
            own: 0,
            arrivals: 0,
        }
    }

    /// Whether there is nothing to poll.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Completions of our own requests that wait to be polled.
    pub fn own(&self) -> usize {
        self.own
    }

    /// Bytes of its buffers and of what waits to be polled.
    pub fn held(&self) -> usize {
        self.landing.len() + self.receives.capacity() + self.ready.capacity() * size_of::<Completion>()
    }

    /// Size of the landing buffer.
    pub fn landing_len(&self) -> usize {
        self.landing.len()
    }

    /// Bytes of the landing buffer.
    pub fn landing(&self, at: u32, len: u32) -> &[u8] {
        &self.landing[at as usize..][..len as usize]
    }

    /// Moves as much as `done` has room for.
    pub fn take(&mut self, done: &mut Completions) -> usize {
        let count = done.room().min(self.ready.len());
        for completion in self.ready.drain(..count) {
            match completion {
                Completion::Done(..) => self.own -= 1,
                Completion::Arrived { .. } => self.arrivals -= 1,
                Completion::Message { .. } => {}
            }
            done.push(completion);
        }
        count
    }

    /// The first `len` bytes of a receive buffer.
    pub fn receive(&self, buffer: u16, len: u32) -> &[u8] {
        assert!((buffer as usize) < RECEIVES, "receive buffer {buffer} of {RECEIVES}");
        &self.receives[buffer as usize * SEND_MAX..][..len as usize]
    }

    /// Takes a receive buffer back from the user.
    pub fn release(&mut self, buffer: u16) {
        let in_use = (buffer as usize) < RECEIVES && self.used & (1 << buffer) != 0;
        assert!(in_use, "receive buffer {buffer} was released but not received");
        self.used &= !(1 << buffer);
    }
}

impl Deliver for TcpInbox {
    fn done(&mut self, completion: Completion) {
        self.own += 1;
        self.ready.push_back(completion);
    }

    fn landed(&mut self, into: u32, bytes: &[u8]) {
        self.landing[into as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn arrived(&mut self, imm: u32, len: u32) {
        self.arrivals += 1;
        self.ready.push_back(Completion::Arrived { imm, len });
    }

    fn message(&mut self, bytes: &[u8]) {
        let buffer = self.used.trailing_ones() as usize;
        assert!(buffer < RECEIVES, "a message was let in while all receive buffers are in use");
        self.used |= 1 << buffer;
        if self.receives.is_empty() {
            self.receives.resize(RECEIVES * SEND_MAX, 0);
        }
        self.receives[buffer * SEND_MAX..][..bytes.len()].copy_from_slice(bytes);
        self.ready.push_back(Completion::Message { buffer: buffer as u16, len: bytes.len() as u32 });
    }

    fn is_full(&self) -> bool {
        self.arrivals >= ARRIVALS_MAX
    }

    fn fence(&mut self) {
        self.ready.retain(|completion| matches!(completion, Completion::Done(..)));
        self.arrivals = 0;
    }
}

#[derive(Debug)]
enum Note {
    Done(Completion),
    Landed { into: u32, len: u32 },
    Arrived { imm: u32, len: u32 },
    Message { len: u32 },
}

/// What happened since the user's last poll. Its bytes are bounded by the READ window and the receive
/// buffers.
#[derive(Debug, Default)]
pub struct Relay {
    notes: VecDeque<Note>,
    bytes: Vec<u8>,
    own: usize,
    arrivals: usize,
}

impl Relay {
    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Completions of our own requests inside.
    pub fn own(&self) -> usize {
        self.own
    }

    /// Bytes of READs and messages inside.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Tells the inbox everything, oldest first, and is empty.
    pub fn replay(&mut self, inbox: &mut TcpInbox) {
        let mut at = 0;
        let mut bytes = |len: u32| {
            at += len as usize;
            at - len as usize..at
        };
        for note in self.notes.drain(..) {
            match note {
                Note::Done(completion) => inbox.done(completion),
                Note::Landed { into, len } => inbox.landed(into, &self.bytes[bytes(len)]),
                Note::Arrived { imm, len } => inbox.arrived(imm, len),
                Note::Message { len } => inbox.message(&self.bytes[bytes(len)]),
            }
        }
        self.bytes.clear();
        (self.own, self.arrivals) = (0, 0);
    }
}

impl Deliver for Relay {
    fn done(&mut self, completion: Completion) {
        self.own += 1;
        self.notes.push_back(Note::Done(completion));
    }

    fn landed(&mut self, into: u32, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.notes.push_back(Note::Landed { into, len: bytes.len() as u32 });
    }

    fn arrived(&mut self, imm: u32, len: u32) {
        self.arrivals += 1;
        self.notes.push_back(Note::Arrived { imm, len });
    }

    fn message(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.notes.push_back(Note::Message { len: bytes.len() as u32 });
    }

    fn is_full(&self) -> bool {
        self.arrivals >= ARRIVALS_MAX
    }
    fn fence(&mut self) {
        // Bytes lie in the order of their notes, so both are gone through together.
        let (mut at, old) = (0, std::mem::take(&mut self.bytes));
        self.notes.retain(|note| {
            let (len, keep) = match note {
                Note::Done(_) => (0, true),
                Note::Landed { len, .. } => (*len as usize, true),
                Note::Message { len } => (*len as usize, false),
                Note::Arrived { .. } => (0, false),
            };
            if keep {
                self.bytes.extend_from_slice(&old[at..at + len]);
            }
            at += len;
            keep
        });
        self.arrivals = 0;
    }
}
