//! One replica of a group, from its start to its end. A node has a replica of each of its groups. The
//! replicas of a node share its listeners and its process, and nothing else: each has memory, threads,
//! promises and a term of its own.

use std::sync::Arc;

use longarm_base::Nanos;
use longarm_fabric::{Channel, Grant, Transport};
use longarm_host::{Mutex, Pause, Thread, random};
use longarm_ordered::Orders;

use crate::common::group_times;
use crate::held::Contents;
use crate::inbound::{Inbound, ReplicaMemory};
use crate::leaving::Leave;
use crate::node::Node;
use crate::options::StartError;
use crate::seed::Seed;
use crate::service::Service;
use crate::stats::Stands;
use crate::threads::{join, spawn};

/// A replica that has no thread yet. Other replicas may already connect to it.
pub struct Prepared<T: Transport> {
    seed: Seed,
    channel: Channel,
    inbound: Arc<Inbound<T::Qp>>,
    chance: u64,
}

impl<T: Transport> Prepared<T> {
    /// Makes the replica, so that others may connect to it.
    pub fn new(seed: Seed) -> Result<Prepared<T>, StartError> {
        let [chance] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let channel = Channel::new().map_err(|e| StartError::Os("make an event counter", e))?;
        let memory = ReplicaMemory { arena: seed.lent.arena.clone(), page: seed.page.clone() };
        let log = seed.options.log.clone();
        let times = group_times(&seed.group, &seed.options);
        let inbound = Inbound::new(seed.group.clone(), times, seed.role, memory, channel.clone(), log);
        Ok(Prepared { seed, channel, inbound: Arc::new(inbound), chance })
    }

    /// The door to which other replicas go.
    pub fn inbound(&self) -> Arc<Inbound<T::Qp>> {
        self.inbound.clone()
    }

    /// What the replica lends to the leader of a term.
    pub fn grants(&self) -> Vec<Grant> {
        self.inbound.grants()
    }

    /// Starts the replica's thread. Whenever the replica leads, `service` serves clients. If the replica
    /// keeps an ordered index, `orders` are told whom it follows.
    pub fn start(
        self,
        transport: Arc<T>,
        service: Box<dyn Service<T::Qp>>,
        orders: Option<Arc<Orders<T::Qp>>>,
    ) -> Result<Replica, StartError> {
        let Prepared { seed, channel, inbound, chance } = self;
        let patience = seed.group.timing.election;
        let node = Node::new(transport, seed, service, orders, inbound, channel, chance)?;
        let (leave, stop) = (node.leave(), node.stopper());
        let (stands, contents) = (node.stands_of(), node.contents());
        let thread = Some(spawn("longarm-node", move || node.run())?);
        Ok(Replica { thread, leave, patience, stop, stands, contents })
    }
}

/// A replica that runs.
pub struct Replica {
    thread: Option<Thread>,
    leave: Arc<Mutex<Leave>>,
    /// How long the replica may take to part with its group: an election's time, which is longer than a
    /// lease.
    pub patience: Nanos,
    stop: (Arc<Pause>, Channel),
    /// Tells how the replica stands in its group, even after its end.
    pub stands: Stands,
    /// All that the replica holds, even after its end.
    pub contents: Contents,
}

impl Replica {
    /// Tells the replica that it is to end. If it leads, it hands over first.
    pub fn leave(&self) {
        *self.leave.lock() = Leave::Wanted;
        self.stop.1.notify();
    }

    /// Whether the replica does not lead any more, or no other replica can.
    pub fn has_left(&self) -> bool {
        *self.leave.lock() == Leave::Done
    }

    /// Tells the replica to end at once.
    pub fn stop(&self) {
        self.stop.0.stop();
        self.stop.1.notify();
    }

    /// Waits until the replica has ended. Returns how many threads had panicked.
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
