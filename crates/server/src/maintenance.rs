//! The maintenance thread: it does everything that may happen a little later. It grows the index and moves
//! its pairs, frees tables and segments past their quarantine, collects nearly dead segments, has the arena
//! stand in huge pages, expires, evicts, and forgets sessions.
//!
//! Each pass is bounded. With nothing to do it sleeps longer and longer; a thread that runs short of memory
//! pokes it.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Mutant, Nanos};
use longarm_fabric::QueuePair;
use longarm_host::observe::{ReplicaStep, reach};
use longarm_host::{Pause, now};
use longarm_index::hash::Moved;
use longarm_memory::{Budget, Mapped};
use longarm_store::{Collector, HugePace, Work};

use crate::move_rate::MoveRate;
use crate::shared::Shared;
use crate::sweep::{Kept, Step, Sweep};
use longarm_engine::Commit;
use longarm_engine::Timestamps;
use longarm_engine::WorkerContext;
use longarm_engine::reclaim::Cursor;
use longarm_engine::reclaim::Relocated;
use longarm_engine::stream::Stream;
use longarm_group::Phase;
use longarm_group::{Pumped, Replicator, SharedReleases};

/// Sleep between passes that found nothing.
const TICK_MIN: Duration = Duration::from_millis(5);
const TICK_MAX: Duration = Duration::from_millis(80);
/// Pairs moved in one step: the index is locked against growing meanwhile.
const MOVE_PAIRS: u64 = 64;
/// The most steps of moving, and pieces of collection, in one pass.
const MOVES_A_PASS: u32 = 64;
const WORKS_A_PASS: u32 = 256;
/// The time in which all pairs are looked at for expired items.
const EXPIRE_ROUND: Nanos = Nanos::from_millis(60_000);
const EXPIRE_ROUND_SHORT: Nanos = Nanos::from_millis(5_000);
const EXPIRE_PAIRS: u64 = 4096;
/// The number of pairs that an eviction step looks at.
const EVICT_PAIRS: u64 = 64;
/// Memory is short, for expiry and eviction, when less than a twentieth of it is left, or fewer than three
/// segments.
const SHORT_SHARE: u64 = 20;
const SHORT_BYTES: u64 = 3 * SEGMENT_BYTES;
/// The part of the memory for entries whose return through the quarantine makes eviction pause.
const COMING_SHARE: u64 = 10;
/// The part of it that eviction takes at most before collection has looked again (which it does every 10 ms).
const STEP_SHARE: u64 = 32;
const STEP_TIME: Nanos = Nanos::from_millis(12);
/// The part of it below which eviction takes no entries: the shortage then does not come from entries.
const LIVE_SHARE: u64 = 8;
/// The number of passes in vain before the thread says that nothing can be freed: time alone may have passed
/// while other threads had the core.
const FRUITLESS: u32 = 16;
/// Segments are collected below this live share, in percent, however much memory is free. A replica has to
/// scan its segments when its leader is lost, and a follower ahead of that; they shall not be mostly dead.
const COLLECT_LEAST: u32 = 8;
/// The part of memory that must be left for a group to move live entries slowly.
const HURRY_SHARE: u64 = 8;
/// The sleep while it waits for followers.
const REPLICATING: Duration = Duration::from_micros(200);
/// The time between two looks for sessions to forget: at most, and as a share of the time that they are kept.
const FORGET_EVERY: Nanos = Nanos::from_millis(1000);
const FORGET_SHARE: u32 = 4;

/// What is said of a backup whose client did not let go of what it was asked for.
const BACKUP_LATE: &str =
    "a backup took too long to copy what is to be freed, and is over: its client is told";

/// The maintenance thread's state.
pub(crate) struct Maintenance<Q> {
    shared: Arc<Shared>,
    context: WorkerContext<Mapped>,
    /// In a group: its stream's way to the followers, and the segments that followers must release.
    group: Option<GroupPart<Q>>,
    collector: Collector<Mapped>,
    sweep: Sweep,
    expiry: Cursor,
    eviction: Cursor,
    last_pass: Nanos,
    last_forget: Nanos,
    huge: HugePace,
    /// When it last began to look for work.
    last_look: Nanos,
    /// The time that it had for its work until this pass, see `Shortage`; and when by that time it last freed
    /// something, or did something so that memory will be freed.
    worked: Nanos,
    last_gain: Nanos,
    /// The number of passes since then without a gain.
    fruitless: u32,
    expire_debt: u64,
    /// When the next step of eviction begins, and the live bytes at which this one ends.
    evict_step: Nanos,
    evict_goal: u64,
}

/// The part of the state that only a group's maintenance thread has.
struct GroupPart<Q> {
    replicator: Replicator<Q, Mapped>,
    releases: Arc<SharedReleases>,
    rate: MoveRate,
    /// Segments whose followers are still to be asked.
    leaving: Vec<DeadSegment>,
}

