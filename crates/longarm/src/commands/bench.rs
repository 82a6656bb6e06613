//! `longarm bench`: workloads against Longarm, and against Redis, memcached and etcd in the same run.
//!
//! [`plan`] makes a plan of the arguments, [`own`] starts servers of our own, [`raw`] measures the
//! machine and [`nic`] its RDMA devices.

mod nic;
mod own;
mod plan;
mod raw;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use longarm_bench::driver::{LongarmFactory, TargetError};
use longarm_bench::peer::PeerOptions;
use longarm_bench::raw::nic::Nic;
use longarm_bench::report::{hgrm, plot};
use longarm_bench::{Around, BenchError, Plan, Report, Style, TargetFactory, TargetOptions, open, run_with};

use crate::cli::ServerSettings;
use crate::config::{Config, Origin};
use crate::connect;
use crate::flags::{duration, size};
use crate::output::{Exit, Failure, Output};

/// What it does.
pub const ABOUT: &str = "Measure throughput and latency, alone or beside Redis, memcached and etcd";

const MORE: &str = "\
Workloads: a, b, c, d and f are YCSB's (e needs SCAN); get, put, or reads:writes such as 95:5 choose keys \
uniformly; raw is the machine's own limit on the same kind of memory, and with a verbs address or \
--verbs-device that of its RDMA devices.

Without --address it starts a server of its own for each of --transports and ends it afterwards. One of \
--value-bytes, --clients, --depth and --rate may have several values, separated by commas: a sweep.";

/// Its arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = MORE)]
pub struct Args {
    /// What to run: a, b, c, d, f, get, put, reads:writes, or raw
    #[arg(default_value = "c")]
    pub workload: String,

    /// Items loaded before the run; for raw: items of the tables whose size the mapping has
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub keys: Vec<u64>,

    /// Form of the keys: hex16 (16 bytes), ycsb, ycsb-ordered
    #[arg(long, value_name = "FORM", default_value = "hex16")]
    pub key_form: String,

    /// Bytes of a value
    #[arg(long, value_name = "SIZE", default_value = "32", value_delimiter = ',', value_parser = size)]
    pub value_bytes: Vec<u64>,

    /// Which keys are asked for, if not as the workload defines: uniform, zipfian, latest
    #[arg(long, value_name = "DISTRIBUTION")]
    pub distribution: Option<String>,

    /// Client connections, one thread each
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    pub clients: Vec<usize>,

    /// Operations under way at once on each connection
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    pub depth: Vec<usize>,

    /// Places that each client remembers, so that a repeat GET is one READ; by default none on shm, 65,536
    /// elsewhere
    #[arg(long, value_name = "N")]
    pub cache: Option<usize>,

    /// Open loop: operations a second over all clients; latency counts from the intended start
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub rate: Vec<f64>,

    /// Intervals of the open loop are exponential, not equal
    #[arg(long, requires = "rate")]
    pub poisson: bool,

    /// Seconds that each run is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub seconds: f64,

    /// How long each run warms up before that
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub warm_up: std::time::Duration,

    /// Runs of each target, interleaved with those of the others
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: u32,

    /// Seed of keys, values and order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Compare one value in so many byte for byte; the length of every value is checked
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub verify_every: u32,

    /// Measure a store that holds items already; they and the benchmark's stay
    #[arg(long)]
    pub into_nonempty: bool,

    /// Transports of the servers that the run starts
    #[arg(long, value_name = "NAME", default_value = "shm", value_delimiter = ',')]
    pub transports: Vec<own::Transport>,

    /// Servers that the run starts are groups of so many replicas, over shm and tcp
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub replicas: u8,

    /// Run the same against these: redis, memcached, redis-group (a primary and two replicas, WAIT 1 after
    /// each PUT or batch) and etcd-group (three, data in memory), which are started here; redis://host:port,
    /// with ?wait=N for WAIT N, memcached://host:port, etcd://host:port; or the address of another Longarm
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    pub compare: Vec<String>,

    /// RDMA device that answers the raw requests of verbs, and has the server of `--transports verbs`; by
    /// default the one that asks, over its loopback
    #[arg(long, value_name = "DEVICE")]
    pub peer_device: Option<String>,

    /// Measure the limit too: of the machine, on a mapping of the table's size, or of its RDMA devices, with
    /// requests of the same sizes between the runs
    #[arg(long)]
    pub with_raw: bool,

    /// Draw the results into this SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,

    /// Write the latency distributions into this directory (HdrHistogram's text form)
    #[arg(long, value_name = "DIR")]
    pub hgrm: Option<PathBuf>,

