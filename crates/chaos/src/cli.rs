//! `longarm-chaos`: a group of its own, killed, stopped and cut off, and a judgement of what its clients saw.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Parser, value_parser};
use longarm::cluster::Durability;
use longarm::config::Config;
use longarm::config::check::WORKERS_MAX;
use longarm::config::units::show_duration;
use longarm::flags::{durability, duration, size};
use longarm::front::{Front, Program};
use longarm::human;
use longarm::items::described::small_item;
use longarm::items::send::{Sender, Sending};
use longarm::output::{Exit, Failure, Output};
use longarm::times::Times;
use longarm_fabric::{Address, verbs};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::kind::{Kind, Shape, Ways};
use crate::over::Over;
use crate::program;
use crate::stage::Probe;
use crate::torture::{Bounds, Options, RESTING, Torture};

/// What the user typed.
#[derive(Parser, Debug)]
#[command(
    name = "longarm-chaos",
    version,
    about = "Start groups, kill, stop and cut off their replicas, and judge what clients saw",
    after_help = "Ends with 6 if an answer cannot be explained, a write is lost or service does not come \
                  back; then the log of the run is kept. Gaps are the longest time without an answer to a \
                  client that does nothing but PUT (GET), from a fault until all replicas are in sync; of \
                  several groups, that of the one that waited longest.",
    max_term_width = 110
)]
pub struct Cli {
    /// What is to be done
    #[command(flatten)]
    pub args: Args,

    /// Flags as of `longarm`
    #[command(flatten)]
    pub front: Front,
}

impl Program for Cli {
    fn front(&self) -> &Front {
        &self.front
    }

    fn run(self, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
        run(&self.args, config, output)
    }
}

/// What is to be done.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Over shared memory, over TCP (through relays if something is to be cut), or over RDMA
    #[arg(long, value_enum, default_value_t = Transport::Shm)]
    pub transport: Transport,

    /// For --transport verbs: the RDMA devices of the replicas, of which `cargo x vm` makes some
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub replica_devices: Vec<String>,

    /// How long faults strike
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub time: Duration,

    /// Nodes, each of which has a replica of every group; five bear the loss of two
    #[arg(long = "nodes", alias = "replicas", value_name = "N", default_value_t = 3)]
    #[arg(value_parser = value_parser!(u8).range(3..=9))]
    pub replicas: u8,

    /// Groups; keys are placed in them by hash
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u8).range(1..=16))]
    pub groups: u8,

    /// Clients that do everything, beside one a group that PUTs and one that GETs, and two that mostly rest
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u16).range(0..=256))]
    pub clients: u16,

    /// Which faults strike, and whom
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Over TCP: nothing is cut off and there are no relays; nodes are added, removed and replaced instead
    #[arg(long)]
    pub no_cuts: bool,

    /// No replica keeps an ordered index, and no client scans; so it is with several groups
    #[arg(long)]
    pub no_scans: bool,

    /// What an acknowledged write outlives: of `async` and `sync` nodes keep their data on disks, of `pmem`
    /// in files that stand for persistent memory, and all are killed at once, too; then `async` may lose the
    /// last writes, and nothing else
    #[arg(long, value_name = "MODE", default_value = Durability::default().name())]
    #[arg(value_parser = durability())]
    pub durability: Durability,

    /// Only these faults; repeatable
    #[arg(long = "only", value_name = "FAULT", value_enum)]
    pub only: Vec<Kind>,

    /// Items of 16 and 32 bytes to load first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub items: u64,

    /// Memory of a replica of one group, beside that for --items
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    pub replica_memory: u64,

    /// Threads of a replica of one group that execute writes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u8).range(1..=64))]
    pub replica_workers: u8,

    /// Keep the log of the run and say where it is, whatever comes of it
    #[arg(long)]
    pub keep: bool,

    /// The program `longarm`, whose servers the nodes are; the one beside this one if none is named
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,

    /// Times of the group
    #[command(flatten)]
    pub times: Times,
}

/// The first replica's port on its device, over RDMA.
const PORT: u16 = 7301;

/// How processes reach each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Transport {
    /// Shared memory.
    Shm,
    /// TCP.
    Tcp,
    /// RDMA, from the device of --verbs-device to those of --replica-devices.
    Verbs,
}

/// Runs the torture that the arguments describe, and prints its report.
fn run(args: &Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Failure::new(Exit::System, format!("cannot watch for signals: {error}")))?;
    }
    let options = options(args, stop)?;
    if !output.json() {
        output.line(&head(args, options.over.name()))?;
    }
    let mut torture = Torture::begin(options, config)?;
    if args.keep {
        let (_, path) = torture.keep_files();
        output.note(&format!("the log of the run: {}", path.display()));
    }
    let json = output.json();
    let ended =
        load(args, &torture.config(), output)
            .and_then(|()| {
                torture.run(|struck| {
                    if json { output.value(&struck.to_json()) } else { output.line(&struck.to_text()) }
                })
            })
            .and_then(|()| torture.end());
    let report = ended.map_err(|failure| kept(failure, &mut torture))?;
    if json {
        output.value(&report.to_json())?;
    } else {
        output.write(report.to_text().as_bytes())?;
    }
    let wrong = report.wrong();
    if !wrong.is_empty() {
        let failure = Failure::new(Exit::Corrupt, format!("FAILED: {}", wrong.join("; ")));
        return Err(kept(failure, &mut torture));
    }
    if !json {
        output.line(report.passed())?;
    }
    Ok(Exit::Ok)
}

