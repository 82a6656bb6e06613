//! What a replica is, as its own thread notes it in each round: values, of which text is made for who asks.

use longarm_base::{Nanos, Term};
use longarm_replica::{Group, Machine, RoleKind};

use crate::stats::{FollowerStats, GroupStats, TakeoverStats};

/// How a replica stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The group's name.
    pub id: u64,
    /// Who its replicas are, and which of them this is.
    pub group: Group,
    /// What it is.
    pub role: RoleKind,
    /// The term it has promised.
    pub promised: Term,
    /// The term whose start set it holds; none if its memory does not count.
    pub sync: Option<Term>,
    /// Of one that leads.
    pub leads: Option<Leads>,
}

/// How a leader stands.
#[derive(Clone, Debug)]
pub struct Leads {
    /// How much longer its lease lasts.
    pub lease: Nanos,
    /// How it came to lead.
    pub takeover: TakeoverStats,
    /// The others, as far as they are attached.
    pub followers: Vec<FollowerStats>,
}

impl Standing {
    /// One that does not lead, or of which that is to be added.
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

    /// The same for people.
    pub fn stats(&self) -> GroupStats {
        let leads = self.leads.as_ref();
        GroupStats {
            id: format!("{:016x}", self.id),
            node: self.group.me().0,
            role: self.role.to_string(),
            term: self.promised.to_string(),
            sync: self.sync.map(|term| term.to_string()),
            replicas: self.group.members().count(),
            members: self.group.members().iter().map(|node| node.0).collect(),
            lease_us: leads.map(|leads| leads.lease.0 / 1000),
            takeover: leads.map(|leads| leads.takeover),
            followers: leads.map_or_else(Vec::new, |leads| leads.followers.clone()),
        }
    }
}