    /// Print Markdown tables
    #[arg(long)]
    pub markdown: bool,

    /// Settings of the servers that the run starts
    #[command(flatten)]
    pub settings: ServerSettings,
}

/// Measures, and prints the report.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    if args.workload.eq_ignore_ascii_case("raw") {
        return raw::run(&args, config, output);
    }
    let plan = plan::of(&args)?;
    if let Some(path) = args.plot.as_ref().filter(|path| path.extension().is_none_or(|e| e != "svg")) {
        let text = format!("--plot {}: a drawing is an SVG file", path.display());
        return Err(Failure::new(Exit::Usage, text).hint("name it something.svg"));
    }
    plan::check_replicas(&args, config)?;
    let targets = targets(&args, &plan, config)?;
    let devices = args.with_raw && nic::wanted(&args, config);
    let mut devices = if devices { Some(nic::open(&args, config, &plan)?) } else { None };
    let quiet = output.json();
    let progress = |text: &str| {
        if !quiet {
            // A lost remark changes nothing.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
        }
    };
    let mut between = || devices.as_mut().map_or(Ok(()), Nic::run);
    let around = &mut Around { progress: &progress, between: &mut between };
    let mut report = run_with(&plan, &targets, around).map_err(failure)?;
    report.nic = devices.map(Nic::report);
    if args.with_raw && report.nic.is_none() {
        report.raw = Some(raw::measure(&args, plan.records)?);
    }
    drop(targets);
    show(&report, &args, output)?;
    if report.is_clean() {
        Ok(Exit::Ok)
    } else {
        let text = "the run is not clean: values were wrong, missing or refused (see below the table)";
        Err(Failure::new(Exit::Corrupt, text))
    }
}

fn style(args: &Args) -> Style {
    if args.markdown { Style::Markdown } else { Style::Plain }
}

fn show(report: &Report, args: &Args, output: &mut Output) -> Result<(), Failure> {
    if let Some(path) = &args.plot {
        std::fs::write(path, plot::draw(report)).map_err(|e| Failure::io("write", path, &e))?;
    }
    if let Some(directory) = &args.hgrm {
        hgrm::write_all(report, directory).map_err(|e| Failure::io("write into", directory, &e))?;
    }
    if output.json() {
        let value = serde_json::from_str(&report.to_json()).expect("a report is JSON");
        output.value(&value)
    } else {
        output.write(report.table(style(args)).as_bytes())
    }
}

/// Longarm first, for the ratios are to the first.
fn targets(args: &Args, plan: &Plan, config: &Config) -> Result<Vec<Box<dyn TargetFactory>>, Failure> {
    let mut targets: Vec<Box<dyn TargetFactory>> = Vec::new();
    let (transport, options) = own::client_of(config, args.cache)?;
    if config.cluster.is_some() {
        let mut cluster = connect::connect(config, "bench")?;
        // Now, and not in the middle: a group without a leader, and where the leaders are.
        let mut leaders = Vec::new();
        for group in 0..cluster.topology().groups().len() {
            let leader = cluster.group(group).map_err(|error| connect::failure(&error, config))?;
            leaders.push(leader.address().to_string());
        }
        leaders.dedup();
        let topology = cluster.topology().clone();
        let factory = LongarmFactory::of_cluster(leaders.join(" "), topology, transport, options);
        targets.push(Box::new(factory));
    } else if config.origin("address") == Origin::Default {
        for &transport in &args.transports {
            targets.push(Box::new(own::OwnServer::start(transport, plan, args, config)?));
        }
    } else {
        for address in &config.address {
            let label = address.to_string();
            let factory = LongarmFactory::new(label, address.clone(), transport.clone(), options.clone());
            targets.push(Box::new(factory));
        }
    }
    let value_max = plan::value_max(plan);
    let peer = PeerOptions {
        memory: own::memory_for(plan, own::Transport::Tcp, 1).max(4 << 30),
        threads: 1,
        value_max,
    };
    let options = TargetOptions { peer, ..TargetOptions::default() };
    for text in &args.compare {
        let target = open(text, &options);
        targets.push(
            target.map_err(|why| Failure::new(Exit::CannotConnect, format!("--compare {text}: {why}")))?,
        );
    }
    Ok(targets)
}

fn failure(error: BenchError) -> Failure {
    let exit = match &error {
        BenchError::Plan(_) => Exit::Usage,
        BenchError::Between(why) => return nic::failure(why.clone()),
        BenchError::Target { error: TargetError::Refused(_), .. } => Exit::Refused,
        BenchError::Target { .. } => Exit::CannotConnect,
    };
    Failure::new(exit, error.to_string())
}
