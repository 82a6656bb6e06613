//! `cargo x sim`: runs seeds of the simulator, optimised. What follows goes to it: `--seeds 0..1000
//! --scenario pauses`. `--mutants` builds faults in, one at a time, and demands that each is found, by the
//! simulator or by the test that is named for it.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::builds::{QUICKLY_BUILT, cargo, status};

/// Seeds of each scenario that CI always runs, and how many new ones: about three minutes on two cores.
const FIXED: &str = "0..30";
const FRESH: u64 = 15;

/// Within how many seeds a fault that is built in must be found. The first seed that finds it ends the run,
/// so the many cost nothing where few suffice; and any change of the product deals every seed anew.
const WITHIN: u64 = 1000;

/// What finds a fault that was built in.
enum Finder {
    /// The simulator: in this scenario, from this seed on.
    Sim(&'static str, u64),
    /// A test of a package, by its full name.
    Test(&'static str, &'static str),
}

use Finder::{Sim, Test};

/// Faults (`longarm_base::Mutant`), and what finds each.
const MUTANTS: &[(&str, Finder)] = &[
    ("NoDedupe", Sim("group-cuts", 0)),
    ("TrustSuperseded", Sim("calm", 0)),
    ("CountUnsynced", Sim("group-pauses", 0)),
    ("GatherAny", Sim("group-pauses", 0)),
    ("NoFence", Sim("group-pauses", 0)),
    ("NoLease", Sim("group-pauses", 0)),
    ("DropTombstones", Sim("group-all", 300)),
    (
        "NeverSweep",
        Test("longarm-client", "tests::deletes::tombstones_do_not_fill_the_memory_beside_items_that_stay"),
    ),
    ("MoveAnyway", Sim("group-all", 0)),
    ("ResetCsn", Sim("group-pauses", 0)),
    ("NoCut", Sim("group-landing", 30)),
    (
        "AgeAtOnce",
        Test("longarm-engine", "session::all::tests::what_the_gone_wrote_is_forgotten_though_leaders_change"),
    ),
    (
        "RepeatNothing",
        Test(
            "longarm-server",
            "tests::exactly_once::all_that_a_client_may_repeat_is_recalled_and_nothing_else_runs",
        ),
    ),
    ("ShareStripes", Sim("group-pauses", 0)),
    ("ForgetClaims", Sim("group-landing", 10)),
    ("NoDrain", Test("longarm-group", "inbound::tests::what_is_pushed_has_landed_once_it_is_flushed")),
    ("KeepGone", Sim("group-all", 0)),
    ("ForgetPromise", Sim("group-crashes", 0)),
    ("ReportInside", Sim("group-pauses", 0)),
    ("BlameOwnAbsence", Test("longarm-replica", "watch::tests::own_absence_is_not_the_leaders_silence")),
    ("NoDrift", Sim("group-pauses", 0)),
    ("OldMembers", Test("longarm-replica", "machine::tests::twin::a_group_loses_nothing_and_comes_back")),
    ("AgreeAlone", Sim("group-landing", 0)),
    ("MoveFirst", Test("longarm-index", "hash::tests::cuts::move_and_replace")),
    ("MoveUnseen", Test("longarm-index", "hash::tests::cuts::move_within_the_pair")),
    ("LeaveSlots", Test("longarm-index", "hash::tests::cuts::move_and_replace")),
    (
        "MoveTwice",
        Test("longarm-engine", "tests::standby::what_was_collected_while_the_leader_waited_is_there"),
    ),
    ("FoundAnyway", Sim("group-reformat", 0)),
    ("NoSync", Test("longarm-group", "vote_store::tests::what_is_kept_is_on_disk_when_it_is_said_to_be")),
    ("KeepWriters", Test("longarm-group", "inbound::tests::a_leader_that_begins_anew_has_no_older_writers")),
    ("NoEntering", Test("longarm-group", "inbound::tests::entering::a_fence_waits_for_who_is_being_let_in")),
    (
        "RaiseFloors",
        Test("longarm-replica", "progress::tests::a_follower_is_told_no_floors_before_it_is_synced"),
    ),
    (
        "ReleaseEarly",
        Test(
            "longarm-replica",
            "progress::tests::a_follower_that_counts_lets_go_of_nothing_that_its_floors_do_not_cover",
        ),
    ),
    ("UntoldCount", Sim("group-slow", 0)),
    ("KeepUncut", Test("longarm-group", "scan::tests::a_stream_that_has_no_cut_is_void")),
    ("LookFirst", Test("longarm-engine", "tests::moves::a_copy_has_its_place_before_the_slot_is_looked_at")),
    ("StableHigh", Test("longarm-engine", "tests::moves::a_delete_under_way_is_above_the_stable_point")),
    ("CountGone", Sim("group-crashes", 20)),
    ("TellAnyway", Sim("group-strands", 0)),
    ("KeepBeyond", Sim("group-steps", 0)),
    ("LateSupersede", Test("longarm-engine", "tests::cuts::a_put_is_seen_once_and_for_all")),
    ("ReportAtOnce", Sim("group-strands", 0)),
    ("OwnCalendar", Sim("group-dates", 0)),
    ("AdoptBare", Sim("group-slow", 60)),
    (
        "AdoptEarly",
        Test(
            "longarm-replica",
            "progress::tests::a_follower_begins_to_count_with_floors_that_cover_what_it_let_go_of",
        ),
    ),
    ("PushAnew", Sim("group-cuts", 0)),
    ("SkipFloors", Test("longarm-replica", "followers_twin::all_that_a_follower_counts_for_is_there")),
    ("CountLeaving", Sim("group-stalls", 0)),
    ("AdoptUnflushed", Sim("group-crashes", 0)),
    (
        "PassUncut",
        Test(
            "longarm-group",
            "scan::tests::a_stream_that_was_passed_over_when_it_reported_is_void_if_it_has_no_cut",
        ),
    ),
    ("KeepFloors", Sim("group-steps", 0)),
    (
        "LeaveGaps",
        Test("longarm-group", "scan::tests::what_a_leader_freed_is_no_gap_to_a_replica_that_was_catching_up"),
    ),
    ("HideGaps", Test("longarm-group", "install::a_start_set_with_a_gap_is_not_taken_for_a_whole_one")),
    (
        "PushOver",
        Test(
            "longarm-replica",
            "catch_up::tests::nothing_is_pushed_into_a_use_that_a_follower_has_let_go_of",
        ),
    ),
    (
        "TellGone",
        Test(
            "longarm-engine",
            "tests::gone::nobody_is_told_that_an_item_is_gone_while_a_write_that_found_it_is_under_way",
        ),
    ),
    ("SleepUnsent", Sim("group-moves", 140)),
    ("RecallAnyway", Sim("group-strands", 20)),
    (
        "TrustTable",
        Test("longarm-group", "catch_up::content::tests::what_a_follower_has_let_go_of_is_given_to_it_anew"),
    ),
];

/// Runs the simulator; `Ok(true)` if nothing was violated. `--ci`: the seeds of CI, and the mutants.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    match args {
        ["--ci"] => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            let fresh = format!("{}..{}", now << 10, (now << 10) + FRESH);
            // One build for all, and mutants say nothing if the program that has none is not sound.
            let sound = |seeds| status(with_mutants(root, "none").args(["--seeds", seeds]));
            Ok(sound(FIXED)? && sound(&fresh)? && mutants(root, &[])?)
        }
        ["--mutants"] => {
            Ok(status(with_mutants(root, "none").args(["--seeds", "0..5"]))? && mutants(root, &[])?)
        }
        ["--mutants", only @ ..] => mutants(root, only),
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

