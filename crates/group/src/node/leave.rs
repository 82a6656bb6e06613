//! The end of a replica. If it leads, it hands over first, as on an operator's order (`hand_over.rs`).
//!
//! The server that ends the replica waits for that only up to a bound (`stop.rs`).

use longarm_base::ReplicaId;
use longarm_fabric::Transport;
use longarm_replica::{Event, Role, RoleKind};

use super::Node;
use crate::leaving::Leave;

impl<T: Transport> Node<T> {
    /// Finds what is left to be done before the replica may end, and begins it.
    pub(super) fn go_on_leaving(&mut self) {
        if !self.is_leaving() || self.transfer.is_some() {
            return;
        }
        match self.machine.kind() {
            // Soon this replica may lead, or another.
            RoleKind::Candidate | RoleKind::Installing | RoleKind::Forming => return,
            RoleKind::Leader => {
                if let Some(to) = self.nearest() {
                    return self.begin(None, Event::HandOver(to));
                }
                self.log(&format!(
                    "replica {} ends while it leads: no follower is in sync",
                    self.group().me()
                ));
            }
            RoleKind::Follower | RoleKind::Learner | RoleKind::PreCandidate => {}
        }
        *self.leave.lock() = Leave::Done;
    }

    /// Logs that the replica ends before it has heard of another leader.
    pub(super) fn leave_at_last(&self) {
        if self.is_leaving() {
            self.log(&format!(
                "replica {} ends, and has not heard of another leader in time",
                self.group().me()
            ));
        }
    }

    fn is_leaving(&self) -> bool {
        *self.leave.lock() == Leave::Wanted
    }

    /// The follower that lacks least, among those that are in sync.
    pub(super) fn nearest(&self) -> Option<ReplicaId> {
        let (Role::Leading { synced, .. }, Some(leader)) = (self.machine.role(), &self.leading) else {
            return None;
        };
        let progress = leader.term.core.engine.progress();
        let may = |replica: ReplicaId| synced.has(replica) && self.group().members().has(replica);
        let followers = leader.term.followers.lock();
        let followers = followers.iter().filter(|follower| may(follower.replica));
        followers.min_by_key(|follower| follower.stats(progress).lag).map(|follower| follower.replica)
    }
}
