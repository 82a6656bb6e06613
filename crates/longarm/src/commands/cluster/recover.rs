//! `longarm cluster recover`: has a group go on with what is on the disks of the nodes that are there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use longarm_server::OrderError;
use serde_json::json;

use crate::cluster::{self, Durability, NodeId, numbers};
use crate::config::Config;
use crate::operator;
use crate::output::{Exit, Failure, Output};
use crate::standing::{Looked, Said, look_at_all};

/// The time between two looks at whether a node leads.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `recover`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "In a cluster that acknowledges from memory (durability = \"async\") a group most of \
                  whose nodes were restarted goes on by itself once all of its nodes run again. This \
                  command is for nodes that will never come back: what only they had is lost, and if one \
                  of them comes back all the same, it is given what the others have. Ends with 4 if no \
                  node may go on, with 3 if none came to lead in time."
)]
pub struct RecoverArgs {
    /// The file of the cluster
    pub file: PathBuf,

    /// What only the missing nodes have may be lost
    #[arg(long)]
    pub accept_loss: bool,

    /// Which group, counted from 1; only where there are several
    #[arg(long, value_name = "G")]
    pub group: Option<usize>,
}

/// Has a node stand with what is on its disk, and says who leads then.
pub fn run(args: &RecoverArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let (cluster, file) = (cluster::read(&args.file)?, args.file.display());
    let at = operator::chosen(&cluster, &args.file, args.group)?;
    if cluster.durability != Durability::Async {
        let text = match cluster.durability {
            mode if mode.keeps_all() => {
                "a majority of its nodes goes on by itself: all that was acknowledged is on disk"
            }
            _ => "its nodes keep nothing on disks: what was in memory is lost",
        };
        let text = format!("there is nothing to recover in the cluster of {file}: {text}");
        return Err(Failure::new(Exit::Usage, text).hint("`longarm cluster status` shows how it stands"));
    }
    let looked = look_at_all(&cluster, config, false)?.swap_remove(at);
    if let Some((leader, _)) = looked.leader() {
        return said(output, leader, false);
    }
    let there = nodes(&looked, true);
    let missing = nodes(&looked, false);
    if !args.accept_loss {
        let text = match &missing[..] {
            [] => "all nodes answer: they go on by themselves, or their logs say why not".into(),
            missing => format!("what only the missing nodes have would be lost: {}", of(missing)),
        };
        let hint = "start them; or, if they will never come back, say so with --accept-loss";
        return Err(Failure::new(Exit::Usage, text).hint(hint));
    }
    let operator = operator::operator(&cluster, at, config)?;
    let patience = operator::patience(&cluster, 8, config);
    let mut why = None;
    for node in &there {
        let replica = looked.group.on(*node).expect("it has a replica of the group");
        match operator.recall(replica, patience) {
            Ok(()) => {
                output.note(&format!("node {node} stands with what is on disk; missing: {}", of(&missing)));
                return outcome(&cluster, at, config, patience, output);
            }
            Err(error) => why = Some(error),
        }
    }
    let error = why.unwrap_or_else(|| OrderError::Leaderless("no node answers".into()));
    Err(operator::failure(&error).hint(format!("`longarm cluster status {file}` shows who answers")))
}

/// Waits until a node leads.
fn outcome(
    cluster: &cluster::Cluster,
    at: usize,
    config: &Config,
    patience: Duration,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let begun = Instant::now();
    loop {
        let looked = look_at_all(cluster, config, false)?.swap_remove(at);
        if let Some((leader, _)) = looked.leader() {
            return said(output, leader, true);
        }
        if begun.elapsed() >= patience {
            let text = "no node came to lead: too few answer, or none has all of a start set on its disk";
            return Err(Failure::new(Exit::CannotConnect, text).hint("the logs of the nodes say which it is"));
        }
        longarm_host::sleep(LOOK);
    }
}

fn said(output: &mut Output, leader: NodeId, recovered: bool) -> Result<Exit, Failure> {
    if output.json() {
        output.value(&json!({ "leader": leader.0, "recovered": recovered }))?;
    } else {
        output.line(&format!("node {leader} leads{}", if recovered { "" } else { " already" }))?;
    }
    Ok(Exit::Ok)
}

/// The nodes that answer, or those that do not.
fn nodes(looked: &Looked<'_>, answer: bool) -> Vec<NodeId> {
    let is_there = |said: &Said| !matches!(said, Said::Nothing(_));
    let all = looked.members.iter().zip(&looked.said).filter(|(_, said)| is_there(said) == answer);
    let mut nodes: Vec<_> = all.filter_map(|(member, _)| looked.group.node_of(member.replica)).collect();
    nodes.sort_unstable();
    nodes
}

fn of(nodes: &[NodeId]) -> String {
    match nodes {
        [] => "none".into(),
        nodes => format!("node {}", numbers(nodes.iter().copied())),
    }
}
