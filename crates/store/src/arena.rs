//! An arena as whoever does not own it sees it.

use longarm_memory::{SumKey, Words};

/// The memory of an arena, and the key of its checksums.
#[derive(Clone, Copy)]
pub struct ArenaView<'a> {
    /// The memory.
    pub memory: &'a dyn Words,
    /// The key.
    pub sums: &'a SumKey,
}
