//! Runs a plan against targets: loads them, warms up, measures, repeats, and adds up.
//!
//! Runs of different targets are interleaved, so that a machine that gets slower or faster over the minutes
//! does so for all of them.

mod client;
mod idle;
mod load;
mod once;
mod sample;
mod scans;
mod schedule;
mod window;

use std::collections::HashSet;
use std::sync::Arc;

pub use idle::IdleResult;
pub use load::LoadResult;

use idle::Idle;

use crate::cpu;
use crate::driver::{ServerInfo, TargetError, TargetFactory};
use crate::plan::Plan;
use crate::record::Record;
use crate::report::{Machine, Point, Report, RunResult, Summary, TargetResult};
use crate::workload::{Chooser, Inserts, StreamStart, Values};

/// Why a benchmark has no report.
#[derive(Debug)]
pub enum BenchError {
    /// The plan or the list of targets cannot be run.
    Plan(String),
    /// What was measured between the runs failed.
    Between(String),
    /// A target failed.
    Target {
        /// Its label.
        label: String,
        /// What was under way.
        step: &'static str,
        /// What happened.
        error: TargetError,
    },
}

impl std::fmt::Display for BenchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BenchError::Plan(text) | BenchError::Between(text) => f.write_str(text),
            BenchError::Target { label, step, error } => write!(f, "{label}: {step}: {error}"),
        }
    }
}

impl std::error::Error for BenchError {}

/// A target and what this benchmark put into it.
struct Entry<'a> {
    factory: &'a dyn TargetFactory,
    label: String,
    /// Whether it held nothing when we came, so that what has our keys is ours.
    was_empty: bool,
    inserts: Arc<Inserts>,
    load: Option<LoadResult>,
    idle: Option<Idle>,
    server: ServerInfo,
}

impl Entry<'_> {
    fn failed(&self, step: &'static str) -> impl FnOnce(TargetError) -> BenchError + '_ {
        move |error| BenchError::Target { label: self.label.clone(), step, error }
    }
}

/// Runs `plan` against all `targets`; ratios in the report are to the first.
pub fn run(plan: &Plan, targets: &[Box<dyn TargetFactory>]) -> Result<Report, BenchError> {
    run_with(plan, targets, &mut Around { progress: &|_| {}, between: &mut || Ok(()) })
}

/// What happens around the runs.
pub struct Around<'a> {
    /// Is told what is about to happen.
    pub progress: &'a dyn Fn(&str),
    /// Measures something else before each round of runs and after the last, so that a machine that gets
    /// slower or faster over the minutes does so for it too.
    pub between: &'a mut dyn FnMut() -> Result<(), String>,
}

/// As [`run`], with more around it.
pub fn run_with(
    plan: &Plan,
    targets: &[Box<dyn TargetFactory>],
    around: &mut Around<'_>,
) -> Result<Report, BenchError> {
    plan.check().map_err(BenchError::Plan)?;
    let points = plan.points().map_err(BenchError::Plan)?;
    let labels: HashSet<String> = targets.iter().map(|target| target.label()).collect();
    if targets.is_empty() || labels.len() != targets.len() {
        return Err(BenchError::Plan("give at least one target, and each target once".into()));
    }
    if plan.lengths().is_some()
        && let Some(unordered) = targets.iter().find(|target| !target.scans())
    {
        let label = unordered.label();
        return Err(BenchError::Plan(format!("{label} keeps no order of keys here: it answers no scans")));
    }
    let mut entries =
        targets.iter().map(|target| enter(plan, target.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let measured = measure_all(&points, &mut entries, around);
    for entry in &entries {
        if plan.load && entry.was_empty {
            let cleared = empty(plan, entry).map_err(entry.failed("removing the records"));
            // After a failure the store may be gone too; the first failure is the one to report.
            if measured.is_ok() {
                cleared?;
            }
        }
    }
    Ok(Report { plan: plan.clone(), machine: Machine::look(), points: measured?, raw: None, nic: None })
}

fn enter<'a>(plan: &Plan, factory: &'a dyn TargetFactory) -> Result<Entry<'a>, BenchError> {
    let label = factory.label();
    let server = factory.describe().map_err(|error| BenchError::Target {
        label: label.clone(),
        step: "asking the server about itself",
        error,
    })?;
    let was_empty = server.items == Some(0);
    if plan.load && !was_empty && server.items.is_some() && !plan.into_nonempty {
        let items = server.items.unwrap_or(0);
        return Err(BenchError::Plan(format!(
            "{label} holds {items} items already: benchmark records would overwrite keys of the same name \
             and stay behind. Use an empty server, or allow it (--into-nonempty)"
        )));
    }
    let inserts = Arc::new(Inserts::new(plan.records));
    Ok(Entry { factory, label, was_empty, inserts, load: None, idle: None, server })
}

