//! The start set of a term, from the reports of a majority (M2).
//!
//! The paper takes the highest `<term, seq_num>` of each thread from any replica (LoLKV 3.4); across terms
//! that loses entries that were readable (L1). Here only reports of the highest sync term count: a replica
//! that holds the start set of a younger term holds everything that an older one committed. Among those
//! reports the longest prefix of each stream has all that was committed in that term, since a majority of
//! synced replicas acknowledged it, and one of them reports.

use longarm_base::{Csn, Mutant, ReplicaId, Term};
use longarm_wire::{Extent, ReplicaReport};

/// The position at which a stream is cut, and a replica that has it up to there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamCut {
    /// Positions below are in the start set; the others are void (L16).
    pub len: u64,
    /// A replica that has the positions below.
    pub holder: ReplicaId,
}

/// The disk that a start set is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FromDisk {
    /// Entries of a higher version are given up.
    pub stable: Csn,
    /// No version up to this one is drawn again, since clients may have seen it.
    pub ceiling: Csn,
}

/// The entries that a term starts from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartSet {
    /// The new term.
    pub term: Term,
    /// The term whose start set and streams it takes over.
    pub base: Term,
    /// The streams of the base term.
    pub cuts: Vec<StreamCut>,
    /// The highest calendar of a leader that any reporting replica was told, in unix milliseconds.
    pub unix: u64,
    /// The extent of each stream that the new leader itself holds.
    pub own: Vec<Extent>,
    /// The disk that it is of, if it is one.
    pub disk: Option<FromDisk>,
    /// Whether the new leader holds a mixture of the terms before the base, which is no other replica's start
    /// set.
    pub mixed: bool,
}

impl StartSet {
    /// The term whose start set followers share with this one. A start set that continues from a mixture is
    /// shared only with replicas that have adopted it, so that is the new term itself; one from a disk, too.
    pub fn common(&self) -> Term {
        if self.mixed || self.disk.is_some() && !Mutant::ShareDisk.is_on() { self.term } else { self.base }
    }
}

/// The start set of `term`, from the leader's own report and those of others.
///
/// # Errors
/// The candidate may not lead now; the error names a replica that may, by these reports. Either the candidate
/// is not among the replicas of the highest sync term, or one of these released segments that the candidate
/// did not. Newer entries made those segments needless. A replica that still has them may hold an old entry
/// without the newer one (for example a delete that no replica stores any more).
pub(crate) fn start_set(
    term: Term,
    me: ReplicaId,
    own: &ReplicaReport,
    others: &[(ReplicaId, ReplicaReport)],
) -> Result<StartSet, ReplicaId> {
    let any = Mutant::GatherAny.is_on();
    let rank = |report: &ReplicaReport| (report.sync, report.reclaimed);
    if let Some((replica, best)) = others.iter().max_by_key(|(_, report)| rank(report))
        && rank(best) > rank(own)
        && !any
    {
        return Err(*replica);
    }
    // No other report is higher.
    let base = own.sync;
    let of_base = || others.iter().filter(|(_, report)| report.sync == base || any);
    let streams = of_base().map(|(_, report)| report.streams.len()).fold(own.streams.len(), usize::max);
    let unix = others.iter().map(|(_, report)| report.unix).fold(own.unix, u64::max);
    let own: Vec<_> =
        (0..streams).map(|stream| own.streams.get(stream).copied().unwrap_or_default()).collect();
    let cut = |stream: usize| {
        let mine = StreamCut { len: own[stream].len, holder: me };
        of_base().fold(mine, |best, &(replica, ref report)| match report.streams.get(stream) {
            Some(extent) if extent.len > best.len => StreamCut { len: extent.len, holder: replica },
            _ => best,
        })
    };
    Ok(StartSet { term, base, cuts: (0..streams).map(cut).collect(), unix, own, disk: None, mixed: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(sync: u32, lens: &[u64]) -> ReplicaReport {
        let streams = lens.iter().map(|&len| Extent { floor: 0, len }).collect();
        ReplicaReport { sync: Term::new(sync, ReplicaId(0)), reclaimed: 0, unix: 0, disk: None, streams }
    }

    #[test]
    fn the_longest_prefix_among_the_highest_sync_term_wins() {
        let term = Term::new(9, ReplicaId(1));
        let own = report(3, &[4, 0]);
        let others = [(ReplicaId(2), report(3, &[2, 7, 1])), (ReplicaId(3), report(2, &[90, 90, 90]))];
        let set = start_set(term, ReplicaId(1), &own, &others).expect("it is of the base");
        let cuts: Vec<_> = set.cuts.iter().map(|cut| (cut.len, cut.holder.0)).collect();
        assert_eq!(cuts, [(4, 1), (7, 2), (1, 2)]);
        assert_eq!(set.base, Term::new(3, ReplicaId(0)));
        assert_eq!(set.own.len(), 3);
        let [mut early, mut late] = [report(3, &[]), report(2, &[])];
        (early.unix, late.unix) = (70, 90);
        let others = [(ReplicaId(2), early.clone()), (ReplicaId(3), late)];
        let set = start_set(term, ReplicaId(1), &own, &others).expect("it is of the base");
        assert_eq!(set.unix, 90, "of whatever term: all calendars are one after the other");
        let set = start_set(term, ReplicaId(1), &early, &[]).expect("it is of the base");
        assert_eq!(set.unix, 70, "its own counts");
        let mut other = report(3, &[2]);
        other.reclaimed = 1;
        let [one, two] = [(ReplicaId(2), other), (ReplicaId(3), report(3, &[4]))];
        assert_eq!(start_set(term, ReplicaId(1), &own, &[one.clone(), two.clone()]), Err(ReplicaId(2)));
        assert_eq!(start_set(term, ReplicaId(1), &own, &[two, one]), Err(ReplicaId(2)));
        let mut behind = report(2, &[4]);
        behind.reclaimed = 9;
        assert_eq!(
            start_set(term, ReplicaId(1), &behind, &others),
            Err(ReplicaId(2)),
            "of another sync term"
        );
    }
}
