//! Reading the segment table from bytes that may be torn, stale, or never have been an arena.

use longarm_base::limits::{LINE, SEGMENT_BYTES, SEGMENTS_MAX};
use longarm_base::{Csn, EntryRef, Mutant, Term};
use longarm_memory::{OwnedWords, SumKey, Words};

use super::layout::{self, Lane, SegmentState};
use crate::class::is_stride;
use crate::object::layout::{GENERATION_MAX, mark_word};
use crate::object::{self, Entry, RoomState, check_room};

/// How often a look at a line that changes is repeated before the line counts as broken.
const LOOKS: u32 = 64;

/// Why a line cannot be believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineError {
    /// The region is no arena of this version, or the checksum key is another one.
    #[error("not an arena of this version, or another checksum key: {0}")]
    Arena(&'static str),
    /// The checksum of the line does not hold.
    #[error("the checksum of its line does not hold")]
    Torn,
    /// A field has a value that no line has.
    #[error("its line has a {0} out of range")]
    Malformed(&'static str),
}

/// The shape of an arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaGeometry {
    /// All segments, the table's included.
    pub segments: u32,
    /// Segments that hold the table.
    pub table: u32,
}

impl ArenaGeometry {
    /// The shape that line 0 of an arena names.
    pub fn read(memory: &dyn Words, sums: &SumKey) -> Result<ArenaGeometry, LineError> {
        if memory.bytes() < SEGMENT_BYTES {
            return Err(LineError::Arena("the region is smaller than a segment"));
        }
        ArenaGeometry::from_bytes(&line_bytes(memory, 0), memory.bytes(), sums)
    }

    /// The shape that these bytes name, if they are line 0 of an arena in a region of so many bytes.
    pub fn from_bytes(
        bytes: &[u8; LINE as usize],
        region: u64,
        sums: &SumKey,
    ) -> Result<ArenaGeometry, LineError> {
        let words = words_of(bytes);
        if words[1] != layout::MAGIC {
            return Err(LineError::Arena("wrong magic number"));
        }
        if words[2] != layout::VERSION || words[5] != SEGMENT_BYTES {
            return Err(LineError::Arena("another layout version or segment size"));
        }
        if words[0] != line_sum(sums, 0, &words) {
            return Err(LineError::Arena("the checksum of the header does not hold"));
        }
        let (segments, table) = (words[3], words[4]);
        let whole = segments <= SEGMENTS_MAX && segments * SEGMENT_BYTES <= region;
        if !whole || table == 0 || table >= segments || table != layout::table_segments(segments) {
            return Err(LineError::Arena("the region is shorter than the arena"));
        }
        Ok(ArenaGeometry { segments: segments as u32, table: table as u32 })
    }
}

/// The table's line of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its use.
    pub state: SegmentState,
    /// How often it was claimed; 24 bits, without zero.
    pub generation: u32,
    /// The term in which it was claimed.
    pub term: Term,
    /// The stream it belongs to.
    pub stream: u16,
    /// The filler.
    pub lane: Lane,
    /// Distance of its rooms in bytes; zero in a run.
    pub stride: u32,
    /// Length of the run (head), distance to the head (body), otherwise 1.
    pub run: u32,
    /// The stable point when it was last claimed.
    pub claim_csn: Csn,
    /// Number of the claim.
    pub claim: u64,
    /// Bytes handed out as rooms.
    pub tail: u32,
}

impl Line {
    /// A segment that was never claimed.
    pub const FREE: Line = Line {
        state: SegmentState::Free,
        generation: 0,
        term: Term::ZERO,
        stream: 0,
        lane: Lane::Write,
        stride: 0,
        run: 1,
        claim_csn: Csn::NONE,
        claim: 0,
        tail: 0,
    };

    /// The mark of this use's entries while they are not superseded.
    pub(crate) fn mark(&self) -> u64 {
        mark_word(self.term, self.generation)
    }

    /// Whether both lines are of one use of a segment, apart from fields that only grow within it.
    pub fn is_same_use(&self, other: &Line) -> bool {
        let of = |line: &Line| (line.claim, line.term, line.generation, line.stream, line.stride);
        of(self) == of(other)
    }

    /// Whether entries begin in the segment: it is claimed, and no later part of a run.
    pub fn has_entries(&self) -> bool {
        !matches!(self.state, SegmentState::Free | SegmentState::RunBody)
    }

    /// Whether the segment still has this use, by its line in the memory.
    pub fn stands(&self, memory: &dyn Words, segment: u32) -> bool {
        let at = layout::line_at(segment);
        (memory.load(at + layout::CLAIM), memory.load(at + layout::TERM)) == (self.claim, self.term.bits())
    }

