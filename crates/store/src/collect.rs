//! Collection: frees dead segments and finds live entries to move out of nearly dead ones (LoLKV 4.1; L11,
//! L12, L14, M9). It does no I/O and reads no clock: the caller passes the time and does the moving.
//!
//! For every [`Work::Move`] the server reads the entry, copies it with `Writer::draft_move` and `finish`
//! under the same csn, and under the lock of the key switches the slot if it still names exactly this place
//! and csn. It then supersedes the old entry; if the slot named something else it supersedes the copy
//! instead. An entry that it cannot move now is simply left: the segment is looked at again later. If there
//! is no room for the copy the walk ends ([`Collector::starved`]) and the segment waits for the next one to
//! be freed: if other walks were begun meanwhile, the remaining room would be spread over many copies of
//! which none frees its old segment. Large entries in runs are never moved. Several workers may each have a
//! collector; a segment is walked by one at a time.

use std::sync::Arc;

use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_base::{Csn, EntryRef, Nanos};
use longarm_memory::OwnedWords;

use crate::Store;
use crate::object::{self, EntryKind, layout};
use crate::segment::layout::segment_at;
use crate::segment::{Ledger, Phase};

/// Runs and segments freed in one call.
const RELEASES: u32 = 4;
/// Rooms looked at in one call.
const ROOMS: u32 = 512;
/// The time before a scan over all segments that found nothing is repeated.
const SCAN_EVERY: Nanos = Nanos::from_millis(10);
/// The most dead segments at the watermark that are not waited for before the next one is emptied.
const LEAVING_MOST: usize = 8;
/// The live share up to which segments are worth collecting when memory is short.
const SHORT_PERCENT: u32 = 75;

/// A piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Move this live entry, then ask again.
    Move {
        /// Its place.
        place: EntryRef,
        /// Its version, which the copy keeps.
        csn: Csn,
    },
    /// Supersede this tombstone, or record of an outcome, if nothing needs it any more; then ask again.
    Review {
        /// Its place.
        place: EntryRef,
        /// Its version.
        csn: Csn,
    },
    /// Have the followers release this dead segment, or run that begins with it; then call
    /// [`Store::released`]. Only with [`StoreOptions::ask_release`](crate::StoreOptions::ask_release); each
    /// segment is named once.
    Release {
        /// The segment, or the first of a run.
        segment: u32,
        /// The number of segments.
        run: u32,
        /// Generation of the use that is over.
        generation: u32,
    },
    /// A bounded piece of work is done; ask again when convenient.
    Again,
    /// There is nothing to do now, but there may be at that time, if one is named.
    Idle(Option<Nanos>),
}

/// The collector's position in a segment.
#[derive(Clone, Copy, Debug)]
struct SegmentCursor {
    segment: u32,
    generation: u32,
    /// The mark of the entries of this use of the segment.
    mark: u64,
    stride: u64,
    next: u64,
    end: u64,
    /// Whether entries are only reviewed, and none is moved.
    reviews: bool,
}

impl SegmentCursor {
    /// Begins to walk a sealed segment, which no other collector walks.
    fn begin(ledger: &mut Ledger, segment: u32) -> SegmentCursor {
        let known = &mut ledger.segments[segment as usize];
        known.collecting = true;
        let line = known.line;
        let (stride, end) = (line.stride as u64, line.tail as u64);
        SegmentCursor {
            segment,
            generation: line.generation,
            mark: line.mark(),
            stride,
            next: 0,
            end,
            reviews: false,
        }
    }
}

/// Finds entries to move and frees dead segments.
pub struct Collector<M: OwnedWords> {
    store: Arc<Store<M>>,
    walk: Option<SegmentCursor>,
    scan_at: Nanos,
    /// Segments that were claimed while the stable point was below this one are emptied.
    empty_before: Option<Csn>,
    /// The segment with which a review goes on.
    review: Option<u32>,
    /// Whether the last segment was walked for a review.
    reviewed: bool,
}

impl<M: OwnedWords> Collector<M> {
    /// A collector for the store.
    pub fn new(store: Arc<Store<M>>) -> Collector<M> {
        let scan_at = Nanos::default();
        Collector { store, walk: None, scan_at, empty_before: None, review: None, reviewed: false }
    }

