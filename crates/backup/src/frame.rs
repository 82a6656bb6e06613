//! What a backup has of one use of a segment, byte by byte. Frozen: a program reads what an earlier one
//! wrote.
//!
//! ```text
//!  0  magic u32 | segments u32           segments: one, or those of a run
//!  8  segment u32 | stride u32           stride: bytes of a room, zero in a run
//! 16  claim number
//! 24  claim csn
//! 32  term (39 bits)
//! 40  generation u32 | stream u16 | lane u8 | 0 u8
//! 48  entries u32 | tail u32             tail: of the line when it was copied
//! 56  bytes of the entries
//! ```
//! then the entries, by rooms in ascending order:
//! ```text
//!  0  room u32 | kind u8 | moved u8 | key length u16
//!  8  value length u32 | 0 u32
//! 16  csn
//! 24  position
//! 32  expiry, in unix milliseconds; zero: never
//! 40  key, value
//! ```
//! Words are little-endian. Frames follow each other through the parts of a backup, which have the sums.
//! (1) An entry is here as it was written, superseded or not: whoever reads takes of each key the newest.
//! (2) Operations of clients, and entries that are nothing but their outcome, are left out: who restores a
//!     backup begins another group, in which nobody repeats them.

use longarm_base::limits::{CSN_MAX, KEY_MAX, LINE, SEGMENT_BYTES, SEGMENTS_MAX, VALUE_MAX};
use longarm_base::{Csn, Term, UnixMillis};
use longarm_store::object::layout::{ENTRY_MAX, GENERATION_MAX};
use longarm_store::segment::{Lane, Line, SegmentState};
use longarm_store::{Entry, EntryKind};

/// "SEGM".
const MAGIC: u32 = 0x4D47_4553;
/// Bytes of a frame before its entries.
pub(crate) const HEAD: usize = 64;
/// Bytes of an entry before its key.
const ENTRY: usize = 40;
/// The most entries of a frame.
const ENTRIES_MAX: u32 = (SEGMENT_BYTES / LINE) as u32;
/// The most bytes of the entries of a frame.
const BODY_MAX: u64 =
    (SEGMENT_BYTES + ENTRIES_MAX as u64 * ENTRY as u64).saturating_add((ENTRY + KEY_MAX + VALUE_MAX) as u64);
/// The most segments of a run.
const RUN_MAX: u32 = (ENTRY_MAX as u64).div_ceil(SEGMENT_BYTES) as u32;

/// An entry of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackedEntry<'a> {
    /// The number of its room in the segment.
    pub room: u32,
    /// Its kind: a value, or a tombstone.
    pub kind: EntryKind,
    /// Whether collection copied it.
    pub moved: bool,
    /// Its version.
    pub csn: Csn,
    /// Its position in its stream.
    pub position: u64,
    /// When the item is gone, or [`UnixMillis::NEVER`].
    pub expiry: UnixMillis,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// A frame that is being made, or was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The segment, or the first of the run.
    pub segment: u32,
    /// Its line when it was copied.
    pub line: Line,
    /// The number of entries.
    pub entries: u32,
    bytes: Vec<u8>,
}

impl Frame {
    /// A frame without entries.
    pub(crate) fn new(segment: u32, line: Line) -> Frame {
        Frame { segment, line, entries: 0, bytes: Vec::new() }
    }

    /// Adds an entry behind those of lower rooms.
    pub(crate) fn push(&mut self, room: u32, entry: &Entry<'_>) {
        let head = [
            u64::from(room)
                | (entry.kind as u64) << 32
                | u64::from(entry.moved) << 40
                | (entry.key.len() as u64) << 48,
            entry.value.len() as u64,
            entry.csn.0,
            entry.position,
            entry.expiry.0,
        ];
        head.iter().for_each(|word| self.bytes.extend_from_slice(&word.to_le_bytes()));
        self.bytes.extend_from_slice(entry.key);
        self.bytes.extend_from_slice(entry.value);
        self.entries += 1;
    }

    /// The bytes before the entries.
    pub(crate) fn head(&self) -> [u8; HEAD] {
        let line = &self.line;
        let words = [
            u64::from(MAGIC) | u64::from(line.run) << 32,
            u64::from(self.segment) | u64::from(line.stride) << 32,
            line.claim,
            line.claim_csn.0,
            line.term.bits(),
            u64::from(line.generation) | u64::from(line.stream) << 32 | (line.lane as u64) << 48,
            u64::from(self.entries) | u64::from(line.tail) << 32,
            self.bytes.len() as u64,
        ];
        let mut bytes = [0; HEAD];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The bytes of the entries.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes
    }

