//! A group that keeps its data, as a new user tries it: all nodes killed at once, one that lost its
//! directory, and directories and files that do not go together.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use longarm_client::{ClusterClient, Options, Topology};
use rustix::process::Signal;

use crate::cluster::until_each;
use crate::group::{Group, TIMES, in_sync};
use crate::harness::{contents, make_tree};
use crate::lanes::{Lane, look, write};

fn shm(node: usize, directory: &Path) -> String {
    format!("shm:{}", directory.join(format!("s{node}")).display())
}

/// A group in one of the modes in which it keeps its data.
fn group(durability: &str, address: impl Fn(usize, &Path) -> String) -> Group {
    let options = [&TIMES[..], &["--durability", durability]].concat();
    Group::init(Vec::new(), &options, address)
}

/// Waits until what was acknowledged is on disks in `async` mode: longer than the window, by far.
fn settle(durability: &str) {
    if durability == "async" {
        std::thread::park_timeout(Duration::from_millis(1_000));
    }
}

/// Addresses at ports that were free a moment ago.
fn tcp() -> [String; 3] {
    let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    held.map(|listener| format!("tcp://{}", listener.local_addr().expect("bound")))
}

fn kill_all(group: &mut Group) {
    (1..=3).for_each(|node| group.signal(node, Signal::KILL));
    (1..=3).for_each(|node| _ = group.end(node, Signal::KILL));
}

#[test]
fn what_a_group_acknowledged_is_there_after_all_its_nodes_were_killed() {
    ["sync", "async", "pmem"].into_iter().for_each(outlives_kills_and_ends);
}

/// What an orderly end leaves is all there in either mode.
fn outlives_kills_and_ends(durability: &str) {
    let mut group = group(durability, shm);
    let tree = group.path("tree");
    make_tree(&tree);
    group.start_all();
    group.client(&["load", &tree.display().to_string()]);
    group.client(&["put", "gone", "x"]);
    group.client(&["del", "gone"]);
    for life in 0..4 {
        group.client(&["put", "life", &life.to_string()]);
        if life % 2 == 0 {
            settle(durability);
            kill_all(&mut group);
        } else {
            (1..=3).for_each(|node| assert_eq!(group.end(node, Signal::TERM), Some(0), "{}", group.logs()));
        }
        group.start_all();
        assert_eq!(group.client(&["get", "life"]), life.to_string());
        let out = group.path(&format!("out-{life}"));
        group.client(&["dump", "--format", "tree", "--output", &out.display().to_string()]);
        std::fs::remove_file(out.join("life")).expect("it was dumped, too");
        assert_eq!(contents(&out), contents(&tree), "life {life}\n{}", group.logs());
    }
    let kept = format!("and its data ({durability}), are kept in");
    assert!(group.logs().contains(&kept), "{}", group.logs());
}

fn connect(group: &Group, seconds: u64) -> ClusterClient {
    let topology = Topology::read(group.path("g.toml")).expect("the cluster's file");
    let timeout = Duration::from_secs(seconds);
    let options = Options { timeout, connect_timeout: timeout, ..Options::default() };
    ClusterClient::new(topology, options)
}

/// All nodes are killed at any moment, in any order, while three clients write, and started again.
/// `LONGARM_KILLS` says how often; a test run has a few.
#[test]
fn acknowledged_writes_of_a_group_outlive_kills_of_all_its_nodes() {
    let kills: u64 = std::env::var("LONGARM_KILLS").map_or(3, |kills| kills.parse().expect("a number"));
    for durability in ["sync", "async", "pmem"] {
        let addresses = tcp();
        outlives_kills(durability, group(durability, shm), kills);
        outlives_kills(durability, group(durability, |node, _| addresses[node - 1].clone()), kills);
    }
}

