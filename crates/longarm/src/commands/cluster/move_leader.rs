//! `longarm cluster move-leader`: has the leader of a group hand over to another replica.

use longarm_base::NodeId;
use longarm_server::{OrderError, Stay};
use serde_json::json;

use super::{MoveLeaderArgs, order};
use crate::cluster::{self, numbers};
use crate::config::Config;
use crate::output::{Exit, Failure, Output};

/// Asks, and says what came of it.
pub fn run(args: &MoveLeaderArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let cluster = cluster::read(&args.file)?;
    let (to, file) = (NodeId(args.to), args.file.display());
    let at = order::chosen(&cluster, &args.file, args.group)?;
    let replicas = &cluster.groups[at].replicas;
    if !replicas.contains(&to) {
        let has = numbers(replicas.iter().copied());
        let text = format!("node {to} has no replica of group {} of {file}: it has {has}", at + 1);
        return Err(Failure::new(Exit::Usage, text).hint("--to is the number of one of them"));
    }
    let patience = order::patience(&cluster, 4, config);
    let operator = order::operator(&cluster, at, config)?;
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
        Err(error) => return Err(order::failure(&error).hint(status)),
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
