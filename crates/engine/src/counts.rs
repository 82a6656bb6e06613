//! Counters over all threads of an engine.

use std::sync::atomic::{AtomicU64, Ordering};

use longarm_wire::Status;

use crate::outcome::Outcome;

/// Counters over all workers. All Relaxed: they publish nothing else.
#[derive(Debug, Default)]
pub struct EngineCounts {
    /// Items evicted.
    pub evicted: AtomicU64,
    /// Expired items, taken away or replaced.
    pub expired: AtomicU64,
    /// Writes refused for want of memory.
    pub refused: AtomicU64,
    /// Writes refused because too many keys belong to one pair of the index.
    pub crowded: AtomicU64,
    /// Entries that collection moved.
    pub moved: AtomicU64,
    /// Dead segments kept because of an unexplained entry.
    pub held_back: AtomicU64,
}

impl EngineCounts {
    /// Counts a write that is refused because its pair of the index takes no more keys.
    pub fn crowded(&self) -> Outcome {
        // Relaxed: a counter.
        self.crowded.fetch_add(1, Ordering::Relaxed);
        Outcome::of(Status::Crowded)
    }
}
