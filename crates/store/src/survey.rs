//! What a follower has: a survey of an arena that has no store and no owner.
//!
//! A leader's one-sided WRITEs fill the arena of a follower, whose CPU takes no part. When the leader is gone
//! and fenced off, the survey says how far each of its streams came here, so that a new leader can choose the
//! longest of a majority (L1, L16).
//!
//! Only [`void`] writes, by the follower or its leader. The survey reads lines and entries that do not
//! change.
//! (1) An entry is there if it verifies and bears stream, term and generation of its segment's line. A
//!     half-landed line has no entries, and a run has its entry only if all of its lines are there; a store
//!     that adopts the arena judges in the same way.
//! (2) All entries below a stream's floor are known to be there. At most two words of each are looked at, and
//!     none in rooms that were [`Settled`] before. From the floor on each entry is verified whole, and counts
//!     if all positions before it are there, too: entries take positions in order but WRITEs of different
//!     sizes may land out of order, or not at all.
//! (3) An entry that verifies behind a gap was never acknowledged by this follower and is not part of the
//!     stream. It is named so that it can be voided, or it might come back in a later term (L16).

use std::ops::Range;

use longarm_base::limits::LINE;
use longarm_base::{Csn, EntryRef, Term};
use longarm_memory::{OwnedWords, SumKey, Words};

use crate::object::{Entry, covered_len, layout};
use crate::segment::layout::segment_at;
use crate::segment::{ArenaGeometry, Line, LineError, extent};
use crate::written::written;
use crate::{ArenaView, Settled};

/// The extent of the streams of one term.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// The streams, by number.
    pub streams: Vec<StreamSurvey>,
    /// The highest version in any stream's tail.
    pub csn: Csn,
}

/// The extent of one stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamSurvey {
    /// The number of positions that are there without a gap: the floor, and the tail.
    pub len: u64,
    /// Position and place of each entry from the floor to `len`, in order.
    pub tail: Vec<(u64, EntryRef)>,
    /// Position and place of whole entries behind the first gap, and of second copies of a position, if a
    /// leader ever wrote such. They are to be voided.
    pub beyond: Vec<(u64, EntryRef)>,
}

/// Surveys the streams of `term`: one for each of `floors`, which says how many of its positions are known to
/// be there; a stream whose floor is `u64::MAX` is passed over. Other streams and terms are left out, and so
/// are settled entries. An error if the arena has no header.
pub fn survey(
    memory: &dyn Words,
    sums: &SumKey,
    term: Term,
    floors: &[u64],
    settled: &Settled,
) -> Result<Survey, LineError> {
    let geometry = ArenaGeometry::read(memory, sums)?;
    let mut scan = RoomScan { arena: ArenaView { memory, sums }, geometry, bytes: Vec::new() };
    let mut found: Vec<Vec<Whole>> = vec![Vec::new(); floors.len()];
    for segment in geometry.table..geometry.segments {
        let Some(line) = scan.claimed(segment, term) else { continue };
        let stream = line.stream as usize;
        // No position is as high.
        let Some(&floor) = floors.get(stream).filter(|floor| **floor < u64::MAX) else { continue };
        let from = settled.rooms_below(segment, &line, floor);
        scan.rooms(segment, &line, from, floor, &mut found[stream]);
    }
    let mut survey = Survey::default();
    for (entries, &floor) in found.into_iter().zip(floors) {
        survey.streams.push(judge(entries, floor, &mut survey.csn));
    }
    Ok(survey)
}

/// The places of the whole entries in a segment that has this line, or in the run that begins there, in
/// order: entries at positions within their stream's range, and all entries of streams without a range.
pub fn segment_entries(
    arena: ArenaView<'_>,
    geometry: ArenaGeometry,
    segment: u32,
    line: &Line,
    ranges: &[Range<u64>],
) -> Vec<EntryRef> {
    if extent(arena.memory, arena.sums, geometry, segment, line).is_none() {
        return Vec::new();
    }
    let mut scan = RoomScan { arena, geometry, bytes: Vec::new() };
    let range = ranges.get(line.stream as usize).cloned().unwrap_or(0..u64::MAX);
    let mut found = Vec::new();
    scan.rooms(segment, line, 0, range.start, &mut found);
    found.into_iter().filter(|whole| range.contains(&whole.position)).map(|whole| whole.place).collect()
}

