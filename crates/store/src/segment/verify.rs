//! The check of a whole arena from its bytes: a live one or a saved one.
//!
//! On a live arena the walk races with its owner. Every entry verifies itself, and a problem of a segment
//! counts only if the segment's line is the same before and after. So a live arena yields no false problem.

use longarm_base::EntryRef;
use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_memory::{SumKey, Words};

use super::found::RUN_MAX;
use super::layout::{self, SegmentState};
use super::reader::{ArenaGeometry, Line};
use crate::object::{Entry, RoomState, check_room};

/// Problems kept in words; the others are counted.
const PROBLEMS_KEPT: usize = 100;
/// How often a run whose lines are being written is looked at before it counts as broken.
const LOOKS: u32 = 1024;

/// The walk's findings in one segment, or in one run (at its head).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentReport {
    /// Entries that are not superseded.
    pub live_entries: u64,
    /// Their bytes, in whole cache lines.
    pub live_bytes: u64,
    /// Superseded entries.
    pub superseded: u64,
    /// Rooms handed out that hold no entry: abandoned, or not finished yet.
    pub unfinished: u64,
}

/// The findings of [`verify`].
#[derive(Clone, Debug, Default)]
pub struct ArenaReport {
    /// All segments, the table's included.
    pub segments: u32,
    /// Segments that hold the table.
    pub table: u32,
    /// Segments in each [`SegmentState`], by its number.
    pub states: [u32; 6],
    /// Sums over all segments.
    pub total: SegmentReport,
    /// By segment; bodies of runs and free segments have nothing.
    pub by_segment: Vec<SegmentReport>,
    /// Problems in words, at most a hundred.
    pub problems: Vec<String>,
    /// The number of all problems.
    pub problem_count: u64,
}

impl ArenaReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    pub(crate) fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_KEPT {
            self.problems.push(text);
        }
    }
}

/// Checks an arena; see [`ArenaReport`].
pub fn verify(memory: &dyn Words, sums: &SumKey) -> ArenaReport {
    verify_with(memory, sums, &mut |_, _| {})
}

/// Checks an arena and shows every whole entry on the way, segment by segment.
pub fn verify_with(
    memory: &dyn Words,
    sums: &SumKey,
    visit: &mut dyn FnMut(EntryRef, &Entry<'_>),
) -> ArenaReport {
    let mut report = ArenaReport::default();
    let geometry = match ArenaGeometry::read(memory, sums) {
        Ok(geometry) => geometry,
        Err(error) => {
            report.problem(error.to_string());
            return report;
        }
    };
    report.segments = geometry.segments;
    report.table = geometry.table;
    report.by_segment = vec![SegmentReport::default(); geometry.segments as usize];
    let mut walk = ArenaWalk { memory, sums, geometry, bytes: Vec::new(), found: Vec::new() };
    let mut segment = geometry.table;
    while segment < geometry.segments {
        segment += walk.segment(segment, &mut report, visit);
    }
    report
}

struct ArenaWalk<'a> {
    memory: &'a dyn Words,
    sums: &'a SumKey,
    geometry: ArenaGeometry,
    bytes: Vec<u8>,
    /// Problems of the segment at hand.
    found: Vec<String>,
}

