//! How a replica stands in its group, as its own thread notes it in each round. These are values, from which
//! text is made only when a client or an operator asks for it.

use longarm_base::{Nanos, Term};
use longarm_replica::{Group, Machine, RoleKind};

use crate::stats::{FollowerStats, GroupStats, TakeoverStats};

/// How a replica stands in its group.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The number of the group.
    pub id: u64,
    /// The replicas of the group, and which of them this is.
    pub group: Group,
    /// The role of the replica.
    pub role: RoleKind,
    /// The term that it has promised.
    pub promised: Term,
    /// The term whose start set it holds; none if its memory does not count.
    pub sync: Option<Term>,
    /// What only a leader has.
    pub leads: Option<Leads>,
}

/// How a leader stands.
#[derive(Clone, Debug)]
pub struct Leads {
    /// How much longer the leader's lease lasts.
    pub lease: Nanos,
    /// How long each step to its lead took.
    pub takeover: TakeoverStats,
    /// The followers that are attached.
    pub followers: Vec<FollowerStats>,
}

impl Standing {
    /// How a replica stands, without what only a leader has.
    pub fn of(id: u64, machine: &Machine) -> Standing {
        Standing {
            id,
            group: *machine.group(),
            role: machine.kind(),
            promised: machine.promised(),
            sync: machine.sync(),
            leads: None,
        }
    }

    /// The same as statistics for people.
    pub fn stats(&self) -> GroupStats {
        let leads = self.leads.as_ref();
        GroupStats {
            id: format!("{:016x}", self.id),
            replica: self.group.me().0,
            role: self.role.to_string(),
            term: self.promised.to_string(),
            sync: self.sync.map(|term| term.to_string()),
            replicas: self.group.members().count(),
            members: self.group.members().iter().map(|replica| replica.0).collect(),
            lease_us: leads.map(|leads| leads.lease.0 / 1000),
            takeover: leads.map(|leads| leads.takeover),
            followers: leads.map_or_else(Vec::new, |leads| leads.followers.clone()),
        }
    }
}
