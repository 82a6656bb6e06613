//! Memory that counts what makes stores persistent.

use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::limits::LINE;

use crate::words::{OwnedWords, Words};

/// How often lines were written back, and fenced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PersistentWrites {
    /// Cache lines that were flushed: the "PM writes" of Continuity hashing V.B.
    pub lines: u64,
    /// Fences behind them.
    pub fences: u64,
}

/// Memory that counts what is flushed and fenced, and is otherwise as it is.
pub struct Counted<M> {
    memory: M,
    lines: AtomicU64,
    fences: AtomicU64,
}

impl<M> Counted<M> {
    /// Counts from zero.
    pub fn new(memory: M) -> Counted<M> {
        Counted { memory, lines: AtomicU64::new(0), fences: AtomicU64::new(0) }
    }

    /// What was counted since this was asked last.
    pub fn take(&self) -> PersistentWrites {
        // Relaxed: figures, each by itself.
        let (lines, fences) = (self.lines.swap(0, Ordering::Relaxed), self.fences.swap(0, Ordering::Relaxed));
        PersistentWrites { lines, fences }
    }
}

impl<M: Words> Words for Counted<M> {
    fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    fn load(&self, at: u64) -> u64 {
        self.memory.load(at)
    }

    fn copy_out(&self, at: u64, into: &mut [u8]) {
        self.memory.copy_out(at, into);
    }
}

impl<M: OwnedWords> OwnedWords for Counted<M> {
    fn store(&self, at: u64, word: u64) {
        self.memory.store(at, word);
    }

    fn compare_exchange(&self, at: u64, expected: u64, new: u64) -> Result<(), u64> {
        self.memory.compare_exchange(at, expected, new)
    }

    fn fetch_add(&self, at: u64, more: u64) -> u64 {
        self.memory.fetch_add(at, more)
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        self.memory.copy_in(at, bytes);
    }

    fn discard(&self, at: u64, len: u64) {
        self.memory.discard(at, len);
    }

    fn flush(&self, at: u64, len: u64) {
        // Relaxed: as in `take`.
        self.lines.fetch_add((at + len).div_ceil(LINE) - at / LINE, Ordering::Relaxed);
        self.memory.flush(at, len);
    }

    fn fence(&self) {
        // Relaxed: as in `take`.
        self.fences.fetch_add(1, Ordering::Relaxed);
        self.memory.fence();
    }
}
