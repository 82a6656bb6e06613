//! GET and PUT beside bare RDMA requests of the same sizes: how far each is from the limit of its devices.

use super::{Point, Report, TargetResult};
use crate::plan::{Pace, Sweep};
use crate::raw::nic::{NicReport, REQUEST};
use crate::spread::Spread;
use crate::workload::OpKind;

/// A limit whose runs differ by this factor is of two kinds of runs, not of one.
const APART: f64 = 2.0;

/// A line an operation, for targets that do one after the other with values of the size that was measured.
pub fn lines(report: &Report, nic: &NicReport) -> String {
    let alone = |point: &&Point| is_alone(report, point);
    let results = report.points.iter().filter(alone).flat_map(|point| &point.results);
    results.flat_map(|result| [get(result, nic), put(result, nic)]).flatten().collect()
}

/// Whether one operation's latency is its own at this point, and its bytes those of the plan.
fn is_alone(report: &Report, point: &Point) -> bool {
    let value = point.setting.as_ref().map(|setting| setting.value);
    let closed = report.plan.pace == Pace::Closed;
    closed
        && match &report.plan.sweep {
            Some(Sweep::Depth(_)) => value == Some(1.0),
            Some(Sweep::ValueBytes(_)) => {
                report.plan.depth == 1 && value == Some(report.plan.value_bytes as f64)
            }
            Some(Sweep::Rate(_)) => false,
            Some(Sweep::Clients(_) | Sweep::Limit(_)) | None => report.plan.depth == 1,
        }
}

/// Median of the runs' medians of one kind of operation.
fn median(result: &TargetResult, kind: OpKind) -> Option<f64> {
    let of = |(name, latency): &(String, super::Latency)| (name == kind.name()).then_some(latency.p50 as f64);
    let medians: Vec<f64> = result.runs.iter().filter_map(|run| run.kinds.iter().find_map(of)).collect();
    (!medians.is_empty()).then(|| Spread::of(medians).median)
}

fn get(result: &TargetResult, nic: &NicReport) -> Option<String> {
    let counts = &result.summary.counts;
    let share = counts.remembered as f64 / counts.hits.max(1) as f64;
    let found = format!(" ({:.0} % from remembered places)", share * 100.0);
    // The median is that of the greater part.
    let name = nic.plan.limit_of_get(share > 0.5);
    line(result, nic, &Compared { verb: "GET", kind: OpKind::Read, limit: &name, note: &found })
}

fn put(result: &TargetResult, nic: &NicReport) -> Option<String> {
    line(result, nic, &Compared { verb: "PUT", kind: OpKind::Update, limit: REQUEST, note: "" })
}

/// What one line compares.
struct Compared<'a> {
    /// How the line calls the operation.
    verb: &'a str,
    /// The operation whose median is taken.
    kind: OpKind,
    /// Name of the bare request that is its limit.
    limit: &'a str,
    /// What the line adds after that name.
    note: &'a str,
}

fn line(result: &TargetResult, nic: &NicReport, compared: &Compared<'_>) -> Option<String> {
    let Compared { verb, kind, limit: name, note } = compared;
    let (median, limit) = (median(result, *kind)?, nic.get(name)?.nanos);
    let mut text =
        format!("{}: median {verb} is {:.2} times {name}{note}", result.target, median / limit.median);
    if limit.max > limit.min * APART {
        let least = median / limit.min;
        text.push_str(&format!("; {least:.2} times its fastest run: the runs differ (is a core missing?)"));
    }
    Some(text + "\n")
}