/// A segment that is dead and past its quarantine.
struct DeadSegment {
    segment: u32,
    /// The place in the arena from which records of sessions are still to be saved.
    unsaved: Option<u64>,
    /// The length of its own stream when the last of them was saved.
    until: u64,
}

impl<Q: QueuePair> GroupPart<Q> {
    /// Asks followers to release a dead segment, once the records that sessions may still ask for are saved
    /// from it.
    fn ask_releases(&mut self, shared: &Shared, context: &mut WorkerContext<Mapped>) {
        let mut stuck = false;
        self.leaving.retain_mut(|leaving| {
            // Where room is scarce, that of one segment is to suffice for another to be freed.
            if let Some(from) = leaving.unsaved.filter(|_| !stuck) {
                let DeadSegment { segment, .. } = *leaving;
                leaving.unsaved =
                    shared.core.engine.save_records(context, segment, from, &shared.core.sessions);
                stuck = leaving.unsaved.is_some();
                leaving.until = context.stream.as_ref().map_or(0, Stream::written);
            }
            let applied = context.stream.as_ref().map_or(0, Stream::applied);
            let saved = leaving.unsaved.is_none() && applied >= leaving.until;
            if saved {
                let engine = &shared.core.engine;
                let written = engine.progress().iter().map(|progress| progress.written());
                self.releases.lock().ask(leaving.segment, written.collect(), engine.csn());
            }
            !saved
        });
    }
}

impl<Q: QueuePair> Maintenance<Q> {
    pub fn new(
        shared: Arc<Shared>,
        context: WorkerContext<Mapped>,
        group: Option<(Replicator<Q, Mapped>, Arc<SharedReleases>)>,
    ) -> Maintenance<Q> {
        let collector = Collector::new(shared.core.engine.store.clone());
        let (now, worked) = (now(), shared.core.engine.shortage.worked());
        let rate = MoveRate::new(shared.core.engine.csn());
        let group =
            group.map(|(replicator, releases)| GroupPart { replicator, releases, rate, leaving: Vec::new() });
        Maintenance {
            shared,
            context,
            group,
            collector,
            sweep: Sweep::default(),
            expiry: Cursor::default(),
            eviction: Cursor::default(),
            last_pass: now,
            last_forget: now,
            huge: HugePace::default(),
            worked,
            last_gain: worked,
            last_look: now,
            fruitless: 0,
            expire_debt: 0,
            evict_step: now,
            evict_goal: 0,
        }
    }

    /// Works until stopped.
    pub fn run(mut self, pause: &Pause) {
        let mut tick = TICK_MIN;
        while !pause.is_stopped() {
            let times = self.shared.core.timestamps();
            self.worked = self.shared.core.engine.shortage.work(times.now.since(self.last_look));
            self.last_look = times.now;
            // A leader that forms has followers that catch up, and writes nothing yet. A leader that hands
            // over writes nothing more.
            let core = &self.shared.core;
            let quiet = core.phase() == Phase::Forming || core.holds_writes();
            let quiet = quiet || !core.may_write(self.context.stream.as_ref(), times.now);
            let sent = self.written();
            let replicated = self.replicate(times);
            let more = !quiet && self.pass(times);
            // New entries are sent before a sleep: a leader that hands over waits for them.
            let unsent = self.written() > sent && !Mutant::SleepUnsent.is_on();
            if more || replicated == Pumped::Busy || unsent {
                tick = TICK_MIN;
                // Workers may need this very core.
                longarm_host::relax();
            } else {
                let before = now();
                let tick_now = if replicated == Pumped::Waiting { REPLICATING } else { tick };
                if !pause.sleep(tick_now) {
                    return;
                }
                let slept = now().since(before);
                let whole = slept.0 >= tick_now.as_nanos() as u64;
                tick = if whole { (tick * 2).min(TICK_MAX) } else { TICK_MIN };
            }
        }
    }

    /// The number of written positions of its own stream.
    fn written(&self) -> u64 {
        self.context.stream.as_ref().map_or(0, Stream::written)
    }

