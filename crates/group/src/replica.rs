//! One replica from its memory to its end. A node has one in each of its groups; they share doors and
//! process, and nothing else: each has its memory, threads, promises and term.

use std::sync::Arc;

use longarm_base::Nanos;
use longarm_fabric::{Channel, Grant, Transport};
use longarm_host::{Mutex, Pause, Thread, random};

use crate::held::Contents;
use crate::inbound::{Inbound, ReplicaMemory};
use crate::leaving::Leave;
use crate::node::Node;
use crate::options::StartError;
use crate::seed::Seed;
use crate::service::Service;
use crate::stats::Stands;
use crate::threads::{join, spawn};

/// A replica before it lives: others may come to its door already.
pub struct Prepared<T: Transport> {
    seed: Seed,
    channel: Channel,
    inbound: Arc<Inbound<T::Qp>>,
    chance: u64,
}

impl<T: Transport> Prepared<T> {
    /// Opens its door.
    pub fn new(seed: Seed) -> Result<Prepared<T>, StartError> {
        let [chance] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let channel = Channel::new().map_err(|e| StartError::Os("make an event counter", e))?;
        let memory = ReplicaMemory { arena: seed.lent.arena.clone(), page: seed.page.clone() };
        let log = seed.options.log.clone();
        let inbound = Inbound::new(seed.group.clone(), seed.role, memory, channel.clone(), log);
        Ok(Prepared { seed, channel, inbound: Arc::new(inbound), chance })
    }

    /// Where other replicas go.
    pub fn inbound(&self) -> Arc<Inbound<T::Qp>> {
        self.inbound.clone()
    }

    /// What it lends to the leader of a term.
    pub fn grants(&self) -> Vec<Grant> {
        self.inbound.grants()
    }

    /// Lets it live. Whenever it leads, `service` serves clients.
    pub fn start(self, transport: Arc<T>, service: Box<dyn Service<T::Qp>>) -> Result<Replica, StartError> {
        let Prepared { seed, channel, inbound, chance } = self;
        let patience = seed.group.timing.election;
        let node = Node::new(transport, seed, service, inbound, channel, chance)?;
        let (leave, stop) = (node.leave(), node.stopper());
        let (stands, contents) = (node.stands_of(), node.contents());
        let thread = Some(spawn("longarm-node", move || node.run())?);
        Ok(Replica { thread, leave, patience, stop, stands, contents })
    }
}

/// A replica that lives.
pub struct Replica {
    thread: Option<Thread>,
    leave: Arc<Mutex<Leave>>,
    /// How long it may take to part with its group: an election's time, which is longer than a lease.
    pub patience: Nanos,
    stop: (Arc<Pause>, Channel),
    /// Says how it stands in its group; also when it has ended.
    pub stands: Stands,
    /// All that it holds; also when it has ended.
    pub contents: Contents,
}

impl Replica {
    /// Tells it that it is to end: if it leads, it hands over.
    pub fn leave(&self) {
        *self.leave.lock() = Leave::Wanted;
        self.stop.1.notify();
    }

    /// Whether it does not lead any more, or nobody else can.
    pub fn has_left(&self) -> bool {
        *self.leave.lock() == Leave::Done
    }

    /// Tells it to end.
    pub fn stop(&self) {
        self.stop.0.stop();
        self.stop.1.notify();
    }

    /// Waits until it has ended; how many threads had panicked.
    pub fn join(&mut self) -> usize {
        join(self.thread.take())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stop();
        self.join();
    }
}
