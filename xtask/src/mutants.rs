//! Faults that are built in, one at a time: each must be found, by the simulator or by the test that is named
//! for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::builds::Tests;

/// What finds a fault that was built in.
enum Finder {
    /// The simulator: in this scenario, from this seed on.
    Sim(&'static str, u64),
    /// A test of a package, by its full name.
    Test(&'static str, &'static str),
}

use Finder::{Sim, Test};

/// Within how many seeds a fault that is built in must be found. The first seed that finds it ends the run,
/// so the many cost nothing where few suffice; and any change of the product deals every seed anew.
const WITHIN: u64 = 1000;

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
    ("ForgetFounders", Sim("power", 0)),
    (
        "FoundByDisk",
        Test("longarm-group", "durable::tests::a_disk_that_holds_nothing_counts_for_a_founder_only"),
    ),
    (
        "VoteCold",
        Test(
            "longarm-group",
            "durable::tests::who_acknowledged_from_memory_does_not_count_with_what_its_disk_has",
        ),
    ),
    (
        "ColdMajority",
        Test(
            "longarm-replica",
            "machine::tests::recall::nobody_leads_from_disks_before_all_are_heard_unless_an_operator_says_so",
        ),
    ),
    ("KeepWarmTail", Test("longarm-group", "durable::tests::a_memory_goes_back_to_what_its_disk_has")),
    (
        "OwnCeiling",
        Test(
            "longarm-replica",
            "recall::tests::the_disk_of_the_highest_term_and_version_is_the_start_set_and_nobody_shares_it",
        ),
    ),
    (
        "UntoldCeiling",
        Test("longarm-group", "node::recall::versions_go_on_above_all_that_a_leader_from_a_disk_gave_up"),
    ),
    (
        "ShareDisk",
        Test(
            "longarm-replica",
            "recall::tests::the_disk_of_the_highest_term_and_version_is_the_start_set_and_nobody_shares_it",
        ),
    ),
    (
        "NotedAlone",
        Test("longarm-group", "durable::gate::tests::in_async_mode_a_majority_of_the_disks_sets_the_limits"),
    ),
    (
        "CoverMoment",
        Test(
            "longarm-group",
            "durable::gate::tests::writes_are_taken_within_the_window_and_below_the_ceiling_and_while_the_\
             scribe_keeps_up",
        ),
    ),
    (
        "MixAhead",
        Test(
            "longarm-group",
            "durable::follow::tests::a_file_of_the_term_becomes_a_mixture_only_when_the_leaders_has_as_much",
        ),
    ),
    ("MixTogether", Test("longarm-group", "durable::desk::the_files_of_a_majority_stay_whole")),
    (
        "ScrubBeyond",
        Test("longarm-group", "durable::tests::what_rots_in_the_file_is_written_again_from_memory"),
    ),
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
    ("MoveUnapplied", Test("longarm-engine", "tests::moves::a_delete_that_is_not_applied_is_not_moved")),
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
    ("LineAsItIs", Sim("group-steps", 0)),
    ("LookMeanwhile", Sim("group-landing", 120)),
    ("PushTwice", Sim("group-landing", 50)),
    (
        "TrustCompletion",
        Test(
            "longarm-replica",
            "progress::tests::a_follower_that_is_being_synced_lets_go_of_nothing_that_is_on_its_way",
        ),
    ),
    (
        "LinesFirst",
        Test(
            "longarm-replica",
            "catch_up::tests::a_follower_counts_after_all_that_it_needs_has_landed_whatever_it_held",
        ),
    ),
    ("FloorsLast", Sim("power-away", 0)),
    ("AskOnce", Sim("groups", 0)),
    (
        "ContentUnderLine",
        Test(
            "longarm-replica",
            "catch_up::tests::a_follower_counts_after_all_that_it_needs_has_landed_whatever_it_held",
        ),
    ),
    (
        "FetchOlder",
        Test(
            "longarm-group",
            "inbound::tests::fetching::an_entry_of_an_older_use_is_not_taken_over_a_younger_one",
        ),
    ),
    ("WalkNoBound", Sim("group-scans-narrow", 0)),
    ("WalkNoMarks", Sim("group-scans-narrow", 0)),
    ("LeftFirst", Test("longarm-index", "tree::tests::cuts::split_of_a_leaf")),
    ("NoGeneration", Test("longarm-index", "tree::tests::cuts::merge_into_the_left_neighbour")),
    ("NodeLater", Test("longarm-index", "tree::tests::cuts::a_step_is_seen_as_a_whole")),
    ("NoAdjoin", Test("longarm-index", "tree::tests::cuts::a_leaf_comes_between_two_that_a_cache_knows")),
    ("ScanNoWindow", Sim("group-scans-narrow", 0)),
    ("ScanAppliedBound", Sim("group-scans-narrow", 0)),
    ("CommitLate", Sim("group-scans-narrow", 0)),
    ("TreeByFloor", Sim("group-scans-narrow", 0)),
    ("TreeDropMarker", Sim("group-scans-moves", 0)),
    ("TreeForgetTail", Test("longarm-ordered", "tests::a_tree_goes_on_with_what_its_term_had_last")),
    ("ScanOldSample", Sim("group-scans-narrow", 180)),
    ("ScanSkipUnlanded", Sim("group-scans-moves", 0)),
    ("ScanAnyTerm", Sim("group-scans-strands", 270)),
    ("TokenAgain", Sim("group-scans", 0)),
    ("RecheckUnmarked", Sim("group-scans-narrow", 250)),
    ("TogetherUnchecked", Sim("group-scans-narrow", 200)),
    ("SnapshotForgets", Sim("group-scans-narrow", 0)),
    ("SnapshotUnchecked", Sim("group-scans-narrow", 2_100)),
    (
        "TreeSkipGap",
        Test("longarm-ordered", "tests::an_entry_that_was_reclaimed_before_it_was_taken_is_a_gap"),
    ),
    ("TreeIgnoreMove", Sim("group-scans-moves", 0)),
    (
        "TreeMoveAnyway",
        Test(
            "longarm-index",
            "tree::rules::tests::a_move_sets_a_key_only_ahead_of_its_original_or_over_an_older_copy",
        ),
    ),
    (
        "BuildOnce",
        Test(
            "longarm-ordered",
            "tests::a_tree_of_segments_that_are_reused_meanwhile_is_right_after_a_later_sample",
        ),
    ),
    ("KeepMixed", Sim("group-scans-all", 38)),
    ("NoteOnce", Sim("group-scans-pauses", 0)),
    ("AckUnsynced", Sim("durable", 0)),
    ("NoteWithBatch", Sim("durable", 165)),
    (
        "NoWindow",
        Test(
            "longarm-group",
            "durable::gate::tests::\
             writes_are_taken_within_the_window_and_below_the_ceiling_and_while_the_scribe_keeps_up",
        ),
    ),
    (
        "KeepBeyondCut",
        Test("longarm-group", "durable::load::tests::a_room_is_judged_by_term_position_and_version"),
    ),
    ("ResetCeiling", Sim("power-async", 0)),
    ("KeepInFile", Sim("power-async", 0)),
    (
        "ReuseEarly",
        Test("longarm-disk", "scribe::tests::a_note_covers_what_was_written_and_drawn_at_a_moment"),
    ),
    ("LazyFree", Sim("durable", 0)),
    (
        "FreeUncovered",
        Test(
            "longarm-group",
            "follower_disk::tests::a_segment_goes_when_a_note_covers_what_made_it_needless",
        ),
    ),
    ("FreeInMemory", Sim("durable-group", 1)),
    (
        "AckFromMemory",
        Test("longarm-group", "follower_disk::tests::what_is_on_disk_counts_only_where_that_is_asked_for"),
    ),
    ("SyncedInMemory", Sim("durable-group", 1)),
    ("ClaimAcked", Sim("durable-group", 10)),
    (
        "ForgetMixed",
        Test(
            "longarm-group",
            "durable::tests::a_file_whose_memory_was_overwritten_says_so_before_it_is_written",
        ),
    ),
    (
        "WriteOver",
        Test(
            "longarm-group",
            "durable::tests::a_file_that_is_given_segments_that_were_used_again_says_so_first",
        ),
    ),
    (
        "LinesAtOnce",
        Test("longarm-group", "durable::tests::a_line_that_is_given_again_comes_after_its_entries"),
    ),
    (
        "LeadOwing",
        Test(
            "longarm-group",
            "node::recall::a_memory_that_a_leader_may_have_written_over_does_not_lead_from_its_file",
        ),
    ),
    (
        "DrainAfterReady",
        Test("longarm-group", "durable::tests::what_is_copied_while_the_memory_changes_is_not_written"),
    ),
    (
        "KeepCutOff",
        Test(
            "longarm-group",
            "durable::tests::what_a_next_leader_cut_off_goes_from_the_file_also_below_its_floors",
        ),
    ),
    (
        "KeepBroken",
        Test(
            "longarm-group",
            "durable::tests::what_a_leader_left_half_written_is_no_damage_in_the_next_term",
        ),
    ),
    ("CopyLanding", Test("longarm-group", "durable::tests::what_is_landing_is_not_in_the_file")),
    (
        "LeaveTorn",
        Test("longarm-disk", "arena_disk::tests::what_was_cut_off_does_not_come_back_with_the_next_write"),
    ),
    (
        "TrustRot",
        Test("longarm-group", "durable::tests::damage_is_named_and_given_up_only_when_that_is_asked_for"),
    ),
    ("StayShown", Test("longarm-index", "hash::tests::cuts::replace_twice")),
    (
        "ShowEarly",
        Test("longarm-index", "hash::tests::images::what_was_acknowledged_or_seen_outlives_a_loss_of_power"),
    ),
    ("MissAtOnce", Test("longarm-index", "hash::tests::cuts::replaced_into_the_slot_of_a_twin")),
    (
        "MissLocked",
        Test("longarm-index", "hash::tests::images::what_was_acknowledged_or_seen_outlives_a_loss_of_power"),
    ),
    ("SkipWiped", Test("longarm-index", "hash::tests::cuts::replace_twice")),
    (
        "LeaveHidden",
        Test("longarm-index", "hash::tests::images::what_was_acknowledged_or_seen_outlives_a_loss_of_power"),
    ),
    ("ForgetLines", Sim("pmem", 0)),
    ("SealLines", Sim("pmem", 0)),
    ("ForgetGeometry", Test("longarm-engine", LIVES)),
    (
        "MoveUnnoted",
        Test(
            "longarm-engine",
            "tests::lives::an_entry_that_moves_in_a_full_pair_outlives_a_loss_of_power_at_every_store",
        ),
    ),
    ("DrawAgain", Test("longarm-engine", LIVES)),
    ("ForgetTime", Sim("pmem-all", 0)),
    ("RunAhead", Test("longarm-group", "clock::tests::a_calendar_that_is_a_little_ahead_is_waited_for")),
    ("ListFirst", Test("longarm-backup", BETWEEN_STEPS)),
    ("LetGoUncopied", Test("longarm-backup", BETWEEN_STEPS)),
    ("TakeBeyond", Test("longarm-backup", "tests::model::what_is_above_its_version_is_left_out")),
    ("BackUpBehind", Sim("backups", 0)),
    (
        "HoldForever",
        Test("longarm-server", "backup::tests::a_segment_waits_for_a_backup_no_longer_than_it_may"),
    ),
];

