//! `longarm scan` against a group whose followers keep an ordered index, and against what has none.

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::group::{Group, TIMES, in_sync};
use crate::harness::{Server, finish, program, text, wait};

/// Makes a group whose nodes listen on sockets in its directory.
fn group() -> Group {
    let address =
        |node, directory: &std::path::Path| format!("shm:{}", directory.join(format!("s{node}")).display());
    Group::init(Vec::new(), &TIMES, address)
}

#[test]
fn a_scan_prints_items_in_the_order_of_their_keys() {
    let mut group = group();
    (1..=3).for_each(|node| group.start_with(node, &["--ordered", "true"]));
    let leader = group.until("group in sync", |status| in_sync(status) == 3);
    for (key, value) in [("user:2", "two"), ("user:1", "one\tand\nmore"), ("user:3", "three"), ("other", "0")]
    {
        group.client(&["put", key, value]);
    }
    group.client(&["put", "user:4", "short", "--ttl", "1h"]);
    group.client(&["del", "user:3"]);
    let users = "user:1\tone\\tand\\nmore\nuser:2\ttwo\nuser:4\tshort\n";
    assert_eq!(group.client(&["scan", "--prefix", "user:"]), users);
    assert_eq!(group.client(&["scan"]), format!("other\t0\n{users}"));
    assert_eq!(group.client(&["scan", "--page", "1"]), format!("other\t0\n{users}"));
    assert_eq!(group.client(&["scan", "--page", "1", "--together"]), format!("other\t0\n{users}"));
    assert_eq!(group.client(&["scan", "--page", "1", "--snapshot"]), format!("other\t0\n{users}"));
    assert_eq!(group.client(&["scan", "--reverse", "--limit", "2"]), "user:4\tshort\nuser:2\ttwo\n");
    assert_eq!(group.client(&["scan", "--from", "p", "--to", "user:2", "--keys-only"]), "user:1\n");
    assert_eq!(group.client(&["scan", "--prefix", "nobody"]), "", "that is no failure");
    assert_eq!(group.client(&["scan", "--count"]), "4\n");
    assert_eq!(group.client(&["scan", "--count", "--prefix", "user:", "--limit", "2"]), "2\n");
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}"));
    assert_eq!(parse(&group.client(&["scan", "--count", "--json"])), json!({ "count": 4 }));
    let out = group.client(&["scan", "--json", "--from", "user:2"]);
    let items: Vec<_> = out.lines().map(parse).collect();
    assert!(items.len() == 2 && items.iter().all(|item| item["version"].is_u64()), "{out}");
    assert!(items[0]["key"] == "user:2" && items[0]["value"] == "two", "{out}");
    assert!(items[0]["expires_ms"].is_null() && items[1]["expires_ms"].is_u64(), "{out}");
    for wrong in [&["--limit", "x"][..], &["--page", "0"], &["--count", "--reverse"]] {
        let (_, err, code) = group.run(&[&["scan", "--cluster", "g.toml"], wrong].concat());
        assert_eq!(code, 2, "{wrong:?}: {err}");
    }
    says_how_its_indexes_stand(&group, leader);
    shows_its_indexes(&group, leader);
    group.end(leader, Signal::KILL);
    group.client(&["put", "user:5", "new"]);
    let after = format!("{users}user:5\tnew\n");
    assert_eq!(group.client(&["scan", "--prefix", "user:", "--timeout", "20s"]), after);
}

/// Checks that the indexes of a group with four items are sound, and that it is dumped in the order of keys.
fn shows_its_indexes(group: &Group, leader: usize) {
    let shown = group.client(&["inspect", "--tree"]);
    let sound = shown.lines().filter(|line| line.starts_with("sound")).count();
    assert_eq!(sound, 2, "of both followers: {shown}");
    assert!(shown.contains("items       4, and ") && shown.contains("entries     4 are"), "{shown}");
    assert!(!shown.contains(&format!("s{leader} (")), "the leader keeps none: {shown}");
    let out = group.client(&["inspect", "--tree", "--json"]);
    let reports: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(reports.iter().all(|report| report["sound"] == true && report["entries"] == 4), "{out}");
    let (_, err, code) = group.run(&["inspect", "--cluster", "g.toml", "--tree", "--key", "a"]);
    assert_eq!(code, 2, "{err}");
    let dumped = group.client(&["dump", "--sorted", "--format", "tsv"]);
    let keys: Vec<&str> = dumped.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(keys, ["key", "other", "user:1", "user:2", "user:4"], "{dumped}");
    let dumped = group.client(&["dump", "--sorted", "--prefix", "user:", "--format", "tsv"]);
    assert!(dumped.contains("\nuser:1\t") && dumped.lines().count() == 4, "{dumped}");
}

