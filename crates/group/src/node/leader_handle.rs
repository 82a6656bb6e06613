//! The term that a replica leads, as the replica's own thread has it.

use std::sync::Arc;

use longarm_base::ReplicaId;
use longarm_fabric::QueuePair;
use longarm_host::{Pause, Thread};
use longarm_replica::Turns;

use crate::durable::desk::DeskHandle;
use crate::durable::scribe::ScribeHandle;
use crate::leader_term::LeaderTerm;
use crate::pulse::Pulse;

/// The leader's term, and the thread of its heart.
pub(super) struct LeaderHandle<Q> {
    pub term: Arc<LeaderTerm<Q>>,
    pub heart: Option<Thread>,
    pub heart_pause: Arc<Pause>,
    /// The thread of its disk, if it has one.
    pub scribe: Option<ScribeHandle>,
    /// The thread at which followers' disks report, if there are any.
    pub desk: Option<DeskHandle>,
}

impl<Q: QueuePair> LeaderHandle<Q> {
    /// Whether all that was written is applied, and its clients are answered.
    pub fn is_drained(&self) -> bool {
        let core = &self.term.core;
        let applied = core.engine.progress().iter().all(|stream| stream.applied() >= stream.written());
        let turns = |pulse: &Arc<Pulse>| Turns { sleeps: pulse.is_sleeping(), made: pulse.rounds() };
        self.term.state.lock().is_drained(applied, core.pulses.iter().map(turns))
    }

    /// Whether a follower has all that was written, and knows of all that was freed.
    pub fn has_all(&self, replica: ReplicaId) -> bool {
        let followers = self.term.followers.lock();
        let Some(follower) = followers.iter().find(|follower| follower.replica == replica) else {
            return false;
        };
        let written = self.term.core.engine.progress().iter().map(|stream| stream.written());
        follower.progress().lag(written) == 0 && self.term.releases.lock().is_done(replica)
    }
}
