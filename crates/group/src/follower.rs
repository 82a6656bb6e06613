//! A follower that is attached to a leader's term, as the threads of that term share it.
//!
//! Each number has one writer at a time. The worker of a stream writes the stream's `start`, `acked` and
//! `landed`; the thread that catches the follower up adds what it pushed to the latter two. That thread also
//! writes `wanted`, and `floor`, until
//! the follower is synced; then the heart does. Two writers of a floor would overtake each other, and a floor
//! that goes back shows a gap where something was freed.
//!
//! Threads that are in the middle of their turn when the follower is let go may still learn that it has more.
//! What it left with is noted once, by the thread that attends to it, and must have all that any thread
//! counted, or told the follower: it is from there on that the follower is given entries when it comes back.
//! So each thread looks again whether the follower is kept ([`is_kept`](Follower::is_kept)), after it noted
//! what it learnt and before it counts that.
//!
//! What the follower has acknowledged is in its memory. Where only what is on disk counts, its disk says how
//! much that is (`follower_disk.rs`), and the gate is told the lesser of the two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use longarm_base::{Mutant, ReplicaId};
use longarm_host::{Mutex, Pause};
use longarm_replica::{FollowerProgress, Releases, StreamProgress};
use longarm_store::progress::ProgressWords;

use crate::follower_disk::FollowerDisk;
use crate::stats::FollowerStats;

/// The segments that followers are asked to release, as the threads of a term share them.
pub type SharedReleases = Mutex<Releases>;

/// The start of a stream that has not taken the follower up yet.
const UNKNOWN: u64 = u64::MAX;

/// A follower that is attached to the term; all of its connections share this.
#[derive(Debug)]
pub(crate) struct Follower {
    pub replica: ReplicaId,
    synced: AtomicBool,
    gone: AtomicBool,
    /// Where the thread that catches the follower up sleeps.
    pub news: Arc<Pause>,
    streams: Vec<StreamCells>,
    /// What its disk has, if the group's replicas keep their data on disks.
    pub disk: Option<FollowerDisk>,
}

#[derive(Debug)]
struct StreamCells {
    start: AtomicU64,
    acked: AtomicU64,
    landed: AtomicU64,
    /// What the leader wants to know to have landed.
    wanted: AtomicU64,
    floor: AtomicU64,
}

impl Follower {
    pub fn new(replica: ReplicaId, streams: usize, news: Arc<Pause>) -> Follower {
        let cells = || StreamCells {
            start: AtomicU64::new(UNKNOWN),
            acked: AtomicU64::new(0),
            landed: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            floor: AtomicU64::new(0),
        };
        let streams = (0..streams).map(|_| cells()).collect();
        let (synced, gone) = (AtomicBool::new(false), AtomicBool::new(false));
        Follower { replica, synced, gone, news, streams, disk: None }
    }

    /// The same with a disk.
    pub fn with_disk(self, disk: Option<FollowerDisk>) -> Follower {
        Follower { disk, ..self }
    }

    /// How far the follower is at this moment.
    pub fn progress(&self) -> FollowerProgress {
        // Read first: what the follower was synced with is then seen below.
        let synced = self.is_synced();
        let at = |stream| StreamProgress {
            start: self.start(stream),
            acked: self.acked(stream),
            // Acquire: pairs with the Release of `land`.
            landed: self.streams[stream].landed.load(Ordering::Acquire),
            // Acquire: pairs with `set_floors`.
            floor: self.streams[stream].floor.load(Ordering::Acquire),
        };
        FollowerProgress { synced, streams: (0..self.streams.len()).map(at).collect() }
    }

    /// Notes that the WRITE of these floors to the follower's page completed.
    pub fn set_floors(&self, floors: &[u64]) {
        let cells = self.streams.iter().zip(floors);
        // Release: pairs with `progress`.
        cells.for_each(|(cells, floor)| cells.floor.store(*floor, Ordering::Release));
    }

    /// Notes that everything before the start of each stream was pushed, and has landed.
    pub fn count_starts(&self) {
        for stream in 0..self.streams.len() {
            let start = self.start(stream).unwrap_or(0);
            self.ack(stream, start);
            self.land(stream, start);
        }
    }

    /// Has the streams find out whether what the follower has acknowledged has landed. Whether any of them
    /// must: it has sent nothing since.
    pub fn want_landed(&self) -> bool {
        let mut any = false;
        for (stream, cells) in self.streams.iter().enumerate() {
            let acked = self.acked(stream);
            // Relaxed: the worker that finds it older looks again.
            any |= cells.landed.load(Ordering::Relaxed) < acked;
            cells.wanted.store(acked, Ordering::Relaxed);
        }
        any
    }

    fn land(&self, stream: usize, below: u64) {
        // Release: pairs with `progress`.
        self.streams[stream].landed.fetch_max(below, Ordering::Release);
    }

