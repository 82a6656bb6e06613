//! Clusters of three nodes as processes: their start, the loss of a leader, of a group, and what `cluster
//! status` says.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::group::{Group, TIMES, in_sync};
use crate::harness::PATIENCE;

/// Makes a group whose nodes listen on sockets in its directory.
fn group(options: &[&str]) -> Group {
    let file = |node: usize| format!("s{node}");
    let address = |node, directory: &std::path::Path| format!("shm:{}", directory.join(file(node)).display());
    Group::init(Vec::new(), &[&TIMES, options].concat(), address)
}

#[test]
fn a_group_of_three_outlives_its_leader() {
    let mut group = group(&[]);
    let (status, code) = group.status();
    assert_eq!((code, &status["leader"]), (3, &Value::Null), "nobody runs");
    assert_eq!(status["nodes"][0]["role"], "unreachable");
    group.outlives_its_leader();
    group.ends_well();
}

#[test]
fn what_is_no_replica_is_refused() {
    let group = group(&[]);
    let (_, err, code) = group.run(&["cluster", "init", "g.toml", "--node", "1=tcp://127.0.0.1:7101"]);
    assert!(code == 7 && err.contains("g.toml") && err.contains("name another file"), "{err}");
    for (args, part) in [
        (vec!["--cluster", "g.toml"], "nodes 1, 2, 3: which is this one?"),
        (
            vec!["--cluster", "g.toml", "--node", "4"],
            "node 4 is not of the cluster of g.toml: it has 1, 2, 3",
        ),
        (vec!["--cluster", "no.toml", "--node", "1"], "no.toml"),
        (vec!["--node", "1"], "--cluster FILE"),
        (
            vec!["--cluster", "g.toml", "--node", "1", "--address", "shm:x"],
            "address (flag --address) and cluster",
        ),
        (vec!["--cluster", "g.toml", "--node", "1", "--eviction", "lru"], "a group does not evict"),
    ] {
        let (_, err, code) = group.run(&[vec!["server"], args.clone()].concat());
        assert!(code == 2 && err.contains(part), "{args:?}: {code} {err}");
    }
    let (_, err, code) = group.run(&["cluster", "init", "h.toml", "--node", "1=tcp://a:1", "--lease", "5ms"]);
    assert!(code == 2 && err.contains("timing: "), "{err}");
}

/// Users start a group again as they would start a database. Its data was in memory; it did not begin anew,
/// as it must not, and did not say why, so that all looked well and nothing was served.
#[test]
fn a_group_that_was_restarted_as_a_whole_says_that_its_data_is_lost() {
    let mut group = group(&[]);
    group.start_all();
    group.client(&["put", "a", "1"]);
    (1..=3).for_each(|node| _ = group.end(node, Signal::KILL));
    (1..=3).for_each(|node| group.start(node));
    let began = Instant::now();
    while group.logs().matches("If most replicas of the group were restarted together").count() < 3 {
        assert!(began.elapsed() < PATIENCE, "{}", group.logs());
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    let (status, code) = group.status();
    assert_eq!((code, &status["leader"]), (3, &Value::Null), "they must not begin anew");
    // What the line says helps.
    (1..=3).for_each(|node| _ = group.end(node, Signal::TERM));
    for node in 1..=3 {
        std::fs::remove_dir_all(group.path(&format!("g.toml.node-{node}"))).expect("its directory");
    }
    group.start_all();
    group.client(&["put", "a", "2"]);
    group.ends_well();
}

/// Gives what `cluster status` says of each group, and its exit code.
fn each(group: &Group) -> (Vec<Value>, i32) {
    let (out, err, code) = group.run(&["cluster", "status", "g.toml", "--json", "--timeout", "2s"]);
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line} {err}"));
    (out.lines().map(parse).collect(), code)
}

pub fn until_each(group: &Group, what: &str, good: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let (status, _) = each(group);
        if good(&status) {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "no {what}: {status:?}\n{}", group.logs());
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
}

