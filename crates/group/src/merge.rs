//! The part of a start set that only another replica has, as a candidate takes it into its own arena.
//!
//! Both replicas hold the base. But one of them may have left before the base's leader freed a segment and
//! claimed it anew, and the other was given the segment in its next use, perhaps before it counted again. So
//! a segment may stand in two uses of the base's leader, and no arena can have both.
//!
//! (1) *The younger use stays, or comes.* That leader freed the older one, so what it held had become
//!     needless by entries that were committed, and those are in the start set. Were the older use taken
//!     instead, the entries of the younger one would be lost, and some of them may be all that is left of
//!     their keys.
//! (2) *What a delete hides is voided*, if its tombstone goes with an older use. The leader dropped it
//!     because no older entry of its key was left anywhere in the leader's memory (L10). Here one may be
//!     left, in a segment that this replica does not know to be freed.
//! (3) *The start set then has gaps*: a follower may have what is missing here, so none is taken to hold it.

use std::collections::{BTreeMap, BTreeSet};

use longarm_base::limits::{LINE, READ_MAX};
use longarm_base::{Csn, EntryRef, Mutant, Nanos, Place, Term};
use longarm_fabric::QueuePair;
use longarm_memory::{Mapped, OwnedWords};
use longarm_store::segment::layout::{line_at, segment_of};
use longarm_store::segment::{ArenaGeometry, Line, SegmentState};
use longarm_store::{Entry, EntryKind, SegmentUse, entries, object, void, whole_entry};
use longarm_wire::{ARENA_REGION, EntryAt};

use crate::OWN_HEADER;
use crate::checked_arena::CheckedArena;
use crate::peer_channel::{Bulk, PeerError};
use crate::scan::ScannedEntry;

/// What became of an entry that another replica has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fetched {
    /// It is here.
    Taken,
    /// The use of the segment that it is in is over, by what this replica has.
    Over,
}

/// An arena that takes in what it lacks of a base's streams.
pub(crate) struct Merge<'a> {
    arena: &'a CheckedArena<Mapped>,
    geometry: ArenaGeometry,
    base: Term,
    /// Segments whose use here gave way to a younger one.
    replaced: BTreeSet<u32>,
    /// Whether some entry was not taken.
    is_short: bool,
    /// The newest of the deletes of each key whose tombstone went.
    deleted: BTreeMap<Box<[u8]>, Csn>,
}

