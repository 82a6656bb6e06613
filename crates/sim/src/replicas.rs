//! The servers of a world: a single one, or the nodes of a cluster.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longarm_base::{Csn, Nanos, ReplicaId, Term};
use longarm_client::{GroupAt, Topology};
use longarm_fabric::Address;
use longarm_fabric::sim::Sim;
use longarm_server::{
    Contents, Durable, GroupOptions, GroupStats, Held, Keys, Member, Promise, Server, ServerOptions, Timing,
    VoteStore,
};

use crate::drive::{DiskPlan, Drive};
use crate::memory::PersistentMemory;
use crate::operator::{self, Tools};
use crate::ordered::Ordered;

/// The time between two looks at whether a server is to end.
const LOOK: Duration = Duration::from_millis(2);
/// How long a server that is told to end gives its clients.
const DRAIN: Duration = Duration::from_millis(100);

/// A disk that takes its time, and outlives its machine's memory.
#[derive(Debug, Default)]
pub struct Disk {
    kept: Mutex<Option<Promise>>,
    /// How long a write takes.
    pub fsync: Duration,
}

impl VoteStore for Disk {
    fn load(&self) -> std::io::Result<Option<Promise>> {
        Ok(self.kept.lock().expect("nobody panics with it").clone())
    }

    fn store(&self, promise: &Promise) -> std::io::Result<()> {
        longarm_host::sleep(self.fsync);
        *self.kept.lock().expect("nobody panics with it") = Some(promise.clone());
        Ok(())
    }
}

/// The age of a set of replicas: the term whose leader said so, and whether that leader changed the set it
/// had. Of two sets the one of the higher rank is newer.
type Rank = (Term, bool);

impl Disk {
    fn reformat(&self) {
        *self.kept.lock().expect("nobody panics with it") = None;
    }

    /// The newest set of replicas on the disk; empty if there is none.
    fn members(&self) -> (Rank, BTreeSet<u32>) {
        let kept = self.kept.lock().expect("nobody panics with it");
        let Some(Promise { members, .. }) = &*kept else { return Default::default() };
        let nodes = members.list.iter().map(|member| u32::from(member.replica.0));
        ((members.term, members.changed), nodes.collect())
    }
}

/// How many servers a run has, and what they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterSize {
    /// The number of servers. More than one are the nodes of a cluster.
    pub servers: u32,
    /// The number of servers, the first ones, that are replicas at first.
    pub founders: u32,
    /// The number of groups; each has a replica on every node.
    pub groups: u32,
}

/// The servers of a run.
pub struct Servers {
    /// Their addresses; their machines are the first ones, in this order.
    pub addresses: Vec<Address>,
    founders: usize,
    groups: u32,
    /// Whether every second node has one more worker.
    pub uneven: bool,
    /// Which servers keep an ordered index.
    pub ordered: Ordered,
    options: ServerOptions,
    timing: Timing,
    /// The disk of each server that keeps its data; a server alone is a group of one then.
    drives: Vec<Arc<Drive>>,
    /// The persistent memory of each server that serves from it.
    memories: Vec<Rc<PersistentMemory>>,
    /// By node and group.
    disks: Vec<Vec<Arc<Disk>>>,
    standing: Vec<Rc<RefCell<Vec<Stands>>>>,
    contents: Vec<Rc<RefCell<Vec<Contents>>>>,
    ends: Vec<Rc<Cell<End>>>,
}

/// Whether a server is to end.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum End {
    #[default]
    Not,
    Wanted,
    Done,
}

/// Shows how a replica stands in its group.
type Stands = Arc<dyn Fn() -> GroupStats + Send + Sync>;

/// The key of the first group's hashes; the other groups' keys are the next numbers.
pub(crate) const HASH_KEY: u64 = 0x4A54;

/// The key of the first group's checksums, as those.
const SUM_KEY: u64 = 0x5EED;

/// The name of the first group; the other groups' names are the next numbers.
const GROUP: u64 = 7;

impl Servers {
    /// The servers of a run that has not begun. `fsync` is how long a disk takes to keep a promise.
    pub fn new(size: ClusterSize, options: ServerOptions, timing: Timing, fsync: Duration) -> Servers {
        let ClusterSize { servers: count, founders, groups } = size;
        let disk = |_| Arc::new(Disk { fsync, ..Disk::default() });
        Servers {
            addresses: (0..count).map(|node| Address::Sim(format!("node{node}"))).collect(),
            founders: founders as usize,
            groups,
            uneven: groups > 1,
            ordered: Ordered::None,
            options,
            timing,
            drives: Vec::new(),
            memories: Vec::new(),
            disks: (0..count).map(|_| (0..groups).map(disk).collect()).collect(),
            standing: (0..count).map(|_| Rc::default()).collect(),
            contents: (0..count).map(|_| Rc::default()).collect(),
            ends: (0..count).map(|_| Rc::default()).collect(),
        }
    }