/// Two groups on four nodes: two nodes have replicas of both, and replicas of a group are of one size.
#[test]
fn groups_of_nodes_with_unequal_numbers_of_replicas_outlive_all_their_nodes() {
    let mut group = group(&["--groups=2", "--node", "4=shm:s4", "--durability", "sync"]);
    (1..=4).for_each(|node| group.start(node));
    let whole = |status: &[Value]| status.len() == 2 && status.iter().all(|group| in_sync(group) == 3);
    until_each(&group, "groups in sync", whole);
    let both = (1..=4).filter(|node| group.log(*node).contains("with replicas of 2 groups of 2")).count();
    assert_eq!(both, 2, "{}", group.logs());
    for i in 0..40 {
        group.client(&["put", &format!("key {i}"), &format!("value {i}")]);
    }
    (1..=4).for_each(|node| _ = group.end(node, Signal::KILL));
    (1..=4).for_each(|node| group.start(node));
    until_each(&group, "groups in sync again", whole);
    for i in 0..40 {
        assert_eq!(group.client(&["get", &format!("key {i}")]), format!("value {i}"), "{}", group.logs());
    }
    (1..=4).for_each(|node| _ = group.end(node, Signal::TERM));
}

#[test]
fn a_node_with_other_memory_is_told_so_and_given_nothing() {
    let mut group = group(&[]);
    (1..=2).for_each(|node| group.start(node));
    group.start_with(3, &["--memory", "96MiB"]);
    let leader = group.until("leader that says so", |_| {
        group.logs().contains("replica 3 is not in sync: its memory is of 96 MiB, the leader's of 64")
    });
    let said = group.log(leader);
    assert!(said.contains("give all its nodes the same `memory`"), "{said}");
    group.client(&["put", "greeting", "hello"]);
    group.end(3, Signal::TERM);
    group.start(3);
    group.until("group in sync", |status| in_sync(status) == 3);
}

#[test]
fn three_groups_on_three_nodes_outlive_a_node() {
    let mut group = group(&["--groups=3"]);
    (1..=3).for_each(|node| group.start(node));
    let whole = |status: &[Value]| status.len() == 3 && status.iter().all(|group| in_sync(group) == 3);
    until_each(&group, "groups in sync", whole);
    assert!(group.logs().contains("node 2 of 3, with replicas of 3 groups of 3"), "{}", group.logs());

    let lines: String = (0..300).map(|i| format!("key {i}\tvalue {i}\n")).collect();
    std::fs::write(group.path("items.tsv"), format!("key\tvalue\n{lines}")).expect("written");
    group.client(&["load", "items.tsv", "--verify", "--clients", "2"]);
    // The first line names the columns.
    let dumped = |group: &Group| group.client(&["dump", "--format", "tsv"]).lines().count() - 1;
    assert_eq!(dumped(&group), 300);
    let stats = group.client(&["stats", "--json"]);
    let items: Vec<_> = stats
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect(line)["items"].as_u64())
        .collect();
    assert!(items.len() == 3 && items.iter().all(|items| *items > Some(50)), "{items:?}");
    assert!(group.client(&["stats"]).contains("group 3 of 3, "), "each has a title");

    group.end(2, Signal::KILL);
    let led = |status: &[Value]| status.iter().all(|group| group["leader"].is_u64() && group["leader"] != 2);
    until_each(&group, "leaders", led);
    for i in [0, 1, 2, 3, 4, 5] {
        assert_eq!(group.client(&["get", &format!("key {i}")]), format!("value {i}"));
        group.client(&["put", &format!("key {i}"), "new"]);
    }
    assert_eq!(dumped(&group), 300);
    group.start(2);
    until_each(&group, "groups in sync again", whole);
    let promises = std::fs::read_dir(group.path("g.toml.node-2")).expect("a directory").count();
    assert_eq!(promises, 3, "one a group");
}

