//! Claiming, sealing and freeing segments: the ledger behind the store's one lock, and the lines it writes.
//!
//! The ledger is plain memory of the owner and the truth for it. The table in the arena says the same for
//! other parties and is never read back, except once by a store that adopts the arena (`found.rs`). The lock
//! is held for the ledger only, never for a copy, a wipe or a discard. The order of a claim is: ledger, wipe
//! of the rooms, line, rooms. The order of a release is: last entry dead, quarantine, pages discarded, line,
//! ledger. So a line never says more than is true.

use std::collections::{BTreeSet, VecDeque};

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Csn, Nanos, Term};
use longarm_memory::{Budget, OwnedWords, SumKey};

use super::block::{AHEAD, BLOCK, Supply};
use super::found::FoundSegments;
use super::free::FreeMap;
use super::known::{LedgerSegment, Phase};
use super::layout::{self, Lane, SegmentState};
use super::reader::{Line, bytes_of, line_sum, line_words};
use crate::object::layout::GENERATION_MAX;
use crate::options::StoreFull;

/// So many claims for copies, while new entries wanted segments and got none, gained nothing.
const MOVES_IN_VAIN: u32 = 4;
/// So many show that copies take again all that they give back, however little of it is waste.
const MOVES_ALL_IN_VAIN: u32 = 16;

/// A writer's request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClaimKind {
    /// One segment for rooms of so many bytes.
    Shared { stride: u32 },
    /// So many neighbouring segments for one entry.
    Run { segments: u32 },
}

/// What a segment is claimed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// New entries.
    New,
    /// Entries that outlive others: copies, and tombstones.
    Kept,
    /// Records that dead segments hold: none of these is freed before its records are elsewhere.
    Record,
}

impl Need {
    pub fn lane(self) -> Lane {
        if self == Need::New { Lane::Write } else { Lane::Move }
    }
}

/// In whose name segments are claimed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub need: Need,
    pub stream: u16,
    pub term: Term,
    /// The stable point.
    pub csn: Csn,
}

/// The segments that a writer got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    pub segment: u32,
    pub line: Line,
    /// Whether bytes of an earlier use must be voided first.
    pub dirty: bool,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    pub segments: Vec<LedgerSegment>,
    pub free: FreeMap,
    /// Segments of the reserve that are free: paid for in advance, and kept for moves and records.
    pub credit: u32,
    reserve: u32,
    /// Segments of the reserve that only records may take.
    records: u32,
    pub(crate) claims: u64,
    /// Claim csn and head of each use that may hold superseded entries. The one entry of a run is none before
    /// the run is dead.
    ages: BTreeSet<(Csn, u32)>,
    /// Segments that died since the collector last looked.
    pub dead: VecDeque<u32>,
    /// Segments with the time from which they may be reused, oldest first.
    pub quarantine: VecDeque<(Nanos, u32)>,
    supply: Supply,
    /// By block: whether it stands in a huge page, as far as one was asked for.
    huge: Vec<bool>,
    /// The block with which the search for one in use goes on.
    next_block: u32,
    /// Whether a claim failed since a segment was last freed.
    pub pressed: bool,
    /// Claims for copies since one for a new entry failed; none if one succeeded after that.
    pub moves: Option<u32>,
    /// The number of segments and runs freed.
    pub releases: u64,
    /// Whether the last of the reserve is kept, since an adopted arena has not yet given anything back.
    pub guarded: bool,
    /// The end of that time; unknown before the store was first told the time.
    pub guarded_until: Option<Nanos>,
}

impl Ledger {
    pub(crate) fn new(table: u32, segments: u32, reserve: u32) -> Ledger {
        let segments_known = vec![LedgerSegment::fresh(); segments as usize];
        Ledger::with(segments_known, FreeMap::new(table, segments - table), reserve, reserve)
    }

