//! What a table has no column for: how many items scans showed, who took the CPU time, and how alike clients
//! fared.

use super::TargetResult;
use super::figures::rate;
use crate::plan::{Plan, Sweep};
use crate::run::IdleResult;
use crate::spread::Spread;
use crate::workload::Lengths;

/// A line about a target at a setting, if there is something to say.
pub fn line(result: &TargetResult, at: &str) -> Option<String> {
    let parts: Vec<String> = [items(result), cpu(result), uniformity(result)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{}{at}: {}", result.target, parts.join("; ")))
}

fn items(result: &TargetResult) -> Option<String> {
    let kinds = result.runs.iter().flat_map(|run| &run.kinds);
    let scans: u64 = kinds.filter(|(kind, _)| kind == "scan").map(|(_, latency)| latency.count).sum();
    let (items, seconds) =
        (result.summary.counts.items, result.runs.iter().map(|run| run.seconds).sum::<f64>());
    (scans > 0).then(|| {
        let each = items as f64 / scans as f64;
        format!("{each:.1} items a scan, {} items/s", rate(items as f64 / seconds))
    })
}

/// Microseconds an operation, of leader and followers apart.
fn cpu(result: &TargetResult) -> Option<String> {
    let summary = &result.summary;
    let (server, leader) = (summary.server_cpu?.median, summary.leader_cpu?.median);
    let operations = summary.counts.operations as f64 / result.runs.len().max(1) as f64;
    let each = |seconds: f64| format!("{:.2} us", seconds.max(0.0) * 1e6 / operations.max(1.0));
    Some(format!(
        "CPU of an operation: leader {}, followers {}, client {}",
        each(leader),
        each(server - leader),
        each(summary.client_cpu.median)
    ))
}

/// How many operations the client with the most completed, over those of the one with the fewest.
fn uniformity(result: &TargetResult) -> Option<String> {
    let of_runs: Option<Vec<f64>> = result.runs.iter().map(|run| run.uniformity).collect();
    let ratio = Spread::of(of_runs.filter(|runs| !runs.is_empty())?).median;
    // One client is like itself.
    (ratio > 1.0).then(|| format!("the fastest client completed {ratio:.2} times what the slowest did"))
}

/// What idle clients cost.
pub fn idle(idle: &IdleResult) -> String {
    let IdleResult { clients, seconds, resident_bytes, server_cpu } = idle;
    let each = *clients as f64;
    let resident = resident_bytes.map_or(String::new(), |bytes| {
        format!("; {:.1} KiB resident in the server for each", bytes as f64 / 1024.0 / each)
    });
    let cpu = server_cpu.map_or(String::new(), |cpu| {
        format!("; the server takes {:.2} % of a core while nobody asks", cpu * 100.0)
    });
    format!("{clients} idle clients connected in {seconds:.2} s ({}/s){resident}{cpu}", rate(each / seconds))
}

/// The scans of a plan, for its first line.
pub fn lengths(plan: &Plan) -> String {
    let keys = if plan.keys_only { ", keys only" } else { "" };
    let swept = matches!(plan.sweep, Some(Sweep::Limit(_)));
    match plan.lengths() {
        None => String::new(),
        Some(Lengths::UpTo(_)) if swept => format!(" (scans of 1 to limit items{keys})"),
        Some(Lengths::Exactly(_)) if swept => format!(" (limit items a scan{keys})"),
        Some(Lengths::UpTo(most)) => format!(" (scans of 1 to {most} items{keys})"),
        Some(Lengths::Exactly(items)) => format!(" ({items} items a scan{keys})"),
    }
}
