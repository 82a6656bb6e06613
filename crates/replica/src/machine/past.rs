//! What a replica knows of its own past, and asks others about if its disk holds no promise (`blank.rs`), or
//! if it lost its memory (`recall.rs`).

use std::collections::BTreeMap;

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::Members;

use crate::ReplicaSet;

/// What is left of a replica's last life when it starts.
#[derive(Clone, Debug, Default)]
pub struct PersistentState {
    /// The replicas of its group, as it knew them last.
    pub members: Members,
    /// The term it promised last.
    pub promised: Term,
    /// The term whose start set is in the memory it starts with, if that is what it had then; at its very
    /// first start the empty start set of term zero.
    pub sync: Option<Term>,
    /// The number that was drawn when the store of its promise was made. It stays as long as that store.
    pub origin: u64,
    /// If it has founded the group, and keeps no later start set: who may found the group, each with its
    /// origin.
    pub founders: Vec<(ReplicaId, u64)>,
}

/// What another replica says, asked in a round.
pub(super) struct PromiseAnswer {
    pub round: u64,
    pub promised: Term,
    pub origin: u64,
    /// If it has founded, who may, each with its origin.
    pub founders: Vec<(ReplicaId, u64)>,
    pub members: Members,
}

/// What a replica knows of its own past.
#[derive(Clone, Debug, Default)]
pub(super) struct Blank {
    /// Whether it does not know its past, and asks.
    pub asks: bool,
    /// The number of this start among all its starts, by which it knows answers that are for an earlier one.
    pub life: u64,
    /// The number that was drawn when the store of its promise was made.
    pub origin: u64,
    pub round: u64,
    /// The answers of this round: the origin of each replica, and the term that it promised.
    pub said: BTreeMap<ReplicaId, (u64, Term)>,
    /// The origins of all replicas in the round before, in which none had promised anything. If it has
    /// founded, the origins of all that may found.
    pub origins: BTreeMap<ReplicaId, u64>,
    pub founded: bool,
    /// Whether all are asked again in this round, because in the round before some replica had promised a
    /// term.
    pub warned: bool,
    /// When replicas that have not answered are asked again.
    pub again: Nanos,
    /// Replicas that asked since, and were asked in return.
    pub returned: ReplicaSet,
    /// How long it lets another replica stand first, when it has founded.
    pub backoff: Nanos,
}

/// What a replica knows of elections from disks.
#[derive(Clone, Debug, Default)]
pub(super) struct Recalls {
    /// Whether its group elects from disks, if most memory is lost.
    pub possible: bool,
    /// The replicas that would report, when it asked last.
    pub heard: ReplicaSet,
}
