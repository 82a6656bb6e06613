//! `longarm-sim --scenario S --seeds A..B`: runs seeds, reduces runs that fail, and says how to run them
//! again. With `--timeline` it shows one run.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use longarm_base::Nanos;
use longarm_memory::recycling;
use longarm_sim::failover::{Failover, Lost, measure};
use longarm_sim::plan::Plan;
use longarm_sim::reduce::{Reduction, describe, reduce};
use longarm_sim::run::play;
use longarm_sim::scenario::Scenario;
use longarm_sim::scenarios::SCENARIOS;
use longarm_sim::timeline;

/// The scenario that a timeline shows if none is named.
const SHOWN: &str = "group-crashes";

/// Runs seeds of a simulated world.
#[derive(Parser)]
#[command(after_help = scenarios())]
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

    /// What of each seed's plan is run: what a reduced violation is printed with.
    #[arg(long, default_value_t)]
    only: Reduction,

    /// Runs spent on making the first violation of a scenario smaller; 0: none.
    #[arg(long, default_value_t = 200)]
    reduce: u32,

    /// Instead: show the run of the first of these seeds, in the world's time; of group-crashes if no
    /// scenario is named.
    #[arg(long, conflicts_with = "failovers")]
    timeline: bool,

    /// Milliseconds of the world's time between two sums of what clients did.
    #[arg(long, default_value_t = 50, requires = "timeline")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,

    /// Instead: how often the leader of a group crashes, to measure how long nobody is served.
    #[arg(long, value_name = "TIMES")]
    failovers: Option<u32>,

    /// Objects that this group holds.
    #[arg(long, default_value_t = 1_000_000, requires = "failovers")]
    objects: u64,

    /// Milliseconds of the world's time that it rests before each.
    #[arg(long, default_value_t = 30_000, requires = "failovers")]
    rest: u64,

    /// Microseconds until it is told at most that a leader is gone: 20000 of a machine whose NIC is silent.
    #[arg(long, default_value_t = 200, requires = "failovers")]
    notice: u64,
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let number =
        |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no number; give 7 or 0..100"));
    match text.split_once("..") {
        None => number(text).map(|seed| seed..seed.saturating_add(1)),
        Some((first, end)) => Some(number(first)?..number(end)?)
            .filter(|seeds| !seeds.is_empty())
            .ok_or_else(|| format!("there is no seed in {text}; give 0..100, without 100")),
    }
}

fn scenario(text: &str) -> Result<&'static Scenario, String> {
    Scenario::named(text).ok_or_else(|| format!("there are {}", Scenario::names().join(", ")))
}

fn scenarios() -> String {
    let line = |scenario: &Scenario| format!("\n  {:14} {}", scenario.name, scenario.about);
    format!("Scenarios:{}", SCENARIOS.iter().map(line).collect::<String>())
}

/// Sums over seeds.
#[derive(Default)]
struct Sums {
    operations: usize,
    in_doubt: usize,
    pages: usize,
    no_page: usize,
    walks: u64,
    backups: u64,
    faults: u64,
    steps: u64,
    events: u64,
    gaps: Vec<Nanos>,
    violations: Vec<(u64, String)>,
}

/// Runs seeds one after the other until none is left.
fn run_some(args: &Args, scenario: &Scenario, next: &AtomicU64, sums: &Mutex<Sums>) {
    loop {
        // Relaxed: only the number itself matters.
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if !args.seeds.contains(&seed) {
            return;
        }
        let report = play(&args.only.of(&Plan::of(scenario, seed)));
        let mut sums = sums.lock().expect("a violation is no panic");
        if args.stop && report.violation.is_some() {
            // Relaxed: only the number itself matters.
            next.store(args.seeds.end, Ordering::Relaxed);
        }
        sums.operations += report.operations;
        sums.in_doubt += report.in_doubt;
        sums.pages += report.pages;
        sums.no_page += report.no_page;
        sums.walks += report.walks;
        sums.backups += report.backups;
        sums.faults += report.faults;
        sums.steps += report.steps;
        sums.events += report.events;
        sums.gaps.extend(report.gaps);
        sums.violations.extend(report.violation.map(|violation| (seed, violation)));
    }
}

/// Runs the seeds on all cores: a world has one thread, so seeds do not meet.
fn run_all(args: &Args, scenario: &Scenario) -> Sums {
    let (next, sums) = (AtomicU64::new(args.seeds.start), Mutex::new(Sums::default()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| recycling(|| run_some(args, scenario, &next, &sums)));
        }
    });
    let mut sums = sums.into_inner().expect("a violation is no panic");
    sums.violations.sort();
    sums.gaps.sort();
    sums
}

/// Prints the command that runs a seed again, and for the first violation that of a reduced run.
#[expect(clippy::print_stdout, reason = "a program's results")]
fn show_again(args: &Args, scenario: &Scenario, seed: u64, first: bool) {
    let again = |left: &Reduction| match left == &Reduction::default() {
        true => format!("cargo x sim --scenario {} --seeds {seed}", scenario.name),
        false => format!("cargo x sim --scenario {} --seeds {seed} --only {left}", scenario.name),
    };
    println!("  again: {}", again(&args.only));
    let plan = Plan::of(scenario, seed);
    let whole = args.only == Reduction::default();
    if let Some(reduced) = (first && whole && args.reduce > 0).then(|| reduce(&plan, args.reduce)).flatten() {
        println!("  less: {}", again(&reduced.left));
        println!("  {}", reduced.report.violation.as_deref().unwrap_or_default());
        println!("  {}", describe(&plan, &reduced));
    }
}