/// Checks what `stats` and `cluster status` say of a group with four items, of which two nodes follow.
fn says_how_its_indexes_stand(group: &Group, leader: usize) {
    let ready = |status: &Value, node: usize| {
        let index = &status["nodes"][node - 1]["ordered"];
        index["stage"] == "ready" && index["items"] == 4 && index["builds"].as_u64() > Some(0)
    };
    let followers = || (1..=3).filter(|node| *node != leader);
    group.until("indexes of all items", |status| followers().all(|node| ready(status, node)));
    let (status, _) = group.status();
    let pages = |node: usize| status["nodes"][node - 1]["ordered"]["pages"].as_u64().expect("a number");
    assert!(followers().map(pages).sum::<u64>() >= 12, "{status}");
    assert_eq!(status["nodes"][leader - 1]["ordered"]["stage"], "resting", "{status}");
    let (table, _, _) = group.run(&["cluster", "status", "g.toml"]);
    assert!(table.contains("ordered index") && table.contains("resting: it leads"), "{table}");
    let stats: Value = serde_json::from_str(&group.client(&["stats", "--json"])).expect("an object");
    let indexes = stats["ordered"].as_array().expect("one object a replica");
    assert_eq!(indexes.iter().filter(|index| index["stage"] == "ready").count(), 2, "{stats}");
    assert!(indexes.iter().all(|index| index["address"].is_string()), "{stats}");
    let text = group.client(&["stats"]);
    assert_eq!(text.matches("stage ready").count(), 2, "{text}");
}

#[test]
fn what_keeps_no_ordered_index_answers_no_scan() {
    let mut group = group();
    group.start_all();
    group.client(&["put", "key", "value"]);
    let (status, _) = group.status();
    assert!(status["nodes"][0]["ordered"].is_null(), "{status}");
    let (table, _, _) = group.run(&["cluster", "status", "g.toml"]);
    assert!(!table.contains("ordered") && !group.client(&["stats"]).contains("ordered"), "{table}");
    for more in [&[][..], &["--count"]] {
        let (out, err, code) = group.run(&[&["scan", "--cluster", "g.toml"], more].concat());
        assert!(code == 4 && out.is_empty() && err.contains("--ordered true"), "{code} {out} {err}");
    }
    let server = Server::start(&[]);
    let (out, err, code) = server.run_with(&["scan"], b"");
    assert!(code == 4 && out.is_empty() && err.contains("ordered index"), "{code} {out} {err}");
}

#[test]
fn a_server_alone_answers_scans_and_begins_anew_when_it_starts_again() {
    let ordered = ["--ordered", "true"];
    let mut server = Server::start(&ordered);
    for (key, value) in [("user:2", "two"), ("user:1", "one"), ("other", "0"), ("user:3", "three")] {
        server.ok(&["put", key, value]);
    }
    server.ok(&["del", "user:2"]);
    assert_eq!(server.ok(&["scan", "--prefix", "user:"]), "user:1\tone\nuser:3\tthree\n");
    assert_eq!(server.ok(&["scan", "--reverse", "--limit", "2", "--keys-only"]), "user:3\nuser:1\n");
    assert_eq!(server.ok(&["scan", "--count"]), "3\n");
    let stats: Value = serde_json::from_str(&server.ok(&["stats", "--json"])).expect("JSON");
    assert_eq!((&stats["ordered"]["stage"], &stats["ordered"]["items"]), (&json!("ready"), &json!(3)));
    assert!(stats["group"].is_null(), "nobody else is told of its group: {stats}");
    server.signal(Signal::KILL);
    wait(&mut server.child);
    let directory = std::mem::replace(&mut server.directory, TempDir::new().expect("a directory"));
    let again = Server::start_at(directory, server.address.clone(), &ordered);
    assert_eq!(again.ok(&["scan"]), "", "what was in memory is gone");
    again.ok(&["put", "new", "1"]);
    assert_eq!(again.ok(&["scan"]), "new\t1\n");
}

#[test]
fn an_ordered_server_does_not_evict() {
    let mut command = program();
    command.args(["server", "--address", "tcp://127.0.0.1:0", "--ordered", "true", "--eviction", "lru"]);
    let output = finish(command, b"");
    let said = text(&output.stderr);
    assert!(said.contains("eviction") && said.contains("ordered"), "{said}");
    assert_eq!(output.status.code(), Some(2), "{said}");
}
