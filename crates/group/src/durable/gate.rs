//! What the threads of a leader's term share with those that see to disks: the scribe of its own, and the
//! desk at which the disks of followers report.
//!
//! (1) In `sync` mode a position counts as this replica's own once it is in the file
//!     ([`DiskGate::own`]): nothing is applied, shown or acknowledged before (D1).
//! (2) In `async` mode a write is taken only while the time since the newest moment that notes of a majority
//!     cover is within the window (D2). The disks move that time on; if they stand still, writes stop by
//!     themselves (`coverage.rs`).
//! (3) No version is drawn beyond the ceiling that these notes have (D3).
//! (4) The places of the last positions alone can be found. So a stream waits while the scribe, or in
//!     `async` mode a majority of the disks, is far behind.
//! (5) After an error of the disk no write is taken any more (D7).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use longarm_base::{Csn, Mutant, Nanos, ReplicaId};
use longarm_engine::stream::UNAPPLIED_MAX;
use longarm_fabric::Channel;
use longarm_host::{Mutex, Pause};
use longarm_memory::Persistence;
use longarm_replica::Group;
use longarm_store::progress::layout::DIRECTORY;

use super::coverage::Coverage;
use super::options::{Durability, medium_name};
use super::scrub::Scrubbed;
use crate::stats::DiskStats;

/// Positions of a stream that the scribe may be behind before the stream waits. The maintenance thread looks
/// once a pass and once before it saves records, and writes no more at a time than may be unapplied: together
/// what is left of the directory.
const BEHIND_MAX: u64 = DIRECTORY - 2 * UNAPPLIED_MAX;
/// Positions of a stream behind which the scribe is woken.
const HURRY: u64 = DIRECTORY / 4;
/// Versions below the ceiling that all threads together may draw between a look and the next.
const DRAWN_AT_ONCE: u64 = 1 << 16;
/// Syncs of which the durations are remembered.
const REMEMBERED: usize = 1024;

/// What one thread knows of how far the streams are, and whether it sleeps.
#[derive(Debug)]
struct Watcher {
    /// It is woken by each write; else when it is far behind.
    eager: bool,
    /// By stream: it has found all positions below.
    seen: Vec<AtomicU64>,
    /// It sleeps, or is about to.
    asleep: AtomicBool,
}

impl Watcher {
    fn new(eager: bool, streams: usize) -> Watcher {
        let seen = (0..streams).map(|_| AtomicU64::new(0)).collect();
        Watcher { eager, seen, asleep: AtomicBool::new(false) }
    }

    fn seen(&self, stream: usize) -> u64 {
        // Relaxed: a limit that moves by itself; whoever sees an older one waits a little longer.
        self.seen[stream].load(Ordering::Relaxed)
    }

    fn set_seen(&self, stream: usize, below: u64) {
        // Relaxed: as above; what the stream may write over, the watcher has copied before.
        self.seen[stream].store(below, Ordering::Relaxed);
    }

    /// Whether it ought not to sleep when a stream has written so much.
    fn wants(&self, stream: usize, written: u64) -> bool {
        let behind = written.saturating_sub(self.seen(stream));
        if self.eager { behind > 0 } else { behind >= HURRY }
    }

    fn wants_any(&self, written: impl Fn(usize) -> u64) -> bool {
        (0..self.seen.len()).any(|stream| self.wants(stream, written(stream)))
    }

    /// Whether it is to be woken, since it sleeps and ought not to: a stream has written so much.
    #[inline]
    fn is_to_wake(&self, stream: usize, written: u64) -> bool {
        if !self.wants(stream, written) {
            return false;
        }
        // SeqCst: either this sees that it sleeps, or it sees what is written; pairs with `may_sleep`.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed)
    }