/// Prints the timeline of a run, and its verdict.
#[expect(clippy::print_stdout, reason = "a program's results")]
fn show(args: &Args) -> ExitCode {
    let scenario = args.scenario.or_else(|| Scenario::named(SHOWN)).expect("it is one of the scenarios");
    let seed = args.seeds.start;
    let plan = args.only.of(&Plan::of(scenario, seed));
    let (text, sound) = timeline::show(scenario, seed, &plan, Nanos::from_millis(args.every));
    print!("{text}");
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The median, the 99th percentile and the greatest of sorted times, by nearest rank, in milliseconds.
fn spread(sorted: &[Nanos]) -> [f64; 3] {
    let rank = |percent: usize| (sorted.len() * percent).div_ceil(100).max(1);
    [50, 99, 100].map(|percent| sorted.get(rank(percent) - 1).map_or(0.0, |time| time.0 as f64 / 1e6))
}

/// Measures how long a group serves no client after it lost its leader.
#[expect(clippy::print_stdout, reason = "a program's results")]
fn fail_over(args: &Args, times: u32) -> ExitCode {
    let Args { objects, seeds, .. } = args;
    let (rest, notice) = (Nanos::from_millis(args.rest), Nanos::from_micros(args.notice));
    match measure(Failover { objects: *objects, times, rest, notice, seed: seeds.start }) {
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
        Ok(lost) => {
            let ms = |gap: Nanos| gap.0 as f64 / 1e6;
            println!("{objects} objects, {} leaders crashed; nobody was served for, in ms:", lost.len());
            for Lost { gap, takeover } in &lost {
                let how = takeover.map_or_else(String::new, |how| format!("; led {how}"));
                println!("{:6.1}{how}", ms(*gap));
            }
            let mut gaps: Vec<Nanos> = lost.iter().map(|lost| lost.gap).collect();
            gaps.sort();
            let [half, almost, most] = spread(&gaps);
            println!("p50 {half:.1}, p99 {almost:.1}, most {most:.1}");
            ExitCode::SUCCESS
        }
    }
}

#[expect(clippy::print_stdout, reason = "a program's results")]
fn main() -> ExitCode {
    let args = Args::parse();
    if args.timeline {
        return show(&args);
    }
    if let Some(times) = args.failovers {
        return fail_over(&args, times);
    }
    let mut found = Vec::new();
    for scenario in SCENARIOS.iter().filter(|one| args.scenario.is_none_or(|wanted| wanted == *one)) {
        let sums = run_all(&args, scenario);
        for (i, (seed, violation)) in sums.violations.iter().enumerate() {
            let violation = format!("{} seed {seed}: {violation}", scenario.name);
            println!("{violation}");
            show_again(&args, scenario, *seed, i == 0);
            found.push(violation);
        }
        println!(
            "{:13} {} seeds, {} operations ({} in doubt), {} faults, {} steps, {} events: {} violations",
            scenario.name,
            args.seeds.end.saturating_sub(args.seeds.start),
            sums.operations,
            sums.in_doubt,
            sums.faults,
            sums.steps,
            sums.events,
            sums.violations.len()
        );
        if sums.pages > 0 {
            let Sums { pages, walks, no_page, backups, .. } = sums;
            println!("{:14}{pages} pages of scans, {walks} by clients alone, {no_page} in vain", "");
            if backups > 0 {
                println!("{:14}{backups} of them backups", "");
            }
        }
        if !sums.gaps.is_empty() {
            let (handed, [half, almost, most]) = (sums.gaps.len(), spread(&sums.gaps));
            println!("{:14}{handed} leaders handed over; writes waited, in ms:", "");
            println!("{:14}p50 {half:.3}, p99 {almost:.3}, most {most:.3}", "");
        }
    }
    // Violations are printed once more at the end, because reductions are long.
    for violation in &found {
        println!("VIOLATION {violation}");
    }
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parsed(words: &[&str]) -> Result<Args, String> {
        Args::try_parse_from(std::iter::once(&"longarm-sim").chain(words)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_scenario_that_is_none_is_answered_with_those_there_are() {
        let error = parsed(&["--scenario", "nope"]).err().expect("there is no such");
        assert!(error.contains("there are calm, weather") && error.contains("group-all"), "{error}");
        let error = parsed(&["--only", "faults=x"]).err().expect("no number");
        assert!(error.contains("\"x\" is no number"), "{error}");
        let help = Args::command().term_width(110).render_help().to_string();
        assert!(SCENARIOS.iter().all(|one| help.contains(one.name) && help.contains(one.about)), "{help}");
    }

    #[test]
    fn a_timeline_is_of_one_seed_and_its_sums_are_as_dense_as_wished() {
        let args = parsed(&["--timeline", "--scenario", "cuts", "--seeds", "7", "--every", "5"]);
        let args = args.unwrap_or_else(|error| panic!("good words: {error}"));
        let name = args.scenario.map(|scenario| scenario.name);
        assert_eq!((name, args.seeds, args.every, args.timeline), (Some("cuts"), 7..8, 5, true));
        assert!(Scenario::named(SHOWN).is_some());
        assert!(parsed(&["--every", "5"]).is_err() && parsed(&["--timeline", "--failovers", "1"]).is_err());
    }
}
