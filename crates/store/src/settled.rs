//! What a follower knows of its arena ahead of time.
//!
//! After the loss of a leader a [`survey`](crate::survey()) goes over all rooms of its term, and the next
//! leader over all rooms there are; no replica leads meanwhile. Most rooms were filled long before: a room
//! that holds a whole entry below the floor holds it until its segment is claimed anew, and so does every
//! room of an older term, once the follower is in sync. So a follower looks ahead, a little at a time, and
//! keeps for each segment how many of its first rooms need no other look, and the highest position in them. A
//! look also has the pages mapped that a survey and a restore will need. A [`SettledWatcher`] is told what
//! the rooms hold.
//!
//! Here every entry is verified whole, unlike below the floor of a survey: WRITEs continue meanwhile, and a
//! half-landed header may still bear the position of an older use.
//!
//! It writes nothing, and reads lines and entries that a leader may be writing.
//! (1) Rooms of the term's own segments are passed over in order, up to the first that is not whole: a
//!     missing entry may still come, also into a room whose memory was not written yet. In segments of older
//!     terms it never comes: they were complete when the follower got in sync.
//! (2) Runs, which have one room, are left to the survey and the restore.
//! (3) An entry below the floor is here. Another leader may still cut it, if no majority had it: a caller
//!     that relied on it must ask ([`Settled::is_beyond`]).

use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_base::{EntryRef, Mutant, Term};

use crate::ArenaView;
use crate::object::{Entry, layout};
use crate::segment::layout::segment_at;
use crate::segment::{ArenaGeometry, Line, SegmentState};
use crate::written::{Scratch, TOGETHER, fetch_ahead, together, written};

/// The least cost of a look at a segment, in bytes.
const VISIT: u64 = 8 * LINE;
/// The cost of an entry besides its bytes.
const ENTRY: u64 = 4 * LINE;

/// Is told which entries settle.
pub trait SettledWatcher {
    /// Announces an entry that is told next, or after a few others, so that memory it will need can be
    /// fetched.
    fn ahead(&mut self, _entry: &Entry<'_>) {}
    /// Tells an entry of this use of a segment, once. `false` ends the look, and the entry is told again.
    fn entry(&mut self, segment: u32, line: &Line, place: EntryRef, entry: &Entry<'_>) -> bool;
    /// Tells that the use of the segment of which entries were told is over: none of them counts any more.
    fn over(&mut self, segment: u32);
}

/// Watches nothing.
impl SettledWatcher for () {
    fn entry(&mut self, _: u32, _: &Line, _: EntryRef, _: &Entry<'_>) -> bool {
        true
    }

    fn over(&mut self, _: u32) {}
}

/// The rooms that need no other look.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    term: Term,
    uses: Vec<Use>,
    /// The segment to look at next.
    next: u32,
    scratch: Scratch,
}

/// The entry in a room, if it counts.
type Here<'a> = Option<(EntryRef, Entry<'a>)>;

/// The rooms of a segment to look at, below the floor if there is one.
#[derive(Clone, Copy)]
struct LookTarget<'a> {
    segment: u32,
    line: &'a Line,
    floor: Option<u64>,
}

/// One use of a segment.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// Its line; of a free segment nothing is known.
    line: Line,
    /// The number of its rooms.
    of: u32,
    /// The number of rooms, from the first on, that need no other look.
    rooms: u32,
    /// The highest position in those rooms, if any of them holds an entry.
    highest: Option<u64>,
    /// The room after the last of those entries.
    end: u32,
}

impl Use {
    const NONE: Use = Use { line: Line::FREE, of: 0, rooms: 0, highest: None, end: 0 };

    fn of(line: &Line) -> Use {
        Use { line: *line, of: line.rooms().1 as u32, ..Use::NONE }
    }

    /// Whether the line is of this use.
    fn is(&self, line: &Line) -> bool {
        line.has_entries() && self.line.is_same_use(line)
    }

    /// Whether the segment has another use by now, or none.
    fn is_over(&self, arena: ArenaView<'_>, segment: u32) -> bool {
        !Line::read(arena.memory, arena.sums, segment).is_ok_and(|line| self.is(&line))
    }