/// A test with this fault, or with none.
fn test_with(root: &Path, mutant: &str, package: &str, name: &str) -> Command {
    let mut command = cargo();
    command.args(["test", "--quiet", "--release", "--target-dir", "target/mutants", "--package", package]);
    command.args(["--lib", "--features", "longarm-base/mutants", "--", "--exact", name]).current_dir(root);
    command.envs(QUICKLY_BUILT.iter().copied()).env("LONGARM_MUTANT", mutant);
    command
}

/// Every mutant must be found, or each of those that are named.
fn mutants(root: &Path, only: &[&str]) -> Result<bool, String> {
    if let Some(unknown) = only.iter().find(|only| MUTANTS.iter().all(|(mutant, _)| mutant != *only)) {
        return Err(format!("no mutant is called {unknown}: see crates/base/src/mutant.rs"));
    }
    let mut all = true;
    for (mutant, finder) in MUTANTS.iter().filter(|(mutant, _)| only.is_empty() || only.contains(mutant)) {
        let (how, verdict) = match finder {
            Sim(scenario, first) => {
                let seeds = format!("{first}..{}", first + WITHIN);
                (format!("{scenario} {seeds}"), simulated(root, mutant, scenario, &seeds)?)
            }
            Test(package, name) => (format!("{package} {name}"), tested(root, mutant, package, name)?),
        };
        println!("{mutant:18} {how:40} {}", verdict.as_deref().unwrap_or("SURVIVED"));
        all &= verdict.is_some();
    }
    Ok(all)
}

