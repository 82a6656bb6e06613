//! `longarm cluster move-leader`: has the leader of a group hand over to another replica.

use std::path::PathBuf;

use longarm_server::{OrderError, Stay};
use serde_json::json;

use crate::cluster::{self, NodeId, named, numbers};
use crate::config::Config;
use crate::operator;
use crate::output::{Exit, Failure, Output};

/// Arguments of `move-leader`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The other must be in sync. Reads and writes go on while clients' leases run out; then \
                  writes wait until the other leads. Ends with 4 if the leader stays, with 5 if \
                  it is not known who leads."
)]
pub struct MoveLeaderArgs {
    /// The file of the cluster
    pub file: PathBuf,

    /// The number of the node that is to lead
    #[arg(long, value_name = "N")]
    pub to: u32,

    /// Which group, counted from 1; only where there are several
    #[arg(long, value_name = "G")]
    pub group: Option<usize>,
}

/// Asks the leader to hand over, and says what came of it.
pub fn run(args: &MoveLeaderArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let cluster = cluster::read(&args.file)?;
    let (to, file) = (NodeId(args.to), args.file.display());
    let at = operator::chosen(&cluster, &args.file, args.group)?;
    let group = &cluster.groups[at];
    let Some(replica) = group.on(to) else {
        let has = numbers(group.nodes());
        let text = format!("node {to} has no replica of group {} of {file}: nodes {has} have", at + 1);
        return Err(Failure::new(Exit::Usage, text).hint("--to is the number of one of them"));
    };
    let patience = operator::patience(&cluster, 4, config);
    let operator = operator::operator(&cluster, at, config)?;
    let status = format!("`longarm cluster status {file}` shows who leads");
    let moved = match operator.move_leader(replica, patience) {
        Ok(moved) => moved,
        Err(OrderError::Stays(_, Stay::Leads)) => {
            if output.json() {
                output.value(&json!({ "leader": to.0, "moved": false }))?;
            } else {
                output.line(&format!("node {to} leads already"))?;
            }
            return Ok(Exit::Ok);
        }
        Err(error) => return Err(operator::failure(&error).hint(status)),
    };
    let gap = moved.gap.as_secs_f64() * 1e3;
    let leader = group.node_of(moved.leader);
    if output.json() {
        let (leader, term) = (leader.map(|node| node.0), moved.term.to_string());
        output.value(
            &json!({ "leader": leader, "moved": true, "term": term, "gap_us": moved.gap.as_micros() as u64 }),
        )?;
    } else {
        let (leader, term) = (named(leader, moved.leader), moved.term);
        output.line(&format!("{leader} leads in term {term}; writes waited for {gap:.1} ms"))?;
    }
    if moved.leader == replica {
        return Ok(Exit::Ok);
    }
    let text = format!("node {to} failed, and the others elected {}", named(leader, moved.leader));
    Err(Failure::new(Exit::Refused, text).hint(status))
}
