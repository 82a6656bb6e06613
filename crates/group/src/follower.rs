//! A follower that is attached to a leader's term, as the threads of that term share it.
//!
//! Each number has one writer: `start` and `acked` the worker whose stream it is (and catching up, which
//! counts what it pushed), `floor` the thread that catches the follower up until it is synced, then the
//! heart. Two at once would overtake each other, and a floor that goes back shows a gap where something was
//! freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use longarm_base::NodeId;
use longarm_engine::stream::Progress;
use longarm_host::{Mutex, Pause};
use longarm_replica::{FollowerProgress, Releases, StreamProgress};

use crate::stats::FollowerStats;

/// What followers are asked to let go of, as the threads of a term share it.
pub type SharedReleases = Mutex<Releases>;

/// The start of a stream that has not taken the follower up yet.
const UNKNOWN: u64 = u64::MAX;

/// A follower that is attached: all of its connections share this.
#[derive(Debug)]
pub(crate) struct Follower {
    pub node: NodeId,
    synced: AtomicBool,
    gone: AtomicBool,
    /// The thread that catches it up sleeps here.
    pub news: Arc<Pause>,
    streams: Vec<StreamCells>,
}

#[derive(Debug)]
struct StreamCells {
    start: AtomicU64,
    acked: AtomicU64,
    floor: AtomicU64,
}

impl Follower {
    pub fn new(node: NodeId, streams: usize, news: Arc<Pause>) -> Follower {
        let cells = || StreamCells {
            start: AtomicU64::new(UNKNOWN),
            acked: AtomicU64::new(0),
            floor: AtomicU64::new(0),
        };
        let streams = (0..streams).map(|_| cells()).collect();
        Follower { node, synced: AtomicBool::new(false), gone: AtomicBool::new(false), news, streams }
    }

    /// How far it is at this moment.
    pub fn progress(&self) -> FollowerProgress {
        // First: what it was synced with is then seen below.
        let synced = self.is_synced();
        let at = |stream| StreamProgress {
            start: self.start(stream),
            acked: self.acked(stream),
            // Acquire: pairs with `set_floors`.
            floor: self.streams[stream].floor.load(Ordering::Acquire),
        };
        FollowerProgress { synced, streams: (0..self.streams.len()).map(at).collect() }
    }

    /// The WRITE of these floors to its page completed.
    pub fn set_floors(&self, floors: &[u64]) {
        let cells = self.streams.iter().zip(floors);
        // Release: pairs with `progress`.
        cells.for_each(|(cells, floor)| cells.floor.store(*floor, Ordering::Release));
    }

    /// Everything before the start of each stream was pushed, and has landed.
    pub fn count_starts(&self) {
        for stream in 0..self.streams.len() {
            self.ack(stream, self.start(stream).unwrap_or(0));
        }
    }

    fn start(&self, stream: usize) -> Option<u64> {
        // Acquire: what is before is whole in the arena; pairs with `Attachment::set_start`.
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

    /// It has all that it must have to count.
    pub fn set_synced(&self) {
        // Release: what it was synced with is there; pairs with `is_synced`.
        self.synced.store(true, Ordering::Release);
    }

    /// Whether it has said that it is synced.
    pub fn is_synced(&self) -> bool {
        // Acquire: pairs with `set_synced`.
        self.synced.load(Ordering::Acquire)
    }

    /// Whether one of its connections was given up.
    pub fn is_gone(&self) -> bool {
        // Acquire: pairs with `let_go`.
        self.gone.load(Ordering::Acquire)
    }

    /// It is let go: it is caught up anew, and holds up nobody.
    pub fn let_go(&self) {
        // Release: pairs with `is_gone`.
        self.gone.store(true, Ordering::Release);
        self.news.poke();
    }

    /// How it stands, for people.
    pub fn stats(&self, written: &[Arc<Progress>]) -> FollowerStats {
        let progress = self.progress();
        let lag = progress.lag(written.iter().map(|stream| stream.written()));
        FollowerStats { node: self.node.0, synced: progress.synced, lag }
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

    pub(crate) fn node(&self) -> NodeId {
        self.follower.node
    }

    /// The stream sends from this position on.
    pub(crate) fn set_start(&self, start: u64) {
        // Release: what is before is whole in the arena; pairs with `Follower::start`.
        self.follower.streams[self.stream].start.store(start, Ordering::Release);
        self.follower.news.poke();
    }

    /// Positions below this are there.
    pub(crate) fn ack(&self, below: u64) {
        self.follower.ack(self.stream, below);
    }

    /// Positions below this are surely there, once it is synced.
    pub(crate) fn acked(&self) -> u64 {
        self.follower.acked(self.stream)
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.follower.is_synced()
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.follower.is_gone()
    }

    pub(crate) fn let_go(&self) {
        self.follower.let_go();
    }
}