fn outlives_kills(durability: &str, mut group: Group, kills: u64) {
    let mut lanes = [Lane::default(); 3];
    for kill in 0..kills {
        group.start_all();
        let mut client = connect(&group, 20);
        let client = client.group(0).expect("connected");
        let there = [0, 1, 2].map(|lane| look(lane, |key| client.get(key).expect("read")));
        for (lane, (known, last)) in lanes.iter().zip(there).enumerate() {
            let least = if durability == "async" { known.settled } else { known.acknowledged };
            let logs = group.logs();
            assert!(
                (least..=known.sent).contains(&last),
                "{durability}, lane {lane}: {last} is there, {least} was acknowledged\n{logs}"
            );
        }
        std::thread::scope(|scope| {
            let writer = |(lane, from): (u64, u64)| {
                let group = &group;
                scope.spawn(move || {
                    // Once the group is gone there is nothing to wait for.
                    let mut client = connect(group, 1);
                    let client = client.group(0).expect("connected");
                    write(lane, from, |key, value| client.put(key, value).is_ok())
                })
            };
            let writers: Vec<_> = (0..).zip(there).map(writer).collect();
            std::thread::park_timeout(Duration::from_millis(40 + kill * 137 % 400));
            (0..3).for_each(|at| group.signal(1 + (at + kill as usize) % 3, Signal::KILL));
            for (known, writer) in lanes.iter_mut().zip(writers) {
                *known = writer.join().expect("it wrote");
            }
        });
        kill_all(&mut group);
    }
    assert!(lanes.iter().all(|lane| lane.acknowledged > 0), "{}", group.logs());
}

/// Starts a node that does not come up; what it says, and its exit code.
fn refused(group: &mut Group, node: usize, more: &[&str]) -> (String, Option<i32>) {
    let before = group.log(node).len();
    group.start_with(node, more);
    // It ends by itself, and a signal comes too late.
    std::thread::park_timeout(Duration::from_millis(1_000));
    let code = group.end(node, Signal::TERM);
    (group.log(node)[before..].to_string(), code)
}

#[test]
fn a_node_that_lost_its_directory_is_given_all_and_others_directories_are_refused() {
    let mut group = group("sync", shm);
    group.start_all();
    group.client(&["put", "greeting", "hello"]);
    let leader = group.until("leader", |_| true);
    let lost = 1 + leader % 3;
    group.end(lost, Signal::KILL);
    let dir = |node: usize| format!("g.toml.node-{node}");
    std::fs::rename(group.path(&dir(lost)), group.path("away")).expect("moved");
    group.start(lost);
    let again = |node: usize| group.log(node).matches("is in sync in term").count() == 2;
    // A status of before that is of a leader that had not noticed yet.
    group.until("node in sync again", |_| again(lost));
    group.until("group in sync again", |status| in_sync(status) == 3);
    // What it was given is on its disk: it and one more are a majority.
    let other = (1..=3).find(|node| ![lost, leader].contains(node)).expect("three");
    kill_all(&mut group);
    [lost, other].iter().for_each(|node| group.start(*node));
    assert_eq!(group.client(&["get", "greeting"]), "hello", "{}", group.logs());
    [lost, other].iter().for_each(|node| _ = group.end(*node, Signal::TERM));

    let taken = group.path(&dir(other)).display().to_string();
    let (said, code) = refused(&mut group, lost, &["--data", &taken]);
    assert!(code == Some(7) && said.contains("name the directory of this node"), "{code:?} {said}");
    let (said, code) = refused(&mut group, lost, &["--accept-damage", "--data", &taken]);
    assert!(code == Some(2) && said.contains("the others give it all"), "{code:?} {said}");
    let arena = group.path(&dir(lost)).join("arena");
    std::fs::remove_file(arena).expect("removed");
    let (said, code) = refused(&mut group, lost, &[]);
    assert!(code == Some(7) && said.contains("arena is missing"), "{code:?} {said}");
    let file = std::fs::read_to_string(group.path("g.toml")).expect("read");
    std::fs::write(group.path("g.toml"), file.replace("durability = \"sync\"\n", "")).expect("written");
    let (said, code) = refused(&mut group, other, &[]);
    assert!(code == Some(2) && said.contains("put `durability = \"sync\"` back"), "{code:?} {said}");
}

/// Most nodes lose their memory, and one does not: what its disk has counts, as theirs does.
#[test]
fn a_group_goes_on_when_one_node_alone_has_its_memory() {
    let mut group = group("async", shm);
    group.start_all();
    for round in 0..4 {
        group.client(&["put", "round", &round.to_string()]);
        settle("async");
        let leader = group.until("leader", |_| true);
        // The leader stays, or a follower.
        let stays = 1 + (leader + round) % 3;
        let others = (1..=3).filter(|node| *node != stays);
        others.clone().for_each(|node| group.signal(node, Signal::KILL));
        others.clone().for_each(|node| _ = group.end(node, Signal::KILL));
        others.for_each(|node| group.start(node));
        group.until("group in sync again", |status| in_sync(status) == 3);
        assert_eq!(group.client(&["get", "round"]), round.to_string(), "{}", group.logs());
    }
}

