//! Messages of any length by WRITE_WITH_IMM into the receiver's ring (continuity hashing III.B; HERD's and
//! FaRM's message paths are alike).
//!
//! Each side has a ring in its own memory, which only the peer writes, and a cursor into the peer's ring. A
//! message is one frame, or several with MORE set on all but the last. A frame is a 16-byte header `[length
//! u32 | flags u32] [consumed u64]` and the body, padded to 16; it never wraps: where the end of the ring is
//! too near, the next frame starts at its beginning. `consumed` is the credit: how many bytes of the opposite
//! ring its owner has taken so far. A sender whose peer keeps up stays near the beginning of the ring
//! ([`HOME`]): so a ring takes as much memory, and as much of the caches, as is ever under way in it.
//! (1) A sender never has more than a ring of unconsumed bytes, so nothing unread is overwritten (C8).
//! (2) The immediate is the frame's offset / 16. It is a hint: the receiver accepts only the offset it
//!     expects next.
//! (3) Lengths are checked before use; a peer that breaks the rules gets [`BadFrame`], and its connection is
//!     dropped.

use longarm_base::RegionId;
use longarm_memory::{Mapped, Words};

use crate::contract::{Op, PostError, QueuePair, Ticket, WRITE_MAX};

const HEADER: usize = 16;
const MORE: u32 = 1;

/// Smallest ring: a frame of useful size is a quarter of it.
pub const RING_MIN: u64 = 4096;

/// Bytes after which a sender goes back to the beginning of a ring of which the owner has taken everything.
const HOME: u64 = 8192;

