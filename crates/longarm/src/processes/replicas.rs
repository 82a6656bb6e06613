//! The nodes of a cluster, each a process with a replica of every group: started, sent signals, and ended
//! with this process.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};

use longarm_base::NodeId;
use longarm_fabric::Address;
use longarm_server::{Member, Timing};
use rustix::process::{Pid, Signal, kill_process};

use super::{Directory, Journal, end, server};
use crate::cluster::{self, Cluster, Division};
use crate::output::{Exit, Failure};

/// What they are to be.
pub struct Plan {
    /// The program `longarm`, whose servers they are.
    pub program: PathBuf,
    /// Names its directory.
    pub name: &'static str,
    /// Its times.
    pub timing: Timing,
    /// Where each replica listens, numbered from 1; `None` for sockets in a directory of theirs.
    pub listen: Option<Vec<Address>>,
    /// The RDMA device of each; none where there is no need.
    pub devices: Vec<String>,
    /// How many there are.
    pub count: u8,
    /// How many groups, all with a replica on each.
    pub groups: u8,
    /// Bytes of memory of each.
    pub memory: u64,
    /// Threads of each that execute writes.
    pub workers: u8,
}

/// Such processes.
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
    /// The group as this replica sees it.
    file: PathBuf,
    /// It is none of those of the beginning.
    joins: bool,
    child: Option<Child>,
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // One that is stopped could not end.
            let _ = kill_process(Pid::from_child(child), Signal::CONT);
            end(child);
        }
    }
}

/// A replica that is no more.
pub struct Ended {
    /// Which.
    pub node: NodeId,
    /// How.
    pub status: ExitStatus,
}

impl Ended {
    /// Whether it was killed: by us, or by others of its group that took it for lost.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(Signal::KILL.as_raw())
    }
}

impl Replicas {
    /// A group whose replicas are not started yet.
    pub fn draw(plan: Plan) -> Result<Replicas, Failure> {
        let directory = Directory::create(plan.name)?;
        let journal = Journal::create(directory.path().join("log"))?;
        let address = |number: u8| match &plan.listen {
            Some(addresses) => addresses[usize::from(number) - 1].clone(),
            None => Address::Shm(directory.path().join(format!("s{number}"))),
        };
        let member = |number| Member { node: NodeId(number), address: address(number) };
        let division = Division { groups: plan.groups.into(), replicas: plan.count.into() };
        let cluster = cluster::draw((1..=plan.count).map(member).collect(), division, plan.timing)?;
        cluster::create(&cluster, &directory.path().join("group.toml"))?;
        let node = |member: &Member| Node {
            number: member.node,
            file: directory.path().join("group.toml"),
            joins: false,
            child: None,
        };
        let nodes = cluster.nodes.iter().map(node).collect();
        Ok(Replicas { nodes, cluster, plan, journal, directory })
    }

    /// Lets a replica find the others, and others be named by it, at these addresses.
    pub fn see_others_at(&mut self, node: NodeId, nodes: Vec<Member>) -> Result<(), Failure> {
        let file = self.directory.path().join(format!("group-{node}.toml"));
        cluster::create(&Cluster { nodes, ..self.cluster.clone() }, &file)?;
        self.node(node).file = file;
        Ok(())
    }

    /// One more node, with a replica of every group: it can be started, and waits for these to take it. It
    /// has no number that another one had. All find each other as the file says.
    pub fn add(&mut self, node: NodeId, address: Option<Address>) -> Result<Member, Failure> {
        let address = address.unwrap_or_else(|| Address::Shm(self.directory.path().join(format!("s{node}"))));
        let member = Member { node, address };
        self.cluster.nodes.push(member.clone());
        self.cluster.groups.iter_mut().for_each(|group| group.replicas.push(node));
        let file = self.file();
        cluster::replace(&self.cluster, &file)?;
        self.nodes.push(Node { number: node, file, joins: true, child: None });
        Ok(member)
    }

    /// A node that no group has a replica on any more: its process ends.
    pub fn remove(&mut self, node: NodeId) -> Result<(), Failure> {
        if let Some(mut child) = self.node(node).child.take() {
            // One that cannot be killed has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.nodes.retain(|one| one.number != node);
        self.cluster.nodes.retain(|member| member.node != node);
        self.cluster.groups.iter_mut().for_each(|group| group.replicas.retain(|one| *one != node));
        cluster::replace(&self.cluster, &self.file())
    }

    /// The group, with the addresses where replicas listen.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Its file.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("group.toml")
    }

    /// What replicas say.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Its files stay.
    pub fn keep_files(&mut self) {
        self.directory.keep();
    }

    fn node(&mut self, node: NodeId) -> &mut Node {
        self.nodes.iter_mut().find(|one| one.number == node).expect("a node of this group")
    }

    /// The process of a replica; `None` if it does not run.
    pub fn pid(&self, node: NodeId) -> Option<u32> {
        self.nodes.iter().find(|one| one.number == node)?.child.as_ref().map(Child::id)
    }

    /// Starts a replica that does not run.
    pub fn start(&mut self, node: NodeId) -> Result<(), Failure> {
        let system = |error: std::io::Error| {
            Failure::new(Exit::System, format!("cannot start node {node} of the group: {error}"))
        };
        let (memory, workers) = (self.plan.memory.to_string(), self.plan.workers.to_string());
        let data = self.directory.path().join(format!("node-{node}"));
        let device = self.plan.devices.get(usize::from(node.0) - 1).cloned();
        let mut command = server(&self.plan.program);
        let (journal, one) = (self.journal.clone(), self.node(node));
        assert!(one.child.is_none(), "node {node} runs already");
        command.arg("--cluster").arg(&one.file).arg("--data").arg(data);
        command.args(["--node", &node.to_string(), "--memory", &memory, "--workers", &workers]);
        command.args(one.joins.then_some("--join"));
        command.args(device.iter().flat_map(|device| ["--verbs-device", device]));
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(system)?;
        let said = child.stderr.take();
        one.child = Some(child);
        said.map_or(Ok(()), |said| journal.follow(&format!("node {node}"), said))
    }

    /// Starts all that do not run.
    pub fn start_all(&mut self) -> Result<(), Failure> {
        let idle: Vec<NodeId> =
            self.nodes.iter().filter(|one| one.child.is_none()).map(|one| one.number).collect();
        idle.into_iter().try_for_each(|node| self.start(node))
    }

    /// Sends a signal to a replica, if it runs.
    pub fn signal(&mut self, node: NodeId, signal: Signal) {
        if let Some(child) = &self.node(node).child {
            // It is our child and not waited for yet, so the number is still its own.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// Those that ended since the last call.
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

    /// Asks all to stop, waits for it, and says how each that ran ended.
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
