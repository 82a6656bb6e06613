//! Reads a segment table that a leader's WRITEs filled. Some of them may have landed half, or not at all.
//!
//! It reads the lines of an arena that does not change at the moment. A line counts if it verifies, and a run
//! if all of its lines do and fit together. Every other segment was never whole, and is free.

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Csn, Term};
use longarm_memory::{SumKey, Words};

use super::known::{LedgerSegment, Phase};
use super::layout::SegmentState;
use super::reader::{ArenaGeometry, Line, read_words};
use crate::object::layout::{ENTRY_MAX, GENERATION_MAX};

/// Segments of the longest run.
pub(crate) const RUN_MAX: u32 = (ENTRY_MAX as u64).div_ceil(SEGMENT_BYTES) as u32;

/// Segments of the use that begins with `line`, if it may hold entries and is whole.
pub(crate) fn extent(
    memory: &dyn Words,
    sums: &SumKey,
    geometry: ArenaGeometry,
    segment: u32,
    line: &Line,
) -> Option<u32> {
    if !line.has_entries() {
        return None;
    }
    if line.stride != 0 {
        return Some(1);
    }
    let fits = line.run <= RUN_MAX && line.run <= geometry.segments - segment;
    let is_body = |distance| {
        Line::read(memory, sums, segment + distance).is_ok_and(|body| body.is_body(distance, line))
    };
    (fits && (1..line.run).all(is_body)).then_some(line.run)
}

/// The content of the table.
#[derive(Debug)]
pub(crate) struct FoundSegments {
    /// Every segment as a ledger knows it.
    pub segments: Vec<LedgerSegment>,
    /// Segments and heads of runs that may hold entries.
    pub adopted: Vec<u32>,
    /// Segments that are free although their line says something else.
    pub freed: Vec<u32>,
    /// Segments in use, those of runs included.
    pub used: u32,
    /// The highest claim number.
    pub claims: u64,
    /// The highest claim csn.
    pub claim_csn: Csn,
    /// The highest term, and a segment of it.
    pub term: (Term, u32),
}

/// Reads the whole table.
pub(crate) fn read_table(memory: &dyn Words, sums: &SumKey, geometry: ArenaGeometry) -> FoundSegments {
    let fresh = LedgerSegment::fresh();
    let mut found = FoundSegments {
        segments: vec![fresh; geometry.segments as usize],
        adopted: Vec::new(),
        freed: Vec::new(),
        used: 0,
        claims: 0,
        claim_csn: Csn::NONE,
        term: (Term::ZERO, 0),
    };
    let mut body_until = 0;
    for segment in geometry.table..geometry.segments {
        let line = Line::read(memory, sums, segment);
        if let Ok(line) = &line {
            found.claims = found.claims.max(line.claim);
            found.claim_csn = found.claim_csn.max(line.claim_csn);
            found.term = found.term.max((line.term, segment));
        }
        let (phase, known) = match &line {
            Ok(line) if segment < body_until => (Phase::Body, *line),
            Ok(line) => match extent(memory, sums, geometry, segment, line) {
                Some(run) => {
                    body_until = segment + run;
                    found.adopted.push(segment);
                    let state = if line.stride == 0 { SegmentState::RunHead } else { SegmentState::Sealed };
                    (Phase::Adopted, Line { state, tail: 0, ..*line })
                }
                None if line.state == SegmentState::Free => (Phase::Free, *line),
                None => (Phase::Free, line.freed(Csn::NONE)),
            },
            // The use that it was about to have is unknown; the next use differs by its term in any case.
            Err(_) => {
                let generation = (read_words(memory, segment)[1] >> 32) as u32 & GENERATION_MAX;
                (Phase::Free, Line { generation: generation.max(1), ..Line::FREE })
            }
        };
        if phase != Phase::Free {
            found.used += 1;
        } else if line != Ok(known) {
            found.freed.push(segment);
        }
        // Dirty even if there never was a claim: a WRITE may have landed whose line has not.
        found.segments[segment as usize] = LedgerSegment { phase, line: known, dirty: true, ..fresh };
    }
    found
}
