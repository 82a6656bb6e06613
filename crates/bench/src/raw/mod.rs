//! The limits of the machine on a mapping: what a one-sided GET could cost at best.
//!
//! Everything runs over [`Words`], the very access that a store's readers use, so bounds checks and atomic
//! loads are included. Addresses depend on what was loaded before (data, not luck of the predictor), and
//! nothing in memory needs to be prepared: any mapping will do, also one that is in use.

mod copy;
mod loads;
pub mod nic;

use std::time::{Duration, Instant};

use longarm_base::limits::LINE;
use longarm_memory::{Backing, OwnedWords, Region, RegionError, RegionOptions, SumKey, Words};
use longarm_workload::random::stream;
use serde::{Deserialize, Serialize};

use crate::spread::Spread;

/// What to measure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawPlan {
    /// Bytes of the region, if one is made ([`on_fresh_region`]).
    pub bytes: u64,
    /// Uses huge pages where the system has them, as a server does.
    pub huge_pages: bool,
    /// Cache lines of a segment pair of the index: how far a slot may be from its header.
    pub pair_lines: u64,
    /// Lookups in flight in the batched test.
    pub batch: usize,
    /// Sizes of copies in bytes.
    pub copies: Vec<usize>,
    /// Seconds of each measurement.
    pub seconds: f64,
    /// Repetitions of each measurement.
    pub runs: u32,
    /// Seed of the addresses.
    pub seed: u64,
}

impl Default for RawPlan {
    fn default() -> RawPlan {
        RawPlan {
            bytes: 1 << 30,
            huge_pages: true,
            pair_lines: 32,
            batch: 32,
            copies: vec![64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
            seconds: 0.5,
            runs: 5,
            seed: 1,
        }
    }
}

impl RawPlan {
    /// Refuses what cannot be measured on a mapping of `bytes` bytes.
    pub fn check(&self, bytes: u64) -> Result<(), String> {
        let lines = bytes / LINE;
        if self.pair_lines < 2 || lines < self.pair_lines {
            let pair = self.pair_lines;
            return Err(format!(
                "pairs of {pair} lines in a mapping of {lines} lines: give 2 to {lines} lines"
            ));
        }
        if !(1..=1024).contains(&self.batch) || !(1..=1000).contains(&self.runs) {
            return Err("a batch has 1 to 1024 lookups, and there are 1 to 1000 runs".into());
        }
        if !(1e-4..=600.0).contains(&self.seconds) {
            return Err(format!("{} seconds a measurement: give 0.0001 to 600", self.seconds));
        }
        match self.copies.iter().find(|&&size| size == 0 || size as u64 > bytes) {
            Some(size) => Err(format!("copies of {size} bytes out of a mapping of {bytes} bytes")),
            None => Ok(()),
        }
    }
}

/// One measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RawResult {
    /// What was done.
    pub name: String,
    /// Nanoseconds an operation.
    pub nanos: Spread,
    /// Operations a second, from the median.
    pub rate: f64,
    /// Bytes an operation moved, for copies.
    pub bytes: Option<u64>,
}

/// All measurements on one mapping.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RawReport {
    /// What was asked for.
    pub plan: RawPlan,
    /// Bytes of the mapping.
    pub bytes: u64,
    /// Bytes of a page of its backing, where known.
    pub page: Option<u64>,
    /// The measurements.
    pub results: Vec<RawResult>,
}

/// Names of the measurements, for those who look one up in a report.
pub mod name {
    /// One dependent random line an operation.
    pub const CHASE: &str = "dependent random line";
    /// A random header line, then a line of the same pair that the header determines.
    pub const PAIR: &str = "header line, then a line of its pair";
    /// A random line, then any other line that the first determines.
    pub const FAR: &str = "header line, then any line";
    /// As [`PAIR`], with the checksum of the second line verified.
    pub const PAIR_SUM: &str = "header line, line of its pair, checksum";
    /// As [`PAIR_SUM`], many at once with prefetches.
    pub const BATCH: &str = "batch of prefetched pair lookups, checksum";
    /// Prefix of the copies; the size follows.
    pub const COPY: &str = "copy from a random place";
}

/// Makes a region as a server would, touches all of it, and measures on it.
pub fn on_fresh_region(plan: &RawPlan) -> Result<RawReport, String> {
    plan.check(plan.bytes)?;
    let backing = if plan.huge_pages { Backing::HugePagesIfAvailable } else { Backing::SmallPages };
    let options = RegionOptions { name: "bench-raw".into(), bytes: plan.bytes, backing };
    let region = Region::create(&options).map_err(|e: RegionError| e.to_string())?;
    let memory = region.memory();
    let huge = memory.populate(0, memory.bytes());
    // A page that was never written may share one page of zeros; random words also keep addresses apart.
    let mut random = stream(plan.seed, 0x746F756368);
    for at in (0..memory.bytes()).step_by(LINE as usize) {
        memory.store(at, random.draw());
    }
    // All but the edges, or the reader of the report is told of the smaller pages.
    let all = huge > 0 && huge + (4 << 20) >= memory.bytes();
    run(plan, memory, Some(if all { 2 << 20 } else { region.page() }))
}

/// Measures on a mapping, without changing it. Its pages should have been touched.
pub fn run(plan: &RawPlan, words: &impl Words, page: Option<u64>) -> Result<RawReport, String> {
    plan.check(words.bytes())?;
    let mut results = Vec::new();
    let mut add = |name: &str, bytes: Option<u64>, each: u64, step: &mut dyn FnMut(u64)| {
        let nanos = Spread::of((0..plan.runs).map(|_| time(plan.seconds, each, step)));
        results.push(RawResult { name: name.into(), nanos, rate: 1e9 / nanos.median, bytes });
    };
    let walk = loads::Walk::new(words, plan.pair_lines, plan.seed);
    add(name::CHASE, None, 1, &mut |count| walk.chase(count));
    add(name::PAIR, None, 1, &mut |count| walk.pair(count));
    add(name::FAR, None, 1, &mut |count| walk.far(count));
    let sum = SumKey::new(plan.seed);
    add(name::PAIR_SUM, None, 1, &mut |count| walk.pair_sum(count, &sum));
    let batch = plan.batch as u64;
    let mut slots = vec![0; plan.batch];
    add(name::BATCH, None, batch, &mut |count| walk.batch(count, &sum, &mut slots));
    for &size in &plan.copies {
        let mut copies = copy::Copies::new(words, size, plan.seed);
        add(&format!("{}, {size} B", name::COPY), Some(size as u64), 1, &mut |count| copies.run(count));
    }
    Ok(RawReport { plan: plan.clone(), bytes: words.bytes(), page, results })
}

/// Nanoseconds an operation, where `step(n)` does `n * each` of them. The first sixteenth is not counted.
fn time(seconds: f64, each: u64, step: &mut dyn FnMut(u64)) -> f64 {
    let limit = Duration::from_secs_f64(seconds);
    let mut count = 1;
    // Grow until one call lasts long enough that reading the clock does not matter.
    let chunk = loop {
        let begun = Instant::now();
        step(count);
        if begun.elapsed() * 16 >= limit || count > 1 << 40 {
            break count;
        }
        count *= 2;
    };
    let (begun, mut done) = (Instant::now(), 0);
    while done == 0 || begun.elapsed() < limit {
        step(chunk);
        done += chunk;
    }
    begun.elapsed().as_nanos() as f64 / (done * each) as f64
}

impl RawReport {
    /// The measurement called `name`.
    pub fn get(&self, name: &str) -> Option<&RawResult> {
        self.results.iter().find(|result| result.name == name)
    }
}

#[cfg(test)]
mod tests;
