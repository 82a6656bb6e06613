//! `longarm bench`: workloads against Longarm, and against Redis, memcached and etcd in the same run.
//!
//! [`plan`] makes a plan of the arguments, [`own`] starts servers for the run, [`raw`] measures the machine
//! and [`nic`] its RDMA devices.

mod args;
mod nic;
mod own;
mod plan;
mod raw;

#[cfg(test)]
mod tests;

use longarm_bench::driver::TargetError;
use longarm_bench::peer::PeerOptions;
use longarm_bench::raw::nic::Nic;
use longarm_bench::report::{hgrm, plot};
use longarm_bench::{Around, BenchError, Plan, Report, TargetFactory, TargetOptions, open, run_with};
use longarm_client::Topology;

use crate::config::{Config, Origin};
use crate::connect;
use crate::output::{Exit, Failure, Output};
pub use args::Args;
use args::Transport;

/// The line about the command in help texts.
pub const ABOUT: &str = "Measure throughput and latency, alone or beside Redis, memcached and etcd";

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
    plan::check_replicas(&args, &plan, config)?;
    let targets = targets(&args, &plan, config)?;
    let devices = args.with_raw && nic::wanted(&args, config);
    let mut devices = if devices { Some(nic::open(&args, config, &plan)?) } else { None };
    let quiet = output.json();
    let progress = |text: &str| {
        if !quiet {
            // A lost remark changes nothing about the run.
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
        output.write(report.table(args.style()).as_bytes())
    }
}

/// Makes the targets. Longarm is the first, for the ratios are to the first.
fn targets(args: &Args, plan: &Plan, config: &Config) -> Result<Vec<Box<dyn TargetFactory>>, Failure> {
    let mut targets: Vec<Box<dyn TargetFactory>> = Vec::new();
    let client = own::ClientSetup::of(config, args)?;
    if config.cluster.is_some() {
        let mut cluster = connect::connect(config, "bench")?;
        // Connecting here, and not in the middle of the run, finds a group without a leader, and the leaders'
        // addresses.
        let mut leaders = Vec::new();
        for group in 0..cluster.topology().groups().len() {
            let leader = cluster.group(group).map_err(|error| connect::failure(&error, config))?;
            leaders.push(leader.address().to_string());
        }
        leaders.dedup();
        let topology = cluster.topology().clone();
        targets.push(Box::new(client.factory(leaders.join(" "), topology)));
    } else if config.origin("address") == Origin::Default {
        for &transport in &args.transports {
            targets.push(Box::new(own::OwnServer::start(transport, plan, args, config)?));
        }
    } else {
        for address in &config.address {
            let label = address.to_string();
            targets.push(Box::new(client.factory(label, Topology::of_one(vec![address.clone()]))));
        }
    }
    let value_max = plan::value_max(plan);
    let peer = PeerOptions {
        memory: own::memory_for(plan, Transport::Tcp, 1).max(4 << 30),
        threads: None,
        clients: plan.connections_max(),
        value_max,
        data: config.data.clone(),
    };
    let ordered = plan.lengths().is_some();
    let options = TargetOptions { peer, ordered, ..TargetOptions::default() };
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
