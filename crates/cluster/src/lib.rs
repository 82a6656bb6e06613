//! The file of a cluster: its nodes, and the groups whose replicas they have. All nodes and all clients have
//! the same one.
//!
//! [`Cluster`] is what it says, `file` its form. Whoever knows its keys can forge entries, so only its owner
//! may read it.
#![forbid(unsafe_code)]

mod file;
pub mod units;

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use longarm_base::ReplicaId;
use longarm_base::limits::{LOSS_WINDOW_MAX, LOSS_WINDOW_MIN};
use longarm_fabric::{Address, Member};
use longarm_replica::Timing;

pub use file::parse_node;

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

/// The number of a node in its cluster. A group knows nothing of nodes: see [`ReplicaId`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct NodeId(pub u32);

/// A node and where it listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeAt {
    /// Its number.
    pub node: NodeId,
    /// Where other nodes, and clients, find it.
    pub address: Address,
}

/// A replica of a group, and the node that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaOn {
    /// What the group calls it.
    pub replica: ReplicaId,
    /// The node.
    pub node: NodeId,
}

/// What a write outlives that the cluster acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The loss of any minority of a group's replicas: they keep it in memory.
    #[default]
    Memory,
    /// The loss of power of all nodes, too, up to the last writes: those of [`Cluster::loss_window`] at most.
    Async,
    /// The loss of power of all nodes, too: a majority of the replicas have it on disk.
    Sync,
    /// As `sync`, on persistent memory.
    Pmem,
}

impl Durability {
    /// All of them.
    pub const ALL: [Durability; 4] =
        [Durability::Memory, Durability::Async, Durability::Sync, Durability::Pmem];

    /// Its name in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Memory => "memory",
            Durability::Async => "async",
            Durability::Sync => "sync",
            Durability::Pmem => "pmem",
        }
    }

    /// Whether all that was acknowledged outlives the loss of power of all nodes.
    pub fn keeps_all(self) -> bool {
        matches!(self, Durability::Sync | Durability::Pmem)
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Durability, String> {
        let found = Durability::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| {
            format!("{text:?} is not known; expected \"memory\", \"async\", \"sync\" or \"pmem\"")
        })
    }
}

/// A cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Key of the hash that places keys in groups.
    pub place_key: u64,
    /// What an acknowledged write outlives.
    pub durability: Durability,
    /// In `async` mode: a loss of power of all nodes loses writes that were all taken within this time. Of
    /// another mode the file does not say it.
    pub loss_window: Duration,
    /// Heartbeats, promises, elections.
    pub timing: Timing,
    /// Its nodes, in the order of their numbers.
    pub nodes: Vec<NodeAt>,
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
    /// Its replicas, each on another node; the first is to lead first.
    pub replicas: Vec<ReplicaOn>,
}

impl Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Group {
    /// The replica that a node has.
    pub fn on(&self, node: NodeId) -> Option<ReplicaId> {
        self.replicas.iter().find(|one| one.node == node).map(|one| one.replica)
    }

    /// The node that has a replica.
    pub fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.replicas.iter().find(|one| one.replica == replica).map(|one| one.node)
    }

    /// The nodes that have replicas, in their order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.replicas.iter().map(|one| one.node)
    }

    /// Places one more replica on a node, which must have none. Its id is the number of the node wherever
    /// that is possible, so that people read one number and not two; else it is the lowest that is free.
    pub fn place(&mut self, node: NodeId) {
        let free = |id: &ReplicaId| self.node_of(*id).is_none();
        let own = u8::try_from(node.0).ok().map(ReplicaId).filter(|id| *id <= ReplicaId::MAX);
        let lowest = || (0..=ReplicaId::MAX.0).map(ReplicaId).find(free);
        // More replicas than there are ids are far more than a group may have: `Cluster::check` says so.
        let replica = own.filter(free).or_else(lowest).unwrap_or_default();
        self.replicas.push(ReplicaOn { replica, node });
    }
}

impl Cluster {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Cluster, FileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| FileError::Unreadable { path: path.display().to_string(), error })?;
        Cluster::parse(path, &text).map_err(FileError::Wrong)
    }

    /// The node with this number.
    pub fn node(&self, number: NodeId) -> Option<&NodeAt> {
        self.nodes.iter().find(|node| node.node == number)
    }

    /// Numbers of all nodes, for people: `1, 2, 3`.
    pub fn numbers(&self) -> String {
        numbers(self.nodes.iter().map(|node| node.node))
    }

    /// The replicas of a group, and where they listen.
    pub fn members_of(&self, group: &Group) -> Vec<Member> {
        let member = |one: &ReplicaOn| {
            let address = self.node(one.node)?.address.clone();
            Some(Member { replica: one.replica, address })
        };
        group.replicas.iter().filter_map(member).collect()
    }

    /// The groups of which a node has a replica.
    pub fn groups_on(&self, node: NodeId) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(move |group| group.on(node).is_some())
    }

    /// Into how many parts nodes divide their memory for the replicas of a group: as many as the node among
    /// them has replicas that has most. So all replicas of the group are of one size, wherever they are.
    pub fn memory_parts(&self, group: &Group) -> usize {
        group.nodes().map(|node| self.groups_on(node).count()).max().unwrap_or(1)
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
        if !(LOSS_WINDOW_MIN..=LOSS_WINDOW_MAX).contains(&self.loss_window) {
            let [given, least, most] =
                [self.loss_window, LOSS_WINDOW_MIN, LOSS_WINDOW_MAX].map(units::show_duration);
            return Err(format!("loss_window: {given} given, {least} to {most} are possible"));
        }
        self.timing.check().map_err(|text| format!("timing: {text}"))
    }

    fn check_replicas(&self, group: &Group) -> Result<(), String> {
        let count = group.replicas.len();
        if !(1..=REPLICAS_MAX).contains(&count) {
            return Err(format!("replicas: a group has 1 to {REPLICAS_MAX} replicas, this one {count}"));
        }
        for (i, &ReplicaOn { replica, node }) in group.replicas.iter().enumerate() {
            let before = &group.replicas[..i];
            if before.iter().any(|other| other.node == node) {
                return Err(format!("replicas: a group has two replicas on node {node}"));
            }
            if before.iter().any(|other| other.replica == replica) {
                return Err(format!("replicas: two replicas of a group have the id {replica}"));
            }
            if self.node(node).is_none() {
                return Err(format!(
                    "replicas: node {node} is not of the cluster: it has {}",
                    self.numbers()
                ));
            }
        }
        Ok(())
    }
}

/// Numbers of nodes, or ids of replicas, for people.
pub fn numbers(all: impl IntoIterator<Item = impl Display>) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
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
