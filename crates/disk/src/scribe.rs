//! What is written when: the changes of an arena that were named go to the file in batches, each with one
//! sync.
//!
//! (1) A batch writes the note of the batch before, the lines and the entries that were named, and syncs.
//!     Then all of them are there, and the scribe says how far each stream is ([`Scribe::floors`]). Entries
//!     name their use of a segment themselves, so the line and the entries of a claim need no sync between
//!     them: a line without its entries is an empty segment, entries without their line are nothing.
//! (2) A segment is claimed anew only after the sync of the batch that freed its line, since whoever frees
//!     segments waits for that. So no batch has both, and nothing that a freed segment held comes back.
//! (3) A note says of bytes only what an earlier sync has made true, so it is part of the next batch. Its
//!     floors are those of the batch before. Its stable version is that of a [`Mark`] whose positions these
//!     floors cover.
//! (4) Only what was named is written, and nothing between. An entry that comes later may be landing there:
//!     half of one would be taken for damage where not even its position has landed.
//! (5) After the first error nothing is written any more, and nothing more is said to be there.

use std::collections::VecDeque;

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Csn, Mutant, Term};

use crate::arena_disk::ArenaDisk;
use crate::error::DiskError;
use crate::medium::Medium;
use crate::note::{Note, covers};
use crate::table::Line;

/// Bytes that are copied and written at once.
const CHUNK: u64 = 1 << 20;

/// A moment of the leader: first the stable point was looked at, then how far each stream was written. So all
/// entries up to that version stand below these positions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// All entries up to this version are written.
    pub stable: Csn,
    /// No version beyond this one was drawn, nor will be before a later mark is noted.
    pub ceiling: Csn,
    /// The leader's calendar, in unix milliseconds.
    pub unix: u64,
    /// Items in its index, about.
    pub items: u64,
    /// Segments that were freed in the term, and that the file has as free.
    pub reclaimed: u64,
    /// By stream: all entries below are written.
    pub written: Vec<u64>,
}

/// The writer of a file, in one term.
pub struct Scribe<M> {
    disk: ArenaDisk<M>,
    term: Term,
    /// Nothing is acknowledged before it is in the file.
    sync: bool,
    /// By stream: positions below are named, and in the file.
    named: Vec<u64>,
    floors: Vec<u64>,
    /// Those of entries that were named since the last batch.
    named_bytes: Vec<Stretch>,
    marks: VecDeque<Mark>,
    /// The newest mark that the floors cover; none at first.
    covered: Option<Mark>,
    /// The note that is in the file, and counts if the power is lost.
    noted: Note,
    /// Whether what the next note will say is more than what the last one says.
    due: bool,
    buffer: Vec<u8>,
}

impl<M: Medium> Scribe<M> {
    /// Begins a term with a file that has been given all that the term begins with, except for its lines: by
    /// `first` the file surely has that, and a note of the new term says so. `sync`: nothing will be
    /// acknowledged before it is in the file.
    pub fn begin(
        mut disk: ArenaDisk<M>,
        term: Term,
        sync: bool,
        first: Mark,
    ) -> Result<Scribe<M>, DiskError> {
        disk.write_table()?;
        // The note speaks of all this, so it follows the sync.
        disk.sync()?;
        let mut scribe = Scribe::go_on(disk, term, sync, vec![0; first.written.len()]);
        scribe.covered = Some(Mark { written: scribe.floors.clone(), ..first });
        let noted = scribe.write_note(false)?;
        scribe.disk.sync()?;
        scribe.noted = noted;
        Ok(scribe)
    }

    /// Goes on in a term with a file that surely has its start set, and all entries below these floors, by
    /// stream. No note says so yet: the first one follows the first mark.
    pub fn go_on(disk: ArenaDisk<M>, term: Term, sync: bool, floors: Vec<u64>) -> Scribe<M> {
        Scribe {
            disk,
            term,
            sync,
            named: floors.clone(),
            floors,
            named_bytes: Vec::new(),
            marks: VecDeque::new(),
            covered: None,
            noted: Note::default(),
            due: false,
            buffer: Vec::new(),
        }
    }

    /// The file.
    pub fn disk(&self) -> &ArenaDisk<M> {
        &self.disk
    }

    /// The file again, when the term is over.
    pub fn into_disk(self) -> ArenaDisk<M> {
        self.disk
    }

    /// The file, to be looked over: what is written to it says nothing new.
    pub fn disk_mut(&mut self) -> &mut ArenaDisk<M> {
        &mut self.disk
    }

    /// The term whose entries the floors count.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Writes the note that counts once more.
    pub fn renew_note(&mut self) -> Result<(), DiskError> {
        self.disk.write_note(&self.noted)?;
        self.disk.sync()
    }

    /// The line of a segment changed: it was claimed, or freed.
    pub fn name_line(&mut self, segment: u32, line: &Line) {
        self.disk.set_line(segment, line);
    }

