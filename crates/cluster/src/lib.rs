//! The file of a cluster: its nodes, and the groups whose replicas they have. All nodes and all clients have
//! the same one.
//!
//! [`Cluster`] is what it says, `file` its form. Whoever knows its keys can forge entries, so only its owner
//! may read it.
#![forbid(unsafe_code)]

mod file;
pub mod units;

use std::path::Path;

use longarm_base::NodeId;
use longarm_fabric::{Address, Member};
use longarm_replica::Timing;

pub use file::parse_member;

/// Why the file of a cluster says nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the cluster's file {path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// It is no such file, or says what cannot be: where, and what.
    #[error("{0}")]
    Wrong(String),
}

/// Most replicas of a group.
pub const REPLICAS_MAX: usize = 9;
/// Most groups of a cluster: each client may have a connection to each.
pub const GROUPS_MAX: usize = 64;

/// A cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Key of the hash that places keys in groups.
    pub place_key: u64,
    /// Heartbeats, promises, elections.
    pub timing: Timing,
    /// Its nodes, in the order of their numbers.
    pub nodes: Vec<Member>,
    /// Its groups, in the order in which keys are placed in them.
    pub groups: Vec<Group>,
}

/// A group of replicas.
#[derive(Clone, PartialEq, Eq)]
pub struct Group {
    /// Names the group.
    pub id: u64,
    /// Key of the checksums of its entries.
    pub sum_key: u64,
    /// Key of the hash that places keys in its index.
    pub hash_key: u64,
    /// The nodes that have a replica; the first is to lead first.
    pub replicas: Vec<NodeId>,
}

impl Cluster {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Cluster, FileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| FileError::Unreadable { path: path.display().to_string(), error })?;
        Cluster::parse(path, &text).map_err(FileError::Wrong)
    }

    /// The node with this number.
    pub fn node(&self, number: NodeId) -> Option<&Member> {
        self.nodes.iter().find(|node| node.node == number)
    }

    /// Numbers of all nodes, for people: `1, 2, 3`.
    pub fn numbers(&self) -> String {
        numbers(self.nodes.iter().map(|node| node.node))
    }

    /// The nodes that have a replica of a group, as it names them.
    pub fn members_of(&self, group: &Group) -> Vec<Member> {
        group.replicas.iter().filter_map(|node| self.node(*node)).cloned().collect()
    }

    /// The groups of which a node has a replica.
    pub fn groups_on(&self, node: NodeId) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(move |group| group.replicas.contains(&node))
    }

    /// What is wrong with the whole, though each part is right.
    pub fn check(&self) -> Result<(), String> {
        if self.nodes.is_empty() {
            return Err("node: a cluster has a node at least, this one none".into());
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let before = &self.nodes[..i];
            if before.iter().any(|other| other.node == node.node) {
                return Err(format!("node: node {} is named twice", node.node));
            }
            if let Some(other) = before.iter().find(|other| other.address == node.address) {
                let address = &node.address;
                return Err(format!("address: nodes {} and {} are both at {address}", other.node, node.node));
            }
            // Port 0 is another one at each start.
            if matches!(&node.address, Address::Tcp(host) | Address::Verbs(host) if host.ends_with(":0")) {
                return Err(format!(
                    "address: {} of node {} has no port: others must find it",
                    node.address, node.node
                ));
            }
        }
        if !(1..=GROUPS_MAX).contains(&self.groups.len()) {
            let count = self.groups.len();
            return Err(format!("group: a cluster has 1 to {GROUPS_MAX} groups, this one {count}"));
        }
        for (i, group) in self.groups.iter().enumerate() {
            if self.groups[..i].iter().any(|other| other.id == group.id) {
                return Err(format!("group: {:016x} is named twice", group.id));
            }
            self.check_replicas(group)?;
        }
        self.timing.check().map_err(|text| format!("timing: {text}"))
    }

    fn check_replicas(&self, group: &Group) -> Result<(), String> {
        let count = group.replicas.len();
        if !(1..=REPLICAS_MAX).contains(&count) {
            return Err(format!("replicas: a group has 1 to {REPLICAS_MAX} replicas, this one {count}"));
        }
        for (i, node) in group.replicas.iter().enumerate() {
            if group.replicas[..i].contains(node) {
                return Err(format!("replicas: a group has two replicas on node {node}"));
            }
            if self.node(*node).is_none() {
                return Err(format!(
                    "replicas: node {node} is not of the cluster: it has {}",
                    self.numbers()
                ));
            }
        }
        Ok(())
    }
}

/// Numbers of nodes, for people.
pub fn numbers(nodes: impl IntoIterator<Item = NodeId>) -> String {
    nodes.into_iter().map(|node| node.to_string()).collect::<Vec<_>>().join(", ")
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group")
            .field("id", &self.id)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("nodes", &self.nodes)
            .field("groups", &self.groups)
            .finish_non_exhaustive()
    }
}