    fn start(&self, stream: usize) -> Option<u64> {
        // Acquire: what is before the start is whole in the arena; pairs with `Attachment::set_start`.
        Some(self.streams[stream].start.load(Ordering::Acquire)).filter(|&start| start != UNKNOWN)
    }

    fn ack(&self, stream: usize, below: u64) {
        // Release: pairs with `acked`.
        self.streams[stream].acked.fetch_max(below, Ordering::Release);
    }

    fn acked(&self, stream: usize) -> u64 {
        // Acquire: pairs with the Release of `ack`.
        self.streams[stream].acked.load(Ordering::Acquire)
    }

    /// Notes that the follower has all that it must have to count.
    pub fn set_synced(&self) {
        // Release: publishes what the follower was synced with; pairs with `is_synced`.
        self.synced.store(true, Ordering::Release);
    }

    /// Whether the follower has said that it is synced.
    pub fn is_synced(&self) -> bool {
        // Acquire: pairs with `set_synced`.
        self.synced.load(Ordering::Acquire)
    }

    /// Whether the leader has let the follower go.
    pub fn is_gone(&self) -> bool {
        // Acquire: pairs with `let_go`.
        self.gone.load(Ordering::Acquire)
    }

    /// Lets the follower go: it holds up no write any more, and is caught up anew.
    pub fn let_go(&self) {
        // Release: pairs with `is_gone`.
        self.gone.store(true, Ordering::Release);
        self.news.poke();
    }

    /// Lets the follower go, and returns the floors that it leaves with: it has all that was counted for it,
    /// or told to it.
    pub fn leave(&self) -> Vec<u64> {
        self.let_go();
        // SeqCst: this sees what a thread noted before it found the follower kept; pairs with `is_kept`.
        fence(Ordering::SeqCst);
        self.progress().next_floors()
    }

    /// Whether what was noted of the follower before may count: it is in what [`leave`](Self::leave) returns.
    pub fn is_kept(&self) -> bool {
        // SeqCst: either this sees that the follower was let go, or `leave` sees what was noted before; pairs
        // with the fence there.
        fence(Ordering::SeqCst);
        !self.is_gone() || Mutant::CountLeaving.is_on()
    }

    /// How far the follower is, for people.
    pub fn stats(&self, written: &[Arc<ProgressWords>]) -> FollowerStats {
        let progress = self.progress();
        let lag = progress.lag(written.iter().map(|stream| stream.written()));
        FollowerStats { replica: self.replica.0, synced: progress.synced, lag }
    }
}

/// A follower as the worker of one stream sees it.
#[derive(Clone, Debug)]
pub struct Attachment {
    follower: Arc<Follower>,
    stream: usize,
}

impl Attachment {
    pub(crate) fn new(follower: &Arc<Follower>, stream: usize) -> Attachment {
        Attachment { follower: follower.clone(), stream }
    }

    pub(crate) fn replica(&self) -> ReplicaId {
        self.follower.replica
    }

    /// Notes that the stream sends from this position on.
    pub(crate) fn set_start(&self, start: u64) {
        // Release: what is before the start is whole in the arena; pairs with `Follower::start`.
        self.follower.streams[self.stream].start.store(start, Ordering::Release);
        self.follower.news.poke();
    }

    /// Notes that the follower has the positions below this one.
    pub(crate) fn ack(&self, below: u64) {
        self.follower.ack(self.stream, below);
    }

    /// Notes that all positions below this one have landed there.
    pub(crate) fn land(&self, below: u64) {
        self.follower.land(self.stream, below);
    }

    /// Tells the thread that waits for it what has landed.
    pub(crate) fn tell_landed(&self, below: u64) {
        self.land(below);
        self.follower.news.poke();
    }

    /// Whether the leader waits to know what has landed.
    pub(crate) fn is_landing_wanted(&self) -> bool {
        let cells = &self.follower.streams[self.stream];
        // Relaxed: the stream is woken after the leader began to wait, and looks again.
        cells.wanted.load(Ordering::Relaxed) > cells.landed.load(Ordering::Relaxed)
    }

    /// The position below which the follower, once it is synced, surely has all entries.
    pub(crate) fn acked(&self) -> u64 {
        self.follower.acked(self.stream)
    }

    /// The position below which the follower's entries count: in its memory, or on its disk where that is
    /// what counts.
    pub(crate) fn counted(&self) -> u64 {
        let acked = self.acked();
        self.follower.disk.as_ref().map_or(acked, |disk| acked.min(disk.counted(self.stream)))
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.follower.is_synced()
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.follower.is_gone()
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.follower.is_kept()
    }

    pub(crate) fn let_go(&self) {
        self.follower.let_go();
    }
}