/// All nodes lose their memory, and one never comes back: an operator says so.
#[test]
fn a_group_that_lost_its_memory_and_a_node_goes_on_when_an_operator_says_so() {
    let mut group = group("async", shm);
    group.start_all();
    group.client(&["put", "greeting", "hello"]);
    settle("async");
    let (said, _, code) = group.run(&["cluster", "recover", "g.toml"]);
    assert!(code == 0 && said.contains("leads already"), "{code} {said}");
    kill_all(&mut group);
    [1, 2].iter().for_each(|node| group.start(*node));
    let waits = || group.logs().matches("it waits until all replicas were heard; not heard: 0").count();
    let begun = std::time::Instant::now();
    while waits() < 1 && begun.elapsed() < Duration::from_secs(30) {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let (_, status, code) = group.run(&["cluster", "status", "g.toml"]);
    assert!(code == 3 && status.contains("all are needed"), "{code} {status}\n{}", group.logs());
    let (_, error, code) = group.run(&["cluster", "recover", "g.toml"]);
    assert!(code == 2 && error.contains("node 3") && error.contains("--accept-loss"), "{code} {error}");
    let said = group.client(&["cluster", "recover", "g.toml", "--accept-loss"]);
    assert!(said.contains(" leads"), "{said}");
    assert_eq!(group.client(&["get", "greeting"]), "hello", "{}", group.logs());
    group.client(&["put", "greeting", "again"]);
    // It comes back all the same, and is given what the others have.
    group.start(3);
    group.until("group in sync again", |status| in_sync(status) == 3);
    assert_eq!(group.client(&["get", "greeting"]), "again");
}

/// Starts all nodes, also of a cluster with several groups, and waits until all are in sync.
fn start_all(group: &mut Group) {
    (1..=3).for_each(|node| group.start(node));
    until_each(group, "groups in sync", |status| status.iter().all(|group| in_sync(group) == 3));
}

/// A cluster in memory is backed up, and a new one, of other keys, starts from that: two nodes have it on
/// their disks, and the third is given it.
#[test]
fn a_cluster_starts_from_the_backup_of_another() {
    for groups in ["1", "2"] {
        let mut old = Group::init(Vec::new(), &[&TIMES[..], &["--groups", groups]].concat(), shm);
        let tree = old.path("tree");
        make_tree(&tree);
        start_all(&mut old);
        old.client(&["load", &tree.display().to_string()]);
        // In one of the modes the third node has to run, too.
        let durability = if groups == "1" { "async" } else { "sync" };
        let options = [&TIMES[..], &["--durability", durability, "--groups", groups]].concat();
        let mut new = Group::init(Vec::new(), &options, shm);
        let refused = new.run(&["restore", "b1", "--cluster", "g.toml", "--node", "9", "--group", "1"]);
        assert!(refused.2 == 2 && refused.1.contains("no replica on node 9"), "{refused:?}");
        for group in (1..=groups.parse().expect("a number")).map(|group: u32| group.to_string()) {
            let backup = new.path(&format!("b{group}")).display().to_string();
            old.client(&["backup", &backup, "--group", &group]);
            for node in ["1", "2"] {
                let restore = ["restore", &backup, "--node", node, "--group", &group];
                let said = new.client(&restore);
                assert!(said.contains("longarm server --cluster g.toml --node"), "{said}");
                let (_, err, code) = new.run(&[&restore[..], &["--cluster", "g.toml"]].concat());
                assert!(code == 2 && !err.contains("panicked"), "{code} {err}");
            }
        }
        start_all(&mut new);
        let out = new.path("out");
        new.client(&["dump", "--format", "tree", "--output", &out.display().to_string()]);
        assert_eq!(contents(&out), contents(&tree), "{}", new.logs());
        new.client(&["put", "more", "x"]);
        assert_eq!(new.client(&["get", "more"]), "x");
    }
}
