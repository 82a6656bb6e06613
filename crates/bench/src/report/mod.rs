//! Results as values, and what is made of them: tables, percentile files, drawings.

mod beside;
mod figures;
pub mod hgrm;
mod machine;
mod parts;
pub mod plot;
mod table;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

pub use machine::Machine;
pub use table::{Style, nic_table, raw_table};

use crate::cpu;
use crate::driver::ServerInfo;
use crate::plan::{Plan, Setting};
use crate::raw::RawReport;
use crate::raw::nic::NicReport;
use crate::record::{Counts, Record};
use crate::run::{IdleResult, LoadResult};
use crate::spread::Spread;
use crate::workload::OpKind;

/// Steps for each halving of the distance to 100 %, as HdrHistogram's own tools do.
const TICKS: u32 = 5;

/// Everything a benchmark found, with everything needed to repeat it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    /// What was asked for.
    pub plan: Plan,
    /// Where it ran.
    pub machine: Machine,
    /// One point, or one a value of the sweep.
    pub points: Vec<Point>,
    /// Limits of the machine on the same kind of memory, where they were measured too.
    pub raw: Option<RawReport>,
    /// Limits of the RDMA devices, where they were measured too.
    #[serde(default)]
    pub nic: Option<NicReport>,
}

/// All targets at one setting.
#[derive(Clone, Serialize, Deserialize)]
pub struct Point {
    /// The swept setting.
    pub setting: Option<Setting>,
    /// One a target, in the order given.
    pub results: Vec<TargetResult>,
}

/// One target at one setting.
#[derive(Clone, Serialize, Deserialize)]
pub struct TargetResult {
    /// Label of the target.
    pub target: String,
    /// Its server, after loading.
    pub server: ServerInfo,
    /// Resident bytes of the server's processes after the runs.
    pub resident: Option<u64>,
    /// How loading went.
    pub load: Option<LoadResult>,
    /// What idle clients cost, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleResult>,
    /// Medians over the runs.
    pub summary: Summary,
    /// The runs.
    pub runs: Vec<RunResult>,
    /// Histograms of all runs together; they are written as `.hgrm` files, not as JSON.
    #[serde(skip)]
    pub record: Record,
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// How many were measured.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
}

impl Latency {
    /// Of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Latency {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Latency {
            count: histogram.len(),
            mean: histogram.mean(),
            min: histogram.min(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
        }
    }
}

/// One run.
#[derive(Clone, Serialize, Deserialize)]
pub struct RunResult {
    /// Operations a second.
    pub throughput: f64,
    /// Seconds measured.
    pub seconds: f64,
    /// Outcomes.
    pub counts: Counts,
    /// Of all operations, each once. In an open loop from the intended start.
    pub latency: Latency,
    /// By kind; reads and updates include those inside read-modify-writes.
    pub kinds: Vec<(String, Latency)>,
    /// From sending to answer, in an open loop.
    pub service: Option<Latency>,
    /// CPU seconds of this process.
    pub client_cpu: f64,
    /// CPU seconds of the server's processes, where they are known.
    pub server_cpu: Option<f64>,
    /// The part of them that the leader took, of a group.
    #[serde(default)]
    pub leader_cpu: Option<f64>,
    /// How many operations the client with the most completed, over those of the one with the fewest.
    #[serde(default)]
    pub uniformity: Option<f64>,
}

/// CPU seconds, so far or in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CpuTimes {
    /// Of this process.
    pub client: f64,
    /// Of the server's processes, where they are known.
    pub server: Option<f64>,
    /// Of those that lead, if others follow.
    pub leader: Option<f64>,
}

impl CpuTimes {
    /// Those that were used so far.
    pub fn look(server: &ServerInfo) -> CpuTimes {
        let follows = server.pids.len() > server.leaders.len();
        CpuTimes {
            client: cpu::own_seconds(),
            server: cpu::seconds_of(&server.pids),
            leader: cpu::seconds_of(&server.leaders).filter(|_| follows),
        }
    }

    /// Those that were used since.
    pub fn since(&self, before: &CpuTimes) -> CpuTimes {
        let less = |now: Option<f64>, before: Option<f64>| now.zip(before).map(|(now, before)| now - before);
        CpuTimes {
            client: self.client - before.client,
            server: less(self.server, before.server),
            leader: less(self.leader, before.leader),
        }
    }
}

impl RunResult {
    /// From what the clients recorded.
    pub fn new(record: &Record, throughput: f64, seconds: f64, cpu: CpuTimes) -> RunResult {
        let kinds = OpKind::ALL.into_iter().map(|kind| (kind, record.of(kind)));
        RunResult {
            throughput,
            seconds,
            counts: record.counts,
            latency: Latency::of(&record.all()),
            kinds: kinds
                .filter(|(_, histogram)| !histogram.is_empty())
                .map(|(kind, histogram)| (kind.name().to_string(), Latency::of(&histogram)))
                .collect(),
            service: record.services().map(Latency::of),
            client_cpu: cpu.client,
            server_cpu: cpu.server,
            leader_cpu: cpu.leader,
            uniformity: None,
        }
    }
}

/// The runs of one target in one line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Operations a second.
    pub throughput: Spread,
    /// Nanoseconds.
    pub p50: Spread,
    /// Nanoseconds.
    pub p99: Spread,
    /// Nanoseconds.
    pub p999: Spread,
    /// CPU seconds of the client process in one run.
    pub client_cpu: Spread,
    /// CPU seconds of the server in one run.
    pub server_cpu: Option<Spread>,
    /// The part of it that the leader took, of a group.
    #[serde(default)]
    pub leader_cpu: Option<Spread>,
    /// Outcomes of all runs together.
    pub counts: Counts,
    /// Points of the percentile curve of all runs together: quantile and nanoseconds.
    pub curve: Vec<(f64, u64)>,
}

impl Summary {
    /// Of the runs and their common histograms.
    pub fn of(runs: &[RunResult], record: &Record) -> Summary {
        let spread = |figure: &dyn Fn(&RunResult) -> f64| Spread::of(runs.iter().map(figure));
        let if_known = |figure: &dyn Fn(&RunResult) -> Option<f64>| {
            let all: Option<Vec<f64>> = runs.iter().map(figure).collect();
            all.map(Spread::of)
        };
        Summary {
            throughput: spread(&|run| run.throughput),
            p50: spread(&|run| run.latency.p50 as f64),
            p99: spread(&|run| run.latency.p99 as f64),
            p999: spread(&|run| run.latency.p999 as f64),
            client_cpu: spread(&|run| run.client_cpu),
            server_cpu: if_known(&|run| run.server_cpu),
            leader_cpu: if_known(&|run| run.leader_cpu),
            counts: record.counts,
            curve: curve(&record.all()),
        }
    }
}

/// Points of the percentile curve: quantile and nanoseconds.
fn curve(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    let points = histogram.iter_quantiles(TICKS);
    points.map(|point| (point.quantile_iterated_to(), point.value_iterated_to())).collect()
}

impl Report {
    /// Whether every value that was read was right and nothing was refused or missing. A report that is not
    /// clean says why under its table, and its figures are not to be quoted.
    pub fn is_clean(&self) -> bool {
        self.points.iter().flat_map(|point| &point.results).all(|result| {
            let counts = &result.summary.counts;
            counts.wrong == 0 && counts.refused == 0 && counts.misses == 0
        })
    }

    /// As JSON, all of it except the histograms.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has no map with keys that are not strings")
    }
}

#[cfg(test)]
pub(crate) mod tests;