    /// A ledger that continues from the table found. The reserve is taken beyond the limit, if it must:
    /// without it no segment might ever be freed.
    pub(crate) fn adopt(found: FoundSegments, table: u32, reserve: u32, budget: &Budget) -> Ledger {
        let mut free = FreeMap::default();
        let known = || (table..).zip(&found.segments[table as usize..]);
        for (segment, known) in known().filter(|(_, known)| known.phase == Phase::Free) {
            // A segment that was ever claimed has pages.
            free.put(segment, 1, known.line != Line::FREE);
        }
        let heads = known().filter(|(_, known)| known.phase == Phase::Adopted && known.line.stride != 0);
        let ages = heads.map(|(segment, known)| (known.line.claim_csn, segment)).collect();
        let credit = reserve.min(free.total());
        budget.take_anyway(u64::from(credit) * SEGMENT_BYTES);
        let claims = found.claims;
        Ledger { claims, ages, guarded: true, ..Ledger::with(found.segments, free, credit, reserve) }
    }

    /// So many segments of the reserve are for records alone.
    pub(crate) fn keeping(self, records: u32) -> Ledger {
        Ledger { records, ..self }
    }

    fn with(segments: Vec<LedgerSegment>, free: FreeMap, credit: u32, reserve: u32) -> Ledger {
        let huge = vec![false; segments.len() / BLOCK as usize];
        Ledger {
            segments,
            free,
            credit,
            reserve,
            records: 0,
            claims: 0,
            ages: BTreeSet::new(),
            dead: VecDeque::new(),
            quarantine: VecDeque::new(),
            supply: Supply::default(),
            huge,
            next_block: 0,
            pressed: false,
            moves: None,
            releases: 0,
            guarded: false,
            guarded_until: None,
        }
    }

    /// Segments that writes may still take, as far as the arena allows.
    pub(crate) fn claimable(&self) -> u32 {
        self.free.total().saturating_sub(self.credit)
    }

    /// Whether writes find no memory, and collection does not make any: none is on its way, or copies took
    /// again what it gave back.
    pub(crate) fn is_stuck(&self) -> bool {
        let returning = !self.dead.is_empty() || !self.quarantine.is_empty();
        (self.pressed && !returning) || self.moves >= Some(MOVES_IN_VAIN)
    }

    /// Whether copies take again whatever collection gives back, and new entries get nothing.
    pub(crate) fn goes_round(&self) -> bool {
        self.moves >= Some(MOVES_ALL_IN_VAIN)
    }

    /// The least claim csn of all uses that may hold superseded entries, except one segment or run.
    pub(crate) fn watermark(&self, aside: Option<u32>) -> Option<Csn> {
        let aside = aside.map(|segment| {
            let known = &self.segments[segment as usize];
            if known.line.state == SegmentState::RunBody { segment - known.line.run } else { segment }
        });
        self.ages.iter().find(|&&(_, head)| Some(head) != aside).map(|&(csn, _)| csn)
    }

    /// Takes segments for a stream and pays for them, one claim at a time (LoLKV 3.1.2). Replicas need not
    /// agree on an order of claims (L3).
    pub(crate) fn claim(
        &mut self,
        budget: &Budget,
        claim: Claim,
        want: ClaimKind,
    ) -> Result<Claimed, StoreFull> {
        let Claim { need, stream, term, csn: claim_csn } = claim;
        let lane = need.lane();
        let first = match self.choose(budget, need, want) {
            Ok(first) => first,
            Err(full) => {
                self.pressed = true;
                if lane == Lane::Write {
                    self.moves.get_or_insert(0);
                }
                return Err(full);
            }
        };
        let run = if let ClaimKind::Run { segments } = want { segments } else { 1 };
        self.claims += 1;
        self.moves = self.moves.filter(|_| lane == Lane::Move).map(|moves| moves + 1);
        if matches!(want, ClaimKind::Shared { .. }) {
            self.ages.insert((claim_csn, first));
        }
        let mut dirty = false;
        for i in 0..run {
            let segment = &mut self.segments[(first + i) as usize];
            assert_eq!(segment.phase, Phase::Free, "segment {} was free and claimed at once", first + i);
            let (state, phase) = match want {
                ClaimKind::Shared { .. } => (SegmentState::Active, Phase::Active),
                ClaimKind::Run { .. } if i == 0 => (SegmentState::RunHead, Phase::Run),
                ClaimKind::Run { .. } => (SegmentState::RunBody, Phase::Body),
            };
            dirty |= segment.dirty;
            segment.phase = phase;
            segment.dirty = true;
            segment.rest = Nanos::default();
            segment.starved = None;
            segment.line = Line {
                state,
                // After 2^24 claims the numbers start over. Rooms are wiped at every claim, so here the
                // numbers only have to differ between neighbours in time; zero is left to segments that were
                // never claimed.
                generation: segment.line.generation % GENERATION_MAX + 1,
                term,
                stream,
                lane,
                stride: if let ClaimKind::Shared { stride } = want { stride } else { 0 },
                run: if i == 0 { run } else { i },
                claim_csn,
                claim: self.claims,
                tail: 0,
            };
        }
        Ok(Claimed { segment: first, line: self.segments[first as usize].line, dirty })
    }

