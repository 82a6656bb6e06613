//! One table a report: plain text with aligned columns, or Markdown.

use super::figures::{rate, size, time};
use super::{Report, TargetResult, beside, parts};
use crate::plan::{Pace, Plan, Sweep};
use crate::raw::nic::{self, NicReport};
use crate::raw::{RawReport, RawResult};
use crate::spread::Spread;

/// Form of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Columns padded with spaces.
    Plain,
    /// GitHub's Markdown.
    Markdown,
}

const COLUMNS: [&str; 10] = [
    "target",
    "ops/s",
    "(min..max)",
    "ratio",
    "p50",
    "p99",
    "p99.9",
    "CPU server",
    "CPU client",
    "CPU us/op",
];

impl Report {
    /// The table with its settings above and its caveats below.
    pub fn table(&self, style: Style) -> String {
        let swept = self.points.iter().any(|point| point.setting.is_some());
        let mut header: Vec<String> = COLUMNS.map(String::from).into();
        if swept {
            header.insert(
                0,
                self.points[0].setting.as_ref().map_or(String::new(), |setting| setting.name.clone()),
            );
        }
        let mut rows = vec![header];
        for point in &self.points {
            let first = point.results.first().map_or(0.0, |result| result.summary.throughput.median);
            for result in &point.results {
                let mut row = row(result, first);
                if swept {
                    row.insert(
                        0,
                        point.setting.as_ref().map_or(String::new(), |setting| setting.value.to_string()),
                    );
                }
                rows.push(row);
            }
        }
        let bullet = if style == Style::Markdown { "- " } else { "" };
        let mut text: String = self.settings().iter().map(|line| format!("{bullet}{line}\n")).collect();
        text.push('\n');
        text.push_str(&render(&rows, style, 1 + swept as usize));
        let notes = self.notes();
        if !notes.is_empty() {
            text.push('\n');
            notes.iter().for_each(|note| text.push_str(&format!("{bullet}{note}\n")));
        }
        if let Some(raw) = &self.raw {
            text.push('\n');
            text.push_str(&raw_table(raw, style));
        }
        if let Some(nic) = &self.nic {
            text.push('\n');
            text.push_str(&nic_table(nic, style));
            text.push_str(&beside::lines(self, nic));
        }
        text
    }

    /// What was run, where, and on which versions.
    fn settings(&self) -> Vec<String> {
        let mut lines = describe(&self.plan);
        lines.push(format!("machine: {}", self.machine.describe()));
        for result in self.points.first().into_iter().flat_map(|point| &point.results) {
            let server = &result.server;
            let settings: Vec<String> =
                server.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let memory = match (server.used_memory, result.resident) {
                (None, None) => String::new(),
                (used, resident) => {
                    let show = |bytes: Option<u64>| bytes.map_or("?".into(), size);
                    format!("; after loading: used {}, resident {}", show(used), show(resident))
                }
            };
            let version = if server.version.is_empty() { "version unknown" } else { &server.version };
            let settings =
                if settings.is_empty() { String::new() } else { format!(" ({})", settings.join(", ")) };
            lines.push(format!("{}: {version}{settings}{memory}", result.target));
            lines
                .extend(result.idle.as_ref().map(|idle| format!("{}: {}", result.target, parts::idle(idle))));
        }
        lines
    }

    /// What a reader of the figures must know.
    fn notes(&self) -> Vec<String> {
        let plan = &self.plan;
        let mut notes = vec![];
        if plan.pace == Pace::Closed && !matches!(plan.sweep, Some(Sweep::Rate(_))) {
            let note = "closed loop: figures of throughput; latencies are those of a saturated client";
            notes.push(note.to_string());
        } else {
            notes.push("open loop: latency counts from the intended start of each operation".into());
            notes.push("the client's CPU time includes the waiting for that moment".into());
        }
        if plan.depth > 1 || matches!(plan.sweep, Some(Sweep::Depth(_))) {
            notes.push("pipelined: the latency of an operation is that of its batch".into());
        }
        notes.push(
            "median of the runs (min..max over the runs); CPU in seconds of one run, '-' where unknown"
                .into(),
        );
        for point in &self.points {
            let at =
                point.setting.as_ref().map(|s| format!(" at {} {}", s.name, s.value)).unwrap_or_default();
            for result in &point.results {
                let counts = &result.summary.counts;
                let mut note = |count: u64, what: &str| {
                    if count > 0 {
                        notes.push(format!("{}{at}: {count} {what}", result.target));
                    }
                };
                note(counts.wrong, "WRONG VALUES: these figures mean nothing");
                note(counts.refused, "operations refused by the store: not comparable");
                note(counts.misses, "reads found nothing (evicted or lost?): not comparable");
                note(counts.unsent, "operations were due and never sent: the target rate was not reached");
                notes.extend(parts::line(result, &at));
            }
        }
        notes
    }
}

