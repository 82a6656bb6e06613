//! The making of a backup, as a value that is fed: which segments, in which order, and when each is let go
//! of.
//!
//! It is exact at one version V, while the leader goes on (M16):
//! (1) The leader keeps all segments from before V is taken. V is the stable point, so each entry up to V was
//!     written before that, in a segment that is in use when the table is READ after V is known.
//! (2) Entries never change, and no segment is used again before it was copied and let go of. So whatever is
//!     written, deleted or moved meanwhile, all entries up to V are copied. A copy that collection made
//!     meanwhile says the same as what it is a copy of.
//! (3) What is above V is left out: of each key the newest entry that is left is what the key was at V, also
//!     if that is a tombstone.
//! (4) What the leader waits for is copied first. It waits for a segment that is dead and past its
//!     quarantine, and the line of such a segment says so.
//! (5) What was READ counts once the leader has answered a later step: it kept everything until then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_base::{Csn, Mutant, Term, UnixMillis};
use longarm_memory::{CopiedWords, SumKey, Words};
use longarm_store::segment::layout::{line_at, segment_at};
use longarm_store::segment::{ArenaGeometry, Line, SegmentState};
use longarm_store::{ArenaView, EntryKind, Room, SegmentUse, object};

use crate::frame::Frame;
use crate::manifest::{Contents, Manifest, UseName};

/// How often a room is looked at that is being written, or a line that is being changed.
const LOOKS: usize = 64;
/// Bytes of the table that are READ at once.
const TABLE_PIECE: u64 = 256 << 10;
/// Segments that are copied before they are let go of together.
const TOGETHER: usize = 16;

/// What a leader says as a backup begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The version.
    pub csn: Csn,
    /// The number of claims, at that version or later.
    pub claims: u64,
    /// The leader's calendar, not before that version.
    pub unix: UnixMillis,
    /// The leader's term.
    pub term: Term,
    /// Its group.
    pub group: u64,
}

/// A leader, as the maker of a backup reaches it.
pub trait Source {
    /// Why it could not be reached, or gave up.
    type Error;

    /// Has the leader keep all segments, then tell the version.
    fn begin(&mut self) -> Result<Start, Self::Error>;
    /// Bytes of its arena.
    fn bytes(&self) -> u64;
    /// READs bytes of its arena.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Self::Error>;
    /// Lets go of segments; how many the leader waits for. An error if it did not keep everything until now.
    fn let_go(&mut self, segments: &[u32]) -> Result<u64, Self::Error>;
    /// Says that the backup is over. An error as of `let_go`.
    fn end(&mut self) -> Result<(), Self::Error>;
    /// The key of its checksums.
    fn sums(&self) -> SumKey;
}

/// Why a backup cannot be made.
#[derive(Debug)]
pub enum CopyError<E> {
    /// The leader cannot be reached, or gave up.
    Source(E),
    /// Its memory is not as it should be; the text names what and where.
    Corrupt(String),
    /// The older backup is none that this one can rest on; the text says why.
    Unrelated(String),
}

impl<E> From<E> for CopyError<E> {
    fn from(error: E) -> CopyError<E> {
        CopyError::Source(error)
    }
}

/// What a step did.
#[derive(Debug)]
pub struct Step {
    /// What of a segment is to be written; nothing if it has no entry up to the version.
    pub frame: Option<Frame>,
    /// Bytes that were READ.
    pub copied: u64,
}

/// A backup that is being made.
pub struct Copying<S> {
    source: S,
    sums: SumKey,
    start: Start,
    /// What is still to be copied: by the first segment, with its line.
    left: BTreeMap<u32, Line>,
    /// Those of them that the leader waits for, or soon will.
    first: VecDeque<u32>,
    /// Segments that the leader is to be told of.
    done: Vec<u32>,
    contents: Vec<Contents>,
    unfinished: u64,
    /// Segments that were to be copied at the beginning.
    total: u64,
}

impl<S: Source> Copying<S> {
    /// Begins a backup, which leaves out what an older one has for good.
    pub fn begin(mut source: S, since: Option<&Manifest>) -> Result<Copying<S>, CopyError<S::Error>> {
        let sums = source.sums();
        let early = match Mutant::ListFirst.is_on() {
            true => Some(Copying::table(&mut source, &sums)?),
            false => None,
        };
        let start = source.begin()?;
        since.map_or(Ok(()), |since| relates(since, &start)).map_err(CopyError::Unrelated)?;
        let lines = match early {
            Some(early) => early,
            None => Copying::table(&mut source, &sums)?,
        };
        let whole = since.map(Manifest::whole).unwrap_or_default();
        let mut copying = Copying {
            source,
            sums,
            start,
            left: BTreeMap::new(),
            first: VecDeque::new(),
            done: Vec::new(),
            contents: Vec::new(),
            unfinished: 0,
            total: 0,
        };
        // What was claimed later has nothing but younger entries, and copies of those that are listed.
        let used = lines.into_iter().filter(|(_, line)| line.has_entries() && line.claim <= start.claims);
        for (segment, line) in used {
            let name = name_of(segment, &line);
            if whole.get(&name) == Some(&line.tail) {
                copying.contents.push(Contents {
                    name,
                    run: line.run,
                    tail: line.tail,
                    whole: true,
                    here: false,
                });
                copying.done.push(segment);
            } else {
                copying.total += u64::from(line.run);
                copying.left.insert(segment, line);
            }
        }
        copying.tell()?;
        Ok(copying)
    }

