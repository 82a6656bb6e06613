//! `longarm bench` of scans, with a group of its own for a moment.

use serde_json::{Value, json};

use crate::harness::{finish, program, text};

/// Runs the benchmark of a small store, and gives its report.
fn bench(words: &[&str]) -> Value {
    let mut command = program();
    let small = ["--keys", "2000", "--seconds", "0.3", "--warm-up", "100ms", "--runs", "1"];
    command.args(["bench", "--json"]).args(words).args(small);
    let out = finish(command, b"");
    assert!(out.status.success(), "{}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out.stdout)))
}

#[test]
fn scans_are_measured_in_a_group_of_their_own() {
    let report = bench(&["e", "--compare", "floor", "--transports", "shm"]);
    let results = report["points"][0]["results"].as_array().expect("results");
    assert_eq!(
        (&results[0]["target"], &results[1]["target"]),
        (&"longarm-group-shm".into(), &"floor".into())
    );
    for result in results {
        let counts = &result["summary"]["counts"];
        let operations = counts["operations"].as_u64().expect("a number");
        let items = counts["items"].as_u64().expect("a number");
        // Fifty items a scan on average, and nineteen scans in twenty operations.
        assert!(operations > 0 && items > operations * 30 && items < operations * 60, "{counts}");
        assert!(counts["checked"].as_u64() > Some(0) && counts["wrong"] == 0, "{counts}");
    }
    let run = &results[0]["runs"][0];
    assert!(run["server_cpu"].as_f64() >= run["leader_cpu"].as_f64() && run["leader_cpu"].is_f64(), "{run}");
    assert!(results[1]["runs"][0]["server_cpu"].is_null(), "the floor has no server");
}

#[test]
fn scans_of_several_lengths_are_a_sweep() {
    let report = bench(&["scan", "--limit", "1,20", "--keys-only", "--clients", "2", "--transports", "tcp"]);
    let points = report["points"].as_array().expect("points");
    for (point, limit) in points.iter().zip([1, 20]) {
        assert_eq!(point["setting"], json!({ "name": "limit", "value": limit as f64 }));
        let counts = &point["results"][0]["summary"]["counts"];
        let [operations, items] =
            ["operations", "items"].map(|name| counts[name].as_u64().expect("a number"));
        // Those that end at the end of the store are shorter.
        assert!(items > 0 && items <= operations * limit && items >= operations * limit * 9 / 10, "{counts}");
    }
    assert_eq!(points.len(), 2);
}

#[test]
fn scans_of_what_has_no_order_are_refused_before_anything_runs() {
    for (words, named) in [
        (&["e", "--replicas", "1"][..], "--replicas 1"),
        (&["scan", "--depth", "8"], "depth"),
        (&["get", "--limit", "7"], "limit"),
    ] {
        let mut command = program();
        command.arg("bench").args(words);
        let out = finish(command, b"");
        assert!(out.status.code() == Some(2) && text(&out.stderr).contains(named), "{}", text(&out.stderr));
    }
}
