//! The start set of a term from what is on the disks of replicas, most of which have lost their memory (D6).
//!
//! In `async` mode a write is acknowledged when a majority has it in memory. What of that is on which disk is
//! known of each disk alone: its note says up to which version it has everything. So one disk is the start
//! set, and what is above its stable version is given up: the order of versions is the order of all writes,
//! and what is left is what the group held at a moment. No write was taken while the notes of a majority
//! were behind by more than the window, and one of those disks reports.
//!
//! (1) *The disk of the highest term.* Before a leader serves, a majority's disks have the start set of its
//!     term, which has all that was committed before. So of the terms that served, the last one is on a disk
//!     that reports.
//! (2) *Of these, the highest stable version.*
//! (3) *Nobody has it in common.* Another replica may have let go of segments that were needless by entries
//!     which are given up here. So followers are given all of the start set.
//! (4) *A majority with memory* has lost nothing: then the group elects from memory.

use longarm_base::{Mutant, ReplicaId, Term};
use longarm_wire::{DiskReport, ReplicaReport};

use crate::gather::{FromDisk, StartSet, StreamCut};
use crate::{Group, ReplicaSet};

/// What an election goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Basis {
    /// What replicas have in memory: the reports of a majority count.
    #[default]
    Memory,
    /// What is on their disks: all replicas are to report.
    Disks {
        /// An operator accepts that some are missing, with all that only they have: a majority counts.
        lossy: bool,
    },
}

impl Basis {
    /// Whether these replicas are enough.
    pub(crate) fn is_enough(self, group: &Group, replicas: ReplicaSet) -> bool {
        match self {
            Basis::Disks { lossy: false } if !Mutant::ColdMajority.is_on() => {
                group.members().iter().all(|replica| replicas.has(replica))
            }
            Basis::Memory | Basis::Disks { .. } => group.is_majority(replicas),
        }
    }
}

/// Why a candidate may not lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Declined {
    /// This replica may, by what it has in memory.
    Memory(ReplicaId),
    /// This replica may, by what is on its disk.
    Disk(ReplicaId),
    /// Nobody may, as far as the reports say.
    Nobody,
}

/// The start set of `term` by the disks of the replicas that reported.
pub(crate) fn start_from_disks(
    term: Term,
    group: &Group,
    own: &ReplicaReport,
    others: &[(ReplicaId, ReplicaReport)],
    lossy: bool,
) -> Result<StartSet, Declined> {
    let me = group.me();
    let disk = |report: &ReplicaReport| report.disk.unwrap_or_default();
    let all = || others.iter().map(|(replica, report)| (*replica, report)).chain([(me, own)]);
    let with_memory = || all().filter(|(_, report)| disk(report).has_memory);
    if group.is_majority(with_memory().map(|(replica, _)| replica).collect()) {
        let best = with_memory().max_by_key(|(_, report)| (report.sync, report.reclaimed));
        return Err(best.map_or(Declined::Nobody, |(replica, _)| Declined::Memory(replica)));
    }
    let rank = |report: &ReplicaReport| {
        let DiskReport { term, mixed, stable, ready, .. } = disk(report);
        (term, !mixed, stable, ready)
    };
    if let Some((replica, best)) = others.iter().max_by_key(|(_, report)| rank(report))
        && rank(best) > rank(own)
    {
        return Err(if disk(best).ready { Declined::Disk(*replica) } else { Declined::Nobody });
    }
    let DiskReport { term: base, mixed, stable, ready, .. } = disk(own);
    // Nobody gives up more than the last writes, if no operator says so.
    let is_sound = base > Term::ZERO && !mixed;
    if !ready || !(is_sound || lossy) {
        return Err(Declined::Nobody);
    }
    let ceilings = all().filter(|(replica, _)| *replica == me || !Mutant::OwnCeiling.is_on());
    let ceiling = ceilings.map(|(_, report)| disk(report).ceiling).max().unwrap_or_default();
    let unix = all().map(|(_, report)| report.unix).max().unwrap_or_default();
    let cuts = own.streams.iter().map(|extent| StreamCut { len: extent.len, holder: me }).collect();
    let disk = Some(FromDisk { stable, ceiling });
    Ok(StartSet { term, base, cuts, unix, own: own.streams.clone(), disk, mixed })
}

#[cfg(test)]
mod tests {
    use longarm_base::Csn;
    use longarm_wire::Extent;

    use super::*;

    const NEXT: Term = Term::new(9, ReplicaId(0));

    fn of(counter: u32, stable: u64) -> DiskReport {
        let term = Term::new(counter, ReplicaId(1));
        let (stable, ceiling) = (Csn(stable), Csn(1000 + stable));
        DiskReport { term, mixed: false, stable, ceiling, ready: true, has_memory: false }
    }