    fn note(&mut self, room: u32, position: u64) {
        self.highest = self.highest.max(Some(position));
        self.rooms = room + 1;
        self.end = room + 1;
    }

    /// Looks at more rooms of its segment; in the term's own segments at rooms below the floor, up to the
    /// first that is not whole. `false` if the look did not come to its end.
    fn look_on(
        &mut self,
        ArenaView { memory, sums }: ArenaView<'_>,
        LookTarget { segment, line, floor }: LookTarget<'_>,
        bytes: &mut u64,
        Scratch(scratch): &mut Scratch,
        watch: &mut impl SettledWatcher,
    ) -> bool {
        let (room, _) = line.rooms();
        let is_below = |position: u64| floor.is_none_or(|floor| position < floor);
        let mut next = u64::from(self.rooms);
        let mut rooms = written(memory, segment, room, self.of.into(), next);
        while *bytes > 0 {
            let mut found: [Option<(u32, Here<'_>)>; TOGETHER] = [const { None }; TOGETHER];
            let mut is_end = false;
            for (found, copy) in found.iter_mut().zip(&mut *scratch).take(together(room)) {
                let Some(i) = rooms.next().filter(|&i| floor.is_none() || i == next) else {
                    is_end = true;
                    break;
                };
                next = i + 1;
                let offset = segment_at(segment) + i * room;
                fetch_ahead(memory, offset, room);
                let here = line.marks(memory, offset) && is_below(memory.load(offset + layout::POSITION));
                let entry = here.then(|| line.entry_in(memory, sums, offset, room, copy)).flatten();
                let entry = entry.filter(|(_, entry)| is_below(entry.position));
                is_end = entry.is_none() && floor.is_some();
                if is_end {
                    break;
                }
                let cost = |(place, entry): &(EntryRef, Entry<'_>)| {
                    watch.ahead(entry);
                    room.min(u64::from(place.len) + LINE) + ENTRY
                };
                *bytes = bytes.saturating_sub(entry.as_ref().map_or(LINE, cost));
                *found = Some((i as u32, entry));
            }
            for (i, entry) in found.iter().flatten() {
                match entry {
                    None => self.rooms = i + 1,
                    Some((place, entry)) if watch.entry(segment, line, *place, entry) => {
                        self.note(*i, entry.position);
                    }
                    Some(_) => return false,
                }
            }
            if is_end {
                // No entry of an older term comes any more; entries of its own term may.
                self.rooms = if floor.is_none() { self.of } else { self.rooms };
                return true;
            }
        }
        false
    }
}

/// The settled rooms of a segment that is taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rooms {
    /// The number of rooms that need no other look.
    pub seen: u64,
    /// The number of them up to the last that holds an entry.
    pub end: u64,
}

impl Settled {
    /// The term in which the follower is in sync, as the looks were told.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Continues in this term: the follower is in sync in it, and its start set has what had settled.
    pub fn go_on(&mut self, term: Term) {
        self.term = term;
    }

    /// Looks a little further, at about so many bytes of the arena, in sync with the leader of `term`.
    /// `floors` says how many positions of each stream are known to be here; each floor only grows within a
    /// term. `true` if it came round all segments: until a floor grows, hardly more is to be seen.
    pub fn look(
        &mut self,
        arena: ArenaView<'_>,
        term: Term,
        floors: &[u64],
        mut bytes: u64,
        watch: &mut impl SettledWatcher,
    ) -> bool {
        let Ok(geometry) = ArenaGeometry::read(arena.memory, arena.sums) else { return false };
        self.go_on(term);
        if self.uses.len() != geometry.segments as usize {
            self.uses = vec![Use::NONE; geometry.segments as usize];
            self.next = geometry.table;
        }
        for _ in geometry.table..geometry.segments {
            bytes = bytes.saturating_sub(VISIT);
            if !self.look_at(arena, floors, &mut bytes, watch) {
                return false;
            }
            self.next += 1;
            if self.next == geometry.segments {
                self.next = geometry.table;
            }
        }
        true
    }