    /// Has each server keep its data.
    pub fn keep(&mut self, plan: DiskPlan, seed: u64) {
        let drive = |node: usize| Arc::new(Drive::new(plan, seed.wrapping_add(node as u64)));
        self.drives = (0..self.addresses.len()).map(drive).collect();
    }

    /// Has each server serve from persistent memory.
    pub fn serve_from_memory(&mut self, seed: u64) {
        let keys = Keys { sum: SUM_KEY, hash: HASH_KEY };
        let memory = |node: usize| Rc::new(PersistentMemory::new(seed.wrapping_add(node as u64), keys));
        self.memories = (0..self.addresses.len()).map(memory).collect();
    }

    /// The persistent memory of a server loses its power, before the tasks of the server end.
    pub fn lose_memory_power(&self, node: u32) {
        self.memories.get(node as usize).iter().for_each(|memory| memory.lose_power());
    }

    /// A server that keeps its data loses its power.
    pub fn lose_power(&self, node: u32) {
        if let Some(drive) = self.drives.get(node as usize) {
            drive.lose_power();
        }
    }

    /// A byte of what a server keeps changes by itself. Whether there is one, and the server has read all
    /// that it kept.
    pub fn rot(&self, node: u32, seed: u64) -> bool {
        let has_started = !self.standing[node as usize].borrow().is_empty();
        has_started && self.drives.get(node as usize).is_some_and(|drive| drive.rot(seed))
    }

    /// Whether that was not written again since.
    pub fn is_rotten(&self, node: u32) -> bool {
        self.drives.get(node as usize).is_some_and(|drive| drive.is_rotten())
    }

    /// Whether servers keep their data on disks.
    pub fn keeps(&self) -> bool {
        !self.drives.is_empty()
    }

    /// Whether what servers keep outlives any loss of power.
    pub fn outlive_power(&self) -> bool {
        self.keeps() || !self.memories.is_empty()
    }

    /// What a client must know of the servers.
    pub fn topology(&self) -> Topology {
        let founders = self.addresses[..self.founders].to_vec();
        if self.groups == 1 {
            return Topology::of_one(founders);
        }
        let group = |number| GroupAt { id: GROUP + u64::from(number), addresses: founders.clone() };
        Topology::new(0x91ACE, (0..self.groups).map(group).collect())
    }

    /// How a node stands in the first group, as it reported last.
    pub fn told(&self, node: u32) -> GroupStats {
        self.told_of(node, 0)
    }

    fn told_of(&self, node: u32, group: usize) -> GroupStats {
        let stands = self.standing[node as usize].borrow().get(group).cloned();
        stands.map_or_else(GroupStats::default, |stands| stands())
    }

    /// Whether a node's memory counts in all groups, as far as it reported.
    pub fn is_synced(&self, node: u32) -> bool {
        let standing = self.standing[node as usize].borrow();
        !standing.is_empty() && standing.iter().all(|stands| stands().sync.is_some())
    }

    /// Whether a term of any group has begun. From then on a replica that has no part in one is as good as
    /// lost.
    pub fn has_begun(&self) -> bool {
        let begun = |stands: &Stands| stands().sync.is_some_and(|sync| sync != Term::ZERO.to_string());
        self.standing.iter().any(|standing| standing.borrow().iter().any(begun))
    }

    /// Compares what the replicas hold when no client writes any more: the newest version of each key is the
    /// same at each replica (I3, I16). An error if no replica leads, or one is not in sync with the leader.
    pub fn agree(&self) -> Result<(), String> {
        (0..self.groups as usize).try_for_each(|group| {
            self.agrees(group)
                .map_err(|apart| if self.groups == 1 { apart } else { format!("group {group}: {apart}") })
        })
    }

    fn agrees(&self, group: usize) -> Result<(), String> {
        let members = self.members_of(group)?;
        let held = |node: u32| self.held(group, node);
        let one = members[0];
        let first = held(one);
        for &node in &members[1..] {
            let other = held(node);
            let differs = |key: &&Vec<u8>| first.get(*key) != other.get(*key);
            if let Some(key) = first.keys().chain(other.keys()).find(differs) {
                let name = String::from_utf8_lossy(key);
                let version = |held: &Held| held.get(key).map(|(csn, _)| csn.0);
                let (here, there) = (version(&first), version(&other));
                return Err(format!("{name}: node {one} has version {here:?}, node {node} {there:?} (I3)"));
            }
        }
        Ok(())
    }

