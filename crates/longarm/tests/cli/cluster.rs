//! Clusters of three nodes as processes: their start, the loss of a leader, of a group, and what `cluster
//! status` says.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{PATIENCE, finish, program, text, wait};

/// A group on sockets of a directory of its own; its processes end with it.
struct Group {
    directory: TempDir,
    nodes: Vec<Option<Child>>,
}

impl Group {
    fn init() -> Group {
        Group::with(&[])
    }

    /// The file of a cluster whose leases a busy test machine can keep.
    fn with(options: &[&str]) -> Group {
        let directory = TempDir::new().expect("a directory");
        let group = Group { directory, nodes: vec![None, None, None] };
        let nodes = [1, 2, 3].map(|n| format!("--node={n}=shm:{}", group.path(&format!("s{n}")).display()));
        let times = ["--lease=400ms", "--heartbeat=20ms", "--suspect=300ms", "--election=2s"];
        let mut args = vec!["cluster", "init", "g.toml"];
        args.extend(nodes.iter().map(String::as_str));
        args.extend(times);
        args.extend(options);
        let (out, err, code) = group.run(&args);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("longarm server --cluster g.toml --node 2\n"), "{out}");
        group
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a command in the directory of the group.
    fn run(&self, args: &[&str]) -> (String, String, i32) {
        let mut command = program();
        command.current_dir(self.directory.path()).args(args);
        let output = finish(command, b"");
        (text(&output.stdout), text(&output.stderr), output.status.code().expect("not killed"))
    }

    fn client(&self, args: &[&str]) -> String {
        let (out, err, code) = self.run(&[args, &["--cluster", "g.toml"]].concat());
        assert_eq!(code, 0, "{args:?}: {out} {err}\n{}", self.logs());
        out
    }

    fn start(&mut self, node: usize) {
        let log = std::fs::File::create(self.path(&format!("log{node}"))).expect("a file");
        let mut command = program();
        command.current_dir(self.directory.path()).env("LONGARM_MEMORY", "64MiB");
        command.args(["server", "--cluster", "g.toml", "--node", &node.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.nodes[node - 1] = Some(child.expect("the program runs"));
    }

    fn signal(&mut self, node: usize, signal: Signal) -> Option<i32> {
        let mut child = self.nodes[node - 1].take().expect("it was started");
        // One that is dead already needs no signal.
        let _ = kill_process(Pid::from_child(&child), signal);
        wait(&mut child).code()
    }

    fn status(&self) -> (Value, i32) {
        let (out, err, code) = self.run(&["cluster", "status", "g.toml", "--json", "--timeout", "2s"]);
        (serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {err}")), code)
    }

    /// Waits for a status, and gives its leader.
    fn until(&self, what: &str, good: impl Fn(&Value) -> bool) -> usize {
        let began = Instant::now();
        loop {
            let (status, code) = self.status();
            if code == 0 && good(&status) {
                return status["leader"].as_u64().expect("a leader") as usize;
            }
            assert!(began.elapsed() < PATIENCE, "no {what}: {status}\n{}", self.logs());
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
    }

    fn logs(&self) -> String {
        let log = |node: usize| {
            let said = std::fs::read_to_string(self.path(&format!("log{node}"))).unwrap_or_default();
            format!("node {node}:\n{said}")
        };
        (1..=3).map(log).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn in_sync(status: &Value) -> usize {
    status["nodes"].as_array().expect("nodes").iter().filter(|node| node["in_sync"] == true).count()
}

#[test]
fn a_group_of_three_outlives_its_leader() {
    let mut group = Group::init();
    let (status, code) = group.status();
    assert_eq!((code, &status["leader"]), (3, &Value::Null), "nobody runs");
    assert_eq!(status["nodes"][0]["role"], "unreachable");
    (1..=3).for_each(|node| group.start(node));
    let first = group.until("group in sync", |status| in_sync(status) == 3);
    group.client(&["put", "greeting", "hello"]);
    assert_eq!(group.client(&["get", "greeting"]), "hello");
    assert!(group.logs().contains(", node 2 of a group of 3"), "{}", group.logs());
    let (table, _, _) = group.run(&["cluster", "status", "g.toml"]);
    assert!(table.contains("leader") && table.contains("follower"), "{table}");

    group.signal(first, Signal::KILL);
    assert_eq!(group.client(&["get", "greeting"]), "hello", "what was acknowledged is there");
    let second = group.until("new leader", |status| status["leader"] != first && in_sync(status) == 2);
    assert_ne!(first, second);
    group.client(&["put", "greeting", "again"]);
    let (status, _) = group.status();
    assert_eq!(status["nodes"][first - 1]["role"], "unreachable", "{status}");

    // It comes back without its memory, and is synced.
    group.start(first);
    group.until("group in sync again", |status| in_sync(status) == 3);
    assert_eq!(group.client(&["get", "greeting"]), "again");
    assert!(group.path(&format!("g.toml.node-{first}")).join("promise").is_file());
    for node in 1..=3 {
        assert_eq!(group.signal(node, Signal::TERM), Some(0), "SIGTERM is a good end: {}", group.logs());
    }
    let (_, err, code) = group.run(&["get", "greeting", "--cluster", "g.toml", "--timeout", "300ms"]);
    assert!(code == 3 && err.contains("longarm cluster status g.toml"), "{code} {err}");
}

#[test]
fn what_is_no_replica_is_refused() {
    let group = Group::init();
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
        (vec!["--cluster", "g.toml", "--node", "1", "--arena-dir", "."], "not kept in files"),
    ] {
        let (_, err, code) = group.run(&[vec!["server"], args.clone()].concat());
        assert!(code == 2 && err.contains(part), "{args:?}: {code} {err}");
    }
    let (_, err, code) = group.run(&["cluster", "init", "h.toml", "--node", "1=tcp://a:1", "--lease", "5ms"]);
    assert!(code == 2 && err.contains("timing: "), "{err}");
}

/// What `cluster status` says of each group.
fn each(group: &Group) -> (Vec<Value>, i32) {
    let (out, err, code) = group.run(&["cluster", "status", "g.toml", "--json", "--timeout", "2s"]);
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line} {err}"));
    (out.lines().map(parse).collect(), code)
}

fn until_each(group: &Group, what: &str, good: impl Fn(&[Value]) -> bool) -> Vec<Value> {
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

#[test]
fn three_groups_on_three_nodes_outlive_a_node() {
    let mut group = Group::with(&["--groups=3"]);
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

    group.signal(2, Signal::KILL);
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
    let mut group = Group::with(&["--groups=3", "--replicas=1"]);
    (1..=3).for_each(|node| group.start(node));
    until_each(&group, "leaders", |status| status.iter().all(|group| group["leader"].is_u64()));
    for i in 0..20 {
        group.client(&["put", &format!("key {i}"), "there"]);
    }
    group.signal(3, Signal::KILL);
    let (mut there, mut gone) = (0, String::new());
    for i in 0..20 {
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
