//! `longarm restore`: makes a data directory of a backup.

use std::path::{Path, PathBuf};
use std::time::Instant;

use longarm_backup::{Origin, Whose, restore};
use longarm_server::ServerOptions;
use serde_json::json;

use crate::backups;
use crate::cluster::{self, Durability, NodeId, numbers};
use crate::config::Config;
use crate::config::units::show_size;
use crate::flags::size;
use crate::human;
use crate::operator;
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Make a data directory of a backup";

const AFTER: &str = "\
`longarm server --data DIR` then serves what the backed-up server held at the version of the backup: versions
and expiries are kept, and new versions go on above. The server is another one: it has keys of its own. Start
it with the memory that is given here.

With --cluster FILE and --node N it is the directory of a node of a new cluster that keeps its data
(`longarm cluster init FILE --durability sync`, or `async`). Do so for each node, from the same backup and
with the same memory, before the first one starts: a majority of the nodes is enough, the others may start
empty.";

/// The arguments of `longarm restore`.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The backup: a directory, or - for a stream on stdin
    #[arg(value_name = "BACKUP")]
    pub backup: PathBuf,

    /// The data directory to make, which must be empty or not exist yet; of a node FILE.node-N by default
    #[arg(long, value_name = "DIR", required_unless_present = "node")]
    pub data: Option<PathBuf>,

    /// Make the directory of this node of the cluster (--cluster)
    #[arg(long, value_name = "N")]
    pub node: Option<u32>,

    /// Of a cluster with several groups: the group to restore, counted from 1
    #[arg(long, value_name = "N", requires = "node")]
    pub group: Option<usize>,

    /// Memory of the server that will run on it; without it the memory of the settings
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
}

/// The directory that is made, and whose it is.
struct Place {
    /// Of the server or the node.
    dir: PathBuf,
    /// With the arena.
    arena: PathBuf,
    whose: Whose,
    /// Bytes of memory of what starts from it.
    memory: u64,
    /// Bytes of the arena's memory.
    share: u64,
    /// What starts from it.
    server: String,
}

impl Place {
    fn of(args: &Args, config: &Config) -> Result<Place, Failure> {
        let memory = args.memory.unwrap_or(config.memory);
        let Some(number) = args.node else {
            let dir = args.data.clone().expect("it is required without a node");
            let server = format!("longarm server --data {}", dir.display());
            return Ok(Place { arena: dir.clone(), dir, whose: Whose::Alone, memory, share: memory, server });
        };
        let wrong = |text: String, hint: &str| Err(Failure::new(Exit::Usage, text).hint(hint));
        let Some(file) = &config.cluster else {
            return wrong("--node is of a cluster, and none is named".into(), "name its file with --cluster");
        };
        let cluster = cluster::read(file)?;
        let (node, shown) = (NodeId(number), file.display());
        if cluster.durability == Durability::Memory {
            return wrong(
                format!("the cluster of {shown} keeps no data"),
                "make one with `longarm cluster init --durability sync`, or `async`",
            );
        }
        let group = &cluster.groups[operator::chosen(&cluster, file, args.group)?];
        let Some(replica) = group.on(node) else {
            let nodes = numbers(group.nodes());
            return wrong(
                format!("the group of {shown} has no replica on node {node}"),
                &format!("it has {nodes}"),
            );
        };
        let dir = args.data.clone().unwrap_or_else(|| cluster::directory_beside(file, node));
        let votes = cluster::vote_store(&cluster, group, replica, &dir, None)?;
        let whose = Whose::Replica { group: group.id, sum_key: group.sum_key, replica, votes };
        let share = ServerOptions::share(memory, cluster.memory_parts(group));
        let server = format!("longarm server --cluster {shown} --node {node} --data {}", dir.display());
        let arena = cluster::arena_directory(&cluster, group, &dir);
        Ok(Place { dir, arena, whose, memory, share, server })
    }
}

/// Makes the directory.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let began = Instant::now();
    let Place { dir, arena, whose, memory, share, server } = Place::of(&args, config)?;
    let mut stdin = std::io::stdin().lock();
    let from = match args.backup == Path::new("-") {
        true => Origin::Stream(Path::new("stdin"), &mut stdin),
        false => Origin::Directory(&args.backup),
    };
    let restored = restore(from, &arena, whose, share).map_err(|error| backups::failure(&error))?;
    if output.json() {
        let mut value = backups::to_json(&restored.backup);
        value["segments_used"] = restored.used.into();
        value["memory"] = memory.into();
        value["data"] = dir.display().to_string().into();
        value["seconds"] = json!(began.elapsed().as_secs_f64());
        output.value(&value)?;
    } else {
        output.line(&format!(
            "{}, restored in {}; `{server} --memory {}` starts from it",
            backups::to_text(&restored.backup),
            human::time(began.elapsed()),
            show_size(memory),
        ))?;
    }
    Ok(Exit::Ok)
}
