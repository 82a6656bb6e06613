//! What a replica is at the moment.

use longarm_base::{Nanos, NodeId, Term};
use longarm_wire::ReplicaReport;

use crate::{Nodes, StartSet};

/// A replica's part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// Passive: the leader of its term writes its memory. It may owe a candidate a report.
    Following {
        /// Whether the candidate of the promised term waits for a report.
        owes: bool,
        /// It does not stand before.
        backoff_until: Nanos,
    },
    /// It suspects its leader, and asks whether others do (Raft's pre-vote).
    PreCandidate {
        /// The term it asks for. It may stand with a later one: others may ask at the same time.
        term: Term,
        /// Who would report.
        yes: Nodes,
        /// Until when it asks.
        until: Nanos,
    },
    /// It stands: it has promised its own term, or is about to, and gathers reports.
    Gathering {
        /// Its own report, once nothing promised stands in the way.
        own: Option<ReplicaReport>,
        /// Those of others.
        reports: Vec<(NodeId, ReplicaReport)>,
        /// Until when it waits.
        until: Nanos,
    },
    /// A majority has reported; the start set is being fetched and the index built.
    Installing {
        /// What the term starts from.
        start: StartSet,
    },
    /// It holds the start set and syncs others; a majority is to have it before it serves.
    Forming {
        /// Who is synced.
        synced: Nodes,
        /// Until when it tries, without progress.
        until: Nanos,
    },
    /// It serves.
    Leading {
        /// Who is synced.
        synced: Nodes,
        /// Whether, and to whom, it hands over.
        transfer: Option<LeadershipTransfer>,
    },
}

/// How far a leader is that hands over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeadershipTransfer {
    /// Who is to lead.
    pub to: NodeId,
    /// Until when it tries.
    pub until: Nanos,
    /// It has ended its lease, and cannot stay.
    pub released: bool,
}

/// The part without its particulars.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum RoleKind {
    /// [`Role::Following`], with memory that counts.
    Follower,
    /// [`Role::Following`] without: it waits to be synced.
    Learner,
    /// [`Role::PreCandidate`].
    PreCandidate,
    /// [`Role::Gathering`].
    Candidate,
    /// [`Role::Installing`].
    Installing,
    /// [`Role::Forming`].
    Forming,
    /// [`Role::Leading`].
    Leader,
}

impl std::fmt::Display for RoleKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RoleKind::Follower => "follower",
            RoleKind::Learner => "learner",
            // As statistics and logs have always called it.
            RoleKind::PreCandidate => "canvassing",
            RoleKind::Candidate => "candidate",
            RoleKind::Installing => "installing",
            RoleKind::Forming => "forming",
            RoleKind::Leader => "leader",
        })
    }
}

impl Role {
    pub(crate) fn kind(&self, sync: Option<Term>) -> RoleKind {
        match self {
            Role::Following { .. } if sync.is_none() => RoleKind::Learner,
            Role::Following { .. } => RoleKind::Follower,
            Role::PreCandidate { .. } => RoleKind::PreCandidate,
            Role::Gathering { .. } => RoleKind::Candidate,
            Role::Installing { .. } => RoleKind::Installing,
            Role::Forming { .. } => RoleKind::Forming,
            Role::Leading { .. } => RoleKind::Leader,
        }
    }

    /// Whether its term's writers and readers must be ended before another term is promised.
    pub(crate) fn is_elected(&self) -> bool {
        matches!(self, Role::Installing { .. } | Role::Forming { .. } | Role::Leading { .. })
    }
}
