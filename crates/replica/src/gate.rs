//! The gate of acknowledgements: which positions of a stream are committed (M4, L1; LoLKV 3.3.2).
//!
//! A position is committed when the leader has it, and enough followers that are synced in this term have it
//! with everything before it. What a follower acknowledged before it was synced counts from then on: the
//! follower was synced with all of the stream that came before.

use longarm_base::{Mutant, ReplicaId};

use crate::Group;

/// The gate of one stream of one term.
#[derive(Clone, Debug)]
pub struct Gate {
    group: Group,
    followers: Vec<Follower>,
    committed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Follower {
    replica: ReplicaId,
    acked: u64,
    synced: bool,
}

impl Gate {
    /// The gate of a term in which no follower is synced yet.
    pub fn new(group: Group) -> Gate {
        let follower = |replica| Follower { replica, acked: 0, synced: false };
        Gate { group, followers: group.others().map(follower).collect(), committed: 0 }
    }

    /// Notes that the follower has all positions below `end`.
    pub fn ack(&mut self, replica: ReplicaId, end: u64) {
        if let Some(follower) = self.followers.iter_mut().find(|follower| follower.replica == replica) {
            follower.acked = follower.acked.max(end);
        }
    }

    /// Sets whether the follower counts. A follower that no longer counts may come back, with what it had.
    pub fn set_synced(&mut self, replica: ReplicaId, synced: bool) {
        if let Some(follower) = self.followers.iter_mut().find(|follower| follower.replica == replica) {
            follower.synced = synced;
        }
    }

    /// The number of positions that the follower has, as far as is known here.
    pub fn acked(&self, replica: ReplicaId) -> u64 {
        self.followers
            .iter()
            .find(|follower| follower.replica == replica)
            .map_or(0, |follower| follower.acked)
    }

    /// The followers that count as having all positions below `end`.
    pub fn counted(&self, end: u64) -> impl Iterator<Item = ReplicaId> {
        self.counts().filter(move |follower| follower.acked >= end).map(|follower| follower.replica)
    }

    fn counts(&self) -> impl Iterator<Item = &Follower> {
        self.followers.iter().filter(|follower| follower.synced || Mutant::CountUnsynced.is_on())
    }

    /// The number of committed positions, if the leader itself has those below `own`: in its memory, or on
    /// its disk where that is what counts.
    pub fn committed(&mut self, own: u64) -> u64 {
        let reached = self.group.reached(own, self.counts().map(|follower| follower.acked));
        // A committed position stays committed when a follower leaves.
        self.committed = self.committed.max(reached);
        self.committed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_synced_followers_count() {
        let group = Group::new(ReplicaId(1), &[1, 2, 3].map(ReplicaId)).expect("a group");
        let mut gate = Gate::new(group);
        gate.ack(ReplicaId(2), 5);
        assert_eq!(gate.committed(7), 0);
        gate.set_synced(ReplicaId(2), true);
        assert_eq!(gate.committed(7), 5);
        gate.ack(ReplicaId(3), 6);
        gate.set_synced(ReplicaId(2), false);
        assert_eq!(gate.committed(7), 5, "never back");
        gate.set_synced(ReplicaId(3), true);
        assert_eq!(gate.committed(7), 6);
        gate.ack(ReplicaId(3), 2);
        assert_eq!(gate.acked(ReplicaId(3)), 6);
        let alone = Group::new(ReplicaId(1), &[ReplicaId(1)]).expect("a group");
        assert_eq!(Gate::new(alone).committed(7), 7);
    }
}
