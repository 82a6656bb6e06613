//! The tree of a leader that has followers: as a rule they answer scans, and the leader keeps no tree. It
//! keeps one while clients come to it, which they do when no follower has a tree that is ready.

use longarm_base::{Nanos, Term};
use longarm_memory::Mapped;

use crate::following::Following;
use crate::order::StableOf;
use crate::source::Source;

/// How long clients must have come before the leader builds a tree: in the moments after a change of leader
/// they come, too, and a follower's tree is ready soon.
const ASKED_FOR: Nanos = Nanos::from_millis(100);
/// Clients that come later than this after the last one are asking anew.
const PAUSE: Nanos = Nanos::from_millis(1_000);
/// How long a tree is kept that nobody asks for.
const KEPT_FOR: Nanos = Nanos::from_millis(10_000);

/// A term that this replica leads.
pub(crate) struct Led {
    pub term: Term,
    pub streams: usize,
    pub progress: Mapped,
    pub stable: StableOf,
}

impl Led {
    /// Follows the replica's own streams.
    pub fn follow<Q: longarm_fabric::QueuePair>(&self) -> Following<Q> {
        let source = Source::Own(self.stable.clone());
        Following::new(self.term, self.streams, source).lead_by(self.progress.clone())
    }
}

/// Whether clients ask a leader, as a value: time is an argument.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Demand {
    since: Option<Nanos>,
    last: Nanos,
}

impl Demand {
    /// A client asks.
    pub fn note(&mut self, now: Nanos) {
        if now.since(self.last) > PAUSE {
            self.since = None;
        }
        self.since.get_or_insert(now);
        self.last = now;
    }

    /// Whether clients have asked for so long that a tree is worth its build.
    pub fn lasts(&self) -> bool {
        self.since.is_some_and(|since| self.last.since(since) >= ASKED_FOR)
    }

    /// Whether nobody has asked for so long that a tree is not worth its keep.
    pub fn is_over(&self, now: Nanos) -> bool {
        now.since(self.last) > KEPT_FOR
    }
}

/// A term that this replica leads, and its followers answer scans as a rule.
pub(crate) struct StandIn {
    pub led: Led,
    pub demand: Demand,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_built_for_clients_that_go_on_asking_and_kept_as_long_as_they_do() {
        let at = Nanos::from_millis;
        let mut demand = Demand::default();
        demand.note(at(5_000));
        assert!(!demand.lasts(), "a client that asked once");
        demand.note(at(5_060));
        assert!(!demand.lasts());
        demand.note(at(5_100));
        assert!(demand.lasts());
        assert!(!demand.is_over(at(15_100)));
        assert!(demand.is_over(at(15_101)));
        demand.note(at(30_000));
        assert!(!demand.lasts(), "it begins anew");
        demand.note(at(31_001));
        assert!(!demand.lasts(), "clients that come now and then");
        demand.note(at(31_101));
        assert!(demand.lasts());
    }
}
