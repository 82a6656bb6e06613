//! What to measure: everything that a run depends on, so that a report with its plan can be run again.

use serde::{Deserialize, Serialize};

use crate::workload::{Distribution, KeyFormat, Lengths, Mix};

/// When operations are issued.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Closed loop: the next as soon as the last is answered. Finds peaks; says little about response times.
    Closed,
    /// Open loop at equal intervals: this many operations a second over all clients. Latency counts from the
    /// moment an operation should have started, so that a slow answer is charged for those that it delays.
    Fixed(f64),
    /// Open loop with exponential intervals (a Poisson process), otherwise as `Fixed`.
    Poisson(f64),
}

impl Pace {
    /// Operations a second that an open loop aims at.
    pub fn rate(self) -> Option<f64> {
        match self {
            Pace::Closed => None,
            Pace::Fixed(rate) | Pace::Poisson(rate) => Some(rate),
        }
    }
}

/// One setting that takes several values, each of which becomes a point of the report.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sweep {
    /// Value sizes in bytes; the records are loaded again for each.
    ValueBytes(Vec<usize>),
    /// Numbers of clients.
    Clients(Vec<usize>),
    /// Operations in flight per client.
    Depth(Vec<usize>),
    /// Rates of an open loop, in operations a second.
    Rate(Vec<f64>),
    /// Items that scans ask for at most.
    Limit(Vec<u32>),
}

/// A point of a sweep: the name of the setting and its value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// What is swept.
    pub name: String,
    /// Its value at this point.
    pub value: f64,
}

/// A benchmark.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Mix of operations.
    pub mix: Mix,
    /// Choice of records, where it is not the one that belongs to the mix.
    pub distribution: Option<Distribution>,
    /// Records loaded before the runs.
    pub records: u64,
    /// Form of the keys.
    pub key: KeyFormat,
    /// Size of the values in bytes. A YCSB record has 1,000 (ten fields of 100).
    pub value_bytes: usize,
    /// Clients, each with its own thread and, unless they share some, its own connection.
    pub clients: usize,
    /// Connections that all clients of a Longarm share (`SharedClient`); `None`: each has its own.
    pub connections: Option<usize>,
    /// Clients that are connected beside these and ask for nothing.
    pub idle_clients: usize,
    /// Operations that one client has in flight: 1, or a pipeline.
    pub depth: usize,
    /// Items that scans ask for: as many, or (YCSB E) one to so many.
    pub scan_limit: u32,
    /// Scans show no values.
    pub keys_only: bool,
    /// When operations are issued.
    pub pace: Pace,
    /// Seconds before measuring begins.
    pub warmup_seconds: f64,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Ends a run after this many operations (over all clients) if that comes first.
    pub operations: Option<u64>,
    /// Runs of each target, interleaved with those of the others.
    pub runs: u32,
    /// Seed of keys, values and order.
    pub seed: u64,
    /// One value in so many is compared byte for byte; the length of every value is checked.
    pub verify_every: u32,
    /// Loads the records first. Without it they must be there from an earlier run of the same plan.
    pub load: bool,
    /// Allows a store that already holds items; they stay, and so do the benchmark's.
    pub into_nonempty: bool,
    /// A setting to vary.
    pub sweep: Option<Sweep>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            mix: Mix::C,
            distribution: None,
            records: 1_000_000,
            key: KeyFormat::Hex16,
            value_bytes: 32,
            clients: 1,
            connections: None,
            idle_clients: 0,
            depth: 1,
            scan_limit: 100,
            keys_only: false,
            pace: Pace::Closed,
            warmup_seconds: 1.0,
            seconds: 5.0,
            operations: None,
            runs: 5,
            seed: 1,
            verify_every: 16,
            load: true,
            into_nonempty: false,
            sweep: None,
        }
    }
}

/// Bounds of a plan, so that a slip of the finger does not take the machine down.
const CLIENTS_MAX: usize = 16_384;
/// Connections beside those of the clients.
const SPARE: usize = 64;
const IDLE_MAX: usize = 65_536;
const DEPTH_MAX: usize = 4096;
const VALUE_MAX: usize = 64 << 20;
const SCAN_MAX: u32 = 1 << 20;
const SCHEDULED_MAX: f64 = 1e9;
const SECONDS_MAX: f64 = 86_400.0;

impl Plan {
    /// Distribution of the run.
    pub fn distribution(&self) -> Distribution {
        self.distribution.unwrap_or(self.mix.distribution())
    }

    /// How many items the scans show; `None` if there are no scans.
    pub fn lengths(&self) -> Option<Lengths> {
        self.mix.lengths(self.scan_limit)
    }

