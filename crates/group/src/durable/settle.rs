//! The file of a replica becomes that of another term: it is given what the memory has and it has not.
//!
//! (1) Entries never change, and a segment has one use until all let go of it. So what the file lacks are the
//!     segments that it has in another use, or in none, and the entries of its own term's streams that are
//!     not below its floors. Of those, entries that were cut off are void in the file, too (L16).
//! (2) A file that is of the base of the new term stays what it is until the note of the new term is there:
//!     what is added is of uses that its note does not know, or lies beyond the floors, and what goes was
//!     never acknowledged. A loss of power in between leaves the older term.
//! (3) A file whose replica was overwritten with another start set than its own becomes a mixture, as the
//!     memory did: it still has what its own term and those before committed, since that has its place for
//!     ever. A note says so first (D4).
//! (4) So does the file of a replica that was away while a leader used segments again: what the memory has
//!     there now is written over what the note counts. It is needed no more, but what is left of it in the
//!     middle of that would be taken for damage, and the file has less of its own term than its note says.
//! (5) Entries of the file's own term that a next leader cut off go from the file, too, also below the
//!     floors: this disk had them, and too few others. A note with lower floors says so first.
//! (6) A segment that the file is given again, as others have still to let go of it, is of a term that the
//!     note has behind it. All that its line names counts, so its entries are surely there before its line.
//! (7) What is left of an entry that was cut off while a leader wrote it would look like damage once its term
//!     is not the newest any more. It is void in the file.
//! (8) Of what the new term's leader is writing only whole entries go to the file. What has landed of another
//!     may not even say which position it has, and would be taken for damage.

use std::ops::Range;

use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_base::{Mutant, Nanos, Term};
use longarm_disk::{DiskError, Note};
use longarm_host::{now, sleep};
use longarm_memory::{Mapped, Words};
use longarm_store::object::layout::SUM;
use longarm_store::segment::layout::segment_at;
use longarm_store::segment::{ArenaGeometry, Line, SegmentState, line_bytes, replica_line};
use longarm_store::{ArenaView, SegmentUse};

use crate::OWN_HEADER;
use crate::checked_arena::CheckedArena;
use crate::durable::options::ReplicaDisk;

/// Bytes that are copied and written at once.
const CHUNK: u64 = 1 << 20;
/// Bytes that are written before a sync waits for them: whoever asks whether it goes on is not kept waiting.
const SYNCED: u64 = 64 << 20;
/// How long a line that is being changed is waited for, and the time between two looks.
const CHANGE: Nanos = Nanos::from_millis(100);
const AGAIN: std::time::Duration = std::time::Duration::from_micros(20);

/// The file of a replica, and how much of the memory is in it.
pub(crate) struct KeptDisk {
    pub disk: ReplicaDisk,
    /// What the file says of itself; none if nothing was ever acknowledged.
    pub note: Option<Note>,
    /// The term whose start set the file has, with the streams of that term below the floors.
    pub term: Term,
    /// By stream.
    pub floors: Vec<u64>,
    /// The memory was read from the file, and nobody has written to it since.
    pub same: bool,
    /// The memory was given another start set than the file's: the file lacks all of it.
    pub lacks_all: bool,
}

/// Why a file was not given all.
#[derive(Debug)]
pub(crate) enum Unsettled {
    /// The memory is about to change.
    Stopped,
    /// The file has more of the term than the leader's, and may not become a mixture yet.
    Ahead,
    /// The disk failed.
    Failed(DiskError),
}

impl From<DiskError> for Unsettled {
    fn from(error: DiskError) -> Unsettled {
        Unsettled::Failed(error)
    }
}

impl KeptDisk {
    /// Notes that the replica's memory was given another start set, which the file will be given, too.
    pub fn mix(&mut self) -> Result<(), DiskError> {
        if !Mutant::ForgetMixed.is_on() {
            self.note_mixture()?;
        }
        (self.same, self.lacks_all) = (false, true);
        Ok(())
    }

    /// Notes that the file becomes a mixture.
    fn note_mixture(&mut self) -> Result<(), DiskError> {
        let Some(note) = &mut self.note else { return Ok(()) };
        (note.mixed, note.ended) = (true, false);
        // Floors are of the file's term, of which there may be no note yet.
        if note.term == self.term {
            note.floors.clone_from(&self.floors);
        }
        self.disk.write_note(note)?;
        self.disk.sync()
    }

