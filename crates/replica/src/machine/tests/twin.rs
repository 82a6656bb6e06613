//! Groups of machines in a hostile world. Each seed is a run: some seconds of cut links, pauses, crashes,
//! late and double messages, slow and failing disks, clocks that go wrong; then calm, in which the group must
//! become whole again. A judge sees everything at once (`twin/judge.rs`).
//!
//! A world without one of the rules must be found out: a check that no fault can fail shows nothing.

mod driver;
mod judge;
mod memory;
mod world;

use std::collections::VecDeque;

use world::World;

/// The rules that are not the machine's, or can be broken without changing it. In a test all are on except
/// one.
#[derive(Clone, Copy)]
struct Rules {
    /// Reports say what their sync term is, and only the highest counts (L1).
    base_only: bool,
    /// A completion counts only from a synced follower (L1).
    sync_gate: bool,
    /// Only a follower that has taken the start set says that it is synced (L1).
    serve_synced: bool,
    /// A promise survives the loss of memory (L2).
    persist_promise: bool,
    /// A replica whose disk holds no promise asks all others what they promised (L2).
    blank_asks: bool,
    /// Off is right: a replica that lost its memory reports that it holds the start set of term zero (L2).
    amnesiac_votes: bool,
    /// No WRITE of an older term lands after the promise (L6, L7).
    fence: bool,
    /// No report inside a promise (L8).
    promise_kept: bool,
    /// The leader keeps the promise that it asks of others.
    leader_promises: bool,
    /// A replica that starts keeps the promise that it may have made.
    boot_wait: bool,
    /// A follower that lost its memory is given all of the term.
    resync_all: bool,
    /// A follower that kept its memory is given all of the term, too: what it acknowledged before may have a
    /// hole.
    resync_from_zero: bool,
    /// A follower is told that it has everything only when it has everything.
    copy_awaited: bool,
    /// The lease is shorter than the promise, by the drift of clocks (X4).
    drift: bool,
    /// Entries beyond the start set are voided (L16).
    cut: bool,
    /// Questions and answers of a sync that is over are dropped with their connection.
    own_connection: bool,
    /// A follower of a younger start set than the base keeps its memory while it is overwritten.
    overwritten_kept: bool,
    /// A follower of an older start set keeps its memory while it is overwritten.
    laggards_kept: bool,
    /// A memory that is overwritten in part is not taken for the start set of its sync term.
    mixture_known: bool,
    /// A leader that hands over takes promises back only when clients' leases have ended.
    readers_awaited: bool,
    /// A leader that hands over takes promises back only when it has ended its own lease.
    own_lease_ended: bool,
    /// No replica promises to a candidate that knows of older replicas than itself.
    newest: bool,
    /// A crash does not make a replica forget the set of replicas.
    members_kept: bool,
}

const ALL: Rules = Rules {
    base_only: true,
    sync_gate: true,
    serve_synced: true,
    persist_promise: true,
    blank_asks: true,
    amnesiac_votes: false,
    fence: true,
    promise_kept: true,
    leader_promises: true,
    boot_wait: true,
    resync_all: true,
    resync_from_zero: true,
    copy_awaited: true,
    drift: true,
    cut: true,
    own_connection: true,
    overwritten_kept: true,
    laggards_kept: true,
    mixture_known: true,
    readers_awaited: true,
    own_lease_ended: true,
    newest: true,
    members_kept: true,
};

/// The first seed below `seeds` at which something is wrong, and the fault.
fn first(rules: Rules, seeds: u64) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| World::new(seed, rules).run().err().map(|wrong| (seed, wrong)))
}

/// The last events of a run.
fn story(rules: Rules, seed: u64) -> String {
    let mut world = World::new(seed, rules);
    world.trace = Some(VecDeque::new());
    let _ = world.run();
    let ends = world.replicas.iter().enumerate().map(|(replica, it)| {
        let machine = &it.machine;
        format!(
            "{replica}: {:?}, promised {}, holds {:?}",
            machine.role(),
            machine.promised(),
            machine.sync()
        )
    });
    let ends: Vec<String> = ends.collect();
    world.trace.take().into_iter().flatten().chain(ends).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_group_loses_nothing_and_comes_back() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(2_000),
    };
    let (mut terms, mut reads, mut commits, mut handed, mut changed) = (0, 0, 0, 0, 0);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let mut world = World::new(seed, ALL);
        if let Err(wrong) = world.run() {
            panic!("SEED={seed}: {wrong}\n{}", story(ALL, seed));
        }
        terms += world.judge.terms_served() as u64;
        reads += world.judge.reads;
        commits += world.judge.commits;
        handed += world.judge.handed;
        changed += world.judge.changed;
    }
    assert!(count < 100 || terms > 3 * count, "{terms} terms in {count} runs");
    assert!(count < 100 || handed > count / 2, "{handed} leaders handed over in {count} runs");
    assert!(count < 100 || changed > count / 4, "{changed} terms with other replicas in {count} runs");
    assert!(count < 100 || reads.min(commits) > 50 * count, "{reads} reads, {commits} commits");
}