impl ArenaWalk<'_> {
    /// Checks a segment or a run; returns how many segments that were.
    fn segment(
        &mut self,
        segment: u32,
        report: &mut ArenaReport,
        visit: &mut dyn FnMut(EntryRef, &Entry<'_>),
    ) -> u32 {
        let line = match Line::read(self.memory, self.sums, segment) {
            Ok(line) => line,
            Err(error) => {
                report.problem(format!("segment {segment}: {error}"));
                return 1;
            }
        };
        self.found.clear();
        let mut sums = SegmentReport::default();
        let run = line.stride == 0 && !matches!(line.state, SegmentState::Free);
        let length = if run { self.run(segment, &line) } else { 1 };
        match line.state {
            SegmentState::Free => {}
            SegmentState::RunBody => self.body_alone(segment),
            _ if run => self.rooms(segment, &line, line.run as u64 * SEGMENT_BYTES, &mut sums, visit),
            _ => self.rooms(segment, &line, line.stride as u64, &mut sums, visit),
        }
        if matches!(line.state, SegmentState::Quarantined) {
            // Its pages may be on their way back to the system, so the bytes in its rooms mean nothing any
            // more.
            self.found.clear();
        }
        if matches!(line.state, SegmentState::Quarantined) && sums.live_entries > 0 {
            self.found.push(format!("{} live entries in quarantine", sums.live_entries));
        }
        report.states[line.state as usize] += 1;
        report.states[SegmentState::RunBody as usize] += length - 1;
        let unchanged = Line::read(self.memory, self.sums, segment)
            .is_ok_and(|after| (after.mark(), after.state) == (line.mark(), line.state));
        if unchanged {
            for text in self.found.drain(..) {
                report.problem(format!("segment {segment}: {text}"));
            }
        }
        report.by_segment[segment as usize] = sums;
        report.total.live_entries += sums.live_entries;
        report.total.live_bytes += sums.live_bytes;
        report.total.superseded += sums.superseded;
        report.total.unfinished += sums.unfinished;
        length
    }

    /// Checks the bodies of a run; returns how many segments of it fit together.
    fn run(&mut self, head: u32, line: &Line) -> u32 {
        if matches!(line.state, SegmentState::RunBody) {
            return 1;
        }
        if line.run > RUN_MAX || line.run > self.geometry.segments - head {
            self.found.push(format!("a run of {} segments does not fit", line.run));
            return 1;
        }
        for distance in 1..line.run {
            let body = Line::read(self.memory, self.sums, head + distance);
            if !body.as_ref().is_ok_and(|body| body.is_body(distance, line)) {
                self.found
                    .push(format!("segment {} is not body {distance} of its run: {body:?}", head + distance));
                return distance;
            }
        }
        line.run
    }

    /// Checks a body whose head is not before it: a run that is just being claimed or freed, or a problem.
    fn body_alone(&mut self, segment: u32) {
        let settles = |line: Line| {
            let head = segment.checked_sub(line.run).map(|head| Line::read(self.memory, self.sums, head));
            line.state != SegmentState::RunBody
                || matches!(head, Some(Ok(head)) if head.claim == line.claim && head.stride == 0)
        };
        let alone = (0..LOOKS).all(|_| !Line::read(self.memory, self.sums, segment).is_ok_and(settles));
        if alone {
            self.found.push("body of a run without its head before it".into());
        }
    }

    fn rooms(
        &mut self,
        segment: u32,
        line: &Line,
        stride: u64,
        sums: &mut SegmentReport,
        visit: &mut dyn FnMut(EntryRef, &Entry<'_>),
    ) {
        let base = layout::segment_at(segment);
        if base + stride > self.memory.bytes() {
            return;
        }
        let rooms = (SEGMENT_BYTES / stride).max(1);
        let used = if line.stride == 0 { 1 } else { line.tail as u64 / stride };
        let mut bytes = std::mem::take(&mut self.bytes);
        for room in 0..rooms {
            let offset = base + room * stride;
            match check_room(self.memory, self.sums, offset, stride, &mut bytes) {
                RoomState::Empty => sums.unfinished += u64::from(room < used),
                RoomState::Broken(error) => self.found.push(format!("room at {offset:#x}: {error}")),
                // The tail may have moved since the line was read: look again before it is a problem.
                RoomState::Entry(..) if room >= used && !self.reached(segment, offset - base) => {
                    self.found.push(format!("room at {offset:#x}: an entry beyond the tail"))
                }
                RoomState::Entry(entry, len) => {
                    check_entry(&entry, line, offset, &mut self.found);
                    let place = EntryRef { offset, len };
                    if entry.superseded {
                        sums.superseded += 1;
                    } else {
                        sums.live_entries += 1;
                        sums.live_bytes += place.units() as u64 * LINE;
                    }
                    visit(place, &entry);
                }
            }
        }
        self.bytes = bytes;
    }

    fn reached(&self, segment: u32, distance: u64) -> bool {
        matches!(Line::read(self.memory, self.sums, segment), Ok(line) if distance < line.tail as u64)
    }
}

fn check_entry(entry: &Entry<'_>, line: &Line, offset: u64, found: &mut Vec<String>) {
    if (entry.term, entry.generation) != (line.term, line.generation) {
        found.push(format!(
            "room at {offset:#x}: an entry of term {} generation {} in term {} generation {}",
            entry.term, entry.generation, line.term, line.generation
        ));
    }
    if entry.stream != line.stream {
        found.push(format!(
            "room at {offset:#x}: an entry of stream {} in stream {}",
            entry.stream, line.stream
        ));
    }
}
