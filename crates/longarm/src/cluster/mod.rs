//! The file of a group of replicas: all nodes and all clients have the same one.
//!
//! [`Cluster`] is what it says, `file` its form, `init` makes a new one. Whoever knows its keys can
//! forge entries, so only its owner may read it.

mod file;
mod init;

#[cfg(test)]
mod tests;

use std::path::Path;

use longarm_base::NodeId;
use longarm_fabric::Address;
use longarm_server::{Member, Timing};

use crate::output::{Exit, Failure};

/// For clap: a member as `1=tcp://host:port`.
pub fn parse_member(text: &str) -> Result<Member, String> {
    init::member(text)
}

/// Most members of a group.
pub const MEMBERS_MAX: usize = 9;

/// A group of replicas.
#[derive(Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Names the group.
    pub id: u64,
    /// Key of the checksums of its entries.
    pub sum_key: u64,
    /// Key of the hash that places keys.
    pub hash_key: u64,
    /// Heartbeats, promises, elections.
    pub timing: Timing,
    /// Its replicas, in the order of their numbers.
    pub members: Vec<Member>,
}

impl Cluster {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Cluster, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure { exit: Exit::Usage, ..Failure::io("read the group's file", path, &error) }
                .hint("`longarm cluster init` makes one; all nodes and clients of a group have the same")
        })?;
        Cluster::parse(path, &text)
            .map_err(|fault| Failure::new(Exit::Usage, fault).hint("compare it with that of another node"))
    }

    /// Where the members are.
    pub fn addresses(&self) -> Vec<Address> {
        self.members.iter().map(|member| member.address.clone()).collect()
    }

    /// The member with this number.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.iter().find(|member| member.node == node)
    }

    /// Numbers of all members, for people: `1, 2, 3`.
    pub fn numbers(&self) -> String {
        self.members.iter().map(|member| member.node.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// What is wrong with the whole, though each part is right.
    pub fn check(&self) -> Result<(), String> {
        let count = self.members.len();
        if !(1..=MEMBERS_MAX).contains(&count) {
            return Err(format!("node: a group has 1 to {MEMBERS_MAX} nodes, this one {count}"));
        }
        for (i, member) in self.members.iter().enumerate() {
            let before = &self.members[..i];
            if before.iter().any(|other| other.node == member.node) {
                return Err(format!("node: node {} is named twice", member.node));
            }
            if let Some(other) = before.iter().find(|other| other.address == member.address) {
                let address = &member.address;
                return Err(format!(
                    "address: nodes {} and {} are both at {address}",
                    other.node, member.node
                ));
            }
            // Port 0 is another one at each start.
            if matches!(&member.address, Address::Tcp(host) | Address::Verbs(host) if host.ends_with(":0")) {
                return Err(format!(
                    "address: {} of node {} has no port: others must find it",
                    member.address, member.node
                ));
            }
        }
        self.timing.check().map_err(|text| format!("timing: {text}"))
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("id", &self.id)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}
