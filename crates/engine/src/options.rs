//! The options of an engine, and the errors of making one.

use longarm_base::{Nanos, Term};
use longarm_index::hash::{Discipline, SlotKind};
use longarm_memory::Mapped;

/// How a write is treated when memory is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Eviction {
    /// The write is refused.
    #[default]
    None,
    /// Items that were not used lately go (approximately: see `reclaim/evict.rs`).
    Lru,
}
/// The options of an engine.
#[derive(Clone)]
pub struct EngineOptions {
    /// Threads that write; the maintenance thread has one more stream.
    pub workers: u16,
    /// Kind of index slots.
    pub slots: SlotKind,
    /// How the index replaces records. In a group in place: an item there is an entry, too.
    pub discipline: Discipline,
    /// Items that the index has room for before it first grows.
    pub expected_items: u64,
    /// In a group: the number of items that the arena is expected to hold, as far as is known, else zero.
    pub found_items: u64,
    /// The index takes its memory at once, rather than a little at a time.
    pub populate: bool,
    /// Key of the hashes, which an outsider cannot guess.
    pub hash_key: u64,
    /// How a write is treated when memory is full.
    pub eviction: Eviction,
    /// How long clients may still read memory that was freed.
    pub quarantine: Nanos,
    /// In a group: the leader's term. The arena then is one that the replicas of the group filled.
    pub term: Option<Term>,
    /// Of a leader: the region in which its streams say how far they are.
    pub progress: Option<Mapped>,
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