    /// Notes that a next leader cut off what these streams of the file's term have from here on.
    pub fn cut(&mut self, cuts: &[u64]) -> Result<(), DiskError> {
        let lower = |floors: &[u64]| -> Vec<u64> {
            let cuts = cuts.iter().copied().chain(std::iter::repeat(0));
            floors.iter().zip(cuts).map(|(&floor, cut)| floor.min(cut)).collect()
        };
        self.floors = lower(&self.floors);
        if let Some(note) = self.note.as_mut().filter(|note| note.term == self.term)
            && note.floors != lower(&note.floors)
        {
            (note.ended, note.floors) = (false, lower(&note.floors));
            self.disk.write_note(note)?;
            self.disk.sync()?;
        }
        Ok(())
    }

    /// Gives the file all that the memory has of the start set of a term, and the term's own streams below
    /// `floors`; more of these may come meanwhile. `may_mix`: it may become a mixture for that. `stopped`
    /// says that the memory is not to be looked at any more. On return all of it is surely there, though no
    /// note says so.
    pub fn settle(
        &mut self,
        arena: &CheckedArena<Mapped>,
        term: Term,
        floors: Vec<u64>,
        may_mix: bool,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), Unsettled> {
        // Segments that its lines say are free are overwritten, so a loss of power leaves these lines.
        self.disk.sync_table()?;
        let geometry = ArenaGeometry::read(&arena.memory, &arena.sums).expect(OWN_HEADER);
        let mut settling = Settling {
            kept: self,
            arena,
            term,
            geometry,
            may_mix,
            stopped,
            buffer: vec![0; CHUNK as usize],
            unsynced: 0,
            again: false,
        };
        (geometry.table..geometry.segments).try_for_each(|segment| settling.segment(segment))?;
        if settling.again && !Mutant::LinesAtOnce.is_on() {
            self.disk.sync()?;
        }
        self.disk.write_table()?;
        self.disk.sync()?;
        (self.term, self.floors) = (term, floors);
        (self.same, self.lacks_all) = (false, false);
        Ok(())
    }

    fn floor(&self, stream: u16) -> u64 {
        self.floors.get(usize::from(stream)).copied().unwrap_or(0)
    }
}

/// The bytes that an entry of so many bytes takes of a file: those of its room, or its own in a run.
pub(crate) fn room_bytes(it: &SegmentUse, len: u32) -> u64 {
    if it.line.stride == 0 { u64::from(len).next_multiple_of(8) } else { it.line.rooms().0 }
}

/// A file that is given a start set.
struct Settling<'a> {
    kept: &'a mut KeptDisk,
    arena: &'a CheckedArena<Mapped>,
    term: Term,
    geometry: ArenaGeometry,
    may_mix: bool,
    stopped: &'a dyn Fn() -> bool,
    buffer: Vec<u8>,
    unsynced: u64,
    /// Whether it was given a segment of a term that its note has behind it.
    again: bool,
}