impl<'a> Merge<'a> {
    pub fn new(arena: &'a CheckedArena<Mapped>, base: Term) -> Merge<'a> {
        let geometry = ArenaGeometry::read(&arena.memory, &arena.sums).expect(OWN_HEADER);
        let (replaced, is_short, deleted) = Default::default();
        Merge { arena, geometry, base, replaced, is_short, deleted }
    }

    /// Fetches one entry, and the lines of the segments that it is in, unless this replica has one of them in
    /// a younger use. Bytes that do not verify are an error, and never replace a line that verifies.
    pub fn fetch<Q: QueuePair>(
        &mut self,
        bulk: &mut Bulk<'_, Q>,
        entry: &EntryAt,
        until: Nanos,
    ) -> Result<Fetched, PeerError> {
        let CheckedArena { memory, sums } = self.arena;
        let (offset, len) = (entry.offset, u64::from(entry.len).next_multiple_of(8));
        let (segment, last) = (segment_of(offset), segment_of(offset + len.max(1) - 1));
        if segment < self.geometry.table || last >= self.geometry.segments || !offset.is_multiple_of(LINE) {
            return Err(PeerError::Broken(format!("it named an entry of {len} bytes at {offset:#x}")));
        }
        let bad = |what: String| PeerError::Broken(format!("{what}, which it sent, is not what it named"));
        let mut theirs = Vec::new();
        for segment in segment..=last {
            let place = Place::new(ARENA_REGION, line_at(segment), LINE as u32);
            let bytes = bulk.read(place, until)?.to_vec();
            match Line::from_bytes(&bytes, sums, segment) {
                Ok(line) if line.term == self.base && line.state != SegmentState::Free => {
                    theirs.push((segment, line, bytes));
                }
                _ => return Err(bad(format!("the line of segment {segment}"))),
            }
        }
        if theirs.iter().any(|(segment, line, _)| self.is_over(*segment, line)) {
            self.is_short = true;
            self.note_delete(bulk, entry, until)?;
            return Ok(Fetched::Over);
        }
        for (segment, line, bytes) in theirs {
            self.replace(segment, &line);
            memory.copy_in(line_at(segment), &bytes);
        }
        copy(memory, bulk, offset, len, until)?;
        match whole_entry(memory, sums, segment, offset) {
            Some((position, place)) if (position, place.len) == (entry.position, entry.len) => {
                Ok(Fetched::Taken)
            }
            _ => Err(bad(format!("the entry at {offset:#x}"))),
        }
    }

    /// Whether the base's leader claimed the segment once more after this use, by the line that is here.
    fn is_over(&self, segment: u32, theirs: &Line) -> bool {
        let ours = Line::read(&self.arena.memory, &self.arena.sums, segment);
        let younger = |ours: Line| ours.term == self.base && ours.claim > theirs.claim;
        ours.is_ok_and(younger) && !Mutant::FetchOlder.is_on()
    }

    /// The use that the segment has here gives way to this one.
    fn replace(&mut self, segment: u32, theirs: &Line) {
        let CheckedArena { memory, sums } = self.arena;
        let Ok(line) = Line::read(memory, sums, segment) else { return };
        if line.state == SegmentState::Free || line.is_same_use(theirs) {
            return;
        }
        self.replaced.insert(segment);
        if let Some(over) = SegmentUse::read(self.arena.view(), self.geometry, segment) {
            over.visit(self.arena.view(), 0, usize::MAX, &mut |_, entry| note(&mut self.deleted, entry));
        }
    }

    /// Looks whether an entry that is not taken is a delete. One that is too large for that is none.
    fn note_delete<Q: QueuePair>(
        &mut self,
        bulk: &mut Bulk<'_, Q>,
        entry: &EntryAt,
        until: Nanos,
    ) -> Result<(), PeerError> {
        let len = entry.len.next_multiple_of(8).max(LINE as u32);
        if len <= READ_MAX {
            let bytes = bulk.read(Place::new(ARENA_REGION, entry.offset, len), until)?;
            if let Ok(entry) = object::read(bytes, entry.offset, &self.arena.sums) {
                note(&mut self.deleted, &entry);
            }
        }
        Ok(())
    }

    /// When all is here that can be: takes out of the list what has gone, and voids what was deleted. Whether
    /// nothing is missing.
    pub fn settle(self, list: &mut Vec<ScannedEntry>) -> bool {
        let CheckedArena { memory, sums } = self.arena;
        if !self.deleted.is_empty() {
            let mut hidden = Vec::new();
            entries(memory, sums, &mut |place, entry| {
                let is_hidden = |delete: &Csn| entry.kind.is_value() && entry.csn < *delete;
                if self.deleted.get(entry.key).is_some_and(is_hidden) {
                    hidden.push(place);
                }
            })
            .expect(OWN_HEADER);
            hidden.into_iter().for_each(|place| void(memory, place));
        }
        if self.replaced.is_empty() && self.deleted.is_empty() {
            return !self.is_short;
        }
        let is_here = |seen: &ScannedEntry| {
            let EntryRef { offset, .. } = seen.place;
            whole_entry(memory, sums, segment_of(offset), offset).is_some_and(|(at, _)| at == seen.position)
        };
        list.retain(is_here);
        false
    }
}

/// Notes the delete, if the entry is one.
fn note(deleted: &mut BTreeMap<Box<[u8]>, Csn>, entry: &Entry<'_>) {
    if entry.kind == EntryKind::Tombstone {
        let newest = deleted.entry(entry.key.into()).or_insert(entry.csn);
        *newest = (*newest).max(entry.csn);
    }
}

fn copy<Q: QueuePair>(
    memory: &Mapped,
    bulk: &mut Bulk<'_, Q>,
    offset: u64,
    len: u64,
    until: Nanos,
) -> Result<(), PeerError> {
    let mut at = 0;
    while at < len {
        let size = (len - at).min(u64::from(READ_MAX)) as u32;
        let bytes = bulk.read(Place::new(ARENA_REGION, offset + at, size), until)?;
        memory.copy_in(offset + at, bytes);
        at += u64::from(size);
    }
    Ok(())
}