    fn report(disk: DiskReport) -> ReplicaReport {
        let streams = vec![Extent { floor: disk.stable.0, len: disk.stable.0 }];
        ReplicaReport { unix: disk.stable.0, disk: Some(disk), streams, ..ReplicaReport::default() }
    }

    fn start(own: DiskReport, others: [DiskReport; 2], lossy: bool) -> Result<StartSet, Declined> {
        let group = Group::new(ReplicaId(0), &[0, 1, 2].map(ReplicaId)).expect("a group");
        let others: Vec<_> = (1..).map(ReplicaId).zip(others.map(report)).collect();
        start_from_disks(NEXT, &group, &report(own), &others, lossy)
    }

    #[test]
    fn the_disk_of_the_highest_term_and_version_is_the_start_set_and_nobody_shares_it() {
        let set = start(of(3, 50), [of(2, 90), of(3, 40)], false).expect("it has most");
        assert_eq!((set.base, set.common(), set.mixed), (Term::new(3, ReplicaId(1)), NEXT, false));
        assert_eq!(set.cuts, [StreamCut { len: 50, holder: ReplicaId(0) }]);
        assert_eq!((set.unix, set.own[0].len), (90, 50));
        assert_eq!(set.disk, Some(FromDisk { stable: Csn(50), ceiling: Csn(1090) }), "the highest ceiling");
        let equal = start(of(3, 50), [of(3, 50), of(3, 50)], false);
        assert!(equal.is_ok(), "one of equals is as good as another");
    }

    #[test]
    fn who_has_more_on_disk_is_named_if_it_can_lead() {
        let declined = |own, others| start(own, others, false).expect_err("another has more");
        assert_eq!(declined(of(3, 50), [of(3, 51), of(3, 40)]), Declined::Disk(ReplicaId(1)));
        assert_eq!(declined(of(3, 50), [of(3, 51), of(4, 1)]), Declined::Disk(ReplicaId(2)));
        let mixed = DiskReport { mixed: true, ..of(3, 90) };
        assert_eq!(declined(mixed, [of(2, 99), of(3, 40)]), Declined::Disk(ReplicaId(2)));
        let unready = DiskReport { ready: false, ..of(3, 90) };
        assert_eq!(declined(of(3, 50), [unready, of(3, 40)]), Declined::Nobody);
    }

    #[test]
    fn more_than_the_last_writes_are_given_up_only_if_an_operator_says_so() {
        let others = [DiskReport::default(), of(2, 5)];
        for own in [DiskReport { mixed: true, ..of(3, 90) }, DiskReport { term: Term::ZERO, ..of(0, 0) }] {
            let others = if own.mixed { others } else { [own; 2] };
            assert_eq!(start(own, others, false).expect_err("nobody knows"), Declined::Nobody);
            assert_eq!(start(own, others, true).expect("it was said").mixed, own.mixed);
        }
        let unready = DiskReport { ready: false, ..of(3, 90) };
        assert_eq!(start(unready, others, true).expect_err("it is not in memory"), Declined::Nobody);
    }

    #[test]
    fn a_majority_with_memory_has_lost_nothing() {
        let warm = |disk| DiskReport { has_memory: true, ..disk };
        let group = Group::new(ReplicaId(0), &[0, 1, 2].map(ReplicaId)).expect("a group");
        let of_memory = |disk, sync| ReplicaReport { sync: Term::new(sync, ReplicaId(1)), ..report(disk) };
        let others =
            [(ReplicaId(1), of_memory(warm(of(3, 9)), 3)), (ReplicaId(2), of_memory(warm(of(2, 9)), 4))];
        let found = start_from_disks(NEXT, &group, &report(of(3, 50)), &others, true);
        assert_eq!(found.expect_err("they elect from memory"), Declined::Memory(ReplicaId(2)));
        assert!(start(of(3, 50), [warm(of(3, 9)), of(2, 9)], false).is_ok(), "one is too few");
    }

    #[test]
    fn all_replicas_count_or_a_majority_if_that_was_said() {
        let group = Group::new(ReplicaId(0), &[0, 1, 2].map(ReplicaId)).expect("a group");
        let of = |replicas: &[u8]| replicas.iter().copied().map(ReplicaId).collect::<ReplicaSet>();
        let enough =
            |basis: Basis| (basis.is_enough(&group, of(&[0, 2])), basis.is_enough(&group, of(&[0, 1, 2])));
        assert_eq!(enough(Basis::Memory), (true, true));
        assert_eq!(enough(Basis::Disks { lossy: false }), (false, true));
        assert_eq!(enough(Basis::Disks { lossy: true }), (true, true));
        assert!(!Basis::Disks { lossy: true }.is_enough(&group, of(&[1])));
    }
}