/// The peer broke the ring's rules.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("bad frame in the message ring: {0}")]
pub struct BadFrame(pub &'static str);

/// Both directions of one connection's messages.
pub struct Mailbox {
    own: Mapped,
    own_bytes: u64,
    /// Bytes of our ring taken so far, and up to which the peer was last told, or needs to be told nothing.
    taken: u64,
    told: u64,
    /// The end of the part of our ring that was ever used.
    reached: u64,
    message: Vec<u8>,
    complete: bool,
    message_max: usize,
    remote: RegionId,
    remote_bytes: u64,
    /// Bytes put into the peer's ring so far, and how many of them it has taken.
    sent: u64,
    credited: u64,
    /// Where this side last went back to the beginning of the peer's ring: what is below was taken, or was
    /// skipped, and needs no credit.
    home: u64,
    frame: Vec<u8>,
    backlog: Vec<u8>,
    backlog_at: usize,
}

impl Mailbox {
    /// Messages up to `message_max` bytes over our ring `own` and the peer's ring `remote` of `remote_bytes`.
    pub fn new(own: Mapped, remote: RegionId, remote_bytes: u64, message_max: usize) -> Mailbox {
        let own_bytes = own.bytes();
        assert!(own_bytes >= RING_MIN && remote_bytes >= RING_MIN, "a ring has at least {RING_MIN} bytes");
        assert!(own_bytes.is_multiple_of(64) && remote_bytes.is_multiple_of(64), "a ring is whole lines");
        Mailbox {
            own,
            own_bytes,
            taken: 0,
            told: 0,
            reached: 0,
            message: Vec::new(),
            complete: false,
            message_max,
            remote,
            remote_bytes,
            sent: 0,
            credited: 0,
            home: 0,
            frame: Vec::new(),
            backlog: Vec::new(),
            backlog_at: 0,
        }
    }

    /// Longest body of one frame into a ring of this size: four fit.
    fn body_max(ring: u64) -> usize {
        (ring as usize / 4).min(WRITE_MAX) / 16 * 16 - HEADER
    }

    /// Sends the concatenation of `parts`. [`PostError::Full`] means that the peer is behind: poll, then try
    /// again. A message longer than the ring's free room is taken whole and sent by later
    /// [`pump`](Self::pump)s.
    pub fn send(&mut self, qp: &mut impl QueuePair, parts: &[&[u8]]) -> Result<(), PostError> {
        if !self.backlog.is_empty() {
            self.pump(qp)?;
            if !self.backlog.is_empty() {
                return Err(PostError::Full);
            }
        }
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len <= Self::body_max(self.remote_bytes) {
            return self.send_frame(qp, parts, len, 0);
        }
        self.backlog.clear();
        parts.iter().for_each(|part| self.backlog.extend_from_slice(part));
        self.backlog_at = 0;
        self.pump(qp)
    }

    /// Continues a long message, and tells the peer of our progress where it waits for that.
    pub fn pump(&mut self, qp: &mut impl QueuePair) -> Result<(), PostError> {
        while self.backlog_at < self.backlog.len() {
            let backlog = std::mem::take(&mut self.backlog);
            let rest = &backlog[self.backlog_at..];
            let part = &rest[..rest.len().min(Self::body_max(self.remote_bytes))];
            let flags = if part.len() < rest.len() { MORE } else { 0 };
            let sent = self.send_frame(qp, &[part], part.len(), flags);
            let moved = part.len();
            self.backlog = backlog;
            match sent {
                Ok(()) => self.backlog_at += moved,
                Err(PostError::Full) => break,
                Err(other) => return Err(other),
            }
        }
        if self.backlog_at == self.backlog.len() {
            self.backlog.clear();
            self.backlog_at = 0;
        }
        if self.taken - self.told > self.own_bytes / 2 {
            match self.probe(qp) {
                Ok(()) | Err(PostError::Full) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Sends a frame without a body, which is no message. A connection whose other end is gone breaks over
    /// it, where nothing else tells.
    pub fn probe(&mut self, qp: &mut impl QueuePair) -> Result<(), PostError> {
        // Within a long message it must not end it.
        let flags = if self.is_sending() { MORE } else { 0 };
        self.send_frame(qp, &[], 0, flags)
    }

    /// Whether a long message is still partly unsent.
    pub fn is_sending(&self) -> bool {
        !self.backlog.is_empty()
    }

    fn send_frame(
        &mut self,
        qp: &mut impl QueuePair,
        parts: &[&[u8]],
        len: usize,
        flags: u32,
    ) -> Result<(), PostError> {
        let size = (HEADER + len).next_multiple_of(16) as u64;
        let offset = self.sent % self.remote_bytes;
        let under_way = self.sent - self.credited.max(self.home);
        let goes_home = under_way == 0 && offset >= HOME;
        let back = goes_home || offset + size > self.remote_bytes;
        let skip = if back { self.remote_bytes - offset } else { 0 };
        if !goes_home && under_way + skip + size > self.remote_bytes {
            return Err(PostError::Full);
        }
        self.frame.clear();
        self.frame.extend_from_slice(&(len as u32).to_le_bytes());
        self.frame.extend_from_slice(&flags.to_le_bytes());
        self.frame.extend_from_slice(&self.taken.to_le_bytes());
        parts.iter().for_each(|part| self.frame.extend_from_slice(part));
        self.frame.resize((HEADER + len).next_multiple_of(8), 0);
        let at = (self.sent + skip) % self.remote_bytes;
        let imm = (at / 16) as u32;
        qp.post(Op::WriteImm { region: self.remote, offset: at, bytes: &self.frame, imm }, Ticket::SILENT)?;
        if goes_home {
            self.home = self.sent + skip;
        }
        self.sent += skip + size;
        self.told = self.taken;
        Ok(())
    }

    /// Takes the frame that a `Completion::Arrived` announced; `true` if it completed a message, which
    /// [`message`](Self::message) then shows until the next call.
    #[inline]
    pub fn receive(&mut self, imm: u32, len: u32) -> Result<bool, BadFrame> {
        if std::mem::take(&mut self.complete) {
            self.message.clear();
        }
        let expected = self.taken % self.own_bytes;
        let at = u64::from(imm) * 16;
        let skip = match at {
            at if at == expected => 0,
            0 => self.own_bytes - expected,
            _ => return Err(BadFrame("not where the next one belongs")),
        };
        if (len as usize) < HEADER || at + u64::from(len) > self.own_bytes {
            return Err(BadFrame("shorter than its header, or past the end"));
        }
        let mut header = [0; HEADER];
        self.own.copy_out(at, &mut header);
        let field = |i: usize| u32::from_le_bytes(header[i..i + 4].try_into().expect("four bytes"));
        let (body, flags) = (field(0) as usize, field(4));
        let consumed = u64::from_le_bytes(header[8..].try_into().expect("eight bytes"));
        if (HEADER + body).next_multiple_of(8) != len as usize || flags & !MORE != 0 {
            return Err(BadFrame("length or flags make no sense"));
        }
        if consumed < self.credited || consumed > self.sent {
            return Err(BadFrame("credit for bytes that were not sent"));
        }
        if self.message.len() + body > self.message_max {
            return Err(BadFrame("message longer than allowed"));
        }
        let start = self.message.len();
        self.message.resize(start + body, 0);
        self.own.copy_out(at + HEADER as u64, &mut self.message[start..]);
        let size = (HEADER + body).next_multiple_of(16) as u64;
        // A sender that went home had everything taken, and needs no credit for what it skipped.
        if skip > 0 && expected + size <= self.own_bytes {
            self.told += skip;
        }
        self.taken += skip + size;
        self.reached = self.reached.max(at + u64::from(len));
        self.credited = consumed;
        self.complete = flags & MORE == 0 && !self.message.is_empty();
        Ok(self.complete)
    }

    /// The beginning of the body of a frame that a `Completion::Arrived` announced and that is not taken yet:
    /// a hint, of which nothing was checked.
    #[inline]
    pub fn peek<'a>(&self, imm: u32, len: u32, beginning: &'a mut [u8]) -> &'a [u8] {
        let (at, len) = (u64::from(imm) * 16, len as usize);
        if len < HEADER || at + len as u64 > self.own_bytes {
            return &[];
        }
        let seen = beginning.len().min(len - HEADER);
        self.own.copy_out(at + HEADER as u64, &mut beginning[..seen]);
        &beginning[..seen]
    }

    /// The message that the last [`receive`](Self::receive) completed.
    pub fn message(&self) -> &[u8] {
        if self.complete { &self.message } else { &[] }
    }

    /// Bytes of memory that it takes: of our ring, the pages that were used.
    pub fn held_bytes(&self) -> usize {
        let buffers = self.message.capacity() + self.frame.capacity() + self.backlog.capacity();
        self.reached.next_multiple_of(4096) as usize + buffers
    }

    /// Gives a large message's memory back once it was handled.
    pub fn shrink(&mut self) {
        if self.message.capacity() > 1 << 20 {
            self.message = Vec::new();
            self.complete = false;
        }
        if self.backlog.is_empty() && self.backlog.capacity() > 1 << 20 {
            self.backlog = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;
