//! `longarm cluster move-leader`: has the leader of a group hand over to another replica.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::NodeId;
use longarm_server::{Member, Operator, OrderError, Stay};
use serde_json::json;

use super::MoveLeaderArgs;
use crate::cluster::Cluster;
use crate::commands::connect;
use crate::config::Config;
use crate::output::{Exit, Failure, Output};

/// Asks, and says what came of it.
pub fn run(args: &MoveLeaderArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let cluster = Cluster::read(&args.file)?;
    let (to, file) = (NodeId(args.to), args.file.display());
    let (group, members) = chosen(&cluster, args)?;
    // Leases end, what is under way ends, another is elected: each has its bound.
    let timing = &cluster.timing;
    let patience = Duration::from_nanos(2 * timing.promise.0 + 4 * timing.election.0) + config.timeout;
    let operator = Operator {
        transport: Arc::new(connect::transport(config)?),
        group,
        members,
        login: connect::login(config)?,
        connect: config.timeout,
    };
    let status = format!("`longarm cluster status {file}` shows who leads");
    let moved = match operator.move_leader(to, patience) {
        Ok(moved) => moved,
        Err(OrderError::Stays(_, Stay::Leads)) => {
            if output.json() {
                output.value(&json!({ "leader": to.0, "moved": false }))?;
            } else {
                output.line(&format!("node {to} leads already"))?;
            }
            return Ok(Exit::Ok);
        }
        Err(error) => return Err(failure(&error).hint(status)),
    };
    let gap = moved.gap.as_secs_f64() * 1e3;
    if output.json() {
        let (leader, term) = (moved.leader.0, moved.term.to_string());
        output.value(
            &json!({ "leader": leader, "moved": true, "term": term, "gap_us": moved.gap.as_micros() as u64 }),
        )?;
    } else {
        let (leader, term) = (moved.leader, moved.term);
        output.line(&format!("node {leader} leads in term {term}; writes waited for {gap:.1} ms"))?;
    }
    if moved.leader == to {
        return Ok(Exit::Ok);
    }
    let text = format!("node {to} failed, and the others elected node {}", moved.leader);
    Err(Failure::new(Exit::Refused, text).hint(status))
}

/// The group that is meant, and its nodes.
fn chosen(cluster: &Cluster, args: &MoveLeaderArgs) -> Result<(u64, Vec<Member>), Failure> {
    let (file, count) = (args.file.display(), cluster.groups.len());
    let wrong = |text: String, hint: &str| Err(Failure::new(Exit::Usage, text).hint(hint));
    let number = match args.group {
        Some(number) => number,
        None if count == 1 => 1,
        None => {
            let text = format!("the cluster of {file} has {count} groups: which is to be led by another?");
            return wrong(text, "name it with --group N, counted from 1 as `longarm cluster status` does");
        }
    };
    let Some(group) = number.checked_sub(1).and_then(|at| cluster.groups.get(at)) else {
        let groups = if count == 1 { "group" } else { "groups" };
        let text = format!("the cluster of {file} has no group {number}: it has {count} {groups}");
        return wrong(text, "--group is counted from 1");
    };
    let members = cluster.members_of(group);
    if members.iter().any(|member| member.node.0 == args.to) {
        return Ok((group.id, members));
    }
    let numbers = members.iter().map(|member| member.node.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!("node {} has no replica of group {number} of {file}: it has {numbers}", args.to);
    wrong(text, "--to is the number of one of them")
}

fn failure(error: &OrderError) -> Failure {
    let exit = match error {
        OrderError::Stays(..) => Exit::Refused,
        OrderError::Leaderless(_) => Exit::CannotConnect,
        OrderError::InDoubt(..) => Exit::InDoubt,
    };
    Failure::new(exit, error.to_string())
}