    /// Whether it may sleep now, if the streams have written what `written` says when it is called.
    fn may_sleep(&self, written: impl Fn(usize) -> u64) -> bool {
        // Relaxed: ordered by the fence.
        self.asleep.store(true, Ordering::Relaxed);
        // SeqCst: pairs with `is_to_wake`.
        fence(Ordering::SeqCst);
        let wanted = self.wants_any(written);
        if wanted {
            self.awake();
        }
        !wanted
    }

    fn awake(&self) {
        // Relaxed: a poke too many does no harm.
        self.asleep.store(false, Ordering::Relaxed);
    }
}

/// What the scribe's figures are made of.
#[derive(Debug, Default)]
struct Figures {
    syncs: u64,
    bytes: u64,
    /// The last durations of syncs, in microseconds.
    last: Vec<u32>,
    scrubbed: Scrubbed,
    failed: Option<String>,
}

/// How far a leader's disk is.
#[derive(Debug)]
pub struct DiskGate {
    durability: Durability,
    /// What its file outlives, if that is memory.
    on: Option<Persistence>,
    /// By stream: all positions below are in this replica's file.
    floors: Vec<AtomicU64>,
    scribe: Watcher,
    /// Where the scribe sleeps.
    pub(crate) news: Arc<Pause>,
    /// The desk, and where it sleeps, if the group has other replicas.
    desk: Option<(Watcher, Channel)>,
    /// How far the disks are that let writes be taken.
    coverage: Mutex<Coverage>,
    /// By stream: positions below do not hold up the stream.
    taken: Vec<AtomicU64>,
    /// Writes are taken until then.
    open_until: AtomicU64,
    ceiling: AtomicU64,
    failed: AtomicBool,
    figures: Mutex<Figures>,
}

impl DiskGate {
    /// The gate of a term of this group with so many streams. Nothing is taken before the disks say what they
    /// have. If the group has other replicas, their disks report at a desk that sleeps on the channel.
    pub(crate) fn new(
        durability: Durability,
        on: Option<Persistence>,
        group: Group,
        streams: usize,
        desk: Option<Channel>,
    ) -> DiskGate {
        let eager = durability == Durability::Sync;
        // What is acknowledged in `sync` mode is on disks, so the leader's own sets the limits.
        let by_majority = !eager && !Mutant::NotedAlone.is_on();
        DiskGate {
            durability,
            on,
            floors: (0..streams).map(|_| AtomicU64::new(0)).collect(),
            scribe: Watcher::new(eager, streams),
            news: Arc::default(),
            desk: desk.map(|channel| (Watcher::new(eager, streams), channel)),
            coverage: Mutex::new(Coverage::new(group, by_majority, durability.window().unwrap_or_default())),
            taken: (0..streams).map(|_| AtomicU64::new(0)).collect(),
            open_until: AtomicU64::new(0),
            ceiling: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            figures: Mutex::default(),
        }
    }

    /// What an acknowledged write outlives.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether a stream that has written so many positions may take another write, when so many versions are
    /// drawn.
    #[inline]
    pub fn takes_writes(&self, stream: usize, written: u64, csn: Csn, now: Nanos) -> bool {
        // Relaxed: a limit that moves by itself; a thread that sees an older one waits a little longer.
        let taken = self.taken[stream].load(Ordering::Relaxed);
        // Relaxed: as above.
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        // Relaxed: as above.
        let open =
            self.is_sync() || Mutant::NoWindow.is_on() || now.0 <= self.open_until.load(Ordering::Relaxed);
        open && written.saturating_sub(taken) < BEHIND_MAX
            && csn.0 + DRAWN_AT_ONCE <= ceiling
            && !self.has_failed()
    }

    /// Whether the disk failed.
    #[inline]
    pub fn has_failed(&self) -> bool {
        // Relaxed: whoever sees it late answers as if the failure had come later.
        self.failed.load(Ordering::Relaxed)
    }

    fn is_sync(&self) -> bool {
        self.durability == Durability::Sync
    }

