//! An arena together with what is needed to check the entries in it.

use longarm_memory::SumKey;

/// The memory of an arena, and the key of its checksums.
#[derive(Clone)]
pub struct CheckedArena<M> {
    /// The memory.
    pub memory: M,
    /// The key.
    pub sums: SumKey,
}
