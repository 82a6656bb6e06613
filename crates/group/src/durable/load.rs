//! The file of a replica's arena, back in memory.
//!
//! (1) An entry is here if it verifies and bears the use of its segment's line, as after the WRITEs of a
//!     leader that is gone. Everything else that bears the use is left of an entry that was cut off.
//! (2) Of the term of the note, entries below the floors are here. In `async` mode the entries at or beyond
//!     them go, and those of a version above the stable one: what is left is what the leader had at a moment
//!     (D2). In `sync` mode entries beyond a floor stay up to the first that is missing, as they may have
//!     been acknowledged (D1).
//! (3) What goes is void in memory and in the file, and the new term's first note follows the sync of that.
//!     Otherwise it might come back when the next term's floors and versions are above it (D4).
//! (4) What is broken below a floor, or of an older term, was whole once: it is damage, and never taken for
//!     the end of a stream (D8; Alagappan et al., FAST '18).

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Csn, Mutant, Nanos, Term};
use longarm_disk::{DiskError, Medium, Note, Shape};
use longarm_host::{Mutex, now};
use longarm_memory::{Mapped, OwnedWords};
use longarm_store::object::layout::SUM;
use longarm_store::segment::layout::{line_at, segment_at};
use longarm_store::segment::{ArenaGeometry, Line, forget};
use longarm_store::{Room, SegmentUse};

use crate::OWN_HEADER;
use crate::checked_arena::CheckedArena;
use crate::durable::options::{Durability, Durable, ReplicaDisk};
use crate::log::Log;
use crate::options::StartError;

/// The most threads that read.
const THREADS_MAX: usize = 8;
/// Bytes of a segment that are passed over if they are zero: their memory is not touched.
const BLOCK: usize = 16 << 10;
/// The time between two lines that say how far it is.
const SAY_EVERY: Nanos = Nanos::from_millis(1_000);
/// Damaged rooms that are named.
const NAMED: usize = 8;

/// A file, and what it says.
pub(crate) struct Loaded {
    /// The file.
    pub disk: ReplicaDisk,
    /// What it says of itself; none if nothing was ever acknowledged.
    pub note: Option<Note>,
    /// By stream of the note's term: all positions below are in the file and in memory.
    pub floors: Vec<u64>,
}

/// What becomes of a room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It stays.
    Stays,
    /// It stays if all positions before it do.
    Tail,
    /// It goes.
    Goes,
    /// It was whole once.
    Damaged,
}

/// Judges rooms by a note.
pub(super) struct Judge<'a> {
    pub note: &'a Note,
}

impl Judge<'_> {
    fn floor(&self, stream: u16) -> u64 {
        self.note.floors.get(usize::from(stream)).copied().unwrap_or(0)
    }

    /// What becomes of a room in a use with this line, of this version and position.
    pub fn judge(&self, line: &Line, csn: Csn, position: u64, whole: bool) -> Verdict {
        let of_note = line.term == self.note.term;
        let below = position < self.floor(line.stream);
        let cut = !self.note.sync && csn > self.note.stable && !Mutant::KeepBeyondCut.is_on();
        match (of_note, whole) {
            (false, true) => Verdict::Stays,
            // It may have been cut off when another start set was written over it, which has what was
            // committed.
            (_, false) if self.note.mixed => Verdict::Goes,
            (false, false) => Verdict::Damaged,
            (true, true) if below && !cut => Verdict::Stays,
            (true, false) if below && !cut && !Mutant::TrustRot.is_on() => Verdict::Damaged,
            (true, true) if self.note.sync => Verdict::Tail,
            (true, _) => Verdict::Goes,
        }
    }
}

/// What the threads that read found.
#[derive(Default)]
pub(super) struct Found {
    pub entries: u64,
    /// Offsets of rooms that go.
    pub goes: Vec<u64>,
    /// Stream, position and offset of entries beyond a floor.
    tail: Vec<(u16, u64, u64)>,
    pub damaged: u64,
    /// Some of the damaged ones.
    pub named: Vec<u64>,
}

impl Found {
    pub fn see(&mut self, verdict: Verdict, line: &Line, position: u64, offset: u64) {
        match verdict {
            Verdict::Stays => self.entries += 1,
            Verdict::Tail => self.tail.push((line.stream, position, offset)),
            Verdict::Goes => self.goes.push(offset),
            Verdict::Damaged => {
                self.damaged += 1;
                self.goes.push(offset);
                if self.named.len() < NAMED {
                    self.named.push(offset);
                }
            }
        }
    }

