//! The part that all commands with orders to a group share: the choice of the group, the operator, and its
//! failures.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longarm_fabric::{Any, Login};
use longarm_server::{Operator, OrderError};

use crate::cluster::Cluster;
use crate::config::Config;
use crate::connect;
use crate::output::{Exit, Failure};

/// Finds the place of the group that the user means among those of the cluster, counted from 0.
pub fn chosen(cluster: &Cluster, file: &Path, number: Option<usize>) -> Result<usize, Failure> {
    let (file, count) = (file.display(), cluster.groups.len());
    let wrong = |text: String, hint: &str| Err(Failure::new(Exit::Usage, text).hint(hint));
    match number {
        None if count == 1 => Ok(0),
        None => {
            let text = format!("the cluster of {file} has {count} groups: which is meant?");
            wrong(text, "name it with --group N, counted from 1 as `longarm cluster status` does")
        }
        Some(number) if (1..=count).contains(&number) => Ok(number - 1),
        Some(number) => {
            let groups = if count == 1 { "group" } else { "groups" };
            let text = format!("the cluster of {file} has no group {number}: it has {count} {groups}");
            wrong(text, "--group is counted from 1")
        }
    }
}

/// Makes the operator that gives orders to a group.
pub fn operator(cluster: &Cluster, group: usize, config: &Config) -> Result<Operator<Any>, Failure> {
    let group = &cluster.groups[group];
    // Nodes that have no secret of their own take the secret of clients.
    let login = match connect::peers(config)? {
        Login::None => connect::login(config)?,
        peers => peers,
    };
    Ok(Operator {
        transport: Arc::new(connect::transport(config)?),
        group: group.id,
        members: cluster.members_of(group),
        login,
        connect: config.timeout,
    })
}

/// Computes how long to wait for the outcome of an order: leases must end, requests under way must end, and
/// the order may take so many elections. Each of these times has a bound.
pub fn patience(cluster: &Cluster, elections: u64, config: &Config) -> Duration {
    let timing = &cluster.timing;
    Duration::from_nanos(2 * timing.promise.0 + elections * timing.election.0) + config.timeout
}

/// Turns the error of an order into a failure.
pub fn failure(error: &OrderError) -> Failure {
    let exit = match error {
        OrderError::Stays(..) | OrderError::Denied(..) => Exit::Refused,
        OrderError::Rests(..) | OrderError::Refused(_) => Exit::Refused,
        OrderError::Leaderless(_) => Exit::CannotConnect,
        OrderError::InDoubt(..) => Exit::InDoubt,
    };
    Failure::new(exit, error.to_string())
}
