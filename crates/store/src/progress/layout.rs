//! Bytes of the region that says how far the streams of a leader are.
//!
//! Line of stream `i`, at `64 * i`, little-endian words:
//! ```text
//!  0 written    all positions below are whole in the leader's arena
//!  8 committed  all positions below are committed: no slot of the index shows a later one
//! 16 applied    all positions below are applied: readers of the index find them, or what replaced them
//! 24 low        for the leader alone: at most the csn of each entry that is written and not applied
//! 32 zeroes
//! ```
//! The first three are `position: 40 | term counter, low bits: 24`, low bits first: a word says of which term
//! it is. Within a term each only grows, and at every instant `applied <= shown by the index <= committed <=
//! written` (decision 30). A word of an older term counts for nothing.
//!
//! Directory of stream `i`, at [`directory_at`]: where the entries of the last [`DIRECTORY`] positions are.
//! The word of position `p` is word `p mod DIRECTORY`: `offset / 64: 34 | p / DIRECTORY, low bits: 30`. It is
//! a hint: what counts is an entry that verifies, of this term, stream and position. The word is stored
//! before
//! `written` passes the position.

use longarm_base::limits::LINE;
use longarm_base::{RegionId, Term};

/// The region.
pub const PROGRESS_REGION: RegionId = RegionId(5);
/// The most streams of a term: one a worker, and one of the maintenance thread.
pub const STREAMS_MAX: usize = 1 << 10;
/// Positions of which a stream's directory knows the places: the last so many.
pub const DIRECTORY: u64 = 1 << 15;

/// Words of a stream's line, in bytes from its start.
pub mod line {
    /// Positions written.
    pub const WRITTEN: u64 = 0;
    /// Positions committed.
    pub const COMMITTED: u64 = 8;
    /// Positions applied.
    pub const APPLIED: u64 = 16;
    /// Low bound of the csns under way.
    pub const LOW: u64 = 24;
    /// Bytes of the words that are in use.
    pub const BYTES: u64 = 32;
}

/// Bits of a position in a word of progress.
pub const POSITION_BITS: u32 = 40;
/// Bits of an offset in a word of a directory, in lines.
pub const OFFSET_BITS: u32 = 34;

/// Offset of a stream's line.
pub const fn line_at(stream: usize) -> u64 {
    stream as u64 * LINE
}

/// Offset of a stream's directory.
pub const fn directory_at(stream: usize) -> u64 {
    STREAMS_MAX as u64 * LINE + stream as u64 * DIRECTORY * 8
}

/// Offset of the word of a position in its stream's directory.
pub const fn entry_at(stream: usize, position: u64) -> u64 {
    directory_at(stream) + position % DIRECTORY * 8
}

/// Bytes of the region of a leader with so many streams.
pub const fn bytes(streams: usize) -> u64 {
    directory_at(streams)
}

/// A word of progress.
pub const fn progress_word(term: Term, position: u64) -> u64 {
    position | (term.counter() as u64) << POSITION_BITS
}

/// The position of a word of progress, if the word is of this term.
pub const fn position_of(word: u64, term: Term) -> Option<u64> {
    let is_of_term = word >> POSITION_BITS == progress_word(term, 0) >> POSITION_BITS;
    if is_of_term { Some(word & ((1 << POSITION_BITS) - 1)) } else { None }
}

/// A word of a directory: where the entry at a position is.
pub const fn directory_word(position: u64, offset: u64) -> u64 {
    offset / LINE | position / DIRECTORY << OFFSET_BITS
}

/// The offset that a word of a directory has for this position; `None` if it is the word of another one.
pub const fn offset_of(word: u64, position: u64) -> Option<u64> {
    let is_of_position = word >> OFFSET_BITS == directory_word(position, 0) >> OFFSET_BITS;
    let line = word & ((1 << OFFSET_BITS) - 1);
    if is_of_position && line != 0 { Some(line * LINE) } else { None }
}

const _: () = {
    assert!(line::BYTES <= LINE && DIRECTORY.is_power_of_two());
    assert!(OFFSET_BITS + 30 == 64 && POSITION_BITS + 24 == 64);
};
