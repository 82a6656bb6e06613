//! What a leader's term is made of: the server's threads of that term, and the followers attached to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use longarm_base::{Csn, Nanos, ReplicaId, Term};
use longarm_fabric::Channel;
use longarm_host::{Mutex, Pause};
use longarm_replica::LeaderState;
use longarm_wire::Members;

use crate::common::Core;
use crate::follower::{Follower, SharedReleases};
use crate::inbox::Inbox;
use crate::install::Tail;
use crate::replicate::Arrivals;

/// Wakes the thread that writes a stream.
pub enum Waker {
    /// Wakes a worker.
    Worker(Channel),
    /// Wakes the maintenance thread.
    Maintenance(Arc<Pause>),
}

impl Waker {
    /// Wakes the thread, which then looks at once at what there is to do.
    pub fn wake(&self) {
        match self {
            Waker::Worker(channel) => channel.notify(),
            Waker::Maintenance(pause) => pause.poke(),
        }
    }
}

/// Where followers are added to a stream, and how its writer is woken.
pub(crate) struct StreamHandle<Q> {
    pub arrivals: Arc<Arrivals<Q>>,
    pub waker: Waker,
}

/// The start set of a term as its leader installed it.
pub(crate) struct InstalledSet {
    /// The term whose start set followers may have in common with this one.
    pub base: Term,
    /// Where the streams of the base are cut.
    pub cuts: Vec<u64>,
    /// Entries of the base that a follower may lack, as they were at the start.
    pub tail: Tail,
    /// No version up to this one is drawn again, though no entry may have it.
    pub ceiling: Csn,
}

/// A term that this replica leads, from its start set to its end.
pub(crate) struct LeaderTerm<Q> {
    pub term: Term,
    pub start: InstalledSet,
    /// The replicas that the term has.
    pub members: Members,
    pub core: Arc<Core>,
    /// The streams that the term has.
    pub streams: Vec<StreamHandle<Q>>,
    pub releases: Arc<SharedReleases>,
    /// The connections for heartbeats that the heart has not taken yet.
    pub hearts: Inbox<(Q, Arc<Follower>)>,
    /// What each follower had acknowledged, by stream, when it was last asked to adopt the term, or left.
    pub left: Mutex<BTreeMap<ReplicaId, Vec<u64>>>,
    /// The followers that are attached.
    pub followers: Mutex<Vec<Arc<Follower>>>,
    /// When the last heartbeat was begun.
    beat: AtomicU64,
    /// When something was last pushed to a follower that is being synced.
    pushed: AtomicU64,
    /// Where the leader is in the term. The heart reads it, vouches to clients and renews the leader's own
    /// lease under one lock, so that it is known when the clients' leases end.
    pub state: Mutex<LeaderState>,
    /// The number of threads that hold connections to followers' memory.
    attending: AtomicUsize,
}

/// A thread of the leader's term that holds connections. The thread drops this after them.
pub(crate) struct Attending<'a>(&'a AtomicUsize);

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        // Release: the thread's connections are closed; pairs with `is_attended`.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl<Q> LeaderTerm<Q> {
    pub fn new(
        term: Term,
        start: InstalledSet,
        members: Members,
        core: Arc<Core>,
        streams: Vec<StreamHandle<Q>>,
        releases: Arc<SharedReleases>,
    ) -> LeaderTerm<Q> {
        LeaderTerm {
            term,
            start,
            members,
            core,
            streams,
            releases,
            hearts: Inbox::default(),
            left: Mutex::default(),
            followers: Mutex::default(),
            beat: AtomicU64::new(0),
            pushed: AtomicU64::new(0),
            state: Mutex::default(),
            attending: AtomicUsize::new(0),
        }
    }

    /// Ends the term, and lets its followers go.
    pub fn end(&self) {
        self.state.lock().end();
        self.followers.lock().iter().for_each(|follower| follower.let_go());
    }

    pub fn is_over(&self) -> bool {
        *self.state.lock() == LeaderState::Over
    }

    /// Counts a thread that begins to hold connections.
    pub fn attend(&self) -> Attending<'_> {
        // Relaxed: the guard's drop publishes.
        self.attending.fetch_add(1, Ordering::Relaxed);
        Attending(&self.attending)
    }

    /// Whether some thread still holds connections.
    pub fn is_attended(&self) -> bool {
        // Acquire: pairs with the drop of `Attending`.
        self.attending.load(Ordering::Acquire) > 0
    }

    /// Notes that a heartbeat is about to be sent.
    pub fn set_beat(&self, now: Nanos) {
        // Release: stored before the heartbeat is sent; pairs with `beat`.
        self.beat.store(now.0, Ordering::Release);
    }

    pub fn beat(&self) -> Nanos {
        // Acquire: as in `set_beat`.
        Nanos(self.beat.load(Ordering::Acquire))
    }

    /// Since when the leader serves; `None` if it does not.
    pub fn served(&self) -> Option<Nanos> {
        self.state.lock().served()
    }

    /// Notes that a follower that is being synced takes what is pushed to it.
    pub fn set_pushed(&self, now: Nanos) {
        // Relaxed: a time, and nothing rests on it; pairs with `pushed`.
        self.pushed.store(now.0, Ordering::Relaxed);
    }

    /// When a follower that is being synced last took what was pushed to it.
    pub fn pushed(&self) -> Nanos {
        // Relaxed: pairs with `set_pushed`.
        Nanos(self.pushed.load(Ordering::Relaxed))
    }

    /// Wakes the writers of all streams.
    pub fn wake(&self) {
        self.streams.iter().for_each(|stream| stream.waker.wake());
    }
}