    /// From now on segments that were claimed while the stable point was below this one are emptied, in the
    /// order of their claims, however much of them is alive. That raises the watermark, and so lets
    /// tombstones go.
    pub fn empty_before(&mut self, stable: Option<Csn>) {
        self.empty_before = stable;
    }

    /// Begins to review the tombstones and saved outcomes of all sealed segments.
    pub fn review(&mut self) {
        self.review = Some(self.store.table);
    }

    /// Whether a review is under way.
    pub fn reviews(&self) -> bool {
        self.review.is_some()
    }

    /// The next piece of work: dead segments enter quarantine, those past it are freed or named, and live
    /// entries of sealed segments whose live share is below `threshold` percent (lowest first; any worth it
    /// when memory is short) are named one by one.
    pub fn next_work(&mut self, now: Nanos, threshold: u32) -> Work {
        let freed = self.free_some(now);
        if let Some(work @ Work::Release { .. }) = freed {
            return work;
        }
        if let Some(walk) = self.walk {
            return self.step(walk, now);
        }
        let short = self.store.is_short();
        // When memory is short, every second segment is one that gives memory back.
        if let Some(from) = self.review.filter(|_| !(short && self.reviewed)) {
            let walk = self.store.reviewed(from);
            self.review = walk.map(|walk| walk.segment + 1);
            if let Some(walk) = walk {
                self.reviewed = true;
                return self.step(walk, now);
            }
        }
        self.reviewed = false;
        if self.scan_at <= now {
            let worth = if short { threshold.max(SHORT_PERCENT) } else { threshold };
            self.walk = self.store.victim(now, worth);
            if let Some(before) = self.empty_before.filter(|_| self.walk.is_none()) {
                self.walk = self.store.oldest(now, before);
            }
            if let Some(walk) = self.walk {
                return self.step(walk, now);
            }
            self.store.seal_little();
            self.scan_at = now + SCAN_EVERY;
        }
        let rest = || if self.reviews() { Work::Again } else { self.idle() };
        freed.unwrap_or_else(rest)
    }

    /// The next piece of work that moves nothing: dead segments enter quarantine, and segments past it are
    /// freed or named.
    pub fn free(&mut self, now: Nanos) -> Work {
        self.free_some(now).unwrap_or_else(|| self.idle())
    }

    /// Frees some; `None` if there is nothing to free now.
    fn free_some(&self, now: Nanos) -> Option<Work> {
        self.store.bury(now);
        if self.store.options.ask_release {
            return self.store.offer_one(now);
        }
        let freed = (0..RELEASES).take_while(|_| self.store.release_one(now)).count();
        (freed > 0).then_some(Work::Again)
    }

    fn idle(&self) -> Work {
        Work::Idle(self.store.next_release())
    }

    /// Notes that there was no room for the copy of the entry that the last [`Work::Move`] named: its segment
    /// is left until one is freed, or for as long as a segment that was walked to its end.
    pub fn starved(&mut self, now: Nanos) {
        if let Some(walk) = self.walk.take() {
            self.store.rest(&walk, now + self.store.options.quarantine, true);
        }
    }

    /// Continues the walk to the next live entry.
    fn step(&mut self, mut walk: SegmentCursor, now: Nanos) -> Work {
        for _ in 0..ROOMS {
            if walk.next >= walk.end {
                self.walk = None;
                self.store.rest(&walk, now + self.store.options.quarantine, false);
                return Work::Again;
            }
            let offset = segment_at(walk.segment) + walk.next;
            walk.next += walk.stride;
            if let Some((place, csn, kind)) = self.live(offset, walk.mark) {
                let reviewed = kind == EntryKind::Tombstone as u64 || kind == EntryKind::Noop as u64;
                if walk.reviews && !reviewed {
                    continue;
                }
                self.walk = Some(walk);
                return match walk.reviews {
                    true => Work::Review { place, csn },
                    false => Work::Move { place, csn },
                };
            }
        }
        self.walk = Some(walk);
        Work::Again
    }

