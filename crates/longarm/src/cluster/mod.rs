//! The file of a cluster: the program reads, makes and replaces it here. [`Cluster`] is its content.
//!
//! `init` makes a new cluster, `placement` spreads its groups over its nodes.

mod init;
mod placement;

#[cfg(test)]
mod tests;

use std::path::Path;

use longarm_base::ReplicaId;

pub use init::{Division, create, draw, replace};
pub use longarm_cluster::{
    Cluster, Durability, GROUPS_MAX, Group, NodeAt, NodeId, REPLICAS_MAX, ReplicaOn, numbers, parse_node,
};

use crate::output::{Exit, Failure};

/// Names the node of a replica for people; a replica of which the file does not know goes by its id.
pub fn named(node: Option<NodeId>, replica: ReplicaId) -> String {
    node.map_or_else(|| format!("replica {replica}"), |node| format!("node {node}"))
}

/// Reads the file of a cluster.
pub fn read(path: &Path) -> Result<Cluster, Failure> {
    Cluster::read(path).map_err(|fault| {
        let hint = match fault {
            longarm_cluster::FileError::Unreadable { .. } => {
                "`longarm cluster init` makes one; all nodes and clients of a cluster have the same"
            }
            _ => "compare it with that of another node",
        };
        Failure::new(Exit::Usage, fault.to_string()).hint(hint)
    })
}
