//! Where outgoing bytes wait: a registered ring, taken and given back in the order of posting.

use longarm_ibverbs as ib;

use crate::WRITE_MAX;

/// Its size.
pub(super) const BYTES: usize = 192 << 10;
/// So many bytes may be taken by silent requests that nothing signalled follows.
pub(super) const UNSIGNALLED: usize = BYTES / 8;

// Wherever those lie, the longest WRITE fits beside them: a sender of silent requests is never stuck for
// good.
const _: () = assert!((BYTES - UNSIGNALLED) / 2 >= WRITE_MAX);

/// Places are given out in lines.
const LINE: usize = 64;

/// The ring. Positions count all bytes ever taken.
#[derive(Debug)]
pub(super) struct Staging {
    pub buffer: ib::Buffer,
    head: u64,
    tail: u64,
}

/// A place in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StagingPlace {
    /// Byte offset in the buffer.
    pub at: usize,
    /// Position behind it, to give back.
    pub end: u64,
}

impl Staging {
    pub fn new(buffer: ib::Buffer) -> Staging {
        Staging { buffer, head: 0, tail: 0 }
    }

    /// `len` bytes that lie together, or `None` until some are given back.
    pub fn take(&mut self, len: usize) -> Option<StagingPlace> {
        let size = BYTES as u64;
        let len = len.max(1).next_multiple_of(LINE) as u64;
        if self.head == self.tail {
            // Empty: begin at the beginning, where everything fits.
            (self.head, self.tail) = (0, 0);
        }
        let at = self.head % size;
        let skip = if at + len > size { size - at } else { 0 };
        if self.head + skip + len - self.tail > size {
            return None;
        }
        self.head += skip + len;
        Some(StagingPlace { at: ((self.head - len) % size) as usize, end: self.head })
    }

    /// Everything before the position is free.
    pub fn give_back(&mut self, end: u64) {
        debug_assert!(self.tail <= end && end <= self.head, "given back in the order of posting");
        self.tail = end;
    }
}
