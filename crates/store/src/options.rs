//! The options of a store, and its answers when it cannot take an entry.

use longarm_base::limits::{KEY_MAX, SEGMENT_BYTES, VALUE_MAX};

use crate::segment::LineError;
use longarm_base::{Csn, EntryRef, Nanos, Term};

/// The options of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Segments that only collection may take, so that it never starves (LoLKV leaves this open: L21).
    pub reserve: u32,
    /// How many of them only records of sessions may take, by
    /// [`Writer::draft_record`](crate::Writer::draft_record). Without room for these no dead segment is
    /// freed.
    pub records: u32,
    /// Streams, one a worker.
    pub streams: u16,
    /// The time between the death of a segment and its reuse; longer than any READ that may still be
    /// accepted.
    pub quarantine: Nanos,
    /// Free segments up to which the pages of a freed one are kept for the next claim, instead of given back
    /// to the system.
    pub pool: u32,
    /// The term in which this store writes; [`Term::ZERO`] on a node that is not replicated.
    pub term: Term,
    /// Whether a dead segment whose quarantine is over waits for [`Store::released`](crate::Store::released)
    /// before it is freed; the collector names it as a [`Work::Release`](crate::Work::Release).
    pub ask_release: bool,
    /// Whether the arena is persistent memory, which a store over it may outlive
    /// ([`Store::reopen`](crate::Store::reopen)): a segment's line is persistent before an entry is in it,
    /// and freed segments keep their memory.
    pub persistent: bool,
    /// Whether items are evicted. Then a segment can be emptied without room for what is left in it.
    pub evicts: bool,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            reserve: 2,
            records: 0,
            streams: 1,
            quarantine: Nanos::from_millis(50),
            pool: 4,
            term: Term::ZERO,
            ask_release: false,
            persistent: false,
            evicts: false,
        }
    }
}

/// Why a store could not be created, or could not take over an arena.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CreateStoreError {
    /// The region is no whole number of segments, or has too few or too many.
    #[error(
        "an arena needs {least} to {most} whole segments of {SEGMENT_BYTES} bytes,
            this region has {bytes} bytes"
    )]
    Size {
        /// Size of the region.
        bytes: u64,
        /// Fewest segments with these options.
        least: u64,
        /// Most segments.
        most: u64,
    },
    /// The region is not fresh.
    #[error("the region already holds data: create the arena in a new file, or remove the old one first")]
    NotEmpty,
    /// The budget cannot hold the table and the reserve.
    #[error(
        "the memory limit of {limit} bytes ({used} used) \
         leaves no room for the segment table and the reserve ({wanted} bytes): raise the limit"
    )]
    Budget {
        /// Bytes needed.
        wanted: u64,
        /// The limit.
        limit: u64,
        /// Bytes others have taken.
        used: u64,
    },
    /// The region to take over holds no arena.
    #[error("the region cannot be taken over: {0}")]
    Arena(#[from] LineError),
    /// The arena to take over was written in this term, or in a later one.
    #[error("segment {segment} was claimed in term {found}: term {term} cannot take the arena over")]
    Term {
        /// A segment of that term.
        segment: u32,
        /// The highest term in the table.
        found: Term,
        /// The term of the store to be.
        term: Term,
    },
    /// What names an entry of a persistent arena is wrong.
    #[error("the entry of version {} at {:#x} of the arena is not there: it is damaged", csn.0, place.offset)]
    Named {
        /// Where it is said to be.
        place: EntryRef,
        /// Its version.
        csn: Csn,
    },
    /// No streams, or more than an entry can name.
    #[error("a store needs 1 to 65535 streams")]
    Streams,
}

/// The limit that keeps an entry out. Reads, deletes and collection continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreFull {
    /// The memory limit of the server.
    #[error("out of memory: {used} of {limit} bytes are used; delete items or raise the memory limit")]
    Budget {
        /// The limit.
        limit: u64,
        /// Bytes taken.
        used: u64,
    },
    /// All segments but the reserve are in use.
    #[error(
        "out of memory: all {total} segments of the arena are in use; delete items or make the arena larger"
    )]
    Segments {
        /// Segments of the arena.
        total: u32,
    },
    /// A large value needs more neighbouring free segments than there are.
    #[error(
        "out of memory: a value needs {wanted} neighbouring free segments and the longest run has {longest}; \
         delete items or make the arena larger"
    )]
    Run {
        /// Segments the entry takes.
        wanted: u32,
        /// Longest run of free segments.
        longest: u32,
    },
    /// Segments are kept for a write that has waited for long.
    #[error("out of memory: another write has waited for longer; try again")]
    Kept,
}

/// Why an entry could not be begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DraftError {
    /// The key is empty or too long.
    #[error("a key has 1 to {KEY_MAX} bytes, this one has {0}")]
    Key(usize),
    /// The value is too long.
    #[error("a value has at most {VALUE_MAX} bytes, this one has {0}")]
    Value(usize),
    /// No room.
    #[error(transparent)]
    Full(#[from] StoreFull),
}

/// Why a piece of a value was refused. The draft is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FillError {
    /// Pieces come in order, without gaps.
    #[error("the next piece starts at byte {expected} of the value, not at {got}")]
    Order {
        /// First byte that is missing.
        expected: u64,
        /// First byte of the piece.
        got: u64,
    },
    /// The piece reaches beyond the length that was announced.
    #[error("the piece ends at byte {end} of a value of {len} bytes")]
    Beyond {
        /// First byte after the piece.
        end: u64,
        /// Length announced.
        len: u64,
    },
}
