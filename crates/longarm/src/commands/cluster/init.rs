//! `longarm cluster init`: a new cluster's file, and the commands that come next.

use std::path::PathBuf;

use serde_json::json;

use crate::cluster::{self, Division, Durability, Group, NodeAt, numbers, parse_node};
use crate::config::units::show_duration;
use crate::flags::durability;
use crate::output::{Exit, Failure, Output};
use crate::times::Times;

/// Arguments of `init`.
#[derive(clap::Args, Debug)]
#[command(after_help = "The file is written with mode 600, and never over another: its keys are secret.")]
pub struct InitArgs {
    /// The file to write; all nodes and all clients get a copy
    pub file: PathBuf,

    /// A node: its number, 0 to 127, and where the others and clients find it; repeatable
    #[arg(long = "node", value_name = "N=ADDRESS", required = true, value_parser = parse_node)]
    pub nodes: Vec<NodeAt>,

    /// Groups, among which keys are divided by a hash; each has a leader of its own. Their number stays
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub groups: usize,

    /// Replicas of each group, spread over the nodes; by default 3, and of a single group one a node
    #[arg(long, value_name = "N")]
    pub replicas: Option<usize>,

    /// What an acknowledged write outlives: the loss of a minority of a group's nodes (`memory`), or of the
    /// power of all of them, as each keeps its data on its disk, in --data (`sync`)
    #[arg(long, value_name = "MODE", default_value = Durability::default().name())]
    #[arg(value_parser = durability())]
    pub durability: Durability,

    /// Its times
    #[command(flatten)]
    pub times: Times,
}

/// Writes the file and says what to do next.
pub fn run(args: InitArgs, output: &mut Output) -> Result<Exit, Failure> {
    let nodes = args.nodes.len();
    let count = args.replicas.unwrap_or(if args.groups == 1 { nodes } else { nodes.min(3) });
    let division = Division { groups: args.groups, replicas: count, durability: args.durability };
    let cluster = cluster::draw(args.nodes, division, args.times.timing())?;
    let idle = cluster.nodes.iter().map(|node| node.node);
    let idle = numbers(idle.filter(|node| cluster.groups_on(*node).next().is_none()));
    if !idle.is_empty() {
        output.warn(&format!("no group has a replica on these nodes: {idle}; more groups would use them"));
    }
    if count < 3 {
        output.warn(&format!("a group of {count} stands still when one of its nodes fails; 3 survive that"));
    } else if count.is_multiple_of(2) {
        output.warn(&format!("a group of {count} survives no more failures than one of {}", count - 1));
    }
    cluster::create(&cluster, &args.file)?;
    let file = args.file.display();
    let used = cluster.nodes.iter().filter(|node| cluster.groups_on(node.node).next().is_some());
    let server = |node: &NodeAt| format!("longarm server --cluster {file} --node {}", node.node);
    let servers: Vec<String> = used.map(server).collect();
    let client = format!("longarm put greeting hello --cluster {file}");
    let status = format!("longarm cluster status {file}");
    if output.json() {
        let nodes = cluster.nodes.iter();
        let nodes = nodes.map(|one| json!({ "node": one.node.0, "address": one.address.to_string() }));
        let replicas = |group: &Group| group.nodes().map(|node| node.0).collect::<Vec<_>>();
        let group =
            |group: &Group| json!({ "group": format!("{:016x}", group.id), "replicas": replicas(group) });
        output.value(&json!({
            "file": args.file.display().to_string(),
            "durability": cluster.durability.name(),
            "groups": cluster.groups.iter().map(group).collect::<Vec<_>>(),
            "nodes": nodes.collect::<Vec<_>>(), "servers": servers, "client": client, "status": status,
        }))?;
        return Ok(Exit::Ok);
    }
    let lease = show_duration(args.times.lease);
    let what = match cluster.groups.len() {
        1 => format!("a group of {count}"),
        groups => format!("{nodes} nodes, {groups} groups of {count}"),
    };
    let kept = match cluster.durability {
        Durability::Memory => "data in memory",
        Durability::Sync => "data on disk before it is acknowledged",
    };
    output.line(&format!("wrote {file} (mode 600): {what}, lease {lease}, {kept}"))?;
    output.line("copy it to the machine of each node, and start them there, one line each:")?;
    for server in &servers {
        output.line(&format!("  {server}"))?;
    }
    output.line("clients need the file too (--cluster, or LONGARM_CLUSTER):")?;
    output.line(&format!("  {client}\n  {status}"))?;
    Ok(Exit::Ok)
}
