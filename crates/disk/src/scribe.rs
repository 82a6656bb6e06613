//! What is written when: the changes of an arena that were named go to the file in batches, each with one
//! sync.
//!
//! (1) A batch writes the note of the batch before, the lines and the entries that were named, and syncs.
//!     Then all of them are there, and the scribe says how far each stream is ([`Batch::floors`]). Entries
//!     name their use of a segment themselves, so the line and the entries of a claim need no sync between
//!     them: a line without its entries is an empty segment, entries without their line are nothing.
//! (2) A segment is claimed anew only after the sync of the batch that freed its line, since whoever frees
//!     segments waits for that. So no batch has both, and nothing that a freed segment held comes back.
//! (3) A note says of bytes only what an earlier sync has made true, so it is part of the next batch. Its
//!     floors are those of the batch before. Its stable version is that of a [`Mark`] whose positions these
//!     floors cover.
//! (4) After the first error nothing is written any more, and nothing more is said to be there.

use std::collections::VecDeque;

use longarm_base::{Csn, Term};

use crate::arena_disk::ArenaDisk;
use crate::error::DiskError;
use crate::medium::Medium;
use crate::note::Note;
use crate::table::Line;

/// Bytes that are copied and written at once.
const CHUNK: u64 = 1 << 20;

/// A moment of the leader: first the stable point was looked at, then how far each stream was written. So all
/// entries up to that version stand below these positions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// All entries up to this version are written.
    pub stable: Csn,
    /// No version beyond this one was drawn, nor will be before a later mark.
    pub ceiling: Csn,
    /// By stream: all entries below are written.
    pub written: Vec<u64>,
}

/// What a batch made sure.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// By stream: all positions below are in the file.
    pub floors: Vec<u64>,
    /// The note that is in the file now, and counts if the power is lost. It says less than the floors.
    pub noted: Option<Note>,
    /// Bytes of entries.
    pub bytes: u64,
}

/// The writer of a file, in one term.
pub struct Scribe<M> {
    disk: ArenaDisk<M>,
    term: Term,
    /// By stream: positions below are named, and in the file.
    named: Vec<u64>,
    floors: Vec<u64>,
    /// Ranges of entries that were named since the last batch.
    ranges: Vec<(u64, u64)>,
    marks: VecDeque<Mark>,
    /// The newest mark that the floors cover.
    covered: Mark,
    /// What the next batch notes.
    due: Option<Note>,
    buffer: Vec<u8>,
}

impl<M: Medium> Scribe<M> {
    /// Goes on with a file that holds all that the term begins with.
    pub fn new(disk: ArenaDisk<M>, term: Term, streams: usize) -> Scribe<M> {
        let (ranges, marks, covered, buffer) = Default::default();
        let (named, floors) = (vec![0; streams], vec![0; streams]);
        Scribe { disk, term, named, floors, ranges, marks, covered, due: None, buffer }
    }

    /// The file.
    pub fn disk(&self) -> &ArenaDisk<M> {
        &self.disk
    }

    /// The line of a segment changed: it was claimed, or freed.
    pub fn name_line(&mut self, segment: u32, line: &Line) {
        self.disk.set_line(segment, line);
    }

    /// The next entry of a stream stands there.
    pub fn name_entry(&mut self, stream: u16, offset: u64, len: u64) {
        self.named[usize::from(stream)] += 1;
        match self.ranges.last_mut() {
            Some((_, end)) if *end == offset => *end += len,
            _ => self.ranges.push((offset, offset + len)),
        }
    }

    /// A moment of the leader, later than those before.
    pub fn mark(&mut self, mark: Mark) {
        self.marks.push_back(mark);
    }

    /// Bytes of entries that were named since the last batch.
    pub fn waiting(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// By stream: all positions below are in the file.
    pub fn floors(&self) -> &[u64] {
        &self.floors
    }

    /// Writes all that was named, and syncs. `copy` copies bytes of the arena out.
    pub fn batch(&mut self, mut copy: impl FnMut(u64, &mut [u8])) -> Result<Batch, DiskError> {
        let noted = self.due.take();
        if let Some(note) = &noted {
            self.disk.write_note(note)?;
        }
        self.disk.write_table()?;
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.sort_unstable();
        let mut bytes = 0;
        for (start, end) in neighbours(ranges) {
            for from in (start..end).step_by(CHUNK as usize) {
                let len = CHUNK.min(end - from);
                self.buffer.resize(len as usize, 0);
                copy(from, &mut self.buffer);
                self.disk.write(from, &self.buffer)?;
                bytes += len;
            }
        }
        self.disk.sync()?;
        self.floors.clone_from(&self.named);
        let floors = &self.floors;
        let is_covered =
            |mark: &Mark| mark.written.iter().zip(floors).all(|(written, floor)| written <= floor);
        while self.marks.front().is_some_and(is_covered) {
            self.covered = self.marks.pop_front().expect("there is one");
        }
        self.due = Some(self.note(false));
        Ok(Batch { floors: self.floors.clone(), noted, bytes })
    }

    /// The server ends in order: writes all that was named, and a note that says so.
    pub fn end(mut self, copy: impl FnMut(u64, &mut [u8])) -> Result<Note, DiskError> {
        self.batch(copy)?;
        let note = self.note(true);
        self.disk.write_note(&note)?;
        self.disk.sync()?;
        Ok(note)
    }

    fn note(&self, ended: bool) -> Note {
        let Mark { stable, ceiling, .. } = self.covered;
        Note { number: 0, term: self.term, stable, ceiling, ended, floors: self.floors.clone() }
    }
}

/// Ranges in order, those that adjoin as one.
fn neighbours(sorted: Vec<(u64, u64)>) -> impl Iterator<Item = (u64, u64)> {
    let mut sorted = sorted.into_iter().peekable();
    std::iter::from_fn(move || {
        let (start, mut end) = sorted.next()?;
        while let Some((_, more)) = sorted.next_if(|(next, _)| *next <= end) {
            end = end.max(more);
        }
        Some((start, end))
    })
}

#[cfg(test)]
mod tests;