    fn choose(&mut self, budget: &Budget, need: Need, want: ClaimKind) -> Result<u32, StoreFull> {
        let run = if let ClaimKind::Run { segments } = want { segments } else { 1 };
        let total = self.segments.len() as u32;
        let lane = need.lane();
        let from_reserve = match lane {
            Lane::Write if self.claimable() < run => return Err(StoreFull::Segments { total }),
            Lane::Write => false,
            Lane::Move => self.claimable() < run,
        };
        if self.free.total() < run {
            return Err(StoreFull::Segments { total });
        }
        if run > 1 && self.free.longest() < run {
            return Err(StoreFull::Run { wanted: run, longest: self.free.longest() });
        }
        let bytes = run as u64 * SEGMENT_BYTES;
        if from_reserve || !budget.take(bytes) {
            // The reserve is paid for already.
            if lane == Lane::Write {
                return Err(StoreFull::Budget { limit: budget.limit(), used: budget.used() });
            }
            // Leaders that all end before their first release could otherwise use up what only a release
            // refills.
            let records = if need == Need::Record { 0 } else { self.records };
            if self.credit < run + u32::from(self.guarded) + records {
                return Err(StoreFull::Segments { total });
            }
            self.credit -= run;
        }
        let taken = if run == 1 { self.free.take_one() } else { self.free.take_run(run) };
        Ok(taken.expect("a run this long was free"))
    }

    /// The first segment of a block that is to stand in a huge page: if few free segments have pages, and
    /// claims may take more, one of those that have none; else one in use.
    pub(crate) fn next_block(&mut self, budget: &Budget) -> Option<u32> {
        if !self.supply.has_any() {
            return None;
        }
        let left = budget.limit().saturating_sub(budget.used());
        let wanted = self.free.kept() < AHEAD && left >= u64::from(AHEAD) * SEGMENT_BYTES;
        let bare = wanted.then(|| self.free.bare_block(BLOCK)).flatten();
        bare.filter(|first| !self.huge[(first / BLOCK) as usize]).or_else(|| self.used_block())
    }

    /// The next block, in turn, of which all segments are in use, and that was not asked for.
    fn used_block(&mut self) -> Option<u32> {
        let blocks = self.huge.len() as u32;
        let from = self.next_block;
        let mut turn = (0..blocks).map(|i| (from + i) % blocks);
        let segments = &self.segments;
        let used = |block: u32| {
            let of = (block * BLOCK) as usize..((block + 1) * BLOCK) as usize;
            segments[of].iter().all(|known| !matches!(known.phase, Phase::Free | Phase::Leaving))
        };
        let found = turn.find(|&block| !self.huge[block as usize] && used(block))?;
        self.next_block = found + 1;
        Some(found * BLOCK)
    }

    /// Notes that the system gave that block a huge page, or had none.
    pub(crate) fn populated(&mut self, first: u32, taken: bool) {
        self.supply.note(taken);
        // It is not asked for again before pages of it went back.
        self.huge[(first / BLOCK) as usize] = true;
        if taken {
            self.free.keep(first, BLOCK);
        }
    }