    fn take(&mut self, mut other: Found) {
        self.entries += other.entries;
        self.damaged += other.damaged;
        self.goes.append(&mut other.goes);
        self.tail.append(&mut other.tail);
        self.named.append(&mut other.named);
    }

    /// Entries of a tail behind the first position that is missing go. Returns how far each stream is.
    pub fn end_tails(&mut self, judge: &Judge<'_>) -> Vec<u64> {
        let mut floors = judge.note.floors.clone();
        self.tail.sort_unstable();
        for (stream, position, offset) in std::mem::take(&mut self.tail) {
            let stream = usize::from(stream);
            floors.resize(floors.len().max(stream + 1), 0);
            if position == floors[stream] {
                floors[stream] += 1;
                self.entries += 1;
            } else {
                self.goes.push(offset);
            }
        }
        floors
    }
}

/// Reads the replica's file into fresh memory, and lets go of what does not count.
pub(crate) fn load(
    arena: &CheckedArena<Mapped>,
    durable: &Durable,
    group: u64,
    log: &Log,
) -> Result<Loaded, StartError> {
    let ArenaGeometry { segments, table } =
        ArenaGeometry::read(&arena.memory, &arena.sums).expect(OWN_HEADER);
    let (mut disk, found) = durable.disk.open(Shape { group, segments, table })?;
    if durable.durability == Durability::Sync {
        disk.expect_writes();
    }
    let Some(note) = found.note else { return Ok(Loaded { disk, note: None, floors: Vec::new() }) };
    let mut loading = Loading { arena, disk, begun: now(), log };
    loading.lines(table..segments, note.term);
    let judge = Judge { note: &note };
    let mut found = loading.entries(table..segments, &judge)?;
    let floors = found.end_tails(&judge);
    if found.damaged > 0 {
        loading.damaged(&found, durable.accept_damage)?;
    }
    for &offset in &found.goes {
        arena.memory.store(offset + SUM, 0);
        if !Mutant::KeepInFile.is_on() {
            loading.disk.write(offset + SUM, &[0; 8])?;
        }
    }
    loading.say(&note, &found);
    Ok(Loaded { disk: loading.disk, note: Some(note), floors })
}

/// A file that is being read.
struct Loading<'a> {
    arena: &'a CheckedArena<Mapped>,
    disk: ReplicaDisk,
    begun: Nanos,
    log: &'a Log,
}

