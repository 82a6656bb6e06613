//! How long the replica's own thread sleeps. A question or an event wakes it; it wakes by itself for what it
//! has to look at.

use std::time::Duration;

use longarm_fabric::Transport;
use longarm_host::now;
use longarm_replica::{LeaderState, RoleKind};

use super::Node;

/// How many times in a heartbeat the thread looks whether the last writes have ended, while writes are held.
const LOOKS_A_HEARTBEAT: u32 = 16;

impl<T: Transport> Node<T> {
    /// How long the thread is to sleep at most.
    pub(super) fn nap(&self) -> Duration {
        let timing = self.group_options.timing;
        let [every, looks] = [timing.heartbeat, timing.looks()].map(|time| Duration::from_nanos(time.0));
        if self.transfer.is_none() {
            let follows = self.machine.kind() == RoleKind::Follower;
            let usual = if follows { looks } else { every };
            let report = self.machine.reports_at();
            return report.map_or(usual, |at| usual.min(Duration::from_nanos(at.since(now()).0)));
        }
        let Some(leader) = &self.leading else { return every };
        match *leader.term.state.lock() {
            LeaderState::Draining { .. } | LeaderState::Releasing { .. } => every / LOOKS_A_HEARTBEAT,
            LeaderState::WindingDown { over: Some(over), .. } => {
                every.min(Duration::from_nanos(over.since(now()).0))
            }
            _ => every,
        }
    }
}
