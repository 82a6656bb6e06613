//! The leader's lease: what the leader may conclude from heartbeats that a majority has (M6).
//!
//! A renewal counts from before the heartbeat was sent. The follower's promise counts from when the follower
//! saw it, which is later. So the leader's share of D, shortened by the drift of clocks, ends first
//! ([`Timing::lease`]).

use longarm_base::{Nanos, ReplicaId};

use crate::{Group, Timing};

/// The lease of a leader.
#[derive(Clone, Debug)]
pub struct LeaderLease {
    group: Group,
    share: Nanos,
    /// For each other replica: when the last heartbeat that it has was sent.
    renewed: Vec<(ReplicaId, Nanos)>,
}

impl LeaderLease {
    /// A lease that is not renewed yet.
    pub fn new(group: Group, timing: &Timing) -> LeaderLease {
        let renewed = group.others().map(|replica| (replica, Nanos(0))).collect();
        LeaderLease { group, share: timing.lease(), renewed }
    }

    /// Notes that the WRITE of a heartbeat that was begun at `sent` completed.
    pub fn renew(&mut self, replica: ReplicaId, sent: Nanos) {
        if let Some((_, renewed)) = self.renewed.iter_mut().find(|(known, _)| *known == replica) {
            *renewed = sent.max(*renewed);
        }
    }

    /// When a majority last renewed; this replica, if it is one of the group, renews at `now`.
    pub fn renewed(&self, now: Nanos) -> Nanos {
        self.group.reached(now, self.renewed.iter().map(|&(_, sent)| sent))
    }

    /// The other replicas whose promises back a lease that was renewed at this moment.
    pub fn backers(&self, renewed: Nanos) -> impl Iterator<Item = ReplicaId> {
        self.renewed.iter().filter(move |(_, sent)| *sent >= renewed).map(|(replica, _)| *replica)
    }

    /// The end of the lease, which may be in the past.
    pub fn end(&self, now: Nanos) -> Nanos {
        match self.renewed(now) {
            Nanos(0) => Nanos(0),
            renewed => renewed + self.share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_rests_on_a_majority() {
        let timing = Timing {
            heartbeat: Nanos(1_000_000),
            suspect: Nanos(3_000_000),
            promise: Nanos(10_000_000),
            election: Nanos(20_000_000),
        };
        let group = Group::new(ReplicaId(0), &[0, 1, 2, 3, 4].map(ReplicaId)).expect("a group");
        let mut lease = LeaderLease::new(group, &timing);
        lease.renew(ReplicaId(1), Nanos(5_000_000));
        assert_eq!(lease.end(Nanos(6_000_000)), Nanos(0), "two of five are none");
        lease.renew(ReplicaId(2), Nanos(3_000_000));
        assert_eq!(lease.end(Nanos(6_000_000)), Nanos(3_000_000) + timing.lease());
        lease.renew(ReplicaId(2), Nanos(2_000_000));
        lease.renew(ReplicaId(9), Nanos(6_000_000));
        assert_eq!(lease.end(Nanos(6_000_000)), Nanos(3_000_000) + timing.lease(), "never back");
        lease.renew(ReplicaId(3), Nanos(4_000_000));
        assert_eq!(lease.end(Nanos(6_000_000)), Nanos(4_000_000) + timing.lease());
    }
}
