//! Loads and dumps: round trips, bad records, kills in the middle.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, Server, contents, finish, make_tree};

#[test]
fn what_is_dumped_loads_again() {
    let first = Server::start(&[]);
    let tree = first.path("tree");
    make_tree(&tree);
    let said = first.ok(&["load", &tree.display().to_string(), "--verify", "--clients", "2"]);
    assert!(said.contains("loaded 205 items") && said.contains("every byte equal"), "{said}");
    first.ok(&["put", "with time", "x", "--ttl", "1h"]);
    for format in ["jsonl", "csv", "tsv"] {
        let file = first.path(&format!("dump.{format}")).display().to_string();
        first.ok(&["dump", "--format", format, "--output", &file]);
        let second = Server::start(&[]);
        let said = second.ok(&["load", &file, "--verify"]);
        assert!(said.contains("loaded 206 items"), "{format}: {said}");
        let located = second.ok(&["inspect", "--key", "with time", "--json"]);
        let located: serde_json::Value = serde_json::from_str(&located).expect("JSON");
        assert!(located["key"]["expiry_ms"].as_u64().is_some_and(|ms| ms > 0), "{format}: {located}");
        second.ok(&["del", "with time"]);
        let out = second.path("out").display().to_string();
        second.ok(&["dump", "--format", "tree", "--output", &out]);
        assert_eq!(contents(Path::new(&out)), contents(&tree), "{format}");
        let (_, err, code) = second.run_with(&["dump", "--format", "tree", "--output", &out], b"");
        assert!(code == 2 && err.contains("not empty"), "never over files: {err}");
        second.stop();
    }
    first.stop();
}

#[test]
fn no_key_leaves_the_tree() {
    let server = Server::start(&[]);
    for key in ["../escape", "/tmp/longarm-escape", "a/../../b", "fine"] {
        server.ok(&["put", key, "x"]);
    }
    let out = server.path("out");
    let (_, err, code) =
        server.run_with(&["dump", "--format", "tree", "--output", &out.display().to_string()], b"");
    assert_eq!(code, 4, "{err}");
    assert!(
        err.contains("../escape") && err.contains("/tmp/longarm-escape") && err.contains("3 keys"),
        "{err}"
    );
    assert_eq!(contents(&out).len(), 1);
    assert!(!server.path("escape").exists() && !Path::new("/tmp/longarm-escape").exists());
}

#[test]
fn bad_records_are_named_and_passed_over() {
    let server = Server::start(&[]);
    let file = server.path("mixed.jsonl");
    let long = "k".repeat(2000);
    let lines = format!(
        "{{\"key\":\"a\",\"value\":\"1\"}}\nno json\n\n[1]\n{{\"key\":\"{long}\",\"value\":\"\"}}\n\
         {{\"value\":\"x\"}}\n\
         {{\"key\":\"b\",\"value64\":\"***\"}}\n{{\"key\":\"c\",\"value\":\"3\",\"ttl_ms\":-1}}\n\
         {{\"key\":\"z\",\"value\":26}}\n"
    );
    std::fs::write(&file, lines).expect("written");
    let (out, err, code) = server.run_with(&["load", &file.display().to_string(), "--verify"], b"");
    assert_eq!(code, 4, "{out} {err}");
    assert!(out.contains("loaded 2 items"), "{out}");
    for line in [2, 4, 5, 6, 7, 8] {
        assert!(err.contains(&format!("line {line}: ")), "line {line}: {err}");
    }
    assert!(err.contains("6 records were skipped"), "{err}");
    assert_eq!(server.ok(&["get", "z"]), "26");
    let table = server.path("t.csv");
    std::fs::write(&table, "id,name\n1,one\n2,\"two, too\"\n").expect("written");
    let table = table.display().to_string();
    let (_, err, code) = server.run_with(&["load", &table], b"");
    assert!(code == 2 && err.contains("\"key\"") && err.contains("id, name"), "{err}");
    server.ok(&["load", &table, "--key", "id", "--value", "2", "--prefix", "t/"]);
    assert_eq!(server.ok(&["get", "t/2"]), "two, too");
    let (out, _, code) = server.run_with(&["load", "-", "--format", "tsv", "--no-header"], b"k\ta\\tb\n");
    assert_eq!(code, 0, "{out}");
    assert_eq!(server.ok(&["get", "k"]), "a\tb");
    assert_eq!(server.run_with(&["load", "-"], b"").2, 2, "stdin has no name to tell the format by");
}