    /// Refuses scans that cannot be run, or whose answers could not be judged.
    fn check_scans(&self) -> Result<(), String> {
        if self.lengths().is_none() {
            let plain = !self.keys_only && self.scan_limit == Plan::default().scan_limit;
            return match plain && !matches!(self.sweep, Some(Sweep::Limit(_))) {
                true => Ok(()),
                false => Err(format!("a limit of items, or keys only: {} has no scans", self.mix.name())),
            };
        }
        if !(1..=SCAN_MAX).contains(&self.scan_limit) {
            return Err(format!("limit is {}, but must be between 1 and {SCAN_MAX}", self.scan_limit));
        }
        if self.depth > 1 {
            return Err("depth: a client has one scan under way".into());
        }
        if self.into_nonempty {
            return Err("scans show whatever is there: they are measured in a store that was empty".into());
        }
        Ok(())
    }

    /// Refuses what shared connections do not do.
    fn check_connections(&self) -> Result<(), String> {
        let Some(connections) = self.connections else { return Ok(()) };
        if !(1..=CLIENTS_MAX).contains(&connections) {
            return Err(format!("connections is {connections}, but must be between 1 and {CLIENTS_MAX}"));
        }
        if self.lengths().is_some() {
            return Err(
                "connections: a scan has its connection alone, so clients that scan share none".into()
            );
        }
        if self.depth > 1 {
            let text =
                "connections: a client of a shared connection has one operation under way, so depth is 1";
            return Err(text.into());
        }
        Ok(())
    }

    /// Refuses what cannot be run, naming the field.
    pub fn check(&self) -> Result<(), String> {
        let range = |name: &str, value: f64, low: f64, high: f64| {
            // Not `value < low || value > high`: a NaN must fail too.
            match (low..=high).contains(&value) {
                true => Ok(()),
                false => Err(format!("{name} is {value}, but must be between {low} and {high}")),
            }
        };
        self.distribution().check()?;
        self.check_scans()?;
        self.check_connections()?;
        range("records", self.records as f64, 1.0, 1e12)?;
        range("value size", self.value_bytes as f64, 0.0, VALUE_MAX as f64)?;
        range("clients", self.clients as f64, 1.0, CLIENTS_MAX as f64)?;
        range("idle clients", self.idle_clients as f64, 0.0, IDLE_MAX as f64)?;
        range("depth", self.depth as f64, 1.0, DEPTH_MAX as f64)?;
        range("warm-up seconds", self.warmup_seconds, 0.0, SECONDS_MAX)?;
        range("seconds", self.seconds, 1e-3, SECONDS_MAX)?;
        range("runs", self.runs as f64, 1.0, 1000.0)?;
        range("verify-every", self.verify_every as f64, 1.0, u32::MAX as f64)?;
        if let Some(operations) = self.operations {
            range("operations", operations as f64, self.clients as f64, 1e15)?;
        }
        if let Mix::Reads(permille) = self.mix {
            range("reads in a thousand", permille as f64, 0.0, 1000.0)?;
        }
        if let Some(rate) = self.pace.rate() {
            range("rate", rate, 0.01, 1e9)?;
            range("rate x seconds", rate * (self.seconds + self.warmup_seconds), 0.0, SCHEDULED_MAX)?;
        }
        Ok(())
    }

    /// The most connections that the clients of one point have to a server at once, a few for asking the
    /// server about itself included.
    pub fn connections_max(&self) -> usize {
        let swept = match &self.sweep {
            Some(Sweep::Clients(all)) => all.iter().copied().max(),
            _ => None,
        };
        swept.unwrap_or(self.clients) + self.idle_clients + SPARE
    }

    /// The plans of the points, in order: this one, or one a value of the sweep.
    pub fn points(&self) -> Result<Vec<(Option<Setting>, Plan)>, String> {
        let one = |name: &str, value: f64, change: &dyn Fn(&mut Plan)| {
            let mut plan = Plan { sweep: None, ..self.clone() };
            change(&mut plan);
            (Some(Setting { name: name.into(), value }), plan)
        };
        let points: Vec<_> = match &self.sweep {
            None => vec![(None, self.clone())],
            Some(Sweep::ValueBytes(all)) => {
                all.iter().map(|&n| one("value bytes", n as f64, &|plan| plan.value_bytes = n)).collect()
            }
            Some(Sweep::Clients(all)) => {
                all.iter().map(|&n| one("clients", n as f64, &|plan| plan.clients = n)).collect()
            }
            Some(Sweep::Depth(all)) => {
                all.iter().map(|&n| one("depth", n as f64, &|plan| plan.depth = n)).collect()
            }
            Some(Sweep::Limit(all)) => {
                all.iter().map(|&n| one("limit", f64::from(n), &|plan| plan.scan_limit = n)).collect()
            }
            Some(Sweep::Rate(all)) => {
                let paced = |rate| {
                    if matches!(self.pace, Pace::Poisson(_)) {
                        Pace::Poisson(rate)
                    } else {
                        Pace::Fixed(rate)
                    }
                };
                all.iter().map(|&rate| one("rate", rate, &|plan| plan.pace = paced(rate))).collect()
            }
        };
        if points.is_empty() || points.len() > 1000 {
            return Err(format!("a sweep has {} points: give 1 to 1000 values", points.len()));
        }
        points.iter().try_for_each(|(_, plan)| plan.check())?;
        Ok(points)
    }
}