fn measure_all(
    points: &[(Option<crate::plan::Setting>, Plan)],
    entries: &mut [Entry<'_>],
    around: &mut Around<'_>,
) -> Result<Vec<Point>, BenchError> {
    let mut loaded_bytes = None;
    let mut results = Vec::new();
    for (setting, plan) in points {
        let values = Values::new(plan.value_bytes, plan.seed);
        if plan.load && loaded_bytes != Some(plan.value_bytes) {
            for entry in entries.iter_mut() {
                (around.progress)(&format!(
                    "{}: loading {} records of {} bytes",
                    entry.label, plan.records, plan.value_bytes
                ));
                fill(plan, &values, entry)?;
            }
            loaded_bytes = Some(plan.value_bytes);
        }
        for entry in entries.iter_mut().filter(|entry| plan.idle_clients > 0 && entry.idle.is_none()) {
            (around.progress)(&format!("{}: connecting {} idle clients", entry.label, plan.idle_clients));
            let idle = Idle::connect(plan, entry.factory, &entry.server.pids);
            entry.idle = Some(idle.map_err(entry.failed("connecting idle clients"))?);
        }
        results.push(measure_point(setting.clone(), plan, &values, entries, around)?);
    }
    Ok(results)
}

/// Removes what this benchmark put into a target; what others put there meanwhile stays.
fn empty(plan: &Plan, entry: &Entry<'_>) -> Result<(), TargetError> {
    if entry.load.is_none() || entry.factory.clear()? {
        Ok(())
    } else {
        load::remove(plan, entry.factory, entry.inserts.most())
    }
}

/// Loads the records of a plan into a target.
fn fill(plan: &Plan, values: &Values, entry: &mut Entry<'_>) -> Result<(), BenchError> {
    if entry.was_empty {
        empty(plan, entry).map_err(entry.failed("removing earlier records"))?;
    }
    let load = load::fill(plan, values, entry.factory).map_err(entry.failed("loading"))?;
    entry.load = Some(load);
    entry.inserts = Arc::new(Inserts::new(plan.records));
    entry.server = entry.factory.describe().map_err(entry.failed("asking the server about itself"))?;
    match entry.server.items {
        Some(items) if items < plan.records => Err(BenchError::Plan(format!(
            "{} kept only {items} of {} records: give it more memory, or load fewer",
            entry.label, plan.records
        ))),
        _ => Ok(()),
    }
}

fn measure_point(
    setting: Option<crate::plan::Setting>,
    plan: &Plan,
    values: &Values,
    entries: &mut [Entry<'_>],
    around: &mut Around<'_>,
) -> Result<Point, BenchError> {
    let expected_new = plan.mix.shares().insert * plan.operations.unwrap_or(0) as f64 * 2.0;
    let start = StreamStart {
        shares: plan.mix.shares(),
        lengths: plan.lengths(),
        chooser: Chooser::new(plan.distribution(), plan.records, expected_new as u64),
        seed: plan.seed,
    };
    let greatest = scans::greatest(plan);
    let mut runs: Vec<Vec<RunResult>> = entries.iter().map(|_| Vec::new()).collect();
    let mut merged: Vec<Record> = entries.iter().map(|_| Record::new()).collect();
    for number in 1..=plan.runs {
        // Each run has its own order of operations; all targets have the same.
        let start =
            StreamStart { seed: plan.seed.wrapping_add(number as u64 * 0x9E37_79B9), ..start.clone() };
        (around.between)().map_err(BenchError::Between)?;
        for (at, entry) in entries.iter_mut().enumerate() {
            let point = setting.as_ref().map(|s| format!(", {} {}", s.name, s.value)).unwrap_or_default();
            (around.progress)(&format!("{}: run {number} of {}{point}", entry.label, plan.runs));
            let inserts = entry.inserts.clone();
            let shared = client::Shared { plan, values, start: &start, greatest, inserts };
            let once = once::run(&shared, entry.factory, &entry.server).map_err(entry.failed("running"))?;
            drop(shared);
            merged[at].add(&once.record);
            runs[at].push(once.result());
            if let Some(inserts) = Arc::get_mut(&mut entry.inserts) {
                inserts.settle();
            }
        }
    }
    (around.between)().map_err(BenchError::Between)?;
    let results = entries.iter().zip(runs).zip(merged).map(|((entry, runs), record)| TargetResult {
        target: entry.label.clone(),
        server: entry.server.clone(),
        resident: cpu::resident_of(&entry.server.pids),
        load: entry.load.clone(),
        idle: entry.idle.as_ref().map(|idle| idle.result.clone()),
        summary: Summary::of(&runs, &record),
        runs,
        record,
    });
    Ok(Point { setting, results: results.collect() })
}

#[cfg(test)]
mod tests;