#[test]
fn a_group_without_a_leader_holds_up_its_own_keys_alone() {
    let mut group = group(&["--groups=3", "--replicas=1"]);
    (1..=3).for_each(|node| group.start(node));
    until_each(&group, "leaders", |status| status.iter().all(|group| group["leader"].is_u64()));
    // A random key of the cluster decides which group has a key. Among so many keys each group has some.
    for i in 0..60 {
        group.client(&["put", &format!("key {i}"), "there"]);
    }
    group.end(3, Signal::KILL);
    let (mut there, mut gone) = (0, String::new());
    for i in 0..60 {
        let key = format!("key {i}");
        let (out, err, code) = group.run(&["get", &key, "--cluster", "g.toml", "--timeout", "1s"]);
        match code {
            0 => there += usize::from(out == "there"),
            3 => gone.push_str(&err),
            _ => panic!("{code}: {out} {err}"),
        }
    }
    assert!(there > 0 && gone.contains("longarm cluster status g.toml"), "{there} are there: {gone}");
    let (_, err, code) = group.run(&["cluster", "status", "g.toml", "--timeout", "2s"]);
    assert!(code == 3 && err.contains("group 3: no node leads: 0 of 1 answer"), "{code} {err}");
    let (out, err, code) = group.run(&["stats", "--cluster", "g.toml", "--timeout", "2s"]);
    assert!(code == 3 && out.contains("group 2 of 3, ") && err.contains("group 3 of 3, "), "{out} {err}");
}

#[test]
fn a_leader_hands_over_when_it_is_asked() {
    let mut group = group(&[]);
    let (_, err, code) = group.run(&["cluster", "move-leader", "g.toml", "--to", "2", "--timeout", "300ms"]);
    assert!(code == 3 && err.contains("no replica leads"), "{code} {err}");
    let mut leader = group.start_all();
    group.client(&["put", "greeting", "hello"]);
    for _ in 0..3 {
        let next = (1 + leader % 3).to_string();
        let (out, err, code) = group.run(&["cluster", "move-leader", "g.toml", "--to", &next]);
        assert_eq!(code, 0, "{out} {err}\n{}", group.logs());
        assert!(out.starts_with(&format!("node {next} leads in term ")), "{out}");
        assert_eq!(group.client(&["get", "greeting"]), "hello");
        group.client(&["put", "greeting", "hello"]);
        leader = group.until("group in sync", |status| in_sync(status) == 3);
        assert_eq!(leader.to_string(), next);
    }
    let same = leader.to_string();
    let (out, _, code) = group.run(&["cluster", "move-leader", "g.toml", "--to", &same, "--json"]);
    assert!(code == 0 && out.contains("\"moved\":false"), "{code} {out}");
    let behind = 1 + leader % 3;
    group.end(behind, Signal::KILL);
    group.until("group of two", |status| in_sync(status) == 2);
    let (_, err, code) = group.run(&["cluster", "move-leader", "g.toml", "--to", &behind.to_string()]);
    assert!(code == 4 && err.contains("not in sync"), "{code} {err}");
    for (args, text) in [(["--to", "9"], "nodes 1, 2, 3 have"), (["--group", "2"], "it has 1 group")] {
        let to = if args[0] == "--group" { vec!["--to", "1"] } else { vec![] };
        let (_, err, code) = group.run(&[&["cluster", "move-leader", "g.toml"][..], &args, &to].concat());
        assert!(code == 2 && err.contains(text), "{code} {err}");
    }
}

