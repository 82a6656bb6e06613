//! How far the disks of a group are, as the leader's limits on writes go by them.

use std::collections::BTreeMap;

use longarm_base::{Csn, Nanos, ReplicaId};
use longarm_replica::Group;

/// What is known of a disk.
#[derive(Clone, Default, Debug)]
struct Covered {
    /// A note covers all that was written by then.
    at: Nanos,
    /// The note allows versions up to this one.
    ceiling: Csn,
    /// By stream: it has all positions below, or knows where they are.
    taken: Vec<u64>,
}

/// How far the disks are: those of a majority of the group, or that of the leader alone.
#[derive(Debug)]
pub(crate) struct Coverage {
    group: Group,
    by_majority: bool,
    disks: BTreeMap<ReplicaId, Covered>,
}

impl Coverage {
    /// Of disks of which nothing is known.
    pub fn new(group: Group, by_majority: bool) -> Coverage {
        Coverage { group, by_majority, disks: BTreeMap::new() }
    }

    /// A note is in the file of this replica.
    pub fn cover(&mut self, replica: ReplicaId, at: Nanos, ceiling: Csn) {
        let disk = self.disks.entry(replica).or_default();
        (disk.at, disk.ceiling) = (at, ceiling);
    }

    /// The file of this replica has all positions below, or the replica knows where they are.
    pub fn took(&mut self, replica: ReplicaId, below: &[u64]) {
        let taken = &mut self.disks.entry(replica).or_default().taken;
        taken.clear();
        taken.extend_from_slice(below);
    }

    /// Nothing is known of the file of this replica any more.
    pub fn uncover(&mut self, replica: ReplicaId) {
        self.disks.remove(&replica);
    }

    /// The moment until which notes cover all that was written.
    pub fn at(&self) -> Option<Nanos> {
        Some(self.reached(|disk| disk.at)).filter(|at| *at > Nanos(0))
    }

    /// The version up to which notes allow versions.
    pub fn ceiling(&self) -> Csn {
        self.reached(|disk| disk.ceiling)
    }

    /// The position of a stream below which the disks know of everything.
    pub fn taken(&self, stream: usize) -> u64 {
        self.reached(|disk| disk.taken.get(stream).copied().unwrap_or(0))
    }

    /// What enough disks have reached.
    fn reached<T: Ord + Copy + Default>(&self, of: impl Fn(&Covered) -> T) -> T {
        let me = self.group.me();
        let own = self.disks.get(&me).map_or_else(T::default, &of);
        if !self.by_majority {
            return own;
        }
        // A replica that joins is given everything, and does not count in this term.
        let others =
            self.disks.iter().filter(|(replica, _)| **replica != me && self.group.members().has(**replica));
        self.group.reached(own, others.map(|(_, disk)| of(disk)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_what_a_majority_of_the_members_has() {
        let group = Group::new(ReplicaId(0), &[0, 1, 2].map(ReplicaId)).expect("a group");
        let (mut all, mut own) = (Coverage::new(group, true), Coverage::new(group, false));
        for (replica, at) in [(0, 90), (1, 40), (7, 80)] {
            for coverage in [&mut all, &mut own] {
                coverage.cover(ReplicaId(replica), Nanos(at), Csn(at));
                coverage.took(ReplicaId(replica), &[at]);
            }
        }
        assert_eq!((all.at(), all.ceiling(), all.taken(0)), (Some(Nanos(40)), Csn(40), 40));
        assert_eq!((own.at(), own.ceiling(), own.taken(0)), (Some(Nanos(90)), Csn(90), 90));
        all.cover(ReplicaId(2), Nanos(70), Csn(30));
        assert_eq!((all.at(), all.ceiling()), (Some(Nanos(70)), Csn(40)));
        all.uncover(ReplicaId(1));
        all.uncover(ReplicaId(2));
        assert_eq!((all.at(), all.ceiling(), all.taken(0)), (None, Csn(0), 0), "it alone is no majority");
    }
}