/// Lives in persistent memory that end at any store.
const LIVES: &str = "tests::lives::what_was_acknowledged_is_there_after_any_loss_of_power";

/// What happens at any three steps of a backup.
const BETWEEN_STEPS: &str = "tests::model::\
                             whatever_happens_between_its_steps_a_backup_is_what_was_held_at_its_version";

/// The programs that find these faults. What ships is never linked with faults; what tests are built from is.
pub struct Finders {
    wanted: Vec<&'static (&'static str, Finder)>,
    simulator: PathBuf,
    /// By package: its folder, and the program of its unit tests.
    tests: BTreeMap<&'static str, [PathBuf; 2]>,
}

impl Finders {
    /// Builds what finds every fault, or each of those that are named.
    pub fn build(root: &Path, only: &[&str]) -> Result<Finders, String> {
        if let Some(unknown) = only.iter().find(|only| MUTANTS.iter().all(|(mutant, _)| mutant != *only)) {
            return Err(format!("no mutant is called {unknown}: see crates/base/src/mutant.rs"));
        }
        let is_wanted = |(mutant, _): &&(&str, Finder)| only.is_empty() || only.contains(mutant);
        let wanted: Vec<_> = MUTANTS.iter().filter(is_wanted).collect();
        let tests = Tests::build(root)?;
        let packages: BTreeSet<&str> = wanted
            .iter()
            .filter_map(|(_, finder)| match finder {
                Test(package, _) => Some(*package),
                Sim(..) => None,
            })
            .collect();
        let program = |package: &'static str| {
            let folder = root.join("crates").join(package.trim_start_matches("longarm-"));
            Ok((package, [folder, tests.test(&package.replace('-', "_"))?]))
        };
        let simulator = tests.program("longarm-sim");
        Ok(Finders {
            wanted,
            simulator,
            tests: packages.into_iter().map(program).collect::<Result<_, String>>()?,
        })
    }

    /// The simulator with this fault, or with `none`.
    pub fn simulator(&self, mutant: &str) -> Command {
        let mut command = Command::new(&self.simulator);
        command.env("LONGARM_MUTANT", mutant);
        command
    }

    /// A test with this fault, or with `none`.
    fn test(&self, mutant: &str, package: &str, name: &str) -> Command {
        let [folder, program] = &self.tests[package];
        let mut command = Command::new(program);
        command.args(["--exact", name]).current_dir(folder).env("LONGARM_MUTANT", mutant);
        // That it fails is enough.
        command.env("PROPTEST_MAX_SHRINK_ITERS", "0");
        command
    }
}