/// Position and place of the entry at this place, in a segment or in the run that begins with it, if it is
/// whole and was written in the use that the segment's line names.
pub fn whole_entry(memory: &dyn Words, sums: &SumKey, segment: u32, offset: u64) -> Option<(u64, EntryRef)> {
    let arena = ArenaView { memory, sums };
    let use_of = SegmentUse::read(arena, ArenaGeometry::read(memory, sums).ok()?, segment)?;
    let mut bytes = Vec::new();
    let (place, entry) = use_of.entry(arena, offset, &mut bytes)?;
    Some((entry.position, place))
}

/// What a room holds that was written to in the present use of its segment.
#[derive(Debug)]
pub enum Room<'a> {
    /// A whole entry.
    Entry(EntryRef, Entry<'a>),
    /// What is left of an entry that was cut off while it was written, or that was damaged later. What it
    /// says of itself may be damaged, too.
    Broken {
        /// Its version.
        csn: Csn,
        /// Its position.
        position: u64,
    },
}

/// The present use of a segment, or of a run, that a stream has claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentUse {
    /// The segment, or the first of the run.
    pub segment: u32,
    /// Its line.
    pub line: Line,
}

impl SegmentUse {
    /// The use that the segment's line names; `None` if no entries begin there, or the run is not whole.
    pub fn read(arena: ArenaView<'_>, geometry: ArenaGeometry, segment: u32) -> Option<SegmentUse> {
        if !(geometry.table..geometry.segments).contains(&segment) {
            return None;
        }
        let line = Line::read(arena.memory, arena.sums, segment).ok()?;
        extent(arena.memory, arena.sums, geometry, segment, &line)?;
        Some(SegmentUse { segment, line })
    }

    /// Whether the segment still has this use.
    pub fn stands(&self, memory: &dyn Words) -> bool {
        self.line.stands(memory, self.segment)
    }

    /// The entry at this offset, if it is whole and was written in this use.
    pub fn entry<'b>(
        &self,
        arena: ArenaView<'_>,
        offset: u64,
        bytes: &'b mut Vec<u8>,
    ) -> Option<(EntryRef, Entry<'b>)> {
        let (room, rooms) = self.line.rooms();
        let at = offset.checked_sub(segment_at(self.segment))?;
        let is_room = at.is_multiple_of(room) && at / room < rooms;
        is_room.then(|| self.line.entry_in(arena.memory, arena.sums, offset, room, bytes)).flatten()
    }

    /// Shows what each room of this use holds, except rooms that hold nothing of it: those that are empty,
    /// and those with bytes of an older use.
    pub fn rooms(&self, arena: ArenaView<'_>, visit: &mut dyn FnMut(u64, Room<'_>)) {
        let ArenaView { memory, sums } = arena;
        let (room, mut bytes) = (self.line.rooms().0, Vec::new());
        for offset in self.bearing(memory).filter(|offset| memory.load(offset + layout::SUM) != 0) {
            match self.line.entry_in(memory, sums, offset, room, &mut bytes) {
                Some((place, entry)) => visit(offset, Room::Entry(place, entry)),
                None => {
                    let (csn, ..) = layout::split_version(memory.load(offset + layout::VERSION));
                    visit(offset, Room::Broken { csn, position: memory.load(offset + layout::POSITION) });
                }
            }
        }
    }

    /// Shows the rooms in which an entry of this use ought to be, by what they say of themselves, unverified:
    /// where each is, the position of its entry, and how many bytes of that the checksum covers.
    pub fn unverified(&self, memory: &dyn Words, visit: &mut dyn FnMut(u64, u64, u64)) {
        for offset in self.bearing(memory).filter(|offset| memory.load(offset + layout::SUM) != 0) {
            let mut header = [0; LINE as usize];
            memory.copy_out(offset, &mut header);
            if let Ok(len) = covered_len(&header)
                && u64::from(len) <= self.line.rooms().0
            {
                visit(offset, memory.load(offset + layout::POSITION), u64::from(len));
            }
        }
    }

    /// Shows the rooms that bear the mark of this use, also if what they held is void, with positions from
    /// `from` on: where each is, and the bytes of the entry that is whole there, if one is.
    pub fn marked(&self, arena: ArenaView<'_>, from: u64, visit: &mut dyn FnMut(u64, Option<u32>)) {
        let ArenaView { memory, sums } = arena;
        let (room, mut bytes) = (self.line.rooms().0, Vec::new());
        for offset in self.bearing(memory).filter(|offset| memory.load(offset + layout::POSITION) >= from) {
            let whole = self.line.entry_in(memory, sums, offset, room, &mut bytes);
            visit(offset, whole.map(|(place, _)| place.len));
        }
    }

    /// Where the rooms are that bear the mark of this use.
    fn bearing(&self, memory: &dyn Words) -> impl Iterator<Item = u64> {
        let (room, rooms) = self.line.rooms();
        let at = move |i| segment_at(self.segment) + i * room;
        let is_its = move |offset: &u64| self.line.marks(memory, *offset);
        written(memory, self.segment, room, rooms, 0).map(at).filter(is_its)
    }

    /// Shows every whole entry of this use in the rooms from `from` on, until it has shown `most` or seen the
    /// last; the room to go on from, if it has not.
    pub fn visit(
        &self,
        arena: ArenaView<'_>,
        from: u64,
        most: usize,
        visit: &mut dyn FnMut(EntryRef, &Entry<'_>),
    ) -> Option<u64> {
        let (room, rooms) = self.line.rooms();
        let (mut bytes, mut left) = (Vec::new(), most);
        for i in written(arena.memory, self.segment, room, rooms, from) {
            if left == 0 {
                return Some(i);
            }
            left -= 1;
            let offset = segment_at(self.segment) + i * room;
            if let Some((place, entry)) =
                self.line.entry_in(arena.memory, arena.sums, offset, room, &mut bytes)
            {
                visit(place, &entry);
            }
        }
        None
    }
}

