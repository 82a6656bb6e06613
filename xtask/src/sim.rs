//! `cargo x sim`: runs seeds of the simulator, optimised. What follows goes to it: `--seeds 0..1000
//! --scenario pauses`. `--mutants` builds faults in, one at a time, and demands that each is found.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::builds::{QUICKLY_BUILT, cargo, status};

/// Seeds of each scenario that CI always runs, and how many new ones: about three minutes on two cores.
const FIXED: &str = "0..14";
const FRESH: u64 = 6;

/// Faults (`longarm_base::Mutant`), the scenario that finds them, and within which seeds.
const MUTANTS: &[(&str, &str, &str)] = &[
    ("NoDedupe", "group-cuts", "0..300"),
    ("TrustSuperseded", "calm", "0..20"),
    ("CountUnsynced", "group-pauses", "0..1000"),
    ("GatherAny", "group-pauses", "0..300"),
    ("NoFence", "group-pauses", "0..300"),
    ("NoLease", "group-pauses", "0..500"),
    ("DropTombstones", "group-all", "300..800"),
    ("MoveAnyway", "group-all", "0..100"),
    ("ResetCsn", "group-pauses", "0..100"),
    ("NoCut", "group-landing", "0..50"),
    ("ShareStripes", "group-pauses", "0..100"),
    ("ForgetClaims", "group-landing", "0..50"),
    ("NoDrain", "group-landing", "150..300"),
    ("KeepGone", "group-all", "0..60"),
    ("ForgetPromise", "group-crashes", "0..20"),
    ("ReportInside", "group-pauses", "0..50"),
    ("NoDrift", "group-pauses", "0..100"),
    ("OldMembers", "group-landing", "175..300"),
    ("AgreeAlone", "group-landing", "0..20"),
];

/// Runs the simulator; `Ok(true)` if nothing was violated. `--ci`: the seeds of CI, and the mutants.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    match args {
        ["--ci"] => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            let fresh = format!("{}..{}", now << 10, (now << 10) + FRESH);
            // One build for all, and mutants say nothing if the program that has none is not sound.
            let sound = |seeds| status(with_mutants(root, "none").args(["--seeds", seeds]));
            Ok(sound(FIXED)? && sound(&fresh)? && mutants(root)?)
        }
        ["--mutants"] => Ok(status(with_mutants(root, "none").args(["--seeds", "0..5"]))? && mutants(root)?),
        args => simulate(root, args),
    }
}

fn simulator(root: &Path) -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--package", "longarm-sim"]).current_dir(root);
    command
}

fn simulate(root: &Path, args: &[&str]) -> Result<bool, String> {
    status(simulator(root).arg("--").args(args))
}

/// The simulator with this fault, or with none. Of its own, so that nothing that ships is ever linked with
/// faults; built in a hurry.
fn with_mutants(root: &Path, mutant: &str) -> Command {
    let mut command = simulator(root);
    command.args(["--features", "mutants", "--target-dir", "target/mutants", "--"]);
    command.envs(QUICKLY_BUILT.iter().copied()).env("LONGARM_MUTANT", mutant);
    command
}

/// Every mutant must be found, by a program that finds nothing without one.
fn mutants(root: &Path) -> Result<bool, String> {
    let mut all = true;
    for &(mutant, scenario, seeds) in MUTANTS {
        let mut command = with_mutants(root, mutant);
        command.args(["--stop", "--scenario", scenario, "--seeds", seeds, "--reduce", "0"]);
        let output = command.stderr(Stdio::null()).output();
        let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
        let (survived, said) = (output.status.success(), String::from_utf8_lossy(&output.stdout));
        let found = said.lines().find_map(|line| line.split_once(" seed ")).map_or("", |(_, found)| found);
        let verdict = if survived { "SURVIVED".into() } else { format!("seed {found}") };
        println!("{mutant:16} {scenario:13} {seeds:8} {verdict}");
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

/// Features of the whole workspace are unified where all of it is built at once; what ships is built alone.
#[test]
fn the_program_that_ships_has_no_faults_and_tells_no_world_anything() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the workspace");
    let features = |package: &str| {
        let mut cargo = Command::new(env!("CARGO"));
        let args = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p} [{f}]"];
        let output = cargo.args(args).args(["--package", package]).current_dir(root).output();
        let output = output.expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let host = |tree: &str| tree.lines().find(|line| line.starts_with("longarm-host ")).map(str::to_string);
    let program = features("longarm");
    assert!(host(&program).is_some_and(|line| !line.contains("observe")), "{program}");
    assert!(!program.contains("mutants"), "{program}");
    let simulator = features("longarm-sim");
    assert!(host(&simulator).is_some_and(|line| line.contains("observe")), "{simulator}");
}
