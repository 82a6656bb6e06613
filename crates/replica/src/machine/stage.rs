//! A change of a group's replicas that an operator wants, and its progress (`change.rs` makes it).

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{MemberAt, Members};

use crate::ReplicaSet;

/// An operator's wish for a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeRequest {
    /// One more replica.
    Add(MemberAt),
    /// One replica less.
    Remove(ReplicaId),
}

/// A change of the replicas that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MembershipChange {
    /// The replicas that are to be.
    pub next: Members,
    /// The replica that joins, if one does.
    pub joins: Option<ReplicaId>,
    /// How far the change is.
    pub stage: ChangeStage,
    /// Until when the change may still be given up.
    pub(super) until: Nanos,
    /// When replicas that have not answered are asked again, or a hand-over is tried again.
    pub(super) again: Nanos,
}

/// How far a change is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeStage {
    /// The joining replica is being synced.
    Joining,
    /// These replicas have kept the set that the term has.
    Confirming(ReplicaSet),
    /// These replicas have kept the next set.
    Proposing(ReplicaSet),
    /// Majorities have kept it: the next term has it. These replicas had kept it when that was decided.
    Agreed(ReplicaSet),
}

impl MembershipChange {
    /// Extends the time, as the joining replica takes what it is given.
    pub(super) fn progress(&mut self, until: Nanos) {
        if self.stage == ChangeStage::Joining {
            self.until = self.until.max(until);
        }
    }

    /// The set that replicas are asked to keep now, and those that have kept it.
    pub(super) fn asked(&self, own: &Members, term: Term) -> Option<(Members, ReplicaSet)> {
        match self.stage {
            ChangeStage::Confirming(by) => {
                Some((Members { term, changed: false, list: own.list.clone() }, by))
            }
            ChangeStage::Proposing(by) => Some((self.next.clone(), by)),
            ChangeStage::Joining | ChangeStage::Agreed(_) => None,
        }
    }
}