impl Settling<'_> {
    /// Brings a segment, or the run that begins there, into the file, and then its line.
    fn segment(&mut self, segment: u32) -> Result<(), Unsettled> {
        let CheckedArena { memory, sums } = self.arena;
        let view = ArenaView { memory, sums };
        let (bytes, known) = (self.line(segment)?, self.kept.disk.line(segment));
        if bytes != known {
            self.give_up(segment)?;
        }
        let known = Line::from_bytes(&known, sums, segment).unwrap_or(Line::FREE);
        let lacks = !self.kept.same;
        if let Some(it) = SegmentUse::read(view, self.geometry, segment).filter(|_| lacks) {
            let is_known = known.has_entries() && known.is_same_use(&it.line);
            match it.line.term.cmp(&self.kept.term) {
                _ if !is_known || self.kept.lacks_all => self.whole(&it)?,
                std::cmp::Ordering::Greater => self.whole(&it)?,
                std::cmp::Ordering::Equal => self.beyond(&it)?,
                std::cmp::Ordering::Less => {}
            }
        }
        self.kept.disk.set_line(segment, &bytes);
        Ok(())
    }

    /// The file is about to lose what it has in a segment. If its note counts that, a note says so first.
    fn give_up(&mut self, segment: u32) -> Result<(), Unsettled> {
        let Some(note) = self.kept.note.as_ref().filter(|note| !note.mixed) else { return Ok(()) };
        let known = Line::from_bytes(&self.kept.disk.line(segment), &self.arena.sums, segment);
        let counts = |line: Line| line.state != SegmentState::Free && line.term <= note.term;
        if !known.is_ok_and(counts) || Mutant::WriteOver.is_on() {
            return Ok(());
        }
        if !self.may_mix {
            return Err(Unsettled::Ahead);
        }
        Ok(self.kept.note_mixture()?)
    }

    /// The line of a segment, between two changes. What never comes to be a line says nothing.
    fn line(&self, segment: u32) -> Result<[u8; LINE as usize], Unsettled> {
        let CheckedArena { memory, sums } = self.arena;
        let until = now() + CHANGE;
        loop {
            self.go_on()?;
            if let Some(line) = replica_line(memory, sums, segment) {
                return Ok(line);
            }
            if now() >= until {
                return Ok(line_bytes(memory, segment));
            }
            sleep(AGAIN);
        }
    }

    fn go_on(&self) -> Result<(), Unsettled> {
        if (self.stopped)() { Err(Unsettled::Stopped) } else { Ok(()) }
    }

    /// Writes all of a use that the file does not have.
    fn whole(&mut self, it: &SegmentUse) -> Result<(), Unsettled> {
        (it.segment..it.segment + it.line.run).try_for_each(|segment| self.give_up(segment))?;
        self.again |= self.kept.note.as_ref().is_some_and(|note| !note.mixed && it.line.term <= note.term);
        if it.line.term == self.term && !Mutant::CopyLanding.is_on() {
            return self.entries(it, 0);
        }
        let (from, len) = (segment_at(it.segment), u64::from(it.line.run) * SEGMENT_BYTES);
        for at in (from..from + len).step_by(CHUNK as usize) {
            self.copy(at, CHUNK.min(from + len - at))?;
        }
        let mut broken = Vec::new();
        it.marked(self.arena.view(), 0, &mut |offset, whole| {
            broken.extend(whole.is_none().then_some(offset))
        });
        self.void(it, &broken)
    }

    /// Writes what a use has beyond the floors of the file.
    fn beyond(&mut self, it: &SegmentUse) -> Result<(), Unsettled> {
        self.entries(it, self.kept.floor(it.line.stream))
    }

    /// Writes the entries of a use from a position of its stream on, and nothing of a room that has no whole
    /// one.
    fn entries(&mut self, it: &SegmentUse, from: u64) -> Result<(), Unsettled> {
        let (mut there, mut broken) = (Vec::<Range<u64>>::new(), Vec::new());
        it.marked(self.arena.view(), from, &mut |offset, whole| match whole {
            Some(len) => match there.last_mut() {
                Some(before) if before.end == offset => before.end += room_bytes(it, len),
                _ => there.push(offset..offset + room_bytes(it, len)),
            },
            None => broken.push(offset),
        });
        for part in there {
            for at in part.clone().step_by(CHUNK as usize) {
                self.copy(at, CHUNK.min(part.end - at))?;
            }
        }
        self.void(it, &broken)
    }

    /// Voids rooms in the file that hold no whole entry, unless the term's leader may be about to fill them.
    fn void(&mut self, it: &SegmentUse, rooms: &[u64]) -> Result<(), Unsettled> {
        if it.line.term == self.term || Mutant::KeepBroken.is_on() {
            return Ok(());
        }
        self.go_on()?;
        rooms.iter().try_for_each(|offset| self.kept.disk.write(offset + SUM, &[0; 8]))?;
        Ok(())
    }

    fn copy(&mut self, at: u64, len: u64) -> Result<(), Unsettled> {
        let buffer = &mut self.buffer[..len as usize];
        self.arena.memory.copy_out(at, buffer);
        // Looked at after the bytes were copied: they are of the memory as it was before a change.
        if (self.stopped)() && !Mutant::DrainAfterReady.is_on() {
            return Err(Unsettled::Stopped);
        }
        // Zeros, too: the file may have something else there.
        self.kept.disk.write(at, buffer)?;
        self.unsynced += len;
        if self.unsynced >= SYNCED {
            self.unsynced = 0;
            self.kept.disk.sync()?;
        }
        Ok(())
    }
}
