//! Makes a new cluster: draws its keys, and writes its file once and never over another file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use longarm_server::Timing;

use super::placement::spread;
use super::{Cluster, Durability, GROUPS_MAX, Group, NodeAt, NodeId, REPLICAS_MAX};
use crate::output::{Exit, Failure};
use crate::replaced;

/// How a new cluster is divided, and how its groups keep their data.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// Groups of the cluster.
    pub groups: usize,
    /// Replicas of each group.
    pub replicas: usize,
    /// What their acknowledged writes outlive.
    pub durability: Durability,
    /// In `async` mode: a loss of power of all nodes loses the writes of this time at most.
    pub loss_window: Duration,
}

/// Makes a cluster of these nodes, with ids and keys that no other cluster has.
pub fn draw(mut nodes: Vec<NodeAt>, division: Division, timing: Timing) -> Result<Cluster, Failure> {
    let Division { groups, replicas, durability, loss_window } = division;
    let wrong = |fault: String| {
        Failure::new(Exit::Usage, fault)
            .hint("`longarm cluster init --help` shows the form, and the times that go together")
    };
    nodes.sort_by_key(|node| node.node);
    let names: Vec<_> = nodes.iter().map(|node| node.node).collect();
    if !(1..=GROUPS_MAX).contains(&groups) {
        return Err(wrong(format!("--groups {groups}: a cluster has 1 to {GROUPS_MAX}")));
    }
    if !(1..=REPLICAS_MAX.min(nodes.len())).contains(&replicas) {
        return Err(wrong(format!(
            "--replicas {replicas}: a group has 1 to {REPLICAS_MAX}, each on another node, and there are \
             {} nodes",
            nodes.len()
        )));
    }
    let draw = || {
        longarm_host::random()
            .map_err(|error| Failure::new(Exit::System, format!("cannot draw random numbers: {error}")))
    };
    let group = |nodes: Vec<NodeId>| {
        let [id, sum_key, hash_key] = draw()?;
        // Zero stands for a server without a group.
        let mut group = Group { id: id.max(1), sum_key, hash_key, replicas: Vec::new() };
        nodes.into_iter().for_each(|node| group.place(node));
        Ok(group)
    };
    let groups = spread(&names, groups, replicas).into_iter().map(group);
    let groups = groups.collect::<Result<Vec<_>, Failure>>()?;
    let [place_key, _, _] = draw()?;
    let cluster = Cluster { place_key, durability, loss_window, timing, nodes, groups };
    cluster.check().map_err(wrong)?;
    Ok(cluster)
}

/// Writes the file of a cluster, which must not exist yet. Only its owner may read it, since its keys are
/// secret.
pub fn create(cluster: &Cluster, path: &Path) -> Result<(), Failure> {
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
            let failure = Failure::io("create", path, &error);
            if error.kind() == ErrorKind::AlreadyExists {
                return failure.hint(
                    "a cluster's keys are drawn once: name another file, or remove this one if its \
                     cluster is no more",
                );
            }
            failure
        })?;
    file.write_all(cluster.to_toml().as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| Failure::io("write", path, &error))
}

/// Replaces the file of a cluster, whole or not at all.
pub fn replace(cluster: &Cluster, path: &Path) -> Result<(), Failure> {
    replaced::replace(path, |fresh| {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(fresh)?;
        file.write_all(cluster.to_toml().as_bytes())?;
        file.sync_all()
    })
}