    /// Bytes of a room, and the number of rooms; a run has one.
    pub fn rooms(&self) -> (u64, u64) {
        match self.stride as u64 {
            0 => (self.run as u64 * SEGMENT_BYTES, 1),
            stride => (stride, SEGMENT_BYTES / stride),
        }
    }

    /// Whether the room at `offset` bears the mark of this use, superseded or not. The mark tells most
    /// entries of an older use apart without a look at the whole entry.
    pub(crate) fn marks(&self, memory: &dyn Words, offset: u64) -> bool {
        memory.load(offset + object::layout::MARK) & !object::layout::SUPERSEDED == self.mark()
    }

    /// The entry of at most `room` bytes at `offset`, if it is whole and was written in this use of the
    /// segment.
    pub(crate) fn entry_in<'b>(
        &self,
        memory: &dyn Words,
        sums: &SumKey,
        offset: u64,
        room: u64,
        bytes: &'b mut Vec<u8>,
    ) -> Option<(EntryRef, Entry<'b>)> {
        let RoomState::Entry(entry, len) = check_room(memory, sums, offset, room, bytes) else {
            return None;
        };
        let used = (entry.stream, entry.term, entry.generation);
        let ours = used == (self.stream, self.term, self.generation);
        ours.then_some((EntryRef { offset, len }, entry))
    }

    /// Whether this is the line of body number `distance` of the run with this head.
    pub(crate) fn is_body(&self, distance: u32, head: &Line) -> bool {
        self.state == SegmentState::RunBody
            && (self.run, self.claim, self.term) == (distance, head.claim, head.term)
            && (self.stride, head.stride) == (0, 0)
    }

    /// The line as followers have it: sealed from the claim on. It is the same, to the byte, for as long as
    /// the segment has this use. Several connections of a leader WRITE a follower's line, and their words
    /// land in any order: a mixture of an open segment's line and of a sealed one's would never verify there,
    /// and the entries in the segment would be lost with it.
    pub(crate) fn of_replicas(&self) -> Line {
        let (state, tail) = match self.state {
            SegmentState::Free | SegmentState::RunBody => (self.state, self.tail),
            _ if self.stride == 0 => (SegmentState::RunHead, self.tail),
            _ => (SegmentState::Sealed, SEGMENT_BYTES as u32 / self.stride * self.stride),
        };
        Line { state, tail, ..*self }
    }

    /// The line once this use is over, at this stable point. Its numbers stay, and the next claim continues
    /// from them. From the csn a later leader learns how far the versions had come, even if no entry is left
    /// that bears the last of them: each dropped entry was below the stable point, or the entry that
    /// superseded it was.
    pub(crate) fn freed(&self, stable: Csn) -> Line {
        let claim_csn = self.claim_csn.max(stable);
        Line { generation: self.generation, claim: self.claim, claim_csn, ..Line::FREE }
    }

    /// Reads the line of a segment of a live or saved arena. It waits for a change in progress, with a bound.
    pub fn read(memory: &dyn Words, sums: &SumKey, segment: u32) -> Result<Line, LineError> {
        let mut looked = Line::parse(&read_words(memory, segment), sums, segment);
        for _ in 1..LOOKS {
            if looked.is_ok() {
                break;
            }
            looked = Line::parse(&read_words(memory, segment), sums, segment);
        }
        looked
    }

    /// Parses the line in its bytes, which were copied from elsewhere.
    pub fn from_bytes(bytes: &[u8], sums: &SumKey, segment: u32) -> Result<Line, LineError> {
        let bytes = bytes.try_into().map_err(|_| LineError::Malformed("length"))?;
        Line::parse(&words_of(bytes), sums, segment)
    }

    /// Parses the line in eight copied words.
    pub fn parse(words: &[u64; 8], sums: &SumKey, segment: u32) -> Result<Line, LineError> {
        if *words == [0; 8] {
            return Ok(Line::FREE);
        }
        if words[0] != line_sum(sums, segment, words) {
            return Err(LineError::Torn);
        }
        let state = SegmentState::from_bits(words[1] & 0xFF).ok_or(LineError::Malformed("state"))?;
        let lane = match words[1] >> 8 & 0xFF {
            0 => Lane::Write,
            1 => Lane::Move,
            _ => return Err(LineError::Malformed("lane")),
        };
        let line = Line {
            state,
            generation: (words[1] >> 32) as u32,
            term: Term::from_bits(words[5]).ok_or(LineError::Malformed("term"))?,
            stream: (words[1] >> 16) as u16,
            lane,
            stride: words[2] as u32,
            run: (words[2] >> 32) as u32,
            claim_csn: Csn(words[3]),
            claim: words[4],
            tail: u32::try_from(words[6]).map_err(|_| LineError::Malformed("tail"))?,
        };
        let shared = line.stride != 0;
        if shared && !is_stride(line.stride) {
            return Err(LineError::Malformed("stride"));
        }
        let alone = matches!(state, SegmentState::RunHead | SegmentState::RunBody);
        if alone == shared && state != SegmentState::Free && state != SegmentState::Quarantined {
            return Err(LineError::Malformed("stride for its state"));
        }
        if line.run == 0 || (shared && line.run != 1) {
            return Err(LineError::Malformed("run"));
        }
        if line.tail as u64 > SEGMENT_BYTES || (shared && !line.tail.is_multiple_of(line.stride)) {
            return Err(LineError::Malformed("tail"));
        }
        if line.generation == 0 || line.generation > GENERATION_MAX {
            return Err(LineError::Malformed("generation"));
        }
        Ok(line)
    }
}