/// Keeps the log of a run whose failure is to be looked into.
fn kept(failure: Failure, torture: &mut Torture) -> Failure {
    if failure.exit != Exit::Corrupt {
        return failure;
    }
    let judged = torture.judge_so_far().unwrap_or_else(|failure| failure.message);
    let (last, path) = torture.keep_files();
    failure.hint(format!("the log of the run is {}, and its end:\n{last}\n{judged}", path.display()))
}

fn options(args: &Args, stop: Arc<AtomicBool>) -> Result<Options, Failure> {
    let ways = match args.transport {
        Transport::Shm => Ways::Direct,
        Transport::Tcp if args.no_cuts => Ways::Direct,
        // Relays are left out if no fault needs them, as they take as much of the machine as the group.
        Transport::Tcp if !args.only.is_empty() && !args.only.iter().any(|kind| kind.cuts()) => Ways::Direct,
        Transport::Tcp => Ways::Relays,
        Transport::Verbs => Ways::Bridge,
    };
    let keeps = args.durability != Durability::Memory;
    let shape = Shape { replicas: args.replicas, groups: args.groups, ways, keeps };
    let why_not = |kind: &Kind| kind.why_not(shape).map(|why| (kind.what(), why));
    if let Some((what, (why, hint))) = args.only.iter().find_map(why_not) {
        return Err(Failure::new(Exit::Usage, format!("{what}: {why}")).hint(hint));
    }
    let kinds = if args.only.is_empty() { Kind::all(shape) } else { args.only.clone() };
    let over = match (args.transport, ways) {
        (Transport::Shm, _) => Over::Shm,
        (Transport::Tcp, Ways::Relays) => Over::Relays,
        (Transport::Tcp, _) => Over::Tcp,
        (Transport::Verbs, _) => Over::Verbs(devices(args)?),
    };
    if usize::from(args.replica_workers) * usize::from(args.groups) > WORKERS_MAX {
        let (workers, groups) = (args.replica_workers, args.groups);
        let text =
            format!("--replica-workers {workers} of each of --groups {groups}: a node has {WORKERS_MAX}");
        return Err(Failure::new(Exit::Usage, text).hint("name fewer of the one or of the other"));
    }
    Ok(Options {
        program: program::find(args.program.as_deref())?,
        over,
        time: args.time,
        replicas: args.replicas,
        groups: args.groups,
        clients: args.clients.into(),
        seed: args.seed,
        kinds,
        timing: args.times.timing(),
        memory: args.replica_memory + (args.items * 512).next_multiple_of(64 << 20),
        workers: args.replica_workers,
        scans: args.scans(),
        durability: args.durability,
        stop,
    })
}

/// The device of each replica, and where it listens.
fn devices(args: &Args) -> Result<Vec<(String, Address)>, Failure> {
    let (names, wanted) = (&args.replica_devices, usize::from(args.replicas));
    if names.len() != wanted {
        let text = format!("--replica-devices: {} are named, and there are {wanted} replicas", names.len());
        return Err(Failure::new(Exit::Usage, text).hint("the machine of `cargo x vm -n 4` has rxe0 to rxe3"));
    }
    let found = verbs::survey()
        .map_err(|error| Failure::new(Exit::System, format!("there are no RDMA devices: {error}")))?;
    let place = |(port, name): (u16, &String)| {
        let device = found.iter().find(|device| device.device == *name);
        let mut gids = device.iter().flat_map(|device| &device.ports).flat_map(|(_, gids)| gids);
        let address = gids.find_map(|gid| gid.ipv4()).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("--replica-devices: {name} has no IPv4 address"))
                .hint("`longarm doctor` shows what devices there are")
        })?;
        Ok((name.clone(), Address::Verbs(format!("{address}:{port}"))))
    };
    (PORT..).zip(names).map(place).collect()
}

impl Args {
    /// Whether clients scan. Several groups have no moment in common.
    fn scans(&self) -> bool {
        self.groups == 1 && !self.no_scans
    }
}

fn head(args: &Args, transport: &str) -> String {
    let Times { lease, heartbeat, suspect, election } = &args.times;
    let bounds = Bounds::of(&args.times.timing());
    let times = [lease, heartbeat, suspect, election].map(|time| show_duration(*time));
    let [lease, heartbeat, suspect, election] = times;
    let shape = match args.groups {
        1 => format!("{} replicas", args.replicas),
        groups => format!("{} nodes with replicas of {groups} groups", args.replicas),
    };
    format!(
        "{shape} over {transport}, {} clients, {RESTING} that rest and {} probes, seed {}; lease {lease}, \
         heartbeat {heartbeat}, suspect {suspect}, election {election}; bounds: service {} s after a \
         fault, in sync {} s",
        args.clients,
        Probe::all(args.scans()).len() * usize::from(args.groups),
        args.seed,
        bounds.service.0 / 1_000_000_000,
        bounds.sync.0 / 1_000_000_000
    )
}

/// Loads items that no client asks for.
fn load(args: &Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    if args.items == 0 {
        return Ok(());
    }
    let began = Instant::now();
    let mut sender = Sender::start(config, &Sending { clients: 2, pipeline: 64, ttl: None }, 0)?;
    for record in 0..args.items {
        sender.push(record, small_item(record, 0))?;
    }
    sender.finish(|_| {})?;
    if output.json() {
        return Ok(());
    }
    let (items, time) = (human::count(args.items), human::time(began.elapsed()));
    output.line(&format!("loaded {items} items in {time}"))
}

#[cfg(test)]
mod tests;
