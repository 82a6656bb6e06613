//! `longarm cluster init`: a new group's file, and the commands that come next.

use std::time::Duration;

use longarm_base::Nanos;
use longarm_server::Timing;
use serde_json::json;

use super::InitArgs;
use crate::cluster::Cluster;
use crate::config::units::show_duration;
use crate::output::{Exit, Failure, Output};

/// Writes the file and says what to do next.
pub fn run(args: InitArgs, output: &mut Output) -> Result<Exit, Failure> {
    let timing = Timing {
        heartbeat: nanos(args.heartbeat),
        suspect: nanos(args.suspect),
        promise: nanos(args.lease),
        election: nanos(args.election),
    };
    let cluster = Cluster::draw(args.nodes, timing)?;
    let count = cluster.members.len();
    if count < 3 {
        output.warn(&format!("a group of {count} stands still when one of its nodes fails; 3 survive that"));
    } else if count.is_multiple_of(2) {
        output.warn(&format!("a group of {count} survives no more failures than one of {}", count - 1));
    }
    cluster.create(&args.file)?;
    let file = args.file.display();
    let servers: Vec<String> = cluster
        .members
        .iter()
        .map(|member| format!("longarm server --cluster {file} --node {}", member.node))
        .collect();
    let client = format!("longarm put greeting hello --cluster {file}");
    let status = format!("longarm cluster status {file}");
    if output.json() {
        let nodes = cluster.members.iter();
        let nodes = nodes.map(|one| json!({ "node": one.node.0, "address": one.address.to_string() }));
        output.value(&json!({
            "file": args.file.display().to_string(), "group": format!("{:016x}", cluster.id),
            "nodes": nodes.collect::<Vec<_>>(), "servers": servers, "client": client, "status": status,
        }))?;
        return Ok(Exit::Ok);
    }
    let lease = show_duration(args.lease);
    output.line(&format!("wrote {file} (mode 600): a group of {count}, lease {lease}"))?;
    output.line("copy it to the machine of each node, and start them there, one line each:")?;
    for server in &servers {
        output.line(&format!("  {server}"))?;
    }
    output.line("clients need the file too (--cluster, or LONGARM_CLUSTER):")?;
    output.line(&format!("  {client}\n  {status}"))?;
    Ok(Exit::Ok)
}

/// Longer than 584 years is as good as 584 years.
fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