    /// What the backup is of.
    pub fn start(&self) -> Start {
        self.start
    }

    /// Segments that are to be copied in all, and that are still to be copied.
    pub fn progress(&self) -> [u64; 2] {
        [self.total, self.left.values().map(|line| u64::from(line.run)).sum()]
    }

    /// Whether the leader waits for a segment that is to be copied, or soon will.
    pub fn is_waited_for(&self) -> bool {
        self.first.iter().any(|segment| self.left.contains_key(segment))
    }

    /// Rooms that held no whole entry.
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// Copies the next segment; `None` if all are copied.
    pub fn step(&mut self) -> Result<Option<Step>, CopyError<S::Error>> {
        let Some((segment, line)) = self.next() else { return Ok(None) };
        let step = self.copy(segment, line)?;
        self.left.remove(&segment);
        self.done.push(segment);
        if self.done.len() >= TOGETHER || self.is_waited_for() {
            self.tell()?;
        }
        Ok(Some(step))
    }

    fn next(&mut self) -> Option<(u32, Line)> {
        while let Some(segment) = self.first.pop_front() {
            if let Some(line) = self.left.get(&segment) {
                return Some((segment, *line));
            }
        }
        self.left.first_key_value().map(|(segment, line)| (*segment, *line))
    }

    /// Lets go of what is copied, and learns what the leader waits for. To be called every few milliseconds,
    /// also by who copies slowly.
    pub fn tell(&mut self) -> Result<(), CopyError<S::Error>> {
        let waiting = self.source.let_go(&self.done)?;
        self.done.clear();
        if waiting == 0 {
            return Ok(());
        }
        // The lines say which. What is dead and not to be copied, any more or at all, is let go of.
        let lines = Copying::table(&mut self.source, &self.sums)?;
        let listed: BTreeSet<u32> = self.first.iter().copied().collect();
        for (segment, _) in lines.iter().filter(|(_, line)| line.state == SegmentState::Quarantined) {
            match self.left.contains_key(segment) && !Mutant::LetGoUncopied.is_on() {
                true if listed.contains(segment) => {}
                true => self.first.push_back(*segment),
                false => self.done.push(*segment),
            }
        }
        if !self.done.is_empty() {
            self.source.let_go(&self.done)?;
            self.done.clear();
        }
        Ok(())
    }

    /// All is copied: has the leader confirm that it kept everything until now. What the backup has of each
    /// segment.
    pub fn end(mut self) -> Result<Vec<Contents>, CopyError<S::Error>> {
        assert!(self.left.is_empty(), "{} segments are not copied", self.left.len());
        self.source.end()?;
        self.contents.sort_unstable_by_key(|contents| contents.name);
        Ok(self.contents)
    }

    /// The lines of all segments behind the table.
    fn table(source: &mut S, sums: &SumKey) -> Result<Vec<(u32, Line)>, CopyError<S::Error>> {
        let mut header = [0; LINE as usize];
        source.read(line_at(0), &mut header)?;
        let geometry = ArenaGeometry::from_bytes(&header, source.bytes(), sums)
            .map_err(|error| CopyError::Corrupt(error.to_string()))?;
        let mut bytes = vec![0; (u64::from(geometry.segments) * LINE) as usize];
        for (at, piece) in (0..).step_by(TABLE_PIECE as usize).zip(bytes.chunks_mut(TABLE_PIECE as usize)) {
            source.read(at, piece)?;
        }
        let mut lines = Vec::new();
        for segment in geometry.table..geometry.segments {
            let at = line_at(segment) as usize;
            let read = Line::from_bytes(&bytes[at..at + LINE as usize], sums, segment);
            let line = match read {
                Ok(line) => line,
                Err(_) => Copying::line(source, sums, segment)?,
            };
            lines.push((segment, line));
        }
        Ok(lines)
    }

    /// The line of a segment, which may be being changed.
    fn line(source: &mut S, sums: &SumKey, segment: u32) -> Result<Line, CopyError<S::Error>> {
        let mut why = String::new();
        for _ in 0..LOOKS {
            let mut bytes = [0; LINE as usize];
            source.read(line_at(segment), &mut bytes)?;
            match Line::from_bytes(&bytes, sums, segment) {
                Ok(line) => return Ok(line),
                Err(error) => why = error.to_string(),
            }
        }
        Err(CopyError::Corrupt(format!("segment {segment}: {why}")))
    }

