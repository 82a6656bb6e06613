//! The nodes of a cluster, each a process with a replica of every group. They are started, sent signals, and
//! ended with this process.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};

use longarm_base::limits::LOSS_WINDOW;
use longarm_fabric::Address;
use longarm_server::Timing;
use rustix::process::{Pid, Signal, kill_process};

use super::{Directory, Journal, end, server};
use crate::cluster::{self, Cluster, Division, Durability, NodeAt, NodeId};
use crate::output::{Exit, Failure};

/// The cluster that is to be made, and how its nodes run.
pub struct Plan {
    /// The program `longarm`, which the nodes run.
    pub program: PathBuf,
    /// A part of the name of their directory.
    pub name: &'static str,
    /// The times of the cluster.
    pub timing: Timing,
    /// The address of each node, from node 1 on; `None` for sockets in their directory.
    pub listen: Option<Vec<Address>>,
    /// The RDMA device of each node; empty if the transport needs none.
    pub devices: Vec<String>,
    /// The number of nodes.
    pub count: u8,
    /// The number of groups; each has a replica on every node.
    pub groups: u8,
    /// Bytes of memory of each node.
    pub memory: u64,
    /// Threads of each node that execute writes.
    pub workers: u8,
    /// Whether followers keep an ordered index.
    pub ordered: bool,
    /// What an acknowledged write outlives.
    pub durability: Durability,
}

/// The nodes of a cluster as processes.
pub struct Replicas {
    // Dropped in this order: processes end before their files go.
    nodes: Vec<Node>,
    cluster: Cluster,
    plan: Plan,
    journal: Journal,
    directory: Directory,
}

struct Node {
    number: NodeId,
    /// The file of the cluster as this node sees it.
    file: PathBuf,
    /// Whether the node was added after the cluster began.
    joins: bool,
    child: Option<Child>,
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // A process that is stopped could not end.
            let _ = kill_process(Pid::from_child(child), Signal::CONT);
            end(child);
        }
    }
}

/// A node whose process has ended.
pub struct Ended {
    /// The node.
    pub node: NodeId,
    /// How its process ended.
    pub status: ExitStatus,
}

impl Ended {
    /// Whether the node was killed: by this process, or by nodes of its groups that took it for lost.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(Signal::KILL.as_raw())
    }
}

impl Replicas {
    /// Makes a cluster whose nodes are not started yet.
    pub fn draw(plan: Plan) -> Result<Replicas, Failure> {
        let directory = Directory::create(plan.name)?;
        let journal = Journal::create(directory.path().join("log"))?;
        let address = |number: u8| match &plan.listen {
            Some(addresses) => addresses[usize::from(number) - 1].clone(),
            None => Address::Shm(directory.path().join(format!("s{number}"))),
        };
        let at = |number: u8| NodeAt { node: NodeId(number.into()), address: address(number) };
        let division = Division {
            groups: plan.groups.into(),
            replicas: plan.count.into(),
            durability: plan.durability,
            loss_window: LOSS_WINDOW,
        };
        let cluster = cluster::draw((1..=plan.count).map(at).collect(), division, plan.timing)?;
        cluster::create(&cluster, &directory.path().join("group.toml"))?;
        let node = |at: &NodeAt| Node {
            number: at.node,
            file: directory.path().join("group.toml"),
            joins: false,
            child: None,
        };
        let nodes = cluster.nodes.iter().map(node).collect();
        Ok(Replicas { nodes, cluster, plan, journal, directory })
    }

    /// Lets a node find the other nodes at these addresses, and name them so to others.
    pub fn see_others_at(&mut self, node: NodeId, nodes: Vec<NodeAt>) -> Result<(), Failure> {
        let file = self.directory.path().join(format!("group-{node}.toml"));
        cluster::create(&Cluster { nodes, ..self.cluster.clone() }, &file)?;
        self.node(node).file = file;
        Ok(())
    }

    /// Adds a node with a replica of every group. Once it is started, it waits for the groups to take it. Its
    /// number must be one that no other node had. All nodes find each other as the file says.
    pub fn add(&mut self, node: NodeId, address: Option<Address>) -> Result<NodeAt, Failure> {
        let address = address.unwrap_or_else(|| Address::Shm(self.directory.path().join(format!("s{node}"))));
        let at = NodeAt { node, address };
        self.cluster.nodes.push(at.clone());
        self.cluster.groups.iter_mut().for_each(|group| group.place(node));
        let file = self.file();
        cluster::replace(&self.cluster, &file)?;
        self.nodes.push(Node { number: node, file, joins: true, child: None });
        Ok(at)
    }

