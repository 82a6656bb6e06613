//! A replica that is to end, and leads, hands over first, as on an operator's word (`hand_over.rs`).
//!
//! Whoever ends it does so whatever has come of this, after a bound (`stop.rs`).

use longarm_base::NodeId;
use longarm_fabric::Transport;
use longarm_replica::{Event, Role, RoleKind};

use super::Node;
use crate::leaving::Leave;

impl<T: Transport> Node<T> {
    /// Looks what is left to be done before it may end.
    pub(super) fn go_on_leaving(&mut self) {
        if !self.is_leaving() || self.transfer.is_some() {
            return;
        }
        match self.machine.kind() {
            // Soon it may lead, or another.
            RoleKind::Candidate | RoleKind::Installing | RoleKind::Forming => return,
            RoleKind::Leader => {
                if let Some(to) = self.nearest() {
                    return self.begin(None, Event::HandOver(to));
                }
                self.log(&format!("node {} ends while it leads: no follower is in sync", self.group().me()));
            }
            RoleKind::Follower | RoleKind::Learner | RoleKind::PreCandidate => {}
        }
        *self.leave.lock() = Leave::Done;
    }

    /// Its time is over.
    pub(super) fn leave_at_last(&self) {
        if self.is_leaving() {
            self.log(&format!(
                "node {} ends, and has not heard of another leader in time",
                self.group().me()
            ));
        }
    }

    fn is_leaving(&self) -> bool {
        *self.leave.lock() == Leave::Wanted
    }

    /// Of the followers that are in sync, the one that lacks least.
    fn nearest(&self) -> Option<NodeId> {
        let (Role::Leading { synced, .. }, Some(leader)) = (self.machine.role(), &self.leading) else {
            return None;
        };
        let progress = leader.term.core.engine.progress();
        let may = |node: NodeId| synced.has(node) && self.group().members().has(node);
        let followers = leader.term.followers.lock();
        let followers = followers.iter().filter(|follower| may(follower.node));
        followers.min_by_key(|follower| follower.stats(progress).lag).map(|follower| follower.node)
    }
}