    /// Looks at the next segment; `false` if the bytes were used up first.
    fn look_at(
        &mut self,
        arena: ArenaView<'_>,
        floors: &[u64],
        bytes: &mut u64,
        watch: &mut impl SettledWatcher,
    ) -> bool {
        let (segment, known) = (self.next, &mut self.uses[self.next as usize]);
        if known.rooms > 0 && known.rooms == known.of && known.line.stands(arena.memory, segment) {
            return *bytes > 0;
        }
        let Ok(line) = Line::read(arena.memory, arena.sums, segment) else { return *bytes > 0 };
        if !known.is(&line) {
            if known.end > 0 {
                watch.over(segment);
                *bytes = bytes.saturating_sub(u64::from(known.end) * ENTRY);
            }
            let is_strided = line.stride > 0 && line.state != SegmentState::Free;
            *known = if is_strided { Use::of(&line) } else { Use::NONE };
        }
        if known.of == 0 || line.term > self.term {
            return *bytes > 0;
        }
        let floor = match line.term < self.term {
            // A missing entry was never written.
            true => None,
            false => Some(floors.get(line.stream as usize).copied().unwrap_or(0)),
        };
        let target = LookTarget { segment, line: &line, floor };
        known.look_on(arena, target, bytes, &mut self.scratch, watch) && *bytes > 0
    }

    /// Whether a settled entry lies at or beyond the cuts of the streams of `base`.
    pub fn is_beyond(&self, base: Term, cuts: &[u64]) -> bool {
        let cut = |known: &Use| cuts.get(known.line.stream as usize).copied().unwrap_or(0);
        let mut of_base = self.uses.iter().filter(|known| known.line.term == base);
        !Mutant::KeepBeyond.is_on()
            && of_base.any(|known| known.highest.is_some_and(|highest| highest >= cut(known)))
    }

    /// How many rooms that were looked at are of uses that are over by now, and how many of others.
    pub fn over_and_standing(&self, arena: ArenaView<'_>) -> (u64, u64) {
        let (mut over, mut standing) = (0, 0);
        for (segment, known) in (0..).zip(&self.uses).filter(|(_, known)| known.end > 0) {
            let rooms = if known.is_over(arena, segment) { &mut over } else { &mut standing };
            *rooms += u64::from(known.end);
        }
        (over, standing)
    }

    /// Tells which uses are over by now, of all segments, in memory that no leader writes to any more.
    pub fn settle(&mut self, arena: ArenaView<'_>, watch: &mut impl SettledWatcher) {
        for (segment, known) in (0..).zip(&mut self.uses).filter(|(_, known)| known.end > 0) {
            if known.is_over(arena, segment) {
                watch.over(segment);
                *known = Use::NONE;
            }
        }
    }

    /// Shows every settled entry, with its segment.
    pub fn visit(&self, ArenaView { memory, sums }: ArenaView<'_>, visit: &mut impl FnMut(u32, &Entry<'_>)) {
        let mut bytes = Vec::new();
        for (segment, known) in (0..).zip(&self.uses) {
            let (room, _) = known.line.rooms();
            for i in written(memory, segment, room, known.rooms.into(), 0) {
                let offset = segment_at(segment) + i * room;
                if let Some((_, entry)) = known.line.entry_in(memory, sums, offset, room, &mut bytes) {
                    visit(segment, &entry);
                }
            }
        }
    }

    /// How many rooms of this use of a segment, from the first on, hold no entry from `floor` on.
    pub(crate) fn rooms_below(&self, segment: u32, line: &Line, floor: u64) -> u64 {
        let known = self.uses.get(segment as usize).filter(|known| known.is(line));
        known
            .filter(|known| known.highest.is_none_or(|highest| highest < floor))
            .map_or(0, |known| known.rooms.into())
    }

    /// What is known of this use of a segment.
    pub(crate) fn rooms(&self, segment: u32, line: &Line) -> Option<Rooms> {
        let known = self.uses.get(segment as usize).filter(|known| known.is(line))?;
        Some(Rooms { seen: known.rooms.into(), end: known.end.into() })
    }
}

const _: () = assert!(SEGMENT_BYTES / LINE <= u32::MAX as u64);
