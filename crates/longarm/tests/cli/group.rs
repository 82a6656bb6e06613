//! Three replicas as processes in a directory of their own, over any transport.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{PATIENCE, finish, program, text, wait};

/// Times that a busy test machine can keep.
pub const TIMES: [&str; 4] = ["--lease=400ms", "--heartbeat=20ms", "--suspect=300ms", "--election=2s"];

/// A group; its processes end when it is dropped.
pub struct Group {
    directory: TempDir,
    nodes: Vec<Option<Child>>,
    /// RDMA devices of clients and of nodes 1, 2, 3; none where the transport needs none.
    devices: Vec<String>,
}

impl Group {
    /// Makes the file of a group with these options. `address` names the address of a node, perhaps in the
    /// group's directory.
    pub fn init(devices: Vec<String>, options: &[&str], address: impl Fn(usize, &Path) -> String) -> Group {
        let directory = TempDir::new().expect("a directory");
        let nodes = [1, 2, 3].map(|node| format!("--node={node}={}", address(node, directory.path())));
        let group = Group { directory, nodes: vec![None, None, None], devices };
        let mut args = vec!["cluster", "init", "g.toml"];
        args.extend(nodes.iter().map(String::as_str));
        args.extend(options);
        let (out, err, code) = group.run(&args);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("longarm server --cluster g.toml --node 2\n"), "{out}");
        group
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Makes a command in the directory of the group, with the device of a node; 0 stands for clients.
    fn program(&self, node: usize) -> Command {
        let mut command = program();
        command.current_dir(self.directory.path()).env("LONGARM_MEMORY", "64MiB");
        // Ordinary files stand for persistent memory.
        command.env("LONGARM_PMEM", "file");
        if let Some(device) = self.devices.get(node) {
            command.env("LONGARM_VERBS_DEVICE", device);
        }
        command
    }

    /// Runs a command in the directory of the group.
    pub fn run(&self, args: &[&str]) -> (String, String, i32) {
        let mut command = self.program(0);
        command.args(args);
        let output = finish(command, b"");
        (text(&output.stdout), text(&output.stderr), output.status.code().expect("not killed"))
    }

    /// Runs a client's command, which must succeed.
    pub fn client(&self, args: &[&str]) -> String {
        let (out, err, code) = self.run(&[args, &["--cluster", "g.toml"]].concat());
        assert_eq!(code, 0, "{args:?}: {out} {err}\n{}", self.logs());
        out
    }

    pub fn start(&mut self, node: usize) {
        self.start_with(node, &[]);
    }

    /// Starts a node, perhaps one that the group did not begin with.
    pub fn start_with(&mut self, node: usize, options: &[&str]) {
        if self.nodes.len() < node {
            self.nodes.resize_with(node, || None);
        }
        let log = std::fs::File::options().append(true).create(true).open(self.path(&format!("log{node}")));
        let mut command = self.program(node);
        command.args(["server", "--cluster", "g.toml", "--node", &node.to_string()]).args(options);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a file")).spawn();
        self.nodes[node - 1] = Some(child.expect("the program runs"));
    }

    /// Starts all three nodes; gives the leader, once all are in sync.
    pub fn start_all(&mut self) -> usize {
        (1..=3).for_each(|node| self.start(node));
        self.until("group in sync", |status| in_sync(status) == 3)
    }

    /// Sends a signal to a node; a node that is dead already needs none.
    pub fn signal(&self, node: usize, signal: Signal) {
        let child = self.nodes[node - 1].as_ref().expect("it was started");
        let _ = kill_process(Pid::from_child(child), signal);
    }

    /// Ends a node by a signal; gives its exit code, if it still could give one.
    pub fn end(&mut self, node: usize, signal: Signal) -> Option<i32> {
        self.signal(node, signal);
        wait(&mut self.nodes[node - 1].take().expect("it was started")).code()
    }

    /// Gives what `cluster status` says, and its exit code.
    pub fn status(&self) -> (Value, i32) {
        let (out, err, code) = self.run(&["cluster", "status", "g.toml", "--json", "--timeout", "2s"]);
        (serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {err}")), code)
    }

    /// Waits for a status, and gives its leader.
    pub fn until(&self, what: &str, good: impl Fn(&Value) -> bool) -> usize {
        let began = Instant::now();
        loop {
            let (status, code) = self.status();
            if code == 0 && good(&status) {
                return status["leader"].as_u64().expect("a leader") as usize;
            }
            assert!(began.elapsed() < PATIENCE, "no {what}: {status}\n{}", self.logs());
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// What a node said so far.
    pub fn log(&self, node: usize) -> String {
        std::fs::read_to_string(self.path(&format!("log{node}"))).unwrap_or_default()
    }

    pub fn logs(&self) -> String {
        (1..=3).map(|node| format!("node {node}:\n{}", self.log(node))).collect()
    }

    /// Checks the loss of the leader and its return, as a user sees them.
    pub fn outlives_its_leader(&mut self) {
        let first = self.start_all();
        self.client(&["put", "greeting", "hello"]);
        assert_eq!(self.client(&["get", "greeting"]), "hello");
        assert!(self.logs().contains(", node 2 of a group of 3"), "{}", self.logs());
        let (table, _, _) = self.run(&["cluster", "status", "g.toml"]);
        assert!(table.contains("leader") && table.contains("follower"), "{table}");

        self.end(first, Signal::KILL);
        assert_eq!(self.client(&["get", "greeting"]), "hello", "what was acknowledged is there");
        let second = self.until("new leader", |status| status["leader"] != first && in_sync(status) == 2);
        assert_ne!(first, second);
        self.client(&["put", "greeting", "again"]);
        let (status, _) = self.status();
        assert_eq!(status["nodes"][first - 1]["role"], "unreachable", "{status}");

        // The first leader comes back without its memory, and is synced.
        self.start(first);
        self.until("group in sync again", |status| in_sync(status) == 3);
        assert_eq!(self.client(&["get", "greeting"]), "again");
        assert!(self.path(&format!("g.toml.node-{first}")).join("promise").is_file());
    }

    /// Checks that SIGTERM ends all nodes well, and that no node answers then.
    pub fn ends_well(&mut self) {
        for node in 1..=3 {
            assert_eq!(self.end(node, Signal::TERM), Some(0), "SIGTERM is a good end: {}", self.logs());
        }
        let (_, err, code) = self.run(&["get", "greeting", "--cluster", "g.toml", "--timeout", "300ms"]);
        assert!(code == 3 && err.contains("longarm cluster status g.toml"), "{code} {err}");
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

/// How many nodes a status calls in sync.
pub fn in_sync(status: &Value) -> usize {
    status["nodes"].as_array().expect("nodes").iter().filter(|node| node["in_sync"] == true).count()
}
