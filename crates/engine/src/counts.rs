//! What is counted over all threads of an engine.

use std::sync::atomic::{AtomicU64, Ordering};

use longarm_wire::Status;

use crate::outcome::Outcome;

/// What is counted over all workers. All Relaxed: they publish nothing else.
#[derive(Debug, Default)]
pub struct EngineCounts {
    /// Items evicted.
    pub evicted: AtomicU64,
    /// Items found to be over, and taken away or replaced.
    pub expired: AtomicU64,
    /// Writes refused for want of memory.
    pub refused: AtomicU64,
    /// Writes refused because too many keys have one place in the index.
    pub crowded: AtomicU64,
    /// Entries that collection moved.
    pub moved: AtomicU64,
    /// Dead segments kept because of an entry that nothing explains.
    pub held_back: AtomicU64,
}

impl EngineCounts {
    /// A write is refused, as its pair of the index takes no more keys.
    pub fn crowded(&self) -> Outcome {
        // Relaxed: a counter.
        self.crowded.fetch_add(1, Ordering::Relaxed);
        Outcome::of(Status::Crowded)
    }
}