    /// The replicas of a group, by what its leader has on disk. An error if no replica leads, or one of them
    /// is not in sync with the leader.
    pub fn members_of(&self, group: usize) -> Result<Vec<u32>, String> {
        let told = |node: u32| self.told_of(node, group);
        let leader = (0..self.standing.len() as u32).map(told).find(|told| told.role == "leader");
        let leader = leader.ok_or("healed, and nobody leads (I20)")?;
        let members: Vec<u32> =
            self.disks[usize::from(leader.replica)][group].members().1.into_iter().collect();
        // The leader counts it: one that came back from its disk may say that it is of the term before it is.
        let counts = |replica| leader.followers.iter().any(|known| known.replica == replica && known.synced);
        let is_in = |told: &GroupStats| {
            let of_term = told.sync.as_ref() == Some(&leader.term);
            of_term && (told.replica == leader.replica || counts(told.replica))
        };
        match members.iter().map(|&node| told(node)).find(|told| !is_in(told)) {
            Some(apart) => Err(format!("healed, and node {} is not in sync (I20): {apart:?}", apart.replica)),
            None => Ok(members),
        }
    }

    /// What a replica stores of each key that has a value. Deletes are left out: each replica drops them at a
    /// time of its own.
    fn held(&self, group: usize, node: u32) -> Held {
        let mut held = self.contents[node as usize].borrow()[group].newest();
        held.retain(|_, (_, value)| value.is_some());
        held
    }