fn describe(plan: &Plan) -> Vec<String> {
    // A swept setting has its own column; here it is only named.
    let swept = |this: fn(&Sweep) -> bool, otherwise: String| match &plan.sweep {
        Some(sweep) if this(sweep) => "swept".to_string(),
        _ => otherwise,
    };
    let value = swept(|sweep| matches!(sweep, Sweep::ValueBytes(_)), format!("{} B", plan.value_bytes));
    let clients = swept(|sweep| matches!(sweep, Sweep::Clients(_)), plan.clients.to_string());
    let sharing = plan.connections.map_or(String::new(), |n| format!(" over {n} shared connection(s)"));
    let sharing = match plan.idle_clients {
        0 => sharing,
        idle => format!("{sharing} beside {idle} idle one(s)"),
    };
    let depth = swept(|sweep| matches!(sweep, Sweep::Depth(_)), plan.depth.to_string());
    let pace = match plan.pace {
        Pace::Poisson(_) if matches!(plan.sweep, Some(Sweep::Rate(_))) => {
            "open loop, Poisson, rate swept".into()
        }
        _ if matches!(plan.sweep, Some(Sweep::Rate(_))) => "open loop at equal intervals, rate swept".into(),
        Pace::Closed => "closed loop".into(),
        Pace::Fixed(rate) => format!("open loop, {rate} ops/s at equal intervals"),
        Pace::Poisson(rate) => format!("open loop, {rate} ops/s Poisson"),
    };
    vec![
        format!(
            "workload: {}{}, {}, {} records, {} keys, {value} values (one value a record)",
            plan.mix.name(),
            parts::lengths(plan),
            plan.distribution().describe(),
            plan.records,
            plan.key.name(),
        ),
        format!(
            "load: {clients} client(s){sharing}, depth {depth}, {pace}; {} run(s) of {} s after {} s \
             warm-up; seed {}; all lengths and 1 value in {} checked",
            plan.runs, plan.seconds, plan.warmup_seconds, plan.seed, plan.verify_every
        ),
    ]
}

fn row(result: &TargetResult, first: f64) -> Vec<String> {
    let summary = &result.summary;
    let Spread { median, min, max } = summary.throughput;
    let ratio = if first > 0.0 { format!("{:.2}", median / first) } else { "-".into() };
    let runs = result.runs.len().max(1) as f64;
    let operations = summary.counts.operations as f64 / runs;
    let cpu = summary.server_cpu.map(|cpu| cpu.median);
    let total = cpu.map(|cpu| (cpu + summary.client_cpu.median) * 1e6 / operations.max(1.0));
    vec![
        result.target.clone(),
        rate(median),
        format!("({}..{})", rate(min), rate(max)),
        ratio,
        time(summary.p50.median),
        time(summary.p99.median),
        time(summary.p999.median),
        cpu.map_or("-".into(), |cpu| format!("{cpu:.2}")),
        format!("{:.2}", summary.client_cpu.median),
        total.map_or("-".into(), |total| format!("{total:.2}")),
    ]
}

/// The limits of the machine as a table.
pub fn raw_table(raw: &RawReport, style: Style) -> String {
    let page = raw.page.map_or("unknown".into(), size);
    let (bytes, pair, batch) = (size(raw.bytes), raw.plan.pair_lines, raw.plan.batch);
    let runs = raw.plan.runs;
    format!(
        "raw: mapping of {bytes}, pages of {page}, pairs of {pair} lines, batches of {batch}, \
         {runs} run(s)\n\n{}",
        limits(&raw.results, style)
    )
}

/// The limits of RDMA devices as a table.
pub fn nic_table(nic: &NicReport, style: Style) -> String {
    let nic::NicPlan { near, far, request: (there, back), runs, .. } = &nic.plan;
    format!(
        "raw: RDMA from {near} to {far}, medians of {runs} run(s); request {there} B, reply {back} B\n\n{}",
        limits(&nic.results, style)
    )
}

fn limits(results: &[RawResult], style: Style) -> String {
    let mut rows: Vec<Vec<String>> =
        vec![["limit", "ns/op", "(min..max)", "ops/s", "GB/s"].map(String::from).into()];
    for result in results {
        let Spread { median, min, max } = result.nanos;
        let speed = result.bytes.map_or("-".into(), |bytes| format!("{:.2}", bytes as f64 / median));
        let row = [
            result.name.clone(),
            format!("{median:.1}"),
            format!("({min:.1}..{max:.1})"),
            rate(result.rate),
            speed,
        ];
        rows.push(row.into());
    }
    render(&rows, style, 1)
}

/// Lays rows out; the first `left` columns are text, the others are figures.
fn render(rows: &[Vec<String>], style: Style, left: usize) -> String {
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = (0..columns)
            .map(|i| {
                if i < left {
                    format!("{:<1$}", row[i], widths[i])
                } else {
                    format!("{:>1$}", row[i], widths[i])
                }
            })
            .collect();
        match style {
            Style::Plain => format!("{}\n", cells.join("  ").trim_end()),
            Style::Markdown => format!("| {} |\n", cells.join(" | ")),
        }
    };
    let rule: Vec<String> = (0..columns)
        .map(|i| if i < left { "-".repeat(widths[i].max(3)) } else { "-".repeat(widths[i].max(3) - 1) + ":" })
        .collect();
    let rule = match style {
        Style::Plain => format!("{}\n", "-".repeat(widths.iter().sum::<usize>() + 2 * (columns - 1))),
        Style::Markdown => format!("| {} |\n", rule.join(" | ")),
    };
    line(&rows[0]) + &rule + &rows[1..].iter().map(line).collect::<String>()
}