    /// Removes a node on which no group has a replica any more, and ends its process.
    pub fn remove(&mut self, node: NodeId) -> Result<(), Failure> {
        if let Some(mut child) = self.node(node).child.take() {
            // A process that cannot be killed has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.nodes.retain(|one| one.number != node);
        self.cluster.nodes.retain(|at| at.node != node);
        self.cluster.groups.iter_mut().for_each(|group| group.replicas.retain(|one| one.node != node));
        cluster::replace(&self.cluster, &self.file())
    }

    /// The cluster, with the addresses at which its nodes listen.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The file of the cluster.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("group.toml")
    }

    /// The file of what the nodes say.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Lets the files of the nodes stay.
    pub fn keep_files(&mut self) {
        self.directory.keep();
    }

    fn node(&mut self, node: NodeId) -> &mut Node {
        self.nodes.iter_mut().find(|one| one.number == node).expect("a node of this group")
    }

    /// The process id of a node; `None` if it does not run.
    pub fn pid(&self, node: NodeId) -> Option<u32> {
        self.nodes.iter().find(|one| one.number == node)?.child.as_ref().map(Child::id)
    }

    /// Starts a node that does not run.
    pub fn start(&mut self, node: NodeId) -> Result<(), Failure> {
        let system = |error: std::io::Error| {
            Failure::new(Exit::System, format!("cannot start node {node} of the group: {error}"))
        };
        let (memory, workers) = (self.plan.memory.to_string(), self.plan.workers.to_string());
        let ordered = self.plan.ordered.to_string();
        let data = self.directory.path().join(format!("node-{node}"));
        let device = self.plan.devices.get(node.0 as usize - 1).cloned();
        let mut command = server(&self.plan.program);
        // Processes are killed here, and the machine goes on: files will do.
        let is_memory = self.plan.durability == Durability::Pmem;
        let (journal, one) = (self.journal.clone(), self.node(node));
        assert!(one.child.is_none(), "node {node} runs already");
        command.arg("--cluster").arg(&one.file).arg("--data").arg(data);
        command.args(["--node", &node.to_string(), "--memory", &memory, "--workers", &workers]);
        command.args(["--ordered", &ordered]);
        command.args(["--pmem", "file"].iter().filter(|_| is_memory));
        command.args(one.joins.then_some("--join"));
        command.args(device.iter().flat_map(|device| ["--verbs-device", device]));
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(system)?;
        let said = child.stderr.take();
        one.child = Some(child);
        said.map_or(Ok(()), |said| journal.follow(&format!("node {node}"), said))
    }

    /// Starts all nodes that do not run.
    pub fn start_all(&mut self) -> Result<(), Failure> {
        let idle: Vec<NodeId> =
            self.nodes.iter().filter(|one| one.child.is_none()).map(|one| one.number).collect();
        idle.into_iter().try_for_each(|node| self.start(node))
    }

    /// Sends a signal to a node, if it runs.
    pub fn signal(&mut self, node: NodeId, signal: Signal) {
        if let Some(child) = &self.node(node).child {
            // The child was not waited for yet, so the process id is still its own.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// Finds the nodes that ended since the last call.
    pub fn ended(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        for one in &mut self.nodes {
            if let Some(Ok(Some(status))) = one.child.as_mut().map(Child::try_wait) {
                one.child = None;
                ended.push(Ended { node: one.number, status });
            }
        }
        ended
    }

    /// Asks all nodes to stop, waits for them, and says how each node that ran ended.
    pub fn stop(&mut self) -> Vec<Ended> {
        let mut running: Vec<(NodeId, Child)> = Vec::new();
        for one in &mut self.nodes {
            if let Some(mut child) = one.child.take() {
                drop(child.stdin.take());
                running.push((one.number, child));
            }
        }
        let waited = running.into_iter().filter_map(|(node, mut child)| {
            end(&mut child);
            child.wait().ok().map(|status| Ended { node, status })
        });
        waited.collect()
    }
}
