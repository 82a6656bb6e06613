//! Makes a group of replicas on this machine for a benchmark: its file, and the arguments of each replica.

use std::path::Path;

use longarm_base::{Nanos, NodeId};
use longarm_client::Address;
use longarm_server::{Member, Timing};

use crate::cluster::{self, Division};
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
pub fn arguments(members: &[Address], directory: &Path) -> Result<Vec<Vec<String>>, Failure> {
    let file = directory.join("group.toml");
    let member = |(address, node): (&Address, u8)| Member { node: NodeId(node), address: address.clone() };
    let members: Vec<Member> = members.iter().zip(1..).map(member).collect();
    let words = |member: &Member| {
        let (file, node) = (file.display().to_string(), member.node.to_string());
        ["--cluster", &file, "--node", &node].map(String::from).to_vec()
    };
    let arguments = members.iter().map(words).collect();
    let one = Division { groups: 1, replicas: members.len() };
    cluster::create(&cluster::draw(members, one, TIMING)?, &file)?;
    Ok(arguments)
}
