//! What a follower knows of its arena before anybody asks.
//!
//! After the loss of a leader a [`survey`](crate::survey()) goes over all rooms of its term, and whoever
//! leads next over all rooms there are; nobody leads meanwhile. Most of them were there long before: a room
//! that holds a whole entry below the floor holds it until its segment is claimed anew, and so does every
//! room of an older term, once the follower is in sync. So a follower looks ahead, a little at a time, and
//! keeps for each segment how many of its first rooms need no other look, and the highest position in them. A
//! look also has the pages mapped that a survey and a restore will need. Whoever wants to know what the rooms
//! hold [`SettledWatcher`]es.
//!
//! Here every entry is verified whole, unlike below the floor of a survey: WRITEs go on meanwhile, and a
//! header of which half has landed may still bear the position of an older use.
//!
//! Writes: nothing. Reads: lines and entries that a leader may be writing.
//! (1) Rooms of the term's own segments are passed over in order, up to the first that is not whole: what is
//!     missing may still come, also into a room whose memory nobody wrote yet. In segments of older terms it
//!     never comes: they were complete when the follower got in sync.
//! (2) Runs, which have one room, are left to whoever asks.
//! (3) That an entry is below the floor says that it is here. Another leader may still cut it, if no majority
//!     had it: whoever relied on it must ask ([`Settled::is_beyond`]).

use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_base::{EntryRef, Mutant, Term};

use crate::ArenaView;
use crate::object::{Entry, layout};
use crate::segment::layout::segment_at;
use crate::segment::{ArenaGeometry, Line, SegmentState};
use crate::written::{Scratch, TOGETHER, together, written};

/// What a look at a segment costs at least, in bytes.
const VISIT: u64 = 8 * LINE;
/// What an entry costs besides its bytes.
const ENTRY: u64 = 4 * LINE;

/// Is told what settles.
pub trait SettledWatcher {
    /// Of this entry it will be told next, or after a few others: memory that it will need can be fetched.
    fn ahead(&mut self, _entry: &Entry<'_>) {}
    /// An entry of this use of a segment; it is told of once. `false`: not now, and nothing more.
    fn entry(&mut self, segment: u32, line: &Line, place: EntryRef, entry: &Entry<'_>) -> bool;
    /// The use of the segment of which entries were told is over: none of them counts any more.
    fn over(&mut self, segment: u32);
}

/// Nobody watches.
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

/// What there is in a room, if it counts.
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
    /// What its line said; nothing is known of a free one.
    line: Line,
    /// How many rooms there are.
    of: u32,
    /// So many of them, from the first on, need no other look...
    rooms: u32,
    /// ...at positions up to this one, if any holds an entry...
    highest: Option<u64>,
    /// ...the last of which stands in the room before this one.
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

    fn note(&mut self, room: u32, position: u64) {
        self.highest = self.highest.max(Some(position));
        self.rooms = room + 1;
        self.end = room + 1;
    }

    /// Looks at more rooms of its segment: of the term's own at those below the floor, up to the first that
    /// is not whole. `false` if this is not the end of it.
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
                // Of an older term nothing comes any more; of its own the rest may.
                self.rooms = if floor.is_none() { self.of } else { self.rooms };
                return true;
            }
        }
        false
    }
}

/// What was settled of a segment that is taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rooms {
    /// How many need no other look.
    pub seen: u64,
    /// How many of them there are up to the last that holds an entry.
    pub end: u64,
}

impl Settled {
    /// Of what term the follower is in sync, as far as looks were told.
    pub fn term(&self) -> Term {
        self.term
    }

    /// The follower is in sync in this term; what had settled is in its start set.
    pub fn go_on(&mut self, term: Term) {
        self.term = term;
    }

    /// Looks a little further: at about so many bytes of what is here, in sync with the leader of `term`.
    /// `floors` says how many positions of each stream are known to be here; each only grows within a term.
    pub fn look(
        &mut self,
        arena: ArenaView<'_>,
        term: Term,
        floors: &[u64],
        mut bytes: u64,
        watch: &mut impl SettledWatcher,
    ) {
        let Ok(geometry) = ArenaGeometry::read(arena.memory, arena.sums) else { return };
        self.go_on(term);
        if self.uses.len() != geometry.segments as usize {
            self.uses = vec![Use::NONE; geometry.segments as usize];
            self.next = geometry.table;
        }
        for _ in geometry.table..geometry.segments {
            bytes = bytes.saturating_sub(VISIT);
            if !self.look_at(arena, floors, &mut bytes, watch) {
                return;
            }
            self.next += 1;
            if self.next == geometry.segments {
                self.next = geometry.table;
            }
        }
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
            // What is missing was never written.
            true => None,
            false => Some(floors.get(line.stream as usize).copied().unwrap_or(0)),
        };
        let target = LookTarget { segment, line: &line, floor };
        known.look_on(arena, target, bytes, &mut self.scratch, watch) && *bytes > 0
    }

    /// Whether an entry that is settled lies at or beyond the cuts of the streams of `base`.
    pub fn is_beyond(&self, base: Term, cuts: &[u64]) -> bool {
        let cut = |known: &Use| cuts.get(known.line.stream as usize).copied().unwrap_or(0);
        let mut of_base = self.uses.iter().filter(|known| known.line.term == base);
        !Mutant::KeepBeyond.is_on()
            && of_base.any(|known| known.highest.is_some_and(|highest| highest >= cut(known)))
    }

    /// Says what is over by now, of all segments: for memory that nobody writes to any more.
    pub fn settle(&mut self, arena: ArenaView<'_>, watch: &mut impl SettledWatcher) {
        for (segment, known) in (0..).zip(&mut self.uses).filter(|(_, known)| known.end > 0) {
            let line = Line::read(arena.memory, arena.sums, segment);
            if !line.is_ok_and(|line| known.is(&line)) {
                watch.over(segment);
                *known = Use::NONE;
            }
        }
    }

    /// How many rooms of this use of a segment, from the first on, hold nothing from `floor` on.
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
