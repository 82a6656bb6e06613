//! What a follower knows of its arena before anybody asks.
//!
//! A [`survey`](crate::survey()) after the loss of a leader goes over all rooms of its term, and nobody leads
//! meanwhile. Most of them it could have passed over: a room that holds a whole entry below the floor holds
//! it until its segment is claimed anew. So a follower looks ahead, a little at a time, and keeps for each
//! segment how many of its first rooms are of that kind, and the highest position in them. A look also has
//! the pages mapped that a survey and a restore will need.
//!
//! Here every entry is verified whole, unlike below the floor of a survey: WRITEs go on meanwhile, and a
//! header of which half has landed may still bear the position of an older use.
//!
//! Writes: nothing. Reads: lines and entries that a leader may be writing.

use longarm_base::Term;
use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_memory::{SumKey, Words};

use crate::object::layout;
use crate::segment::layout::{CLAIM, line_at, segment_at};
use crate::segment::{Geometry, Line};

/// What a look at a segment costs at least, in bytes.
const VISIT: u64 = 8 * LINE;

/// The rooms that a survey may pass over.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    term: Term,
    uses: Vec<Use>,
    /// The segment to look at next.
    next: u32,
}

/// One use of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Number of the claim; zero if nothing is known.
    claim: u64,
    /// How many rooms there are.
    of: u32,
    /// So many of them, from the first on, hold whole entries of this use...
    rooms: u32,
    /// ...at positions up to this one.
    highest: u64,
}

impl Settled {
    /// Looks a little further: at about so many bytes of what the leader of `term` has written here. `floors`
    /// says how many positions of each stream are known to be here; each only grows within a term.
    pub fn look(&mut self, memory: &dyn Words, sums: &SumKey, term: Term, floors: &[u64], mut bytes: u64) {
        let Ok(geometry) = Geometry::read(memory, sums) else { return };
        if self.term != term || self.uses.len() != geometry.segments as usize {
            let uses = vec![Use::default(); geometry.segments as usize];
            *self = Settled { term, uses, next: geometry.table };
        }
        for _ in geometry.table..geometry.segments {
            bytes = bytes.saturating_sub(VISIT);
            if !self.look_at(memory, sums, floors, &mut bytes) {
                return;
            }
            self.next += 1;
            if self.next == geometry.segments {
                self.next = geometry.table;
            }
        }
    }

    /// Looks at the next segment; `false` if the bytes were used up first.
    fn look_at(&mut self, memory: &dyn Words, sums: &SumKey, floors: &[u64], bytes: &mut u64) -> bool {
        let (segment, known) = (self.next, &mut self.uses[self.next as usize]);
        if known.claim == memory.load(line_at(segment) + CLAIM) && known.rooms == known.of {
            return *bytes > 0;
        }
        let Ok(line) = Line::read(memory, sums, segment) else { return *bytes > 0 };
        // A run has one room, and is soon surveyed.
        let Some(&floor) =
            floors.get(line.stream as usize).filter(|_| line.term == self.term && line.stride > 0)
        else {
            return *bytes > 0;
        };
        let (room, of) = line.rooms();
        if known.claim != line.claim {
            *known = Use { claim: line.claim, of: of as u32, rooms: 0, highest: 0 };
        }
        let mut copy = Vec::new();
        while known.rooms < known.of && *bytes > 0 {
            let offset = segment_at(segment) + u64::from(known.rooms) * room;
            if !line.marks(memory, offset) || memory.load(offset + layout::POSITION) >= floor {
                break;
            }
            let entry = line.entry_in(memory, sums, (offset, room), &mut copy);
            let Some((_, entry)) = entry.filter(|(_, entry)| entry.position < floor) else { break };
            known.highest = known.highest.max(entry.position);
            known.rooms += 1;
            *bytes = bytes.saturating_sub(room);
        }
        *bytes > 0
    }

    /// How many rooms of this use of a segment, from the first on, hold nothing from `floor` on.
    pub(crate) fn rooms_below(&self, (segment, line): (u32, &Line), floor: u64) -> u64 {
        let known = self.uses.get(segment as usize).filter(|known| known.claim == line.claim);
        known
            .filter(|known| self.term == line.term && known.highest < floor)
            .map_or(0, |known| known.rooms.into())
    }
}

const _: () = assert!(SEGMENT_BYTES / LINE <= u32::MAX as u64);
