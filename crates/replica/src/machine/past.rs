//! What a replica knows of its own past, and asks others about if its disk holds no promise (`blank.rs`).

use std::collections::BTreeMap;

use longarm_base::{Nanos, NodeId, Term};

use crate::Nodes;

/// What a replica knows of its own past.
#[derive(Clone, Debug, Default)]
pub(super) struct Blank {
    /// Whether it does not know its past, and asks.
    pub asks: bool,
    /// The name of this life.
    pub life: u64,
    pub round: u64,
    /// The answers of this round: the life of each replica, and the term that it promised.
    pub said: BTreeMap<NodeId, (u64, Term)>,
    /// The lives of all replicas in the round before, in which none had promised anything. If it has founded,
    /// the lives of all that may found.
    pub lives: BTreeMap<NodeId, u64>,
    pub founded: bool,
    /// Whether all are asked again in this round, because in the round before some replica had promised a
    /// term.
    pub warned: bool,
    /// When replicas that have not answered are asked again.
    pub again: Nanos,
    /// Replicas that asked since, and were asked in return.
    pub returned: Nodes,
    /// How long it lets another replica stand first, when it has founded.
    pub rest: Nanos,
}