impl Loading<'_> {
    /// Takes the lines over. Those of a younger term are of one whose first note is not there.
    fn lines(&self, segments: std::ops::Range<u32>, term: Term) {
        let CheckedArena { memory, sums } = self.arena;
        for segment in segments {
            let line = self.disk.line(segment);
            if line.iter().any(|byte| *byte != 0) {
                memory.copy_in(line_at(segment), &line);
            }
            if Line::read(memory, sums, segment).is_ok_and(|line| line.term > term) {
                forget(memory, sums, segment);
            }
        }
    }

    /// Reads all segments in use, and judges what is in them.
    fn entries(&self, segments: std::ops::Range<u32>, judge: &Judge<'_>) -> Result<Found, DiskError> {
        let view = self.arena.view();
        let geometry = ArenaGeometry::read(view.memory, view.sums).expect(OWN_HEADER);
        let uses: Vec<SegmentUse> =
            segments.filter_map(|segment| SegmentUse::read(view, geometry, segment)).collect();
        let all: u64 = uses.iter().map(|it| u64::from(it.line.run)).sum();
        let (next, read) = (AtomicUsize::new(0), AtomicU64::new(0));
        let outcome = Mutex::new(Ok(Found::default()));
        longarm_host::at_once(longarm_host::cores().min(THREADS_MAX).min(uses.len()), |thread| {
            let (mut part, mut buffer, mut said) = (Found::default(), Vec::new(), self.begun);
            // Relaxed: the thread that draws a number does that part.
            while let Some(it) = uses.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.segments_of(it, &mut buffer) {
                    *outcome.lock() = Err(error);
                    return;
                }
                it.rooms(view, &mut |offset, room| {
                    let (csn, position, whole) = match room {
                        Room::Entry(_, entry) => (entry.csn, entry.position, true),
                        Room::Broken { csn, position } => (csn, position, false),
                    };
                    part.see(judge.judge(&it.line, csn, position, whole), &it.line, position, offset);
                });
                // Relaxed: a figure for people.
                let read = read.fetch_add(it.line.run.into(), Ordering::Relaxed) + u64::from(it.line.run);
                if thread == 0 && now().since(said) >= SAY_EVERY {
                    said = now();
                    self.log.say(&format!("{read} of {all} MiB are read"));
                }
            }
            if let Ok(found) = &mut *outcome.lock() {
                found.take(part);
            }
        });
        std::mem::replace(&mut *outcome.lock(), Ok(Found::default()))
    }

    /// Reads the segments of a use into the memory.
    fn segments_of(&self, it: &SegmentUse, buffer: &mut Vec<u8>) -> Result<(), DiskError> {
        buffer.resize(SEGMENT_BYTES as usize, 0);
        for segment in it.segment..it.segment + it.line.run {
            self.disk.read(segment_at(segment), buffer)?;
            for (at, block) in (0..).step_by(BLOCK).zip(buffer.chunks(BLOCK)) {
                if block.iter().any(|byte| *byte != 0) {
                    self.arena.memory.copy_in(segment_at(segment) + at, block);
                }
            }
        }
        Ok(())
    }

    fn damaged(&self, found: &Found, accept: bool) -> Result<(), DiskError> {
        let places: Vec<_> = found.named.iter().map(|offset| format!("{offset:#x}")).collect();
        let what = format!(
            "{} entries that were acknowledged are not what was written, among them those at {} of the arena",
            found.damaged,
            places.join(", ")
        );
        let path: PathBuf = self.disk.medium().path().into();
        if !accept {
            return Err(DiskError::Damaged { path, what });
        }
        self.log.say(&format!("{}: {what}. They are given up, as was asked for", path.display()));
        Ok(())
    }

    fn say(&self, note: &Note, found: &Found) {
        let ms = now().since(self.begun).0 / 1_000_000;
        let ended = if note.ended { "ended in order" } else { "did not end in order" };
        let cut = match found.goes.len() as u64 - found.damaged {
            0 => String::new(),
            count => format!(", {count} entries behind that were not acknowledged as kept are dropped"),
        };
        self.log.say(&format!(
            "the server before {ended} in term {}: {} entries up to version {} are kept{cut} ({ms} ms)",
            note.term, found.entries, note.stable.0
        ));
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::ReplicaId;
    use longarm_store::segment::SegmentState;

    use super::*;

    fn note(sync: bool) -> Note {
        let term = Term::new(5, ReplicaId(0));
        Note { term, stable: Csn(100), floors: vec![10, 20], sync, ..Note::default() }
    }

    fn line(term: u32, stream: u16) -> Line {
        Line { state: SegmentState::Sealed, term: Term::new(term, ReplicaId(0)), stream, ..Line::FREE }
    }

    #[test]
    fn a_room_is_judged_by_term_position_and_version() {
        use Verdict::{Damaged, Goes, Stays, Tail};
        let (loose, sync) = (note(false), note(true));
        // Term, stream, version, position, whole: what becomes of it in `async` and in `sync` mode.
        let cases = [
            (5, 0, 90, 9, true, Stays, Stays),
            (5, 0, 101, 9, true, Goes, Stays),
            (5, 0, 90, 10, true, Goes, Tail),
            (5, 1, 90, 10, true, Stays, Stays),
            (5, 2, 90, 0, true, Goes, Tail),
            (4, 0, 90, 999, true, Stays, Stays),
            (4, 0, 90, 0, false, Damaged, Damaged),
            (5, 0, 90, 9, false, Damaged, Damaged),
            (5, 0, 101, 9, false, Goes, Damaged),
            (5, 0, 90, 10, false, Goes, Goes),
        ];
        for (term, stream, csn, position, whole, in_async, in_sync) in cases {
            let judged = |note| Judge { note }.judge(&line(term, stream), Csn(csn), position, whole);
            let case = (term, stream, csn, position, whole);
            assert_eq!((judged(&loose), judged(&sync)), (in_async, in_sync), "{case:?}");
        }
    }

    #[test]
    fn a_tail_ends_before_the_first_position_that_is_missing() {
        let note = note(true);
        let mut found = Found::default();
        // Stream 0 goes on from 10, stream 1 from 20, and stream 2, which no note names, from 0.
        let tail = [(0, 11), (0, 10), (0, 13), (1, 21), (1, 22), (2, 0), (2, 1)];
        found.tail = tail.iter().map(|&(stream, position)| (stream, position, position * 64)).collect();
        assert_eq!(found.end_tails(&Judge { note: &note }), [12, 20, 2]);
        assert_eq!(found.entries, 4);
        assert_eq!(found.goes, [13 * 64, 21 * 64, 22 * 64]);
    }
}