/// What finds faults.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The simulator, which takes all cores.
    Simulator,
    /// A test, which has one, or waits.
    Tests,
}

/// Every fault that is wanted, and that one of these finds, must be found.
pub fn run(finders: &Finders, by: &[By]) -> Result<bool, String> {
    let look = |by: &By| {
        let is_by = |(_, finder): &&&(&str, Finder)| matches!(finder, Sim(..)) == (*by == By::Simulator);
        let mutants: Vec<_> = finders.wanted.iter().copied().filter(|mutant| is_by(&mutant)).collect();
        look_for(finders, &mutants, if *by == By::Simulator { 1 } else { 2 })
    };
    let missed: Vec<_> = by.iter().flat_map(look).collect();
    // Said last, where a reader of a long log looks first.
    missed.iter().for_each(|mutant| println!("not found: {mutant}"));
    Ok(missed.is_empty())
}

/// Looks for these, so many at once; returns those that were not found, with what stood in the way.
fn look_for(finders: &Finders, mutants: &[&(&'static str, Finder)], at_once: usize) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let sound = Mutex::default();
    let look = || {
        let mut missed = Vec::new();
        // Relaxed: each number is taken once, and nothing else is told by it.
        while let Some((mutant, finder)) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begun = Instant::now();
            let (how, verdict) = match finder {
                Sim(scenario, first) => {
                    let seeds = format!("{first}..{}", first + WITHIN);
                    (format!("{scenario} {seeds}"), simulated(finders, mutant, scenario, &seeds))
                }
                Test(package, name) => {
                    (format!("{package} {name}"), tested(finders, &sound, mutant, package, name))
                }
            };
            let verdict = verdict.and_then(|found| found.ok_or_else(|| "SURVIVED".into()));
            let (Ok(said) | Err(said)) = &verdict;
            println!("{mutant:18} {how:40} {said} ({:.1} s)", begun.elapsed().as_secs_f64());
            missed.extend(verdict.err().map(|why| format!("{mutant}: {why}")));
        }
        missed
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(look)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no look panics")).collect()
    })
}

