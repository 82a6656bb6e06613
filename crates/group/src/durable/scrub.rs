//! The scrub: a replica's file is read back, and what is not there as it was written is written again from
//! memory, before a restart needs it (Alagappan et al., FAST '18, of what disks silently lose).
//!
//! (1) The scribe does it, a piece at a time between its batches: nothing else writes to the file meanwhile.
//!     A piece is small, since a batch may wait for it.
//! (2) What ought to be there: the entries of older terms, and of the scribe's term those below the floors at
//!     the time when the first piece of the segment was read, in segments whose line in the file is that of
//!     the memory. Entries never change but for the mark that a newer one stands elsewhere, which need not be
//!     in the file. So the bytes are compared, and not only their checksums.
//! (3) Memory counts only if the entry verifies there. A follower's memory counts as long as no other leader
//!     may write to it.
//! (4) Pages of the table, and the note that counts, are compared with what the scribe has of them.

use std::cmp::Ordering;
use std::time::Duration;

use longarm_base::limits::{SEGMENT_BYTES, WORD};
use longarm_base::{Mutant, Nanos, Term};
use longarm_disk::layout::PAGE_LINES;
use longarm_disk::{DiskError, Medium, Scribe};
use longarm_host::now;
use longarm_host::observe::{Observation, observe};
use longarm_memory::{Mapped, Words};
use longarm_store::SegmentUse;
use longarm_store::object::layout::{MARK, SUPERSEDED};
use longarm_store::segment::layout::segment_at;
use longarm_store::segment::{ArenaGeometry, Line};

use crate::OWN_HEADER;
use crate::checked_arena::CheckedArena;
use crate::log::Log;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// The shortest time between two pieces: a small file is not to take every moment of the scribe.
const REST: Nanos = Nanos::from_millis(1);
/// Lines that are looked at, at most, before a batch may come.
const LINES: u32 = 1 << 10;

/// How a file is looked over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scrubbing {
    /// Bytes a second that are read back; none if it is zero.
    pub rate: u64,
    /// The shortest time between the beginnings of two passes over the file.
    pub every: Duration,
}

impl Scrubbing {
    /// None.
    pub const NONE: Scrubbing = Scrubbing { rate: 0, every: Duration::ZERO };

    /// A pass an hour, if a pass takes less at this rate.
    pub fn hourly(rate: u64) -> Scrubbing {
        Scrubbing { rate, every: Duration::from_secs(3_600) }
    }
}

/// What was looked over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scrubbed {
    /// How often all of the file was.
    pub passes: u64,
    /// Bytes that were read back.
    pub bytes: u64,
    /// Entries, pages and notes that were not there as they were written, and are again.
    pub repaired: u64,
}

/// A segment that is being read back.
struct Segment {
    /// The use whose entries it has, which may begin in a segment before it.
    it: SegmentUse,
    number: u32,
    /// By stream: entries below were in the file when the first piece was read.
    floors: Vec<u64>,
    bytes: Vec<u8>,
    /// Pieces that could not be read: where each begins.
    unread: Vec<usize>,
}

/// Looks over the file of a replica, again and again.
pub(crate) struct Scrub {
    scrubbing: Scrubbing,
    due: Nanos,
    /// When this pass began.
    begun: Nanos,
    /// The next segment to look at, and what is left of the run before it.
    next: u32,
    run: Option<(SegmentUse, u32)>,
    segment: Option<Segment>,
    done: Scrubbed,
}

/// What a step does.
enum Step {
    Read(Segment),
    /// There are more lines to look at.
    Look,
    /// The pass is over.
    End,
}

impl Scrub {
    /// The first pass begins at once.
    pub fn new(scrubbing: Scrubbing) -> Scrub {
        let (due, begun, done) = (Nanos(0), now(), Scrubbed::default());
        Scrub { scrubbing, due, begun, next: 0, run: None, segment: None, done }
    }

    /// What was looked over so far.
    pub fn done(&self) -> Scrubbed {
        self.done
    }

    /// How long a scribe that has nothing else to do may sleep, at most.
    pub fn rest(&self, most: Duration) -> Duration {
        if self.scrubbing.rate == 0 {
            return most;
        }
        most.min(Duration::from_nanos(self.due.since(now()).0))
    }

    /// Reads the next piece, if it is time for that, and repairs what is not there. `stopped` says that the
    /// memory is not to be looked at any more. The log is told of repairs.
    pub fn step(
        &mut self,
        arena: &CheckedArena<Mapped>,
        scribe: &mut Scribe<Box<dyn Medium>>,
        stopped: &dyn Fn() -> bool,
        log: &Log,
    ) -> Result<(), DiskError> {
        let (begun, before) = (now(), self.done.repaired);
        if self.scrubbing.rate == 0 || begun < self.due {
            return Ok(());
        }
        let takes = Nanos(PIECE as u64 * 1_000_000_000 / self.scrubbing.rate);
        // A scribe that was busy for long does not make up for that.
        self.due = begun + takes.max(REST);
        let step = self.segment.take().map_or_else(|| self.begin(arena, scribe), Step::Read);
        match step {
            Step::Read(segment) => self.read(segment, arena, scribe, stopped)?,
            Step::Look => self.due = begun + REST,
            Step::End => self.end_pass(scribe)?,
        }
        let repaired = self.done.repaired - before;
        if repaired > 0 {
            observe(|| Observation::Repaired { parts: repaired });
            log.say(&format!(
                "{repaired} parts of its file were not there any more as they had been written, and are \
                 again: does the disk fail?"
            ));
        }
        Ok(())
    }

