//! What a replica knows of its own past, and has asked others for if its disk says nothing (`blank.rs`).

use std::collections::BTreeMap;

use longarm_base::{Nanos, NodeId, Term};
use longarm_wire::Members;

use crate::Nodes;

/// What is left of a replica's last life when it starts.
#[derive(Clone, Debug)]
pub struct PersistentState {
    /// The replicas of its group, as it knew them last.
    pub members: Members,
    /// The term it promised last.
    pub promised: Term,
    /// The term whose start set is in the memory it starts with, if that is what it had then; at its very
    /// first start the empty start set of term zero.
    pub sync: Option<Term>,
}

/// What another replica says, asked in a round.
pub(super) struct PromiseAnswer {
    pub round: u64,
    /// Its own life.
    pub own: u64,
    pub promised: Term,
    /// If it has founded, who may, and in which life.
    pub founders: Vec<(NodeId, u64)>,
    pub members: Members,
}

/// What a replica knows of its own past.
#[derive(Clone, Debug, Default)]
pub(super) struct Blank {
    /// It does not know it, and asks.
    pub asks: bool,
    /// Names this life.
    pub life: u64,
    pub round: u64,
    /// What each said in this round: its life, and what it promised.
    pub said: BTreeMap<NodeId, (u64, Term)>,
    /// The lives of all in the round before, in which nobody had promised anything; of one that has founded,
    /// of all who may.
    pub lives: BTreeMap<NodeId, u64>,
    pub founded: bool,
    /// In this round all are asked again, as somebody had promised a term in the one before.
    pub warned: bool,
    /// When those are asked again who have not answered.
    pub again: Nanos,
    /// Those who asked since, and were asked in return.
    pub returned: Nodes,
    /// How long it lets another stand first, when it has founded.
    pub backoff: Nanos,
}