    /// The live entry at `offset` and the bits of its kind, judged by its header: the owner's own memory,
    /// which only it writes.
    fn live(&self, offset: u64, mark: u64) -> Option<(EntryRef, Csn, u64)> {
        let memory = &self.store.memory;
        if memory.load(offset + layout::SUM) == 0 {
            return None;
        }
        // Another mark means that the entry is superseded, or that the segment died and was claimed since the
        // walk began.
        if memory.load(offset + layout::MARK) != mark {
            return None;
        }
        let mut line = [0; LINE as usize];
        memory.copy_out(offset, &mut line);
        let len = object::total_len(&line).ok()?;
        let (csn, kind, _) = layout::split_version(memory.load(offset + layout::VERSION));
        Some((EntryRef { offset, len }, csn, kind))
    }
}

impl<M: OwnedWords> Drop for Collector<M> {
    fn drop(&mut self) {
        if let Some(walk) = self.walk {
            self.store.rest(&walk, Nanos::default(), false);
        }
    }
}

impl<M: OwnedWords> std::fmt::Debug for Collector<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("walk", &self.walk).finish_non_exhaustive()
    }
}

impl<M: OwnedWords> Store<M> {
    /// The sealed segment whose copies take the least, if that is under the share and no draft is left in it.
    /// Where a few large entries fill a segment, copies of these would fill one again, with as much waste.
    fn victim(&self, now: Nanos, percent: u32) -> Option<SegmentCursor> {
        let most = SEGMENT_BYTES * percent as u64 / 100;
        let mut ledger = self.ledger.lock();
        let (_, segment) = (self.table..self.segments)
            .filter(|&i| {
                let known = &ledger.segments[i as usize];
                known.phase == Phase::Sealed && known.may_be_walked(now, ledger.releases)
            })
            .filter_map(|i| {
                let load = self.tallies[i as usize].load();
                let copies = load.units_of_copies();
                (load.pending == 0 && copies * LINE < most).then_some((copies, i))
            })
            .min()?;
        Some(SegmentCursor::begin(&mut ledger, segment))
    }

    /// The next sealed segment from this one on, to be reviewed.
    fn reviewed(&self, from: u32) -> Option<SegmentCursor> {
        let mut ledger = self.ledger.lock();
        let sealed = |segment: &u32| {
            let known = &ledger.segments[*segment as usize];
            known.phase == Phase::Sealed && !known.collecting
        };
        let segment = (from..self.segments).find(sealed)?;
        Some(SegmentCursor { reviews: true, ..SegmentCursor::begin(&mut ledger, segment) })
    }

    /// The segment that holds the watermark down, but for a few that are dead already, if it was claimed
    /// while the stable point was below `before`. If a writer still fills it, the writer is asked to seal it.
    /// Nothing younger is emptied instead: that would give back nothing.
    fn oldest(&self, now: Nanos, before: Csn) -> Option<SegmentCursor> {
        let mut ledger = self.ledger.lock();
        let dead = |segment: &u32| ledger.segments[*segment as usize].is_dead();
        let leaving = ledger.oldest().take_while(dead).take(LEAVING_MOST).count();
        let segment = ledger.oldest().nth(leaving)?;
        let known = &ledger.segments[segment as usize];
        match known.phase {
            _ if known.line.claim_csn >= before => {}
            Phase::Active => self.seal_before(known.line.claim_csn),
            Phase::Sealed if known.may_be_walked(now, ledger.releases) => {
                let pending = self.tallies[segment as usize].load().pending;
                return (pending == 0).then(|| SegmentCursor::begin(&mut ledger, segment));
            }
            _ => {}
        }
        None
    }

    /// Names the oldest segment or run of the quarantine, if its time is over, so that its followers are
    /// asked.
    fn offer_one(&self, now: Nanos) -> Option<Work> {
        let mut ledger = self.ledger.lock();
        let segment = ledger.due(now)?;
        let offered = &mut ledger.segments[segment as usize];
        offered.phase = Phase::Offered;
        Some(Work::Release { segment, run: offered.line.run, generation: offered.line.generation })
    }

    /// Ends the walk. The segment is left alone until then, or if starved until another is freed.
    fn rest(&self, walk: &SegmentCursor, until: Nanos, starved: bool) {
        let mut ledger = self.ledger.lock();
        let releases = ledger.releases;
        let known = &mut ledger.segments[walk.segment as usize];
        if known.line.generation == walk.generation {
            known.collecting = false;
            if !walk.reviews {
                known.rest = until;
                known.starved = starved.then_some(releases);
            }
        }
    }
}
