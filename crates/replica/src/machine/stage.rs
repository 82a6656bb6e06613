//! What an operator wants of the replicas of a group, and how far that is (`change.rs` sees to it).

use longarm_base::{Nanos, NodeId, Term};
use longarm_wire::{MemberAt, Members};

use crate::Nodes;

/// What an operator wants of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeRequest {
    /// One more replica.
    Add(MemberAt),
    /// One less.
    Remove(NodeId),
}

/// A change of the replicas that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MembershipChange {
    /// What is to be.
    pub next: Members,
    /// Who is one more, if one is.
    pub joins: Option<NodeId>,
    /// How far it is.
    pub stage: ChangeStage,
    /// Until when it may still be given up.
    pub(super) until: Nanos,
    /// When those are asked again who have not answered, or a hand-over is tried again.
    pub(super) again: Nanos,
}

/// How far a change is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeStage {
    /// The one that is added is being synced.
    Joining,
    /// These have kept the replicas that the term has.
    Confirming(Nodes),
    /// These have kept those that are to be.
    Proposing(Nodes),
    /// Majorities have: the next term has them. These had when it was decided.
    Agreed(Nodes),
}

impl MembershipChange {
    /// The one that joins takes what it is given: it may take until then.
    pub(super) fn progress(&mut self, until: Nanos) {
        if self.stage == ChangeStage::Joining {
            self.until = self.until.max(until);
        }
    }

    /// What replicas are asked to keep now.
    pub(super) fn asked(&self, own: &Members, term: Term) -> Option<(Members, Nodes)> {
        match self.stage {
            ChangeStage::Confirming(by) => {
                Some((Members { term, changed: false, list: own.list.clone() }, by))
            }
            ChangeStage::Proposing(by) => Some((self.next.clone(), by)),
            ChangeStage::Joining | ChangeStage::Agreed(_) => None,
        }
    }
}