/// Clients show no secret, nodes and operators show the secret of peers.
#[test]
fn a_client_gives_a_group_no_orders() {
    use std::os::unix::fs::PermissionsExt;
    let mut group = group(&[]);
    for (name, secret) in [("peers", "a secret of few, and long\n"), ("other", "a secret of somebody else\n")]
    {
        std::fs::write(group.path(name), secret).expect("written");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(group.path(name), mode).expect("chmod");
    }
    let peers = ["--peer-secret-file", "peers"];
    (1..=3).for_each(|node| group.start_with(node, &peers));
    let leader = group.until("group in sync", |status| in_sync(status) == 3);
    group.client(&["put", "greeting", "hello"]);
    let next = (1 + leader % 3).to_string();
    let order = ["cluster", "move-leader", "g.toml", "--to", &next, "--timeout", "1s"];
    for (with, why) in [(&[][..], "peer_secret_file"), (&["--peer-secret-file", "other"], "secret")] {
        let (_, err, code) = group.run(&[&order[..], with].concat());
        assert!(code == 4 && err.contains(why), "{code} {err}");
    }
    assert_eq!(group.until("group as before", |status| in_sync(status) == 3), leader);
    let (out, err, code) = group.run(&[&order[..], &peers].concat());
    assert!(code == 0 && out.starts_with(&format!("node {next} leads in term ")), "{out} {err}");

    // A node that does not know the secret does not join the group, and does no harm.
    let follower = 6 - leader - (1 + leader % 3);
    group.end(follower, Signal::KILL);
    group.start_with(follower, &["--peer-secret-file", "other"]);
    group.client(&["put", "greeting", "good day"]);
    group.until("group of two", |status| in_sync(status) == 2);
    assert!(group.logs().contains("secret"), "{}", group.logs());
    group.end(follower, Signal::KILL);
    group.start_with(follower, &peers);
    group.until("group in sync again", |status| in_sync(status) == 3);
    assert_eq!(group.client(&["get", "greeting"]), "good day");
}

#[test]
fn a_leader_that_is_told_to_end_hands_over() {
    let mut group = group(&[]);
    let leader = group.start_all();
    group.client(&["put", "greeting", "hello"]);
    assert_eq!(group.end(leader, Signal::TERM), Some(0));
    assert!(group.logs().contains(&format!("replica {leader} hands over to replica ")), "{}", group.logs());
    assert_eq!(group.client(&["get", "greeting"]), "hello");
    let next = group.until("group of two", |status| in_sync(status) == 2);
    group.end(6 - leader - next, Signal::KILL);
    group.until("leader alone", |status| in_sync(status) == 1);
    assert_eq!(group.end(next, Signal::TERM), Some(0));
    let alone = format!("replica {next} ends while it leads: no follower is in sync");
    assert!(group.logs().contains(&alone), "{}", group.logs());
}

#[test]
fn a_group_takes_a_node_and_does_without_another() {
    let mut group = group(&[]);
    let leader = group.start_all();
    group.client(&["put", "greeting", "hello"]);
    let address = format!("4=shm:{}", group.path("s4").display());
    let add = |wait| ["cluster", "add-node", "g.toml", &address, "--wait", wait];
    let (_, err, code) = group.run(&add("0s"));
    assert!(
        code == 4 && err.contains("--node 4 --join") && err.contains("not in sync in time"),
        "{code} {err}"
    );
    group.start_with(4, &["--join"]);
    let (out, err, code) = group.run(&add("20s"));
    assert!(
        code == 0 && out.starts_with("the replicas are 1, 2, 3, 4; node "),
        "{out} {err}\n{}",
        group.logs()
    );
    group.until("group of four", |status| in_sync(status) == 4);
    let (out, err, code) = group.run(&add("20s"));
    assert!(code == 0 && out.contains("a replica of the group already"), "{code} {out} {err}");
    assert_eq!(group.client(&["get", "greeting"]), "hello");
    group.client(&["put", "greeting", "good day"]);

    let number = leader.to_string();
    let remove = ["cluster", "remove-node", "g.toml", &number];
    let (out, err, code) = group.run(&remove);
    assert!(code == 0 && out.contains("the replicas are "), "{out} {err}\n{}", group.logs());
    assert_ne!(group.until("group of three", |status| in_sync(status) == 3), leader);
    let (_, err, code) = group.run(&remove);
    assert!(code == 2 && err.contains("no replica of that group"), "{code} {err}");
    assert_eq!(group.end(leader, Signal::TERM), Some(0));
    assert_eq!(group.client(&["get", "greeting"]), "good day");
    // Node 4 knows by itself that it is a replica now, so it starts without `--join`.
    group.end(4, Signal::KILL);
    group.start(4);
    group.until("group of three", |status| in_sync(status) == 3);
    assert_eq!(group.client(&["get", "greeting"]), "good day");
}
