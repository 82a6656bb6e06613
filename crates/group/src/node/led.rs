//! The term that a node leads.

use std::sync::Arc;

use longarm_base::NodeId;
use longarm_fabric::QueuePair;
use longarm_host::{Pause, Thread};

use super::transfer::HandOver;
use crate::reign::Reign;

/// A reign, and its heart.
pub(super) struct Led<Q> {
    pub reign: Arc<Reign<Q>>,
    pub heart: Option<Thread>,
    pub heart_pause: Arc<Pause>,
}

impl<Q: QueuePair> Led<Q> {
    /// Whether all that was written is applied, and answered.
    pub fn is_at_rest(&self, hand_over: &mut HandOver<Q>) -> bool {
        let core = &self.reign.core;
        if core.engine.progress().iter().any(|stream| stream.applied() < stream.written()) {
            hand_over.turns = None;
            return false;
        }
        let turns = || core.pulses.iter().map(|pulse| pulse.rounds());
        let before = hand_over.turns.get_or_insert_with(|| turns().collect());
        let mut workers = core.pulses.iter().zip(before);
        workers.all(|(pulse, before)| pulse.is_sleeping() || pulse.rounds() >= *before + 2)
    }

    /// Whether a follower has all that was written, and knows of all that was freed.
    pub fn has_all(&self, node: NodeId) -> bool {
        let followers = self.reign.followers.lock();
        let Some(follower) = followers.iter().find(|follower| follower.node == node) else { return false };
        let streams = follower.attachments.iter().zip(self.reign.core.engine.progress());
        let mut lags = streams.map(|(attachment, progress)| attachment.acked() < progress.written());
        !lags.any(|lags| lags) && self.reign.releases.is_done(node)
    }
}