    /// Sends new entries to the followers, applies committed ones, and frees segments that followers have
    /// released.
    fn replicate(&mut self, times: Timestamps) -> Pumped {
        let may_write = self.shared.core.may_write(self.context.stream.as_ref(), times.now);
        let Maintenance { shared, context, group, .. } = self;
        let (Some(group), Some(stream)) = (group, &mut context.stream) else {
            return Pumped::Idle;
        };
        let pumped = group.replicator.pump(stream);
        // The next leader must know of all releases that were asked for, or it may not lead.
        if !shared.core.holds_writes() && may_write {
            group.ask_releases(shared, context);
        }
        let budget = &shared.core.engine.budget;
        if shared.backups.end_if_late(times.now, is_short(budget)) {
            shared.log(BACKUP_LATE);
        }
        let free = |segment| {
            shared.core.engine.store.released(segment);
            reach(ReplicaStep::Freed);
        };
        // What followers are asked to let go of will be free.
        let mut releases = group.releases.lock();
        if releases.free(free) || releases.is_waiting() || !group.leaving.is_empty() {
            self.last_gain = self.worked;
        }
        drop(releases);
        match shared.core.engine.apply_committed(context, times) {
            0 => pumped,
            _ => Pumped::Busy,
        }
    }

    /// Makes one bounded pass; returns whether there is more to do at once.
    fn pass(&mut self, times: Timestamps) -> bool {
        let gained = self.last_gain;
        let (growing, collecting) = (self.grow(times), self.collect(times));
        let evicting = !collecting && self.evict(times);
        let more = [growing, collecting, evicting, self.expire(times)];
        self.populate(times.now);
        self.forget(times.now);
        self.last_pass = times.now;
        let more = more.contains(&true);
        self.fruitless = if more || self.last_gain > gained { 0 } else { self.fruitless.saturating_add(1) };
        if self.fruitless >= FRUITLESS {
            let engine = &self.shared.core.engine;
            engine.shortage.nothing_to_gain(times.now, self.last_gain, engine.options.quarantine);
        }
        more
    }

    /// Forgets the sessions of clients that are long gone.
    fn forget(&mut self, now: Nanos) {
        let core = &self.shared.core;
        let share = (core.options.keep_sessions / FORGET_SHARE).as_nanos() as u64;
        if now.since(self.last_forget) >= FORGET_EVERY.min(Nanos(share)) {
            self.last_forget = now;
            core.sessions.forget(now, core.engine.stable_point());
        }
    }

    /// Has one more block of the arena stand in a huge page, if it is time for that.
    fn populate(&mut self, begun: Nanos) {
        let core = &self.shared.core;
        if self.huge.is_due(begun, core.engine.csn().0) && core.engine.store.populate_some() {
            self.huge.took(begun, now());
        }
    }

    fn grow(&mut self, times: Timestamps) -> bool {
        let index = &self.shared.core.engine.index;
        if index.should_grow() && index.grow().is_err() {
            if index.compact_some() > 0 {
                self.last_gain = self.worked;
            } else if self.shared.first_grow_failure() {
                self.shared
                    .log("the index cannot grow within the memory limit: inserts will be refused or evict");
            }
        }
        let mut more = false;
        for _ in 0..MOVES_A_PASS {
            match index.move_some(MOVE_PAIRS) {
                Moved::More => more = true,
                Moved::Idle | Moved::Blocked => {
                    more = false;
                    break;
                }
            }
        }
        if index.reclaim(times.now, self.shared.core.engine.options.quarantine) > 0 {
            self.last_gain = self.worked;
        }
        more
    }

    fn collect(&mut self, times: Timestamps) -> bool {
        let percent = self.worth_collecting();
        let engine = &self.shared.core.engine;
        engine.deletes().iter().for_each(|deletes| deletes.note_some());
        self.context.writer.seal_old();
        let sweeps = self.sweep(times.now);
        let hurries = leaves_less_than(&self.shared.core.engine.budget, HURRY_SHARE);
        if let Some(group) = &mut self.group {
            group.rate.fill(times.now.since(self.last_pass), self.shared.core.engine.csn(), percent, sweeps);
        }
        for _ in 0..WORKS_A_PASS {
            // In a group a moved entry goes to the followers first.
            if self.context.stream.as_ref().is_some_and(Stream::is_full) {
                return false;
            }
            // A review moves nothing.
            let free = hurries || self.collector.reviews();
            let moves = free || self.group.as_ref().is_none_or(|group| group.rate.is_due());
            let work = match moves {
                true => self.collector.next_work(times.now, percent),
                false => self.collector.free(times.now),
            };
            match work {
                Work::Idle(next) => {
                    // Memory in quarantine will be freed.
                    if next.is_some() {
                        self.last_gain = self.worked;
                    }
                    return false;
                }
                Work::Again => {}
                Work::Release { segment, .. } => {
                    let Some(group) = &mut self.group else {
                        unreachable!("this store frees without asking")
                    };
                    match self.shared.core.engine.unaccounted(segment) {
                        None => group.leaving.push(DeadSegment { segment, unsaved: Some(0), until: 0 }),
                        Some(missing) => self.shared.core.hold_back(segment, &missing),
                    }
                }
                Work::Review { place, csn } => {
                    let Maintenance { shared, context, .. } = self;
                    if shared.core.engine.review(context, place, csn, &shared.core.sessions) {
                        self.last_gain = self.worked;
                    }
                }
                Work::Move { place, csn } => {
                    let Maintenance { shared, context, .. } = self;
                    self.group.iter_mut().for_each(|group| group.rate.spend());
                    match shared.core.engine.relocate(context, times, place, csn, &shared.core.sessions) {
                        Relocated::Done => self.last_gain = self.worked,
                        Relocated::Lost | Relocated::Expired => {}
                        Relocated::Full => {
                            self.collector.starved(times.now);
                            return false;
                        }
                    }
                }
            }
        }
        true
    }

