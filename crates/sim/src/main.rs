//! `longarm-sim --scenario S --seeds A..B`: runs seeds, and says how to run the one that failed again.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use longarm_sim::run::run;
use longarm_sim::scenario::{SCENARIOS, Scenario};

/// Runs seeds of a simulated world.
#[derive(Parser)]
struct Args {
    /// Which seeds: `7`, or `0..100` (without 100).
    #[arg(long, default_value = "0..100", value_parser = seeds)]
    seeds: std::ops::Range<u64>,

    /// End with the first violation.
    #[arg(long)]
    stop: bool,

    /// Which scenario; all of them if none is named.
    #[arg(long, value_parser = scenario)]
    scenario: Option<&'static Scenario>,
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let number =
        |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no number; give 7 or 0..100"));
    match text.split_once("..") {
        None => number(text).map(|seed| seed..seed.saturating_add(1)),
        Some((first, end)) => Ok(number(first)?..number(end)?),
    }
}

fn scenario(text: &str) -> Result<&'static Scenario, String> {
    let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    Scenario::named(text).ok_or_else(|| format!("there are {}", names.join(", ")))
}

/// Sums over seeds.
#[derive(Default)]
struct Sums {
    operations: usize,
    in_doubt: usize,
    faults: u64,
    steps: u64,
    violations: Vec<(u64, String)>,
}

/// Runs the seeds on all cores: a world has one thread, so seeds do not meet.
fn run_all(scenario: &Scenario, seeds: std::ops::Range<u64>, stop: bool) -> Sums {
    let (next, sums) = (AtomicU64::new(seeds.start), Mutex::new(Sums::default()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    // Relaxed: only the number itself matters.
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    let report = run(scenario, seed);
                    let mut sums = sums.lock().expect("a violation is no panic");
                    if stop && report.violation.is_some() {
                        // Relaxed: only the number itself matters.
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                    sums.operations += report.operations;
                    sums.in_doubt += report.in_doubt;
                    sums.faults += report.faults;
                    sums.steps += report.steps;
                    sums.violations.extend(report.violation.map(|violation| (seed, violation)));
                }
            });
        }
    });
    let mut sums = sums.into_inner().expect("a violation is no panic");
    sums.violations.sort();
    sums
}

#[expect(clippy::print_stdout, reason = "a program's results")]
fn main() -> ExitCode {
    let args = Args::parse();
    let mut sound = true;
    for scenario in SCENARIOS.iter().filter(|one| args.scenario.is_none_or(|wanted| wanted == *one)) {
        let sums = run_all(scenario, args.seeds.clone(), args.stop);
        for (seed, violation) in &sums.violations {
            println!("{} seed {seed}: {violation}", scenario.name);
            println!("  again: cargo x sim --scenario {} --seeds {seed}", scenario.name);
        }
        sound &= sums.violations.is_empty();
        println!(
            "{:8} {} seeds, {} operations ({} in doubt), {} faults, {} steps: {} violations",
            scenario.name,
            args.seeds.end.saturating_sub(args.seeds.start),
            sums.operations,
            sums.in_doubt,
            sums.faults,
            sums.steps,
            sums.violations.len()
        );
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