/// How the simulator found it, if it did.
fn simulated(finders: &Finders, mutant: &str, scenario: &str, seeds: &str) -> Result<Option<String>, String> {
    let mut command = finders.simulator(mutant);
    command.args(["--stop", "--scenario", scenario, "--seeds", seeds, "--reduce", "0"]);
    let output = output(&mut command)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let found = said.lines().find_map(|line| line.split_once(" seed ")).map_or("", |(_, found)| found);
    Ok((!output.status.success()).then(|| format!("seed {found}")))
}

/// How a test found it, if it did. The test must be there, and find nothing where there is no fault: those
/// that were looked at for an earlier fault are in `sound`.
fn tested(
    finders: &Finders,
    sound: &Mutex<BTreeSet<(&'static str, &'static str)>>,
    mutant: &str,
    package: &'static str,
    name: &'static str,
) -> Result<Option<String>, String> {
    let run = |mutant| -> Result<String, String> {
        let output = output(&mut finders.test(mutant, package, name))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if !sound.lock().expect("no look panics").contains(&(package, name)) {
        let said = run("none")?;
        if !said.contains("test result: ok. 1 passed") {
            let why = said.lines().skip_while(|line| !line.contains("panicked at")).nth(1);
            let why = why.unwrap_or("there is no such test");
            return Err(format!("its test does not pass where there is no fault: {why}"));
        }
        sound.lock().expect("no look panics").insert((package, name));
    }
    Ok(run(mutant)?.contains("test result: FAILED. 0 passed; 1 failed").then(|| "the test fails".into()))
}

fn output(program: &mut Command) -> Result<Output, String> {
    program.output().map_err(|error| format!("cannot run {program:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