    /// Makes the check of a replica that takes over the start set of a term, in a cluster of one group: it
    /// holds of each key what the leader does (I3). Either of the two may lack a version of an older term
    /// only if it was needless there: a newer version is stored, or the version was a delete and none of the
    /// key is stored. An error names a key.
    pub fn adoptions(&self) -> impl Fn(u32, Term) -> Result<(), String> + 'static {
        let contents = self.contents.clone();
        move |node, term| {
            let leader = u32::from(term.leader().0);
            let of = |node: u32| contents.get(node as usize)?.borrow().first().cloned();
            let (Some(ours), Some(theirs)) = (of(node), of(leader)) else { return Ok(()) };
            let (ours, theirs) = (ours.versions(term), theirs.versions(term));
            for ((one, older), (other, all)) in
                [((node, &ours.1), (leader, &theirs.0)), ((leader, &theirs.1), (node, &ours.0))]
            {
                for (key, (csn, is_value)) in older {
                    let known = all.get(key).map(|(csn, _)| *csn);
                    if known.is_none_or(|known| known < *csn) && (*is_value || known.is_some()) {
                        let key = String::from_utf8_lossy(key);
                        return Err(format!(
                            "I3: node {node} takes over term {term}, and of {key} node {one} has version \
                             {csn:?}, node {other} {known:?}"
                        ));
                    }
                }
            }
            Ok(())
        }
    }

    /// Checks that the leader of a group shows, by its index, the version of each key that its arena holds.
    /// Only keys of that group count, which are all keys if there is one group.
    pub fn shows(
        &self,
        group: usize,
        node: u32,
        shown: impl Iterator<Item = (Vec<u8>, Option<Csn>)>,
    ) -> Result<(), String> {
        let (held, topology) = (self.held(group, node), self.topology());
        for (name, version) in shown.filter(|(name, _)| topology.group_of(name) == group) {
            let stored = held.get(&name).map(|(csn, _)| *csn);
            if stored != version {
                let name = String::from_utf8_lossy(&name);
                return Err(format!(
                    "{name}: node {node} shows version {version:?}, and has {stored:?} (I3)"
                ));
            }
        }
        Ok(())
    }

    /// The task of a server, for as long as its machine runs.
    pub fn body(&self, sim: &Sim, node: u32) -> impl FnOnce() + 'static {
        let (sim, options) = (sim.clone(), self.options_of(node));
        let standing = self.standing[node as usize].clone();
        standing.take();
        let contents = self.contents[node as usize].clone();
        contents.take();
        let ends = self.ends[node as usize].clone();
        ends.take();
        let memory = self.memories.get(node as usize).cloned();
        move || {
            // A single server is never told to end.
            let look = if options.groups.is_empty() { Duration::from_secs(1) } else { LOOK };
            let server = match memory.map(|memory| memory.open(options.memory)) {
                Some(data) => Server::start_over(&sim, options, data),
                None => Server::start_on(&sim, options),
            };
            let server = server.expect("a server starts");
            contents.replace(server.contents());
            standing.replace(server.stands());
            while ends.get() == End::Not {
                longarm_host::sleep(look);
            }
            server.stop(DRAIN);
            ends.set(End::Done);
        }
    }

    /// Tells a server to end.
    pub fn end(&self, node: u32) {
        self.ends[node as usize].set(End::Wanted);
    }

    /// Whether a server that was told to end has ended by itself.
    pub fn has_ended(&self, node: u32) -> bool {
        self.ends[node as usize].get() == End::Done
    }

    /// Whether another node's file is between two start sets.
    pub fn has_mixture(&self, but: u32) -> bool {
        (0..).zip(&self.drives).any(|(node, drive)| node != but && drive.is_mixed())
    }

    /// Replaces a node's disks with empty ones: what it promised is gone, and what it kept.
    pub fn reformat(&self, node: u32) {
        self.disks[node as usize].iter().for_each(|disk| disk.reformat());
        self.drives.get(node as usize).into_iter().for_each(|drive| drive.reformat());
    }

    /// What an operator of a group needs.
    pub fn tools(&self, sim: &Sim, group: u32) -> Tools {
        operator::tools(sim, GROUP + u64::from(group), self.members(self.addresses.len()))
    }

    /// The sets of replicas that the first group may have, the newest last: those on disk of which a majority
    /// has heard of no newer set. A set that is being agreed on may be on no disk yet.
    pub fn possible(&self) -> Vec<BTreeSet<u32>> {
        let kept: Vec<_> = self.disks.iter().map(|groups| groups[0].members()).collect();
        let mut sets: Vec<_> = kept.iter().filter(|(_, set)| !set.is_empty()).cloned().collect();
        sets.push((Rank::default(), (0..self.founders as u32).collect()));
        sets.sort();
        sets.dedup();
        let may_be = |(rank, set): &(Rank, BTreeSet<u32>)| {
            let not_newer = set.iter().filter(|&&node| kept[node as usize].0 <= *rank);
            not_newer.count() > set.len() / 2
        };
        sets.retain(may_be);
        sets.into_iter().map(|(_, set)| set).collect()
    }

    fn members(&self, first: usize) -> Vec<Member> {
        let member = |(node, address): (usize, &Address)| Member {
            replica: ReplicaId(node as u8),
            address: address.clone(),
        };
        self.addresses[..first].iter().enumerate().map(member).collect()
    }

    fn options_of(&self, node: u32) -> ServerOptions {
        let mut options = self.options.clone();
        options.addresses = vec![self.addresses[node as usize].clone()];
        options.ordered = self.ordered.has(node);
        // Nodes may differ in their number of workers.
        options.workers += node as usize % 2;
        if self.addresses.len() > 1 || self.keeps() {
            options.groups = (0..self.groups).map(|group| self.group_of(node, group)).collect();
        }
        options.memory *= u64::from(self.groups);
        options.workers =
            (options.workers + usize::from(self.uneven) * (node as usize % 2)) * self.groups as usize;
        options
    }

    fn group_of(&self, node: u32, group: u32) -> GroupOptions {
        let name = |node: usize| ReplicaId(node as u8);
        let first = (self.groups > 1).then(|| name(group as usize % self.addresses.len()));
        GroupOptions {
            id: GROUP + u64::from(group),
            replica: name(node as usize),
            members: self.members(self.founders),
            joins: node as usize >= self.founders,
            first,
            timing: self.timing,
            sum_key: SUM_KEY + u64::from(group),
            hash_key: HASH_KEY + u64::from(group),
            vote_store: self.disks[node as usize][group as usize].clone(),
            durable: self.drives.get(node as usize).map(|drive| Durable {
                durability: drive.durability(),
                disk: drive.clone(),
                accept_damage: false,
                scrubbing: drive.scrubbing(),
            }),
            memory_parts: self.groups as usize,
        }
    }
}

/// A quarter of a new cluster's times. Elections take less than that, as they need only be longer than the
/// other times.
pub const USUAL: Timing = Timing {
    heartbeat: Nanos::from_millis(1),
    suspect: Nanos::from_micros(7_500),
    promise: Nanos::from_millis(10),
    election: Nanos::from_millis(50),
};

/// The paper's timing (LoLKV 6.5: a heartbeat each 300 us, three missed) and leases of five milliseconds.
pub const QUICK: Timing = Timing {
    heartbeat: Nanos::from_micros(300),
    suspect: Nanos::from_micros(900),
    promise: Nanos::from_millis(5),
    election: Nanos::from_millis(20),
};