    /// How many of a stream's written positions count as this replica's.
    #[inline]
    pub(crate) fn own(&self, stream: usize, written: u64) -> u64 {
        match self.durability {
            Durability::Async { .. } => written,
            Durability::Sync if Mutant::AckUnsynced.is_on() => written,
            // Acquire: pairs with `set_floors`.
            Durability::Sync => self.floors[stream].load(Ordering::Acquire).min(written),
        }
    }

    /// A stream has written more. Wakes who sleeps and ought not to.
    #[inline]
    pub(crate) fn wrote(&self, stream: usize, written: u64) {
        if self.scribe.is_to_wake(stream, written) {
            self.news.poke();
        }
        if let Some((desk, channel)) = &self.desk
            && desk.is_to_wake(stream, written)
        {
            channel.notify();
        }
    }

    /// Whether the scribe ought not to sleep, if the streams have written what `written` says.
    pub(crate) fn is_wanted(&self, written: impl Fn(usize) -> u64) -> bool {
        self.scribe.wants_any(written)
    }

    /// Whether the scribe may sleep now, if the streams have written what `written` says when it is called.
    pub(crate) fn may_sleep(&self, written: impl Fn(usize) -> u64) -> bool {
        self.scribe.may_sleep(written)
    }

    /// The scribe does not sleep any more.
    pub(crate) fn awake(&self) {
        self.scribe.awake();
    }

    /// The scribe has found all positions of the streams below.
    pub(crate) fn set_taken(&self, me: ReplicaId, below: &[u64]) {
        below.iter().enumerate().for_each(|(stream, below)| self.scribe.set_seen(stream, *below));
        self.took(me, below);
    }

    /// The disk of a replica has all positions of the streams below, or knows where they are.
    pub(crate) fn took(&self, replica: ReplicaId, below: &[u64]) {
        let coverage = &mut *self.coverage.lock();
        coverage.took(replica, below);
        for (stream, cell) in self.taken.iter().enumerate() {
            // Relaxed: a limit that moves by itself.
            cell.store(coverage.taken(stream), Ordering::Relaxed);
        }
    }

    /// Whether the streams have written so much more than a disk was told that it ought to be told at once.
    pub(crate) fn is_far(written: &[u64], told: &[u64]) -> bool {
        let told = told.iter().copied().chain(std::iter::repeat(0));
        written.iter().zip(told).any(|(written, told)| written.saturating_sub(told) >= HURRY)
    }

    /// Where the desk sleeps, if there is one.
    pub(crate) fn desk(&self) -> Option<&Channel> {
        self.desk.as_ref().map(|(_, channel)| channel)
    }

    /// The desk told followers' disks of these positions. Whether it may sleep now, if the streams have
    /// written what `written` says when it is called.
    pub(crate) fn desk_may_sleep(&self, told: &[u64], written: impl Fn(usize) -> u64) -> bool {
        let Some((desk, _)) = &self.desk else { return true };
        told.iter().enumerate().for_each(|(stream, below)| desk.set_seen(stream, *below));
        desk.may_sleep(written)
    }

    /// The desk does not sleep any more.
    pub(crate) fn desk_awake(&self) {
        self.desk.iter().for_each(|(desk, _)| desk.awake());
    }

    /// All positions below these are in the file.
    pub(crate) fn set_floors(&self, floors: &[u64]) {
        for (cell, floor) in self.floors.iter().zip(floors) {
            // Release: they are on disk; pairs with `own`.
            cell.store(*floor, Ordering::Release);
        }
    }

    /// No version above this one had been drawn at that time.
    pub(crate) fn look(&self, at: Nanos, drawn: Csn) {
        if !self.is_sync() {
            self.change_coverage(|coverage| coverage.look(at, drawn));
        }
    }

    /// A note is in the file of a replica, by which all entries up to `stable` are there, and which allows
    /// versions up to `ceiling`.
    pub(crate) fn cover(&self, replica: ReplicaId, stable: Csn, ceiling: Csn) {
        self.change_coverage(|coverage| coverage.cover(replica, stable, ceiling));
    }

