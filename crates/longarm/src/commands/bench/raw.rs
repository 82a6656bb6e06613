//! `longarm bench raw`: what one-sided lookups could reach at best, on mappings of the size of an index.

use longarm_bench::raw::{RawPlan, RawReport, on_fresh_region};
use longarm_bench::report::{Machine, nic_table, raw_table};
use longarm_index::hash::layout::PairShape;

use super::args::Args;
use super::nic;
use super::plan::usage;
use crate::config::{Config, HugePages};
use crate::output::{Exit, Failure, Output};

/// The numbers of items of the tables that are measured unless the user names others.
const KEYS: [u64; 4] = [1_000_000, 4_000_000, 10_000_000, 40_000_000];
/// The share of the slots that are taken halfway between two doublings.
const FILLED: f64 = 0.53;
const SHAPE: PairShape = PairShape::INLINE;

/// Measures the limits and prints them.
pub fn run(args: &Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let given = &args.keys;
    let keys = if given.is_empty() { &KEYS[..] } else { given };
    let machine = Machine::look();
    if !output.json() {
        output.line(&format!("machine: {}", machine.describe()))?;
    }
    if nic::wanted(args, config) {
        let report = nic::measure(args, config)?;
        match output.json() {
            true => output.value(&serde_json::json!({ "machine": machine, "nic": report }))?,
            false => output.write(format!("\n{}", nic_table(&report, args.style())).as_bytes())?,
        }
        // A user who asks for devices has the memory measured only by naming sizes.
        if given.is_empty() {
            return Ok(Exit::Ok);
        }
    }
    for &keys in keys {
        let report = match measure(args, keys) {
            // Sizes that the user did not name are left out if they do not fit.
            Err(failure) if given.is_empty() && failure.exit == Exit::System => {
                output.warn(&failure.message);
                continue;
            }
            other => other?,
        };
        if output.json() {
            output.value(&serde_json::json!({ "keys": keys, "machine": machine, "raw": report }))?;
        } else {
            output.line(&format!("\ntable of {keys} items"))?;
            output.write(raw_table(&report, args.style()).as_bytes())?;
        }
    }
    Ok(Exit::Ok)
}

/// Computes the bytes of an index that holds `keys` items.
fn table_bytes(keys: u64) -> u64 {
    let pairs = (keys as f64 / FILLED / SHAPE.base_slots() as f64).ceil().max(2.0) as u64;
    (pairs * SHAPE.pair_bytes()).next_multiple_of(4096)
}

/// Measures the limits on a mapping of the size of an index of `keys` items.
pub fn measure(args: &Args, keys: u64) -> Result<RawReport, Failure> {
    if keys == 0 || keys > 1 << 36 {
        return Err(usage(&format!("--keys {keys}: a table has 1 to 2^36 items")));
    }
    let bytes = table_bytes(keys);
    // The kernel would not refuse more memory than there is: it would kill a process for it.
    if let Some(free) = available().filter(|free| bytes > free / 10 * 8) {
        let text = format!(
            "a table of {keys} items has {} MiB, but only {} MiB of memory are available",
            bytes >> 20,
            free >> 20
        );
        return Err(Failure::new(Exit::System, text).hint("measure fewer --keys"));
    }
    let pages = args.settings.given.iter().rev().find(|given| given.key == "hugepages");
    let huge_pages = pages.is_none_or(|given| given.values != [HugePages::Off.name()]);
    let plan = RawPlan {
        bytes,
        huge_pages,
        pair_lines: SHAPE.pair_bytes() / 64,
        seconds: args.seconds / 10.0,
        runs: args.runs,
        seed: args.seed,
        copies: RawPlan::default().copies.into_iter().filter(|&size| size as u64 <= bytes).collect(),
        ..RawPlan::default()
    };
    on_fresh_region(&plan).map_err(|why| Failure::new(Exit::System, why))
}

fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}
