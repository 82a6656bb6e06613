//! The term that a node leads.

use std::sync::Arc;

use longarm_base::NodeId;
use longarm_fabric::QueuePair;
use longarm_host::{Pause, Thread};

use super::transfer::LeaderTransfer;
use crate::leader_term::LeaderTerm;

/// The leader's term, and the thread that keeps it.
pub(super) struct LeaderHandle<Q> {
    pub term: Arc<LeaderTerm<Q>>,
    pub heart: Option<Thread>,
    pub heart_pause: Arc<Pause>,
}

impl<Q: QueuePair> LeaderHandle<Q> {
    /// Whether all that was written is applied, and answered.
    pub fn is_at_rest(&self, transfer: &mut LeaderTransfer<Q>) -> bool {
        let core = &self.term.core;
        if core.engine.progress().iter().any(|stream| stream.applied() < stream.written()) {
            transfer.turns = None;
            return false;
        }
        let turns = || core.pulses.iter().map(|pulse| pulse.rounds());
        let before = transfer.turns.get_or_insert_with(|| turns().collect());
        let mut workers = core.pulses.iter().zip(before);
        workers.all(|(pulse, before)| pulse.is_sleeping() || pulse.rounds() >= *before + 2)
    }

    /// Whether a follower has all that was written, and knows of all that was freed.
    pub fn has_all(&self, node: NodeId) -> bool {
        let followers = self.term.followers.lock();
        let Some(follower) = followers.iter().find(|follower| follower.node == node) else { return false };
        let written = self.term.core.engine.progress().iter().map(|stream| stream.written());
        follower.progress().lag(written) == 0 && self.term.releases.lock().is_done(node)
    }
}