    /// A frame from the bytes before its entries, and how many bytes its entries have. An error names what
    /// no frame has.
    pub(crate) fn of_head(head: &[u8; HEAD]) -> Result<(Frame, usize), &'static str> {
        let word = |i: usize| u64::from_le_bytes(head[8 * i..8 * i + 8].try_into().expect("eight bytes"));
        let (low, high) = (|i| word(i) as u32, |i| (word(i) >> 32) as u32);
        let (run, stride) = (high(0), high(1));
        if low(0) != MAGIC {
            return Err("no segment begins where one should");
        }
        let lane = match word(5) >> 48 {
            0 => Lane::Write,
            1 => Lane::Move,
            _ => return Err("a segment of an unknown lane"),
        };
        let line = Line {
            state: if stride == 0 { SegmentState::RunHead } else { SegmentState::Sealed },
            generation: low(5),
            term: Term::from_bits(word(4)).ok_or("a term out of range")?,
            stream: high(5) as u16,
            lane,
            stride,
            run,
            claim_csn: Csn(word(3)),
            claim: word(2),
            tail: high(6),
        };
        let (entries, bytes) = (low(6), word(7));
        let is_run = stride == 0 && (1..=RUN_MAX).contains(&run) && entries == 1;
        let is_shared = stride != 0 && run == 1 && entries <= ENTRIES_MAX;
        let numbers = (1..=GENERATION_MAX).contains(&line.generation) && line.claim_csn.0 <= CSN_MAX;
        if !(is_run || is_shared) || !numbers || u64::from(low(1)) >= SEGMENTS_MAX || bytes > BODY_MAX {
            return Err("a segment with numbers out of range");
        }
        Ok((Frame { segment: low(1), line, entries, bytes: Vec::new() }, bytes as usize))
    }

    /// Takes the bytes of the entries, and checks each of them. An error names what no frame has.
    pub(crate) fn with_body(mut self, bytes: Vec<u8>) -> Result<Frame, &'static str> {
        self.bytes = bytes;
        let (room_bytes, rooms) = self.line.rooms();
        let (mut at, mut least) = (0, 0);
        for _ in 0..self.entries {
            let (entry, end) = entry_at(&self.bytes, at).ok_or("an entry that is cut off")?;
            let image = longarm_store::object::EntryImage::from(&entry);
            let fits = u64::from(entry.room) < rooms && image.bytes() as u64 <= room_bytes;
            if entry.room < least || !fits {
                return Err("an entry that does not fit its room");
            }
            if entry.key.is_empty() || entry.key.len() > KEY_MAX || entry.value.len() > VALUE_MAX {
                return Err("an entry with a key or a value out of range");
            }
            if !entry.csn.is_valid() || entry.kind == EntryKind::Noop {
                return Err("an entry with a version or a kind out of range");
            }
            (at, least) = (end, entry.room + 1);
        }
        if at == self.bytes.len() { Ok(self) } else { Err("a segment longer than its entries") }
    }

    /// The entries, by rooms.
    pub fn iter(&self) -> impl Iterator<Item = BackedEntry<'_>> {
        let mut at = 0;
        (0..self.entries).map(move |_| {
            let (entry, end) = entry_at(&self.bytes, at).expect("checked, or made here");
            at = end;
            entry
        })
    }
}

/// The entry at a place of the bytes, and where it ends.
fn entry_at(bytes: &[u8], at: usize) -> Option<(BackedEntry<'_>, usize)> {
    let head = bytes.get(at..at + ENTRY)?;
    let word = |i: usize| u64::from_le_bytes(head[8 * i..8 * i + 8].try_into().expect("eight bytes"));
    let (key_len, value_len) = ((word(0) >> 48) as usize, usize::try_from(word(1)).ok()?);
    let kind = EntryKind::from_bits(word(0) >> 32 & 0xFF)?;
    let moved = match word(0) >> 40 & 0xFF {
        0 => false,
        1 => true,
        _ => return None,
    };
    let key_at = at + ENTRY;
    let key = bytes.get(key_at..key_at + key_len)?;
    let end = key_at.checked_add(key_len)?.checked_add(value_len)?;
    let value = bytes.get(key_at + key_len..end)?;
    let entry = BackedEntry {
        room: word(0) as u32,
        kind,
        moved,
        csn: Csn(word(2)),
        position: word(3),
        expiry: UnixMillis(word(4)),
        key,
        value,
    };
    Some((entry, end))
}

impl<'a> From<&BackedEntry<'a>> for longarm_store::object::EntryImage<'a> {
    fn from(entry: &BackedEntry<'a>) -> longarm_store::object::EntryImage<'a> {
        let &BackedEntry { kind, moved, csn, position, expiry, key, value, .. } = entry;
        let (stream, term, generation) = (0, Term::ZERO, 0);
        longarm_store::object::EntryImage {
            csn,
            kind,
            moved,
            expiry,
            position,
            stream,
            term,
            generation,
            key,
            value,
        }
    }
}
