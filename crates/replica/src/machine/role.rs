//! The role that a replica has at the moment.

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::ReplicaReport;

use crate::{ReplicaSet, StartSet};

/// The role of a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// It is passive: the leader of its term writes its memory. It may owe a candidate a report.
    Following {
        /// Whether the candidate of the promised term waits for a report.
        owes: bool,
        /// It does not stand before this moment.
        backoff_until: Nanos,
    },
    /// It suspects its leader, and asks whether others do (Raft's pre-vote).
    PreCandidate {
        /// The term it asks for. It may stand with a later one: others may ask at the same time.
        term: Term,
        /// The replicas that would report.
        yes: ReplicaSet,
        /// When it stops asking.
        until: Nanos,
    },
    /// It stands: it has promised its own term, or is about to, and gathers reports.
    Gathering {
        /// Its own report, once nothing promised stands in the way.
        own: Option<ReplicaReport>,
        /// The reports of others.
        reports: Vec<(ReplicaId, ReplicaReport)>,
        /// When it stops waiting.
        until: Nanos,
    },
    /// A majority has reported; the start set is being fetched and the index built.
    Installing {
        /// The start set of its term.
        start: StartSet,
    },
    /// It holds the start set and syncs others; a majority is to have it before it serves.
    Forming {
        /// The replicas that are synced.
        synced: ReplicaSet,
        /// When it gives up, unless there is progress.
        until: Nanos,
    },
    /// It serves.
    Leading {
        /// The replicas that are synced.
        synced: ReplicaSet,
        /// The hand-over, if it hands over.
        transfer: Option<LeadershipTransfer>,
    },
}

/// The state of a hand-over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeadershipTransfer {
    /// The replica that is to lead.
    pub to: ReplicaId,
    /// When the leader stops trying.
    pub until: Nanos,
    /// Whether it has ended its lease, and cannot stay leader.
    pub released: bool,
}

/// The role without its particulars.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum RoleKind {
    /// [`Role::Following`], with memory that counts.
    Follower,
    /// [`Role::Following`] without such memory: it waits to be synced.
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

    /// Whether the writers and readers of its term must be ended before another term is promised.
    pub(crate) fn is_elected(&self) -> bool {
        matches!(self, Role::Installing { .. } | Role::Forming { .. } | Role::Leading { .. })
    }
}