    /// Copies a segment, or a run.
    fn copy(&mut self, segment: u32, listed: Line) -> Result<Step, CopyError<S::Error>> {
        let line = Copying::line(&mut self.source, &self.sums, segment)?;
        if !line.is_same_use(&listed) {
            let text = format!("segment {segment} was used again before it was copied");
            return Err(CopyError::Corrupt(text));
        }
        let window = self.window(segment, &line)?;
        let copied = window.bytes.len() as u64;
        let mut found = Found { frame: Frame::new(segment, line), beyond: 0, whole: 0, broken: Vec::new() };
        let (room, rooms) = line.rooms();
        let view = ArenaView { memory: &window, sums: &self.sums };
        SegmentUse { segment, line }.rooms(view, &mut |offset, room_state| match room_state {
            Room::Entry(_, entry) => {
                found.take((offset - segment_at(segment)) / room, &entry, self.start.csn)
            }
            Room::Broken { .. } => found.broken.push(offset),
        });
        let unfinished = self.look_again(segment, &line, &mut found)?;
        self.unfinished += unfinished;
        // Nobody writes to a segment that is sealed, but drafts in it may be under way. To a segment of a
        // term before, nothing is written any more.
        let sealed = !matches!(line.state, SegmentState::Active);
        let handed_out = if line.stride == 0 { rooms } else { u64::from(line.tail) / room };
        let is_full = found.whole == handed_out || line.term < self.start.term;
        let whole = sealed && found.beyond == 0 && unfinished == 0 && is_full;
        let name = name_of(segment, &line);
        self.contents.push(Contents { name, run: line.run, tail: line.tail, whole, here: true });
        let frame = Some(found.frame).filter(|frame| frame.entries > 0);
        Ok(Step { frame, copied })
    }

    /// The bytes of a segment, or of the one entry of a run.
    fn window(&mut self, segment: u32, line: &Line) -> Result<CopiedWords, CopyError<S::Error>> {
        let at = segment_at(segment);
        let mut bytes = vec![0; LINE as usize];
        let len = match line.stride {
            0 => {
                self.source.read(at, &mut bytes)?;
                object::total_len(&bytes).map_or(LINE, u64::from).min(u64::from(line.run) * SEGMENT_BYTES)
            }
            _ => SEGMENT_BYTES,
        };
        bytes.resize(len.next_multiple_of(LINE) as usize, 0);
        self.source.read(at, &mut bytes)?;
        Ok(CopiedWords { at, bytes })
    }

    /// Looks again at rooms that did not verify: an entry was perhaps just being written there. Then it is
    /// above the version, or a copy of one that is listed. How many hold no whole entry.
    fn look_again(
        &mut self,
        segment: u32,
        line: &Line,
        found: &mut Found,
    ) -> Result<u64, CopyError<S::Error>> {
        let mut unfinished = 0;
        for offset in std::mem::take(&mut found.broken) {
            for look in 1.. {
                let window = self.room(segment, line, offset)?;
                let Err(why) = object::read(&window.bytes, offset, &self.sums) else { break };
                if window.load(offset + object::layout::SUM) == 0 {
                    break;
                }
                if look < LOOKS {
                    continue;
                }
                let (csn, ..) = object::layout::split_version(window.load(offset + object::layout::VERSION));
                if csn <= self.start.csn && line.term == self.start.term {
                    let text = format!("the entry of version {} at {offset:#x}: {why}", csn.0);
                    return Err(CopyError::Corrupt(text));
                }
                unfinished += 1;
                break;
            }
            found.beyond += 1;
        }
        Ok(unfinished)
    }

    /// The bytes of a room.
    fn room(&mut self, segment: u32, line: &Line, offset: u64) -> Result<CopiedWords, CopyError<S::Error>> {
        if line.stride == 0 {
            return self.window(segment, line);
        }
        let mut bytes = vec![0; line.stride as usize];
        self.source.read(offset, &mut bytes)?;
        Ok(CopiedWords { at: offset, bytes })
    }
}

/// What was found in a segment.
struct Found {
    frame: Frame,
    /// Entries above the version.
    beyond: u64,
    /// Rooms with a whole entry.
    whole: u64,
    /// Offsets of rooms that do not verify.
    broken: Vec<u64>,
}

impl Found {
    fn take(&mut self, room: u64, entry: &longarm_store::Entry<'_>, version: Csn) {
        self.whole += 1;
        if entry.csn > version && !Mutant::TakeBeyond.is_on() {
            self.beyond += 1;
        } else if entry.kind != EntryKind::Noop {
            self.frame.push(room as u32, entry);
        }
    }
}

fn name_of(segment: u32, line: &Line) -> UseName {
    UseName { segment, claim: line.claim, term: line.term.bits() }
}

/// Whether a backup of what starts so can rest on an older one; if not, why.
fn relates(since: &Manifest, start: &Start) -> Result<(), String> {
    let group = format!("{:016x}", start.group);
    match since.group == group {
        false => Err(format!("it is of group {}, and this server of {group}", since.group)),
        true if since.version > start.csn.0 => {
            Err(format!("it is of version {}, and this server at {}", since.version, start.csn.0))
        }
        true => Ok(()),
    }
}