    /// The next entry of a stream stands there. Where it has a room of a segment, it is the whole room: so
    /// neighbours are written together.
    pub fn name_entry(&mut self, stream: usize, offset: u64, len: u64) {
        self.named[stream] += 1;
        let next = Stretch { start: offset, end: offset + len };
        if !self.named_bytes.last_mut().is_some_and(|last| last.take(next)) {
            self.named_bytes.push(next);
        }
    }

    /// A moment of the leader, later than those before.
    pub fn mark(&mut self, mark: Mark) {
        self.marks.push_back(mark);
    }

    /// Bytes of entries that were named since the last batch.
    pub fn waiting(&self) -> u64 {
        self.named_bytes.iter().map(|it| it.end - it.start).sum()
    }

    /// By stream: all positions below are in the file.
    pub fn floors(&self) -> &[u64] {
        &self.floors
    }

    /// The note that counts now.
    pub fn noted(&self) -> &Note {
        &self.noted
    }

    /// Whether something was named that is not in the file.
    pub fn has_named(&self) -> bool {
        self.named != self.floors || self.disk.has_changed_lines()
    }

    /// Whether all that was named and marked is in the file, and the note says so.
    pub fn is_settled(&self) -> bool {
        !self.due && self.marks.is_empty() && !self.has_named()
    }

    /// Writes all that was named, and syncs; with the note that is due, if there is one and it is wanted.
    /// `copy` copies bytes of the arena out, and says whether they are still what was named; if not, the
    /// batch ends there, and nothing of it counts. Returns how many bytes of entries were written.
    pub fn batch(
        &mut self,
        with_note: bool,
        mut copy: impl FnMut(u64, &mut [u8]) -> bool,
    ) -> Result<Option<u64>, DiskError> {
        if Mutant::NoteWithBatch.is_on() {
            self.cover();
        }
        let noted = if with_note && self.due { Some(self.write_note(false)?) } else { None };
        self.disk.write_table()?;
        let mut named = std::mem::take(&mut self.named_bytes);
        named.sort_unstable();
        let mut bytes = 0;
        for Stretch { start, end } in join(named) {
            for from in (start..end).step_by(CHUNK as usize) {
                let len = CHUNK.min(end - from);
                self.buffer.resize(len as usize, 0);
                if !copy(from, &mut self.buffer) {
                    return Ok(None);
                }
                self.disk.write(from, &self.buffer)?;
                bytes += len;
            }
        }
        self.disk.sync()?;
        if let Some(noted) = noted {
            self.noted = noted;
        }
        self.cover();
        Ok(Some(bytes))
    }

    /// All that was named is in the file.
    fn cover(&mut self) {
        self.floors.clone_from(&self.named);
        while self.marks.front().is_some_and(|mark| covers(&self.floors, &mark.written)) {
            self.covered = self.marks.pop_front();
        }
        self.due = self.note(false).is_some_and(|note| note != self.noted);
    }

    /// The leader ends in order: writes all that was named, and a note that says so.
    pub fn end(&mut self, copy: impl FnMut(u64, &mut [u8]) -> bool) -> Result<(), DiskError> {
        self.batch(false, copy)?;
        self.noted = self.write_note(true)?;
        self.disk.sync()?;
        self.due = false;
        Ok(())
    }

    /// Writes a note, which counts from the next sync on.
    ///
    /// # Panics
    /// If no mark is covered.
    fn write_note(&mut self, ended: bool) -> Result<Note, DiskError> {
        let note = self.note(ended).expect("a note rests on a mark");
        self.disk.write_note(&note)?;
        Ok(note)
    }

    fn note(&self, ended: bool) -> Option<Note> {
        let &Mark { stable, ceiling, unix, items, reclaimed, .. } = self.covered.as_ref()?;
        let (number, term, sync, floors) = (0, self.term, self.sync, self.floors.clone());
        let mixed = false;
        Some(Note { number, term, stable, ceiling, ended, sync, mixed, unix, items, reclaimed, floors })
    }
}

/// Bytes of the arena that were named, from `start` up to `end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Stretch {
    start: u64,
    end: u64,
}

impl Stretch {
    /// Takes another one in that begins within it or at its end; whether it does.
    fn take(&mut self, other: Stretch) -> bool {
        let between = if Mutant::CopyLanding.is_on() { 4096 } else { 0 };
        let adjoins = other.start >= self.start && other.start <= self.end + between;
        let joins = adjoins && other.start / SEGMENT_BYTES == (self.end - 1) / SEGMENT_BYTES;
        if joins {
            self.end = self.end.max(other.end);
        }
        joins
    }
}

/// Joins those of a sorted list that adjoin.
fn join(mut all: Vec<Stretch>) -> Vec<Stretch> {
    all.dedup_by(|next, one| one.take(*next));
    all
}

#[cfg(test)]
mod tests;
