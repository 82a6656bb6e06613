//! Parts of memory that remembers: structures that each have one tell the order of all their stores.

use std::sync::Arc;

use longarm_base::limits::LINE;

use crate::journal::{Cut, Journal};
use crate::words::{OwnedWords, Words};

/// A part of memory.
pub struct Part<M> {
    whole: Arc<M>,
    start: u64,
    bytes: u64,
}

/// A part of journalled memory.
pub type JournalPart = Part<Journal>;

impl<M> Clone for Part<M> {
    fn clone(&self) -> Part<M> {
        Part { whole: self.whole.clone(), ..*self }
    }
}

impl<M: Words> Part<M> {
    /// The `bytes` bytes from `start` on.
    pub fn new(whole: &Arc<M>, start: u64, bytes: u64) -> Part<M> {
        assert!(start.is_multiple_of(LINE) && start + bytes <= whole.bytes());
        Part { whole: whole.clone(), start, bytes }
    }

    /// Where a range of this part begins in the whole.
    fn place(&self, at: u64, len: u64) -> u64 {
        assert!(at + len <= self.bytes, "{len} bytes at {at} are not within {}", self.bytes);
        self.start + at
    }
}

impl JournalPart {
    /// Every distinct outcome of a READ of this part, as [`Journal::cuts`].
    pub fn cuts(&self, at: u64, len: usize, from: usize, to: usize) -> Vec<Cut> {
        self.whole.cuts(self.place(at, len as u64), len, from, to)
    }
}

impl<M: Words> Words for Part<M> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn load(&self, at: u64) -> u64 {
        self.whole.load(self.place(at, 8))
    }

    fn copy_out(&self, at: u64, into: &mut [u8]) {
        self.whole.copy_out(self.place(at, into.len() as u64), into);
    }
}

impl<M: OwnedWords> OwnedWords for Part<M> {
    fn store(&self, at: u64, word: u64) {
        self.whole.store(self.place(at, 8), word);
    }

    fn compare_exchange(&self, at: u64, expected: u64, new: u64) -> Result<(), u64> {
        self.whole.compare_exchange(self.place(at, 8), expected, new)
    }

    fn fetch_add(&self, at: u64, more: u64) -> u64 {
        self.whole.fetch_add(self.place(at, 8), more)
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        self.whole.copy_in(self.place(at, bytes.len() as u64), bytes);
    }

    fn discard(&self, at: u64, len: u64) {
        self.whole.discard(self.place(at, len), len);
    }

    fn flush(&self, at: u64, len: u64) {
        self.whole.flush(self.place(at, len), len);
    }

    fn fence(&self) {
        self.whole.fence();
    }
}
