//! The file of a cluster: the program reads, makes and replaces it here. [`Cluster`] is its content.
//!
//! `init` makes a new cluster, `placement` spreads its groups over its nodes.

mod init;
mod placement;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use init::{Division, create, draw, replace};
pub use longarm_cluster::{Cluster, GROUPS_MAX, Group, REPLICAS_MAX, numbers, parse_member};

use crate::output::{Exit, Failure};

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