    /// The next segment whose use is in the file.
    fn begin(&mut self, arena: &CheckedArena<Mapped>, scribe: &mut Scribe<Box<dyn Medium>>) -> Step {
        let view = arena.view();
        if let Some((it, part)) = self.run.take().filter(|(it, _)| it.stands(view.memory)) {
            self.run = (part + 1 < it.line.run).then_some((it, part + 1));
            return Step::Read(Segment::new(it, it.segment + part, scribe.floors()));
        }
        let geometry = ArenaGeometry::read(view.memory, view.sums).expect(OWN_HEADER);
        self.next = self.next.max(geometry.table);
        for _ in 0..LINES {
            let head = self.next;
            if head >= geometry.segments {
                return Step::End;
            }
            self.next += 1;
            if head == geometry.table || u64::from(head).is_multiple_of(PAGE_LINES) {
                self.done.repaired += u64::from(!scribe.disk_mut().check_page(head));
            }
            let Some(it) = SegmentUse::read(view, geometry, head) else { continue };
            let known = Line::from_bytes(&scribe.disk().line(head), view.sums, head).unwrap_or(Line::FREE);
            if known.has_entries() && known.is_same_use(&it.line) {
                self.next = head + it.line.run;
                self.run = (it.line.run > 1).then_some((it, 1));
                return Step::Read(Segment::new(it, head, scribe.floors()));
            }
        }
        Step::Look
    }

    fn read(
        &mut self,
        mut segment: Segment,
        arena: &CheckedArena<Mapped>,
        scribe: &mut Scribe<Box<dyn Medium>>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), DiskError> {
        let from = segment.bytes.len();
        segment.bytes.resize(from + PIECE, 0);
        let offset = segment_at(segment.number) + from as u64;
        if scribe.disk().read_back(offset, &mut segment.bytes[from..]).is_err() {
            segment.unread.push(from);
        }
        self.done.bytes += PIECE as u64;
        if segment.bytes.len() < SEGMENT_BYTES as usize {
            self.segment = Some(segment);
            return Ok(());
        }
        for (from, until) in segment.rotten(arena, scribe.term()) {
            let mut bytes = vec![0; (until - from) as usize];
            arena.memory.copy_out(from, &mut bytes);
            // Looked at after the bytes were copied: they are of this use, and of this term.
            if !segment.it.stands(&arena.memory) || stopped() {
                break;
            }
            scribe.disk_mut().write(from, &bytes)?;
            scribe.disk_mut().sync()?;
            self.done.repaired += 1;
        }
        Ok(())
    }

    fn end_pass(&mut self, scribe: &mut Scribe<Box<dyn Medium>>) -> Result<(), DiskError> {
        let noted = scribe.noted().term == scribe.term();
        if noted && !scribe.disk().has_note(scribe.noted()) {
            scribe.renew_note()?;
            self.done.repaired += 1;
        }
        self.done.passes += 1;
        self.due = self.due.max(self.begun + Nanos(self.scrubbing.every.as_nanos() as u64));
        (self.begun, self.next) = (self.due, 0);
        Ok(())
    }
}

impl Segment {
    fn new(it: SegmentUse, number: u32, floors: &[u64]) -> Segment {
        let bytes = Vec::with_capacity(SEGMENT_BYTES as usize);
        Segment { it, number, floors: floors.to_vec(), bytes, unread: Vec::new() }
    }

    /// Where entries, or parts of one, are in this segment that ought to be in the file of a scribe of this
    /// term, and are not there as they verify in the memory.
    fn rotten(&self, arena: &CheckedArena<Mapped>, term: Term) -> Vec<(u64, u64)> {
        let line = &self.it.line;
        let floor = match line.term.cmp(&term) {
            Ordering::Less => u64::MAX,
            Ordering::Equal if Mutant::ScrubBeyond.is_on() => u64::MAX,
            Ordering::Equal => self.floors.get(usize::from(line.stream)).copied().unwrap_or(0),
            Ordering::Greater => 0,
        };
        let first = segment_at(self.number);
        let mut differ = Vec::new();
        self.it.unverified(&arena.memory, &mut |offset, position, len| {
            let (from, until) = (offset.max(first), (offset + len).min(first + SEGMENT_BYTES));
            if from < until && position < floor && !self.has(arena, from, until, offset) {
                differ.push((offset, from, until.next_multiple_of(WORD)));
            }
        });
        let mut bytes = Vec::new();
        differ.retain(|(offset, ..)| self.it.entry(arena.view(), *offset, &mut bytes).is_some());
        differ.into_iter().map(|(_, from, until)| (from, until)).collect()
    }

    /// Whether the file has these bytes of an entry that begins at `entry`, but for the mark that a newer one
    /// stands elsewhere. The zeroes behind an entry are not among them: a follower's memory, and so its file,
    /// may have the entry before it has those.
    fn has(&self, arena: &CheckedArena<Mapped>, from: u64, until: u64, entry: u64) -> bool {
        let at = (from - segment_at(self.number)) as usize;
        let theirs = &self.bytes[at..at + (until - from) as usize];
        let is_apart = |piece: &usize| *piece + PIECE <= at || *piece >= at + theirs.len();
        if !self.unread.iter().all(is_apart) {
            return false;
        }
        let mut ours = vec![0; theirs.len()];
        arena.memory.copy_out(from, &mut ours);
        if from == entry {
            let mark = MARK as usize;
            ours[mark] = (ours[mark] & !(SUPERSEDED as u8)) | (theirs[mark] & SUPERSEDED as u8);
        }
        ours == theirs
    }
}
