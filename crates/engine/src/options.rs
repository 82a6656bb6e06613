//! What an engine is asked to be, and why it could not be made.

use longarm_base::{Nanos, Term};
use longarm_index::hash::SlotKind;

/// What a full memory does to a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Eviction {
    /// It is refused.
    #[default]
    None,
    /// Items that were not used lately go (approximately: see `reclaim/evict.rs`).
    Lru,
}
/// How to build an engine.
#[derive(Clone, Copy)]
pub struct EngineOptions {
    /// Threads that write; one more stream is the maintenance thread's.
    pub workers: u16,
    /// Kind of index slots.
    pub slots: SlotKind,
    /// Items to have room for before the index first grows.
    pub expected_items: u64,
    /// In a group: items that the arena will be found to hold, as far as is known; zero if it is not.
    pub found_items: u64,
    /// The index takes its memory at once, rather than a little at a time.
    pub populate: bool,
    /// Key of the hashes, which nobody outside can guess.
    pub hash_key: u64,
    /// What a full memory does to a write.
    pub eviction: Eviction,
    /// How long what is freed may still be read by clients.
    pub quarantine: Nanos,
    /// In a group: the leader's term. The arena then is one that its replicas filled.
    pub term: Option<Term>,
}

/// Why an engine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateEngineError {
    /// The index does not fit the limit.
    #[error("an index for {expected} items does not fit a memory limit of {memory} bytes")]
    Index {
        /// Items expected.
        expected: u64,
        /// The limit.
        memory: u64,
    },
    /// The arena could not be laid out.
    #[error("cannot lay out the arena: {0}")]
    Arena(#[from] longarm_store::CreateStoreError),
}