    /// Begins or ends to review tombstones and to empty the oldest segments. Returns whether these are
    /// emptied.
    fn sweep(&mut self, now: Nanos) -> bool {
        let engine = &self.shared.core.engine;
        let Commit::Replicated(group) = &engine.commit else { return false };
        let (tombstones, outcomes) = group.kept_bytes();
        let kept = Kept {
            now,
            tombstones,
            outcomes,
            most: engine.budget.limit() / u64::from(self.shared.options.kept_share),
            short: self.is_short(),
            csn: engine.csn(),
            watermark: engine.store.watermark(),
            filled: engine.store.oldest_filled(),
            reviews: self.collector.reviews(),
        };
        let before = self.sweep.step;
        let step = self.sweep.next(&kept);
        if step != before && matches!(step, Step::Review { .. }) {
            self.collector.review();
            // Moved tombstones are in its own segments.
            self.context.writer.seal_all();
        }
        let empties = if let Step::Empty { before } = step { Some(before) } else { None };
        self.collector.empty_before(empties);
        empties.is_some()
    }

    /// The live share below which segments are collected: the more memory is used, the higher. A segment that
    /// is left alone while there is room continues to die, and dead entries are never copied.
    fn worth_collecting(&self) -> u32 {
        let most = self.shared.options.collect_percent;
        let budget = &self.shared.core.engine.budget;
        let share = u128::from(most) * u128::from(budget.used()) / u128::from(budget.limit().max(1));
        (share as u32).max(COLLECT_LEAST).min(most)
    }

    fn expire(&mut self, times: Timestamps) -> bool {
        let engine = &self.shared.core.engine;
        if !engine.uses_ttl() {
            return false;
        }
        let round = if self.is_short() { EXPIRE_ROUND_SHORT } else { EXPIRE_ROUND };
        let passed = times.now.since(self.last_pass).0.min(round.0);
        // Counted in pair nanoseconds, so that short passes over small tables add up.
        self.expire_debt += engine.pairs() * passed;
        let pairs = (self.expire_debt / round.0).min(EXPIRE_PAIRS);
        self.expire_debt = (self.expire_debt - pairs * round.0).min(EXPIRE_PAIRS * round.0);
        if engine.expire_some(&mut self.context, &mut self.expiry, pairs, times) > 0 {
            self.last_gain = self.worked;
        }
        pairs == EXPIRE_PAIRS
    }

    fn is_short(&self) -> bool {
        is_short(&self.shared.core.engine.budget)
    }

    /// Evicts a little, if collection alone gives nothing back. Evicting random items thins out all segments
    /// evenly, so eviction continues until some are worth collecting.
    fn evict(&mut self, times: Timestamps) -> bool {
        let engine = &self.shared.core.engine;
        if engine.marks.is_none() || !self.is_short() {
            return false;
        }
        let counters = engine.store.counters();
        let left = engine.budget.limit().saturating_sub(engine.budget.used());
        let capacity = counters.used_bytes + left;
        let coming = u64::from(counters.quarantined) * SEGMENT_BYTES;
        if coming >= (capacity / COMING_SHARE).max(SEGMENT_BYTES)
            || counters.live_bytes < capacity / LIVE_SHARE
        {
            return false;
        }
        if times.now >= self.evict_step {
            self.evict_step = times.now + STEP_TIME;
            self.evict_goal =
                counters.live_bytes.saturating_sub((capacity / STEP_SHARE).max(SEGMENT_BYTES / 2));
        }
        if counters.live_bytes <= self.evict_goal {
            return false;
        }
        if engine.evict_some(&mut self.eviction, EVICT_PAIRS) > 0 {
            self.last_gain = self.worked;
        }
        true
    }
}

/// Whether little memory is left, for expiry and eviction, and for a backup to keep segments.
fn is_short(budget: &Budget) -> bool {
    leaves_less_than(budget, SHORT_SHARE)
}

/// Whether less than that part of the memory is left, or fewer than three segments.
fn leaves_less_than(budget: &Budget, part: u64) -> bool {
    let left = budget.limit().saturating_sub(budget.used());
    left < (budget.limit() / part).max(SHORT_BYTES)
}