/// Checks that one of the first few thousand worlds shows the broken rule, and by which invariant.
fn is_found_out(breaks: fn(&mut Rules), invariants: &[&str]) {
    let mut rules = ALL;
    breaks(&mut rules);
    let (seed, wrong) = first(rules, 30_000).expect("a world that shows it");
    eprintln!("seed {seed}: {wrong}");
    let known = invariants.iter().any(|name| wrong.starts_with(name));
    assert!(known, "seed {seed} shows something else: {wrong}\n{}", story(rules, seed));
}

#[test]
fn a_world_that_gathers_from_anybody_is_found_out() {
    is_found_out(|rules| rules.base_only = false, &["Complete", "NoReturn"]);
}

#[test]
fn a_world_that_counts_whoever_is_not_synced_is_found_out() {
    is_found_out(|rules| rules.sync_gate = false, &["Complete"]);
}

#[test]
fn a_world_that_serves_before_a_majority_is_synced_is_found_out() {
    is_found_out(|rules| rules.serve_synced = false, &["Complete", "NoReturn"]);
}

#[test]
fn a_world_that_forgets_promises_is_found_out() {
    is_found_out(|rules| rules.persist_promise = false, &["Complete", "OldLeasesOver", "OneLeader"]);
}

#[test]
fn a_world_whose_replicas_without_a_disk_do_not_ask_is_found_out() {
    is_found_out(|rules| rules.blank_asks = false, &["Complete", "OldLeasesOver", "OneLeader"]);
}

#[test]
fn a_world_whose_forgetful_replicas_report_is_found_out() {
    is_found_out(|rules| rules.amnesiac_votes = true, &["Complete"]);
}

#[test]
fn a_world_without_fence_is_found_out() {
    is_found_out(|rules| rules.fence = false, &["Complete", "OldLeasesOver", "SyncMeaning"]);
}

#[test]
fn a_world_that_reports_inside_promises_is_found_out() {
    is_found_out(|rules| rules.promise_kept = false, &["OldLeasesOver"]);
}

#[test]
fn a_world_whose_leaders_promise_nothing_is_found_out() {
    is_found_out(|rules| rules.leader_promises = false, &["OldLeasesOver"]);
}

#[test]
fn a_world_that_does_not_wait_at_boot_is_found_out() {
    is_found_out(|rules| rules.boot_wait = false, &["OldLeasesOver"]);
}

#[test]
fn a_world_that_resyncs_with_the_start_set_alone_is_found_out() {
    is_found_out(|rules| rules.resync_all = false, &["Complete", "SyncMeaning"]);
}

#[test]
fn a_world_that_resyncs_from_what_was_acknowledged_is_found_out() {
    is_found_out(|rules| rules.resync_from_zero = false, &["Complete"]);
}

#[test]
fn a_world_that_calls_a_follower_synced_too_early_is_found_out() {
    is_found_out(|rules| rules.copy_awaited = false, &["Complete", "SyncMeaning"]);
}

#[test]
fn a_world_whose_clocks_do_not_drift_is_found_out() {
    is_found_out(|rules| rules.drift = false, &["OldLeasesOver"]);
}

#[test]
fn a_world_that_does_not_cut_is_found_out() {
    is_found_out(|rules| rules.cut = false, &["SyncMeaning", "NoReturn"]);
}

#[test]
fn a_world_that_takes_questions_of_older_connections_is_found_out() {
    is_found_out(|rules| rules.own_connection = false, &["Complete", "SyncMeaning"]);
}

#[test]
fn a_world_that_wipes_followers_to_overwrite_them_is_found_out() {
    is_found_out(|rules| rules.overwritten_kept = false, &["Liveness"]);
}

#[test]
fn a_world_that_wipes_laggards_to_overwrite_them_is_found_out() {
    is_found_out(|rules| rules.laggards_kept = false, &["Liveness"]);
}

#[test]
fn a_world_that_takes_a_mixture_for_a_start_set_is_found_out() {
    is_found_out(|rules| rules.mixture_known = false, &["SyncMeaning"]);
}

#[test]
fn a_world_that_hands_over_while_clients_hold_leases_is_found_out() {
    is_found_out(|rules| rules.readers_awaited = false, &["OldLeasesOver"]);
}

#[test]
fn a_world_whose_leaders_hand_over_and_keep_their_lease_is_found_out() {
    is_found_out(|rules| rules.own_lease_ended = false, &["OldLeasesOver"]);
}

#[test]
fn a_world_that_does_not_look_which_replicas_are_newer_is_found_out() {
    is_found_out(|rules| rules.newest = false, &["Complete", "NoReturn", "Stays", "SyncMeaning"]);
}

#[test]
fn a_world_that_forgets_who_the_replicas_are_is_found_out() {
    is_found_out(|rules| rules.members_kept = false, &["Complete", "NoReturn", "Stays", "SyncMeaning"]);
}
