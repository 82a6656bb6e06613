//! Makes a group of replicas on this machine for a benchmark: its file, and the arguments of each replica.

use std::path::Path;

use longarm_base::Nanos;
use longarm_client::Address;
use longarm_server::Timing;

use crate::cluster::{self, Division, NodeAt, NodeId};
use crate::output::Failure;

/// The times of the group. Nothing is meant to fail here, but clients, replicas and all else that runs share
/// the cores of one machine. A leader that gets no core for long must not be deposed in the middle of a run.
const TIMING: Timing = Timing {
    heartbeat: Nanos::from_millis(5),
    suspect: Nanos::from_millis(1000),
    promise: Nanos::from_millis(500),
    election: Nanos::from_millis(3000),
};

/// Writes the file of a new group of these members into `directory`, and gives the arguments of each.
pub fn arguments(
    members: &[Address],
    group: Division,
    directory: &Path,
) -> Result<Vec<Vec<String>>, Failure> {
    let file = directory.join("group.toml");
    let node = |(address, node): (&Address, u32)| NodeAt { node: NodeId(node), address: address.clone() };
    let nodes: Vec<NodeAt> = members.iter().zip(1..).map(node).collect();
    let words = |at: &NodeAt| {
        let (file, node) = (file.display().to_string(), at.node.to_string());
        ["--cluster", &file, "--node", &node].map(String::from).to_vec()
    };
    let arguments = nodes.iter().map(words).collect();
    cluster::create(&cluster::draw(nodes, group, TIMING)?, &file)?;
    Ok(arguments)
}
