//! `cargo x sim`: runs seeds of the simulator, optimised. What follows goes to it: `--seeds 0..1000
//! --scenario pauses`. `--mutants` builds faults in, one at a time, and demands that each is found.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seeds that CI always runs, and how many new ones.
const FIXED: &str = "0..100";
const FRESH: u64 = 50;

/// Faults (`longarm_base::Mutant`), the scenario that finds them, and within which seeds.
const MUTANTS: &[(&str, &str, &str)] = &[
    ("NoDedupe", "group-cuts", "0..300"),
    ("TrustSuperseded", "calm", "0..20"),
    ("CountUnsynced", "group-pauses", "0..1000"),
    ("GatherAny", "group-pauses", "0..300"),
    ("NoFence", "group-pauses", "0..300"),
    ("NoLease", "group-pauses", "0..500"),
    ("DropTombstones", "group-all", "0..500"),
    ("MoveAnyway", "group-all", "0..100"),
    ("ResetCsn", "group-pauses", "0..100"),
    ("NoCut", "group-all", "0..1000"),
    ("ShareStripes", "group-pauses", "0..100"),
    ("ForgetClaims", "group-pauses", "0..500"),
];

/// Runs the simulator; `Ok(true)` if nothing was violated. `--ci`: the seeds of CI, and the mutants.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    match args {
        ["--ci"] => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            let fresh = format!("{}..{}", now << 10, (now << 10) + FRESH);
            let sound = simulate(root, &["--seeds", FIXED])? && simulate(root, &["--seeds", &fresh])?;
            Ok(sound && mutants(root)?)
        }
        ["--mutants"] => mutants(root),
        args => simulate(root, args),
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--release", "--package", "longarm-sim"]).current_dir(root);
    command
}

fn status(command: &mut Command) -> Result<bool, String> {
    Ok(command.status().map_err(|error| format!("cannot run cargo: {error}"))?.success())
}

fn simulate(root: &Path, args: &[&str]) -> Result<bool, String> {
    status(cargo(root).arg("--").args(args))
}

/// Every mutant must be found, and the program that has none must find nothing.
fn mutants(root: &Path) -> Result<bool, String> {
    // Of its own, so that nothing that ships is ever linked with faults.
    let built = |mutant: &str, args: &[&str]| {
        let mut command = cargo(root);
        command.args(["--features", "mutants", "--target-dir", "target/mutants", "--"]).args(args);
        status(command.env("LONGARM_MUTANT", mutant).stdout(Stdio::null()).stderr(Stdio::null()))
    };
    if !built("none", &["--seeds", "0..5"])? {
        return Err("the simulator with mutants does not build, or finds a violation without one".into());
    }
    let mut all = true;
    for &(mutant, scenario, seeds) in MUTANTS {
        let survived = built(mutant, &["--stop", "--scenario", scenario, "--seeds", seeds])?;
        println!("{mutant:16} {scenario:8} {seeds:8} {}", if survived { "SURVIVED" } else { "found" });
        all &= !survived;
    }
    Ok(all)
}

#[test]
fn every_mutant_has_a_scenario_that_finds_it() {
    let source = include_str!("../../crates/base/src/mutant.rs");
    let variant = |line: &str| line.trim().strip_suffix(',').map(str::to_string);
    let mutants: Vec<_> = source
        .lines()
        .skip_while(|line| !line.starts_with("pub enum Mutant"))
        .take_while(|line| *line != "}")
        .filter_map(variant)
        .collect();
    let run: Vec<_> = MUTANTS.iter().map(|mutant| mutant.0.to_string()).collect();
    assert_eq!(mutants, run, "of crates/base/src/mutant.rs, and of MUTANTS here");
}
