//! How far the disks of a group are, as the leader's limits on writes go by them.

use std::collections::BTreeMap;
use std::time::Duration;

use longarm_base::{Csn, Mutant, Nanos, ReplicaId};
use longarm_replica::Group;

use crate::durable::looks::Looks;

/// What is known of a disk.
#[derive(Clone, Default, Debug)]
struct Covered {
    /// By a note, all entries up to this version are there, and a loss of power leaves these.
    stable: Option<Csn>,
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
    looks: Looks,
}

impl Coverage {
    /// Of disks of which nothing is known.
    pub fn new(group: Group, by_majority: bool, window: Duration) -> Coverage {
        Coverage { group, by_majority, disks: BTreeMap::new(), looks: Looks::new(window) }
    }

    /// No version above this one had been drawn at that time.
    pub fn look(&mut self, at: Nanos, drawn: Csn) {
        self.looks.add(at, drawn);
    }

    /// A note with these versions is in the file of this replica.
    pub fn cover(&mut self, replica: ReplicaId, stable: Csn, ceiling: Csn) {
        let disk = self.disks.entry(replica).or_default();
        (disk.stable, disk.ceiling) = (Some(stable), ceiling);
    }

    /// The version up to which a loss of power would leave everything in the leader's own file.
    pub fn own_stable(&self) -> Csn {
        self.disks.get(&self.group.me()).and_then(|disk| disk.stable).unwrap_or_default()
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

    /// The moment until which notes cover all that was acknowledged. The version goes by which a note cuts,
    /// not the moment of the note: a write that is under way holds the version down, while others are
    /// acknowledged.
    pub fn at(&self) -> Option<Nanos> {
        let stable = self.reached(|disk| disk.stable)?;
        self.looks.covered(if Mutant::CoverMoment.is_on() { Csn(u64::MAX) } else { stable })
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
        let window = Duration::from_nanos(640);
        let (mut all, mut own) = (Coverage::new(group, true, window), Coverage::new(group, false, window));
        for coverage in [&mut all, &mut own] {
            (4..10).for_each(|at| coverage.look(Nanos(10 * at), Csn(10 * at)));
            for (replica, at) in [(0, 90), (1, 40), (7, 80)] {
                coverage.cover(ReplicaId(replica), Csn(at), Csn(at));
                coverage.took(ReplicaId(replica), &[at]);
            }
        }
        assert_eq!((all.at(), all.ceiling(), all.taken(0)), (Some(Nanos(40)), Csn(40), 40));
        assert_eq!((own.at(), own.ceiling(), own.taken(0)), (Some(Nanos(90)), Csn(90), 90));
        all.cover(ReplicaId(2), Csn(75), Csn(30));
        assert_eq!((all.at(), all.ceiling()), (Some(Nanos(70)), Csn(40)));
        all.uncover(ReplicaId(1));
        all.uncover(ReplicaId(2));
        assert_eq!((all.at(), all.ceiling(), all.taken(0)), (None, Csn(0), 0), "it alone is no majority");
    }
}
