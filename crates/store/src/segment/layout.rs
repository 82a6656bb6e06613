//! Segment table: one cache line a segment, in the first segments of the arena. Frozen: inspectors, saved
//! arenas and later followers depend on it.
//!
//! Line 0 describes the arena: `checksum, magic, version, segments, table segments, segment bytes, 0, 0`.
//! Line i, once segment i has been claimed (all zero before):
//! ```text
//!  0  checksum of the next five words, seeded with the line's offset
//!  8  generation u24 << 32 | stream u16 << 16 | lane u8 << 8 | state u8
//! 16  run u32 << 32 | stride u32 (bytes; zero in a run)
//! 24  claim csn: the stable point when it was last claimed; of a free segment, when it was freed
//! 32  claim number: counts the claims of the arena; kept when it is free
//! 40  term in which it was claimed (39 bits)
//! 48  tail: bytes of the segment handed out as rooms; outside the checksum
//! 56  zero
//! ```
//! `run` of a run's head is its length in segments, of its body the distance to the head, otherwise 1.
//! The thread that claims, seals or frees the segment writes its line (one at a time: `owner.rs`); the writer
//! that owns the segment writes the tail. `verify.rs` and inspectors read, at any moment; clients never do.
//! (1) On the leader a line says Active only after every room of the segment has a zero checksum word
//!     (L4).
//! (2) Generation and claim number grow with every claim, also over a change of the leader. Term and
//!     generation together name one use of a segment, and nothing written for another use verifies as an
//!     entry of it. After 2^24 claims in one term the generations start over; that many claims take days even
//!     of a segment that is claimed again whenever its quarantine ends.
//! (3) A segment belongs to one stream from its claim until it is free (LoLKV 3.1.1).
//! (4) On a follower a line is the same from the claim until the segment is free: sealed, or head of a run
//!     (`reader.rs`, `Line::of_replicas`).

use longarm_base::limits::{LINE, SEGMENT_BYTES, SEGMENTS_MAX};

/// "longarm" and a zero byte.
pub const MAGIC: u64 = 0x006D_7261_676E_6F6C;
/// Version of entry and segment layout.
pub const VERSION: u64 = 2;
/// Offset of the word of run and stride in a line.
pub const STRIDE: u64 = 16;
/// Offset of the claim's number in a line.
pub const CLAIM: u64 = 32;
/// Offset of the tail in a line.
pub const TAIL: u64 = 48;
/// Offset of the term in a line.
pub const TERM: u64 = 40;
/// Segment lines of one table segment.
pub const LINES: u64 = SEGMENT_BYTES / LINE;

const _: () = {
    assert!(TAIL.is_multiple_of(8) && TAIL + 16 == LINE && TERM + 8 == TAIL);
    assert!(SEGMENTS_MAX < 1 << 32);
    assert!(SEGMENT_BYTES < 1 << 32);
};

/// The use of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum SegmentState {
    /// None: it may be claimed.
    Free = 0,
    /// Its stream adds entries.
    Active = 1,
    /// Full; entries only die.
    Sealed = 2,
    /// First segment of a run that one large entry fills.
    RunHead = 3,
    /// Any other segment of a run.
    RunBody = 4,
    /// Every entry is dead; waits until no READ of it can still be accepted.
    Quarantined = 5,
}

impl SegmentState {
    /// The state of these bits.
    pub const fn from_bits(bits: u64) -> Option<SegmentState> {
        Some(match bits {
            0 => SegmentState::Free,
            1 => SegmentState::Active,
            2 => SegmentState::Sealed,
            3 => SegmentState::RunHead,
            4 => SegmentState::RunBody,
            5 => SegmentState::Quarantined,
            _ => return None,
        })
    }
}

/// The filler of a segment. Survivors of collection are apart from new entries: they live longer, and writes
/// do not use up segments that came out of the reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Lane {
    /// New entries.
    Write = 0,
    /// Moved entries.
    Move = 1,
}

/// Offset of the line of a segment.
pub const fn line_at(segment: u32) -> u64 {
    segment as u64 * LINE
}

/// Offset of a segment.
pub const fn segment_at(segment: u32) -> u64 {
    segment as u64 * SEGMENT_BYTES
}

/// The segment that holds this offset.
pub const fn segment_of(offset: u64) -> u32 {
    (offset / SEGMENT_BYTES) as u32
}

/// Segments that the table of an arena of `segments` takes.
pub const fn table_segments(segments: u64) -> u64 {
    segments.div_ceil(LINES)
}

/// Bytes of the arena of a server with so much memory: whole segments for it, and those of the table.
pub fn arena_bytes(memory: u64) -> u64 {
    let segments = memory.div_ceil(SEGMENT_BYTES);
    let table = (segments * LINE).div_ceil(SEGMENT_BYTES);
    (segments + table).min(SEGMENTS_MAX) * SEGMENT_BYTES
}
