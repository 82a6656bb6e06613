//! `longarm cluster init`: a new cluster's file, and the commands that come next.

use std::path::PathBuf;
use std::time::Duration;

use longarm_base::limits::LOSS_WINDOW;
use serde_json::json;

use crate::cluster::{self, Cluster, Division, Durability, Group, NodeAt, numbers, parse_node};
use crate::config::units::show_duration;
use crate::flags::{durability, duration};
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
    /// power of all of them, as each keeps its data on its disk, in --data (`sync`); with `async` the disks
    /// follow, and that loss loses the last writes
    #[arg(long, value_name = "MODE", default_value = Durability::default().name())]
    #[arg(value_parser = durability())]
    pub durability: Durability,

    /// With --durability async: the loss of power of all nodes loses the writes of this time at most; while
    /// the disks are further behind, no write is taken [default: 100ms]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub loss_window: Option<Duration>,

    /// Its times
    #[command(flatten)]
    pub times: Times,
}

/// Writes the file and says what to do next.
pub fn run(args: InitArgs, output: &mut Output) -> Result<Exit, Failure> {
    let nodes = args.nodes.len();
    let count = args.replicas.unwrap_or(if args.groups == 1 { nodes } else { nodes.min(3) });
    let division = Division {
        groups: args.groups,
        replicas: count,
        durability: args.durability,
        loss_window: loss_window(&args)?,
    };
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
            "loss_window": window(&cluster),
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
    output.line(&format!("wrote {file} (mode 600): {what}, lease {lease}, {}", kept(&cluster)))?;
    output.line("copy it to the machine of each node, and start them there, one line each:")?;
    for server in &servers {
        output.line(&format!("  {server}"))?;
    }
    output.line("clients need the file too (--cluster, or LONGARM_CLUSTER):")?;
    output.line(&format!("  {client}\n  {status}"))?;
    Ok(Exit::Ok)
}

/// The loss window of the new cluster, which one in `async` mode alone has.
fn loss_window(args: &InitArgs) -> Result<Duration, Failure> {
    let Some(window) = args.loss_window else { return Ok(LOSS_WINDOW) };
    if args.durability != Durability::Async {
        let (window, mode) = (show_duration(window), args.durability.name());
        let text = format!("--loss-window {window} is of --durability async, and here that is {mode}");
        return Err(Failure::new(Exit::Usage, text).hint("name that mode, or leave --loss-window out"));
    }
    Ok(window)
}

/// The loss window as people write it, of a cluster that has one.
fn window(cluster: &Cluster) -> Option<String> {
    (cluster.durability == Durability::Async).then(|| show_duration(cluster.loss_window))
}

/// Where a cluster keeps its data, for people.
fn kept(cluster: &Cluster) -> String {
    match (cluster.durability, window(cluster)) {
        (Durability::Memory, _) => "data in memory".into(),
        (_, Some(window)) => format!("data on disk but for the writes of {window} at most"),
        (Durability::Pmem, _) => "data in persistent memory before it is acknowledged".into(),
        (_, None) => "data on disk before it is acknowledged".into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn made(words: &[&str]) -> Result<Cluster, Failure> {
        let file = ["init", "g.toml", "--node", "1=tcp://a:1"];
        let command = InitArgs::augment_args(clap::Command::new("init"));
        let matches = command.try_get_matches_from(file.iter().chain(words)).expect("good words");
        let args = InitArgs::from_arg_matches(&matches).expect("good words");
        let (durability, loss_window) = (args.durability, loss_window(&args)?);
        let division = Division { groups: 1, replicas: 1, durability, loss_window };
        cluster::draw(args.nodes, division, args.times.timing())
    }

    #[test]
    fn a_loss_window_is_of_a_cluster_whose_disks_follow() {
        let shown = |words: &[&str]| made(words).map(|cluster| (kept(&cluster), window(&cluster)));
        assert_eq!(shown(&[]), Ok(("data in memory".into(), None)));
        let sync = "data on disk before it is acknowledged".to_string();
        assert_eq!(shown(&["--durability", "sync"]), Ok((sync, None)));
        for (more, window) in [(&[][..], "100ms"), (&["--loss-window", "2s"], "2s")] {
            let kept = format!("data on disk but for the writes of {window} at most");
            let words = [&["--durability", "async"], more].concat();
            assert_eq!(shown(&words), Ok((kept, Some(window.into()))));
        }
        for (words, part) in [
            (
                vec!["--loss-window", "1s"],
                "--loss-window 1s is of --durability async, and here that is memory",
            ),
            (vec!["--durability", "sync", "--loss-window", "1s"], "and here that is sync"),
            (vec!["--durability", "async", "--loss-window", "1ms"], "1ms given, 10ms to 1min are possible"),
        ] {
            let failure = made(&words).expect_err(part);
            assert!(failure.exit == Exit::Usage && failure.message.contains(part), "{failure:?}");
            assert!(!failure.hint.is_empty(), "{failure:?}");
        }
    }
}
