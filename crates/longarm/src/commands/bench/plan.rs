//! Makes a plan of the arguments.

use longarm_bench::{Pace, Plan, Sweep};

use super::args::{Args, Transport};
use crate::config::{Config, Origin};
use crate::output::{Exit, Failure};

/// The number of items that are loaded unless the user names another.
const KEYS: u64 = 1_000_000;
/// The number of replicas of a group that is started for scans.
const REPLICAS_OF_SCANS: u8 = 3;

/// Makes the plan that the arguments ask for.
pub fn of(args: &Args) -> Result<Plan, Failure> {
    let records = match args.keys[..] {
        [] => KEYS,
        [keys] => keys,
        _ => return Err(usage("--keys has several values: only `bench raw` takes them")),
    };
    let bytes: Vec<usize> = args.value_bytes.iter().map(|&bytes| bytes as usize).collect();
    let mut sweeps = Vec::new();
    let mut swept = |flag: &'static str, many: bool, sweep: Sweep| {
        if many {
            sweeps.push((flag, sweep));
        }
    };
    swept("--value-bytes", bytes.len() > 1, Sweep::ValueBytes(bytes.clone()));
    swept("--clients", args.clients.len() > 1, Sweep::Clients(args.clients.clone()));
    swept("--depth", args.depth.len() > 1, Sweep::Depth(args.depth.clone()));
    swept("--rate", args.rate.len() > 1, Sweep::Rate(args.rate.clone()));
    swept("--limit", args.limit.len() > 1, Sweep::Limit(args.limit.clone()));
    if sweeps.len() > 1 {
        let flags: Vec<&str> = sweeps.iter().map(|(flag, _)| *flag).collect();
        return Err(usage(&format!("{} have several values: sweep one at a time", flags.join(" and "))));
    }
    let read = |name: &str, why: String| usage(&format!("{name}: {why}"));
    let pace = match args.rate.first() {
        None => Pace::Closed,
        Some(&rate) if args.poisson => Pace::Poisson(rate),
        Some(&rate) => Pace::Fixed(rate),
    };
    let plan = Plan {
        mix: args.workload.parse().map_err(|why| read("workload", why))?,
        distribution: match &args.distribution {
            None => None,
            Some(name) => Some(name.parse().map_err(|why| read("--distribution", why))?),
        },
        records,
        key: args.key_form.parse().map_err(|why| read("--key-form", why))?,
        value_bytes: bytes.first().copied().unwrap_or(0),
        clients: args.clients.first().copied().unwrap_or(1),
        connections: args.connections.map(usize::from),
        idle_clients: args.idle_clients,
        depth: args.depth.first().copied().unwrap_or(1),
        scan_limit: args.limit.first().copied().unwrap_or(Plan::default().scan_limit),
        keys_only: args.keys_only,
        pace,
        warmup_seconds: args.warm_up.as_secs_f64(),
        seconds: args.seconds,
        operations: None,
        runs: args.runs,
        seed: args.seed,
        verify_every: args.verify_every,
        load: true,
        into_nonempty: args.into_nonempty,
        sweep: sweeps.pop().map(|(_, sweep)| sweep),
    };
    plan.check().and_then(|()| plan.points().map(drop)).map_err(|why| usage(&why))?;
    Ok(plan)
}

/// The number of replicas of the servers that the run starts: scans are a group's.
pub fn replicas(args: &Args, plan: &Plan) -> u8 {
    args.replicas.unwrap_or(if plan.lengths().is_some() { REPLICAS_OF_SCANS } else { 1 })
}

/// Refuses groups if the user named a server, and over a transport that has no groups; and scans without a
/// group.
pub fn check_replicas(args: &Args, plan: &Plan, config: &Config) -> Result<(), Failure> {
    if config.cluster.is_some() || config.origin("address") != Origin::Default {
        return match args.replicas {
            None | Some(1) => Ok(()),
            Some(_) => Err(usage(
                "--replicas is for servers that the run starts; --cluster and --address name others",
            )),
        };
    }
    if replicas(args, plan) == 1 {
        return match plan.lengths() {
            None => Ok(()),
            Some(_) => Err(usage("--replicas 1: a server without a group has no order of keys to scan")),
        };
    }
    if args.transports.contains(&Transport::Verbs) {
        return Err(usage("--replicas: groups are started over shm and tcp, not over verbs"));
    }
    Ok(())
}

/// The length of the longest value of all points.
pub fn value_max(plan: &Plan) -> usize {
    match &plan.sweep {
        Some(Sweep::ValueBytes(all)) => all.iter().copied().max().unwrap_or(plan.value_bytes),
        _ => plan.value_bytes,
    }
}

pub fn usage(text: &str) -> Failure {
    Failure::new(Exit::Usage, text).hint("`longarm bench --help` lists workloads and flags")
}
