//! The file of a cluster: the program reads, makes and replaces it here. [`Cluster`] is its content.
//!
//! `init` makes a new cluster, `placement` spreads its groups over its nodes.

mod init;
mod placement;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use longarm_base::ReplicaId;
use longarm_server::{FileVoteStore, Vault};

pub use init::{Division, create, draw, replace};
pub use longarm_cluster::{
    Cluster, Durability, GROUPS_MAX, Group, NodeAt, NodeId, REPLICAS_MAX, ReplicaOn, numbers, parse_node,
};

use crate::output::{Exit, Failure};

/// The directory of a node unless its user names another: `FILE.node-N`, beside the cluster's file.
pub fn directory_beside(file: &Path, node: NodeId) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(format!(".node-{node}"));
    name.into()
}

/// Where in a node's directory a replica's arena is: of several groups each has a directory.
pub fn arena_directory(cluster: &Cluster, group: &Group, dir: &Path) -> PathBuf {
    match cluster.groups.len() {
        1 => dir.into(),
        _ => dir.join(format!("group-{:016x}", group.id)),
    }
}

/// Where a replica keeps what it promised: in its node's directory, or in the vault, if there is one. Makes
/// the directories if need be.
pub fn vote_store(
    cluster: &Cluster,
    group: &Group,
    replica: ReplicaId,
    data: &Path,
    vault: Option<&Path>,
) -> Result<FileVoteStore, Failure> {
    let (group, of_several) = (group.id, cluster.groups.len() > 1);
    Vault { data, dir: vault, group, replica, of_several }.open().map_err(|error| {
        Failure::new(Exit::System, error.to_string())
            .hint("--data names another directory; a replica needs what it promised again")
    })
}

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
