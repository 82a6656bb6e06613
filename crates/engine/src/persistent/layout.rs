//! Bytes of the root of persistent memory: what a server must know before it can go on from its tables and
//! entries.
//!
//! ```text
//!    0  magic                     8  bytes of the index        16  bytes of the arena
//!   24  bytes of a slot
//!   64  ceiling: no version above it was drawn
//!   72  calendar: no time (unix milliseconds) at or beyond it was told
//!   80  bytes of the index below which every table ended
//!  128  csn of the entry that is being moved, or zero       136  its offset       144  its length
//!  256  geometry record, of an even epoch         512  geometry record, of an odd epoch
//! ```
//! The geometry records are those of the control page.
//! Writes: the server, each word alone or in this order, written back and fenced. Reads: its next life.
//! (1) The magic is stored last, when tables and arena are laid out. Without it there is nothing to go on
//!     from.
//! (2) A version, a time or a table is used once the word or record that allows it is persistent.
//! (3) Of an entry that is being moved offset and length are stored before the csn, which is in their line.

/// Bytes of the root.
pub const BYTES: u64 = 4096;
/// First word: layout version in the low byte.
pub const MAGIC: u64 = u64::from_le_bytes(*b"LARMROO\x01");

/// Offsets.
pub mod at {
    /// [`super::MAGIC`].
    pub const MAGIC: u64 = 0;
    /// Bytes of the index.
    pub const INDEX: u64 = 8;
    /// Bytes of the arena.
    pub const ARENA: u64 = 16;
    /// Bytes of a slot.
    pub const SLOTS: u64 = 24;
    /// No version above it was drawn.
    pub const CEILING: u64 = 64;
    /// No time at or beyond it was told.
    pub const CALENDAR: u64 = 72;
    /// Every table ended below it.
    pub const USED: u64 = 80;
    /// Version of the entry that is being moved.
    pub const MOVING: u64 = 128;
    /// Its place.
    pub const MOVING_OFFSET: u64 = 136;
    /// Its length.
    pub const MOVING_LEN: u64 = 144;
    /// The two geometry records.
    pub const GEOMETRY: [u64; 2] = [256, 512];
}

const _: () = {
    let record = 8 * longarm_index::control::layout::GEOMETRY_WORDS as u64;
    assert!(at::GEOMETRY[0] + record <= at::GEOMETRY[1] && at::GEOMETRY[1] + record <= BYTES);
};
