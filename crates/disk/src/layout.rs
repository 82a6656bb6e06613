//! The file of an arena on a disk. Frozen: a server reads what an earlier one wrote.
//!
//! ```text
//!        0  header, 64 bytes: checksum, magic, version, medium, group, segments, table segments, 0
//!    8 KiB  two blocks of 32 KiB: notes, written in turn (`note.rs`)
//!  128 KiB  segment table: for each page of 63 lines two blocks of 4 KiB, written in turn
//!           a page: checksum, sequence, number, 0 ...; from byte 64 on 63 lines of 64 bytes
//!  then, at the next whole MiB, the segments behind the table's, 1 MiB each, in order
//! ```
//! Words are little-endian. A checksum is of all that follows it in its header, page or note, and seeded with
//! its place in the file. It guards against damage, not against people: its key is no secret.
//! (1) The header is written when the file is made, and never again.
//! (2) Of the two copies of a page or a note the one with the higher number counts, if it verifies. An even
//!     number is in the first copy. The one that was synced last is not written over before the other one is
//!     synced: so whatever a loss of power leaves, the page or the note is the one before or one after.
//! (3) A copy that was cut off is wiped when the file is opened, before anything rests on what the other one
//!     says. Its number is used again.
//! (4) A line that is zero is of a segment that was never claimed.

use longarm_base::limits::{LINE, SEGMENT_BYTES};

/// "longdisk".
pub const MAGIC: u64 = 0x6B73_6964_676E_6F6C;
/// Version of the file.
pub const VERSION: u64 = 1;
/// Bytes of the header that are read.
pub const HEADER_BYTES: u64 = 64;
/// Where the notes begin.
pub const NOTES_AT: u64 = 8 << 10;
/// Bytes of one note's block.
pub const NOTE_BYTES: u64 = 32 << 10;
/// Where the table begins.
pub const TABLE_AT: u64 = 128 << 10;
/// Bytes of one copy of a page of the table.
pub const PAGE_BYTES: u64 = 4096;
/// Where the lines begin in a page.
pub const PAGE_HEADER: u64 = LINE;
/// Lines of one page.
pub const PAGE_LINES: u64 = (PAGE_BYTES - PAGE_HEADER) / LINE;
/// Copies of notes and pages.
pub const COPIES: u64 = 2;
/// The key of the checksums.
pub const SUM_KEY: u64 = 0x6172_656E_6164_736B;

const _: () = {
    assert!(NOTES_AT + COPIES * NOTE_BYTES <= TABLE_AT);
    assert!(PAGE_HEADER + PAGE_LINES * LINE == PAGE_BYTES);
};

/// Words of the header, by number.
pub mod header {
    /// Checksum of the others.
    pub const SUM: usize = 0;
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: usize = 1;
    /// [`VERSION`](super::VERSION).
    pub const VERSION: usize = 2;
    /// The medium: drawn when the file is made.
    pub const MEDIUM: usize = 3;
    /// The group whose replica's it is.
    pub const GROUP: usize = 4;
    /// Segments of the arena, those of its table included.
    pub const SEGMENTS: usize = 5;
    /// Segments that the table of the arena takes.
    pub const TABLE: usize = 6;
}

/// Words of a page's header, by number.
pub mod page {
    /// Checksum of the rest of the page.
    pub const SUM: usize = 0;
    /// How often it was written.
    pub const SEQUENCE: usize = 1;
    /// The number of the page.
    pub const NUMBER: usize = 2;
}

/// Pages of the table of an arena of so many segments.
pub const fn pages(segments: u64) -> u64 {
    segments.div_ceil(PAGE_LINES)
}

/// Where a copy of a page stands.
pub const fn page_at(page: u64, copy: u64) -> u64 {
    TABLE_AT + (COPIES * page + copy) * PAGE_BYTES
}

/// Where a note of this number stands.
pub const fn note_at(number: u64) -> u64 {
    NOTES_AT + number % COPIES * NOTE_BYTES
}

/// Where the segments begin.
pub const fn segments_at(segments: u64) -> u64 {
    (TABLE_AT + COPIES * pages(segments) * PAGE_BYTES).next_multiple_of(SEGMENT_BYTES)
}

/// Bytes of the file of an arena of so many segments, of which its table takes some.
pub const fn file_bytes(segments: u64, table: u64) -> u64 {
    segments_at(segments) + (segments - table) * SEGMENT_BYTES
}
