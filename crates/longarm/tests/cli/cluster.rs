//! Three replicas as processes: their start, the loss of the leader, and what `cluster status` says.

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
    /// The file of a group whose lease a busy test machine can keep.
    fn init() -> Group {
        let directory = TempDir::new().expect("a directory");
        let group = Group { directory, nodes: vec![None, None, None] };
        let nodes = [1, 2, 3].map(|n| format!("--node={n}=shm:{}", group.path(&format!("s{n}")).display()));
        let times = ["--lease=400ms", "--heartbeat=20ms", "--suspect=300ms", "--election=2s"];
        let mut args = vec!["cluster", "init", "g.toml"];
        args.extend(nodes.iter().map(String::as_str));
        args.extend(times);
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
        (vec!["--cluster", "g.toml", "--node", "4"], "node 4 is not of the group of g.toml: it has 1, 2, 3"),
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