/// Shows every whole entry in a segment that its stream has claimed, superseded or not. An error if the arena
/// has no header.
pub fn entries(
    memory: &dyn Words,
    sums: &SumKey,
    visit: &mut dyn FnMut(EntryRef, &Entry<'_>),
) -> Result<(), LineError> {
    let geometry = ArenaGeometry::read(memory, sums)?;
    let arena = ArenaView { memory, sums };
    for segment in geometry.table..geometry.segments {
        if let Some(use_of) = SegmentUse::read(arena, geometry, segment) {
            use_of.visit(arena, 0, usize::MAX, visit);
        }
    }
    Ok(())
}

/// Voids an entry that [`survey`] found beyond a stream's end.
pub fn void<M: OwnedWords>(memory: &M, place: EntryRef) {
    memory.store(place.offset + layout::SUM, 0);
}

/// A whole entry at or beyond its stream's floor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Whole {
    position: u64,
    place: EntryRef,
    csn: Csn,
}

/// Goes over the rooms of segments.
struct RoomScan<'a> {
    arena: ArenaView<'a>,
    geometry: ArenaGeometry,
    /// Memory that is used again from room to room.
    bytes: Vec<u8>,
}

impl RoomScan<'_> {
    /// The line of a segment, or of the run that begins there, that a stream of `term` has claimed.
    fn claimed(&self, segment: u32, term: Term) -> Option<Line> {
        let ArenaView { memory, sums } = self.arena;
        let line = Line::read(memory, sums, segment).ok().filter(|line| line.term == term)?;
        extent(memory, sums, self.geometry, segment, &line).map(|_| line)
    }

    /// Adds the whole entries of a segment or run, from a room on, whose position is at least `floor`.
    fn rooms(&mut self, segment: u32, line: &Line, from: u64, floor: u64, found: &mut Vec<Whole>) {
        let ArenaView { memory, sums } = self.arena;
        let (room, rooms) = line.rooms();
        for i in written(memory, segment, room, rooms, from) {
            let offset = segment_at(segment) + i * room;
            if !line.marks(memory, offset) || memory.load(offset + layout::POSITION) < floor {
                continue;
            }
            if let Some((place, entry)) = line.entry_in(memory, sums, offset, room, &mut self.bytes) {
                found.push(Whole { position: entry.position, place, csn: entry.csn });
            }
        }
    }
}

/// Splits the entries of a stream into its tail and the entries beyond.
fn judge(mut entries: Vec<Whole>, floor: u64, csn: &mut Csn) -> StreamSurvey {
    entries.sort_unstable();
    let mut stream = StreamSurvey { len: floor, ..StreamSurvey::default() };
    for entry in entries {
        if entry.position == stream.len {
            stream.tail.push((entry.position, entry.place));
            stream.len = entry.position.saturating_add(1);
            *csn = (*csn).max(entry.csn);
        } else {
            stream.beyond.push((entry.position, entry.place));
        }
    }
    stream
}