#[test]
fn verification_finds_what_differs() {
    let server = Server::start(&[]);
    let file = server.path("two.jsonl");
    // The last record of a key counts: this is no difference.
    std::fs::write(&file, "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"a\",\"value\":\"2\"}\n")
        .expect("written");
    server.ok(&["load", &file.display().to_string(), "--verify"]);
    let resume = server.path("state").display().to_string();
    server.ok(&["load", &file.display().to_string(), "--resume", &resume]);
    server.ok(&["put", "a", "other"]);
    // Everything was loaded before, so that only the comparison is left to do.
    let (out, err, code) =
        server.run_with(&["load", &file.display().to_string(), "--resume", &resume, "--verify"], b"");
    assert_eq!(code, 6, "{out} {err}");
    assert!(err.contains("line 2") && err.contains("FAILED"), "{err}");
}

#[test]
fn a_killed_load_goes_on_where_it_was() {
    let server = Server::start(&["--memory", "256MiB"]);
    let file = server.path("many.tsv");
    let mut lines = String::from("key\tvalue\n");
    for i in 0..400_000 {
        lines.push_str(&format!("key-{i}\tvalue of {i}\n"));
    }
    std::fs::write(&file, &lines).expect("written");
    let (source, state) = (file.display().to_string(), server.path("state").display().to_string());
    let args = ["load", &source, "--resume", &state, "--pipeline", "4"];
    let done = || -> u64 {
        let text = std::fs::read_to_string(&state).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|v| v["done"].as_u64()).unwrap_or(0)
    };
    let mut child =
        server.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let began = Instant::now();
    while done() == 0 && began.elapsed() < PATIENCE && child.try_wait().expect("our child").is_none() {
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    let before = done();
    assert!(before > 0, "some of it was noted");
    let (out, err, code) = server.run_with(&[&args[..], &["--verify", "--json"]].concat(), b"");
    assert_eq!(code, 0, "{out} {err}");
    let loaded: serde_json::Value = serde_json::from_str(out.lines().next().expect("a line")).expect("JSON");
    assert_eq!(loaded["loaded"].as_u64(), Some(400_000 - before), "only the rest");
    let verified: serde_json::Value =
        serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
    assert_eq!(verified["verified"], 400_000, "but everything is compared");
    // A changed source, and a server with an empty memory, are noticed.
    std::fs::write(&file, lines + "one\tmore\n").expect("written");
    let (_, err, code) = server.run_with(&args, b"");
    assert!(code == 2 && err.contains("changed"), "{err}");
    std::fs::write(&state, "nonsense").expect("written");
    assert_eq!(server.run(&args).1, 2);
    server.stop();
}

#[test]
fn a_full_server_says_so_and_names_the_record() {
    let server = Server::start(&["--memory", "16MiB"]);
    let tree = server.path("tree");
    std::fs::create_dir(&tree).expect("a directory");
    for i in 0..20 {
        std::fs::write(tree.join(format!("{i:02}")), vec![i; 2 << 20]).expect("a file");
    }
    let (_, err, code) = server.run_with(&["load", &tree.display().to_string()], b"");
    assert!(code == 4 && err.contains("out of memory") && err.contains("key \""), "{err}");
    assert_eq!(finish(server.command(&["get", "00"]), b"").stdout.len(), 2 << 20, "reads go on");
    server.ok(&["del", "00"]);
}