    /// The segments that hold the watermark down, the first of them first.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = u32> {
        self.ages.iter().map(|&(_, head)| head)
    }

    /// Notes that the last entry of a segment, or the one of a run, is superseded.
    pub(crate) fn died(&mut self, segment: u32) {
        let LedgerSegment { phase, line, .. } = &mut self.segments[segment as usize];
        assert!(matches!(phase, Phase::Sealed | Phase::Run), "segment {segment} died as {phase:?}");
        *phase = Phase::Dead;
        self.ages.insert((line.claim_csn, segment));
        self.dead.push_back(segment);
    }

    /// Takes the oldest segment or run out of quarantine, if its time is over.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<u32> {
        let &(until, first) = self.quarantine.front()?;
        if until > now {
            return None;
        }
        self.quarantine.pop_front();
        Some(first)
    }

    /// Begins to give back segment `first`, the head of the returned number of dead segments.
    pub(crate) fn begin_release(&mut self, first: u32) -> u32 {
        let run = self.segments[first as usize].line.run;
        for segment in first..first + run {
            self.segments[segment as usize].phase = Phase::Leaving;
        }
        run
    }

    /// Notes that the pages of a segment went back to the system.
    fn went_back(&mut self, segment: u32) {
        if let Some(huge) = self.huge.get_mut((segment / BLOCK) as usize) {
            *huge = false;
        }
    }

    /// Gives back the segments that [`begin_release`](Self::begin_release) began with; the reserve is filled
    /// up first.
    pub(crate) fn release(&mut self, budget: &Budget, first: u32, run: u32, stable: Csn, kept: bool) {
        self.ages.remove(&(self.segments[first as usize].line.claim_csn, first));
        for segment in &mut self.segments[first as usize..(first + run) as usize] {
            segment.phase = Phase::Free;
            segment.line = segment.line.freed(stable);
            segment.dirty = kept;
            segment.collecting = false;
        }
        self.free.put(first, run, kept);
        if !kept {
            (first..first + run).for_each(|segment| self.went_back(segment));
        }
        let refilled = run.min(self.reserve - self.credit);
        self.credit += refilled;
        budget.give((run - refilled) as u64 * SEGMENT_BYTES);
        self.pressed = false;
        self.releases += 1;
        self.guarded = false;
    }
}

/// Writes the arena's line 0.
pub(crate) fn write_header<M: OwnedWords>(memory: &M, sums: &SumKey, segments: u32, table: u32) {
    let mut words = [0, layout::MAGIC, layout::VERSION, segments as u64, table as u64, SEGMENT_BYTES, 0, 0];
    words[0] = line_sum(sums, 0, &words);
    store_words(memory, 0, &words);
}

/// Frees a segment of an arena that has no store, because its claim failed. Its numbers stay.
pub fn forget<M: OwnedWords>(memory: &M, sums: &SumKey, segment: u32) {
    let line = Line::read(memory, sums, segment).unwrap_or(Line::FREE);
    write_line(memory, sums, segment, &line.freed(Csn::NONE));
}

/// The line of a segment as it will be when the segment is free; followers get it before that. `stable` is
/// the stable point.
pub fn freed_line<M: OwnedWords>(memory: &M, sums: &SumKey, segment: u32, stable: Csn) -> [u8; 64] {
    let line = Line::read(memory, sums, segment).unwrap_or(Line::FREE);
    bytes_of(&line_words(sums, segment, &line.freed(stable)))
}

/// Writes the line of a segment, its tail included.
pub(crate) fn write_line<M: OwnedWords>(memory: &M, sums: &SumKey, segment: u32, line: &Line) {
    store_words(memory, segment, &line_words(sums, segment, line));
}

/// Stores the tail of a segment; only its writer does.
pub(crate) fn write_tail<M: OwnedWords>(memory: &M, segment: u32, tail: u32) {
    memory.store(layout::line_at(segment) + layout::TAIL, tail as u64);
}

fn store_words<M: OwnedWords>(memory: &M, segment: u32, words: &[u64; 8]) {
    let at = layout::line_at(segment);
    for i in (0..8).rev() {
        memory.store(at + i as u64 * 8, words[i]);
    }
}