/// The present bytes of a segment's line, with line 0 being the arena's. A leader WRITEs them to its
/// followers at the same offset, [`line_at`](layout::line_at).
pub fn line_bytes(memory: &dyn Words, segment: u32) -> [u8; LINE as usize] {
    let mut bytes = [0; LINE as usize];
    memory.copy_out(layout::line_at(segment), &mut bytes);
    bytes
}

/// The line of a segment, or the header, as followers get it: the same bytes for as long as a segment has
/// one use. `None` if a thread is in the middle of a change for long. A copy for other nodes must not be half
/// of a change: it would stay so there.
pub fn replica_line(memory: &dyn Words, sums: &SumKey, segment: u32) -> Option<[u8; LINE as usize]> {
    for _ in 0..LOOKS {
        let bytes = line_bytes(memory, segment);
        // The header never changes.
        match Line::parse(&words_of(&bytes), sums, segment) {
            Err(LineError::Torn) if segment != 0 => {}
            Ok(line) if line.state != SegmentState::Free && !Mutant::LineAsItIs.is_on() => {
                return Some(bytes_of(&line_words(sums, segment, &line.of_replicas())));
            }
            Ok(_) | Err(_) => return Some(bytes),
        }
    }
    None
}

/// The bytes of this line, as followers have it, for a segment of an arena that no server runs on.
pub fn line_image(sums: &SumKey, segment: u32, line: &Line) -> [u8; LINE as usize] {
    bytes_of(&line_words(sums, segment, &line.of_replicas()))
}

/// The number of the claim that a segment's line names, as its owner wrote it: it identifies the use of the
/// segment.
pub fn claim_number<M: OwnedWords>(memory: &M, segment: u32) -> u64 {
    memory.load(layout::line_at(segment) + layout::CLAIM)
}

/// The length of the run that begins there, as the owner of its line wrote it; one if it is no run.
pub fn run_length<M: OwnedWords>(memory: &M, segment: u32) -> u32 {
    let word = memory.load(layout::line_at(segment) + layout::STRIDE);
    if word as u32 == 0 { (word >> 32) as u32 } else { 1 }
}

/// Bytes of a room of the segment, as the owner of its line wrote them; `None` if it is a run, which has one
/// entry.
pub fn room_length<M: OwnedWords>(memory: &M, segment: u32) -> Option<u32> {
    let stride = memory.load(layout::line_at(segment) + layout::STRIDE) as u32;
    (stride != 0).then_some(stride)
}

pub(super) fn read_words(memory: &dyn Words, segment: u32) -> [u64; 8] {
    words_of(&line_bytes(memory, segment))
}

fn words_of(bytes: &[u8; LINE as usize]) -> [u64; 8] {
    let word = |i: usize| u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().expect("eight bytes"));
    std::array::from_fn(word)
}

/// The words of a line, its checksum included.
pub(super) fn line_words(sums: &SumKey, segment: u32, line: &Line) -> [u64; 8] {
    let mut words = [
        0,
        (line.generation as u64) << 32
            | (line.stream as u64) << 16
            | (line.lane as u64) << 8
            | line.state as u64,
        (line.run as u64) << 32 | line.stride as u64,
        line.claim_csn.0,
        line.claim,
        line.term.bits(),
        line.tail as u64,
        0,
    ];
    words[0] = line_sum(sums, segment, &words);
    words
}

pub(super) fn bytes_of(words: &[u64; 8]) -> [u8; LINE as usize] {
    let mut bytes = [0; LINE as usize];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Checksum of words 1 to 5 of a line.
pub(super) fn line_sum(sums: &SumKey, segment: u32, words: &[u64; 8]) -> u64 {
    let mut bytes = [0; 40];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(&words[1..6]) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    sums.sum(layout::line_at(segment), &bytes).max(1)
}