/// How the simulator found it, if it did.
fn simulated(root: &Path, mutant: &str, scenario: &str, seeds: &str) -> Result<Option<String>, String> {
    let mut command = with_mutants(root, mutant);
    command.args(["--stop", "--scenario", scenario, "--seeds", seeds, "--reduce", "0"]);
    let output = output(command.stderr(Stdio::null()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let found = said.lines().find_map(|line| line.split_once(" seed ")).map_or("", |(_, found)| found);
    Ok((!output.status.success()).then(|| format!("seed {found}")))
}

/// How a test found it, if it did. The test must be there, and find nothing where there is no fault.
fn tested(root: &Path, mutant: &str, package: &str, name: &str) -> Result<Option<String>, String> {
    let run = |mutant, result: &str| -> Result<bool, String> {
        let output = output(&mut test_with(root, mutant, package, name))?;
        Ok(String::from_utf8_lossy(&output.stdout).contains(result))
    };
    if !run("none", "test result: ok. 1 passed")? {
        return Err(format!("{package} has no test {name} that passes where there is no fault"));
    }
    Ok(run(mutant, "test result: FAILED. 0 passed; 1 failed")?.then(|| "the test fails".into()))
}

fn output(cargo: &mut Command) -> Result<Output, String> {
    cargo.output().map_err(|error| format!("cannot run cargo: {error}"))
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
fn what_ships_has_nothing_of_the_lab() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the workspace");
    let features = |package: &str| {
        let mut cargo = Command::new(env!("CARGO"));
        let args = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p} [{f}]"];
        let output = cargo.args(args).args(["--package", package]).current_dir(root).output();
        let output = output.expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let line = |tree: &str, package: &str| {
        tree.lines().find(|line| line.split(' ').next() == Some(package)).map(str::to_string)
    };
    let program = features("longarm");
    for package in ["longarm-sim", "corosensei", "longarm-chaos", "longarm-history"] {
        assert_eq!(line(&program, package), None, "{program}");
    }
    let without = |package, feature| line(&program, package).is_some_and(|line| !line.contains(feature));
    assert!(without("longarm-host", "observe") && without("longarm-memory", "recycle"), "{program}");
    assert!(!program.contains("mutants"), "{program}");
    let simulator = features("longarm-sim");
    let with = |package, feature| line(&simulator, package).is_some_and(|line| line.contains(feature));
    assert!(with("longarm-host", "observe") && with("longarm-memory", "recycle"), "{simulator}");
    assert!(line(&simulator, "corosensei").is_some(), "{simulator}");
}