    /// The version up to which a loss of power would leave everything in the leader's own file. Nobody waits
    /// for a file that is lost.
    pub(crate) fn own_stable(&self) -> Csn {
        if self.has_failed() { Csn(u64::MAX) } else { self.coverage.lock().own_stable() }
    }

    /// What the file of a replica said before does not count any more.
    pub(crate) fn uncover(&self, replica: ReplicaId) {
        self.change_coverage(|coverage| coverage.uncover(replica));
    }

    fn change_coverage(&self, change: impl FnOnce(&mut Coverage)) {
        let coverage = &mut *self.coverage.lock();
        change(coverage);
        let window = self.durability.window().map_or(0, |window| window.as_nanos() as u64);
        let until = coverage.at().map_or(0, |at| at.0.saturating_add(window));
        // Relaxed: limits that publish nothing.
        self.open_until.store(until, Ordering::Relaxed);
        // Relaxed: as above.
        self.ceiling.store(coverage.ceiling().0, Ordering::Relaxed);
    }

    /// The disk failed: nothing is taken or acknowledged any more.
    pub(crate) fn fail(&self, why: String) {
        self.figures.lock().failed = Some(why);
        // Relaxed: as in `has_failed`.
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Counts a batch of so many bytes, whose writes and sync took so long.
    pub(crate) fn count(&self, bytes: u64, took: Nanos) {
        let mut figures = self.figures.lock();
        let at = figures.syncs as usize % REMEMBERED;
        let us = u32::try_from(took.0 / 1000).unwrap_or(u32::MAX);
        figures.syncs += 1;
        figures.bytes += bytes;
        match figures.last.get_mut(at) {
            Some(last) => *last = us,
            None => figures.last.push(us),
        }
    }

    /// What of the file was looked over so far.
    pub(crate) fn set_scrubbed(&self, scrubbed: Scrubbed) {
        self.figures.lock().scrubbed = scrubbed;
    }

    /// The figures, for people.
    pub fn stats(&self) -> DiskStats {
        let figures = self.figures.lock();
        let mut last = figures.last.clone();
        last.sort_unstable();
        let at = |percent: usize| last.get((last.len() * percent / 100).min(last.len().max(1) - 1)).copied();
        let window_ms = self.durability.window().map(|window| window.as_millis() as u64);
        DiskStats {
            durability: self.durability.name_on(self.on),
            medium: medium_name(self.on),
            window_ms,
            syncs: figures.syncs,
            bytes: figures.bytes,
            sync_us_p50: at(50).unwrap_or(0),
            sync_us_p99: at(99).unwrap_or(0),
            sync_us_max: at(100).unwrap_or(0),
            scrub_passes: figures.scrubbed.passes,
            scrub_bytes: figures.scrubbed.bytes,
            scrub_repaired: figures.scrubbed.repaired,
            failed: figures.failed.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const WINDOW: Durability = Durability::Async { window: Duration::from_millis(100) };

    const ME: ReplicaId = ReplicaId(0);

    fn gate(durability: Durability, replicas: u8, streams: usize) -> DiskGate {
        let replicas: Vec<_> = (0..replicas).map(ReplicaId).collect();
        DiskGate::new(durability, None, Group::new(ME, &replicas).expect("a group"), streams, None)
    }

    #[test]
    fn writes_are_taken_within_the_window_and_below_the_ceiling_and_while_the_scribe_keeps_up() {
        let gate = gate(WINDOW, 1, 2);
        let takes = |written, csn, now| gate.takes_writes(1, written, Csn(csn), Nanos(now));
        assert!(!takes(0, 0, 1), "nothing is noted yet");
        gate.look(Nanos(50), Csn(3));
        gate.cover(ME, Csn(2), Csn(1 << 20));
        assert!(!takes(0, 0, 50), "a version that was drawn is not there yet");
        gate.cover(ME, Csn(3), Csn(1 << 20));
        let until = 50 + 100_000_000;
        assert!(takes(0, 0, until) && !takes(0, 0, until + 1));
        let most = (1 << 20) - DRAWN_AT_ONCE;
        assert!(takes(0, most, 50) && !takes(0, most + 1, 50));
        assert!(takes(BEHIND_MAX - 1, 0, 50) && !takes(BEHIND_MAX, 0, 50));
        gate.set_taken(ME, &[0, 1]);
        assert!(takes(BEHIND_MAX, 0, 50));
        gate.fail("it burns".into());
        assert!(!takes(0, 0, 50) && gate.has_failed());
        assert_eq!(gate.stats().failed.as_deref(), Some("it burns"));
    }

    #[test]
    fn in_async_mode_a_majority_of_the_disks_sets_the_limits() {
        let (loose, sync) = (gate(WINDOW, 3, 1), gate(Durability::Sync, 3, 1));
        let takes = |gate: &DiskGate, written, now| gate.takes_writes(0, written, Csn(1), Nanos(now));
        for gate in [&loose, &sync] {
            gate.look(Nanos(50), Csn(5));
            gate.look(Nanos(200_000_000), Csn(20));
            gate.cover(ME, Csn(20), Csn(1 << 20));
        }
        assert!(!takes(&loose, 0, 1), "its own alone");
        assert!(takes(&sync, 0, 900_000_000), "what is acknowledged is on disks");
        loose.cover(ReplicaId(2), Csn(19), Csn(1 << 19));
        assert!(takes(&loose, 0, 100_000_050) && !takes(&loose, 0, 100_000_051));
        assert!(!loose.takes_writes(0, 0, Csn((1 << 19) - DRAWN_AT_ONCE + 1), Nanos(50)));
        loose.set_taken(ME, &[BEHIND_MAX]);
        assert!(!takes(&loose, BEHIND_MAX, 50), "the other disk could not find where they are");
        loose.took(ReplicaId(1), &[1]);
        assert!(takes(&loose, BEHIND_MAX, 50));
        loose.uncover(ReplicaId(2));
        assert!(!takes(&loose, 0, 50));
    }

    #[test]
    fn a_position_is_this_replicas_own_when_its_mode_says_so() {
        let (sync, loose) = (gate(Durability::Sync, 1, 1), gate(WINDOW, 1, 1));
        assert_eq!((sync.own(0, 5), loose.own(0, 5)), (0, 5));
        sync.set_floors(&[3]);
        assert_eq!((sync.own(0, 5), sync.own(0, 2)), (3, 2));
    }

    #[test]
    fn a_scribe_sleeps_only_when_nothing_waits_and_is_woken_once() {
        let eager = gate(Durability::Sync, 1, 1);
        assert!(!eager.may_sleep(|_| 1), "something is written already");
        assert!(eager.may_sleep(|_| 0));
        eager.wrote(0, 1);
        assert!(eager.news.sleep_unless_poked(Duration::from_secs(60)), "it is woken");
        eager.set_taken(ME, &[1]);
        let loose = gate(WINDOW, 1, 1);
        assert!(loose.may_sleep(|_| HURRY - 1));
        loose.wrote(0, HURRY - 1);
        assert!(!loose.news.sleep_unless_poked(Duration::from_millis(1)), "it has time");
        loose.wrote(0, HURRY);
        assert!(loose.news.sleep_unless_poked(Duration::from_secs(60)));
    }

    #[test]
    fn figures_are_of_the_last_syncs() {
        let gate = gate(WINDOW, 1, 1);
        assert_eq!(gate.stats().sync_us_p99, 0);
        for us in 0..2000 {
            gate.count(10, Nanos(us * 1000));
        }
        let stats = gate.stats();
        assert_eq!((stats.syncs, stats.bytes, stats.window_ms), (2000, 20_000, Some(100)));
        assert_eq!((stats.sync_us_max, stats.sync_us_p50), (1999, 976 + 512));
    }
}
