//! One replica from its memory to its end. A node has one in each of its groups; they share doors and
//! process, and nothing else: each has its memory, threads, promises and term.

use std::sync::Arc;

use longarm_base::Nanos;
use longarm_fabric::{Channel, Grant, Transport};
use longarm_host::{Mutex, Pause, Thread, random};
use longarm_memory::Region;

use super::held::Contents;
use super::inbound::Inbound;
use super::node::{Leave, Node};
use super::options::GroupOptions;
use crate::hall::Hall;
use crate::options::{ServerOptions, StartError};
use crate::regions;
use crate::shared::Lent;
use crate::staff::{join, spawn};
use crate::stats::{GroupStats, Stats};

/// Says what a replica is, which has other statistics each term.
pub(crate) type Told = Box<dyn Fn() -> Stats + Send + Sync>;

/// Says how a replica stands in its group.
pub(crate) type Stands = Arc<dyn Fn() -> GroupStats + Send + Sync>;

/// A replica's memory and hall, before it lives.
pub(crate) struct Prepared<T: Transport> {
    options: ServerOptions,
    group: GroupOptions,
    lent: Arc<Lent>,
    page: Arc<Region>,
    channel: Channel,
    inbound: Arc<Inbound<T::Qp>>,
    pub hall: Arc<Hall<T::Qp>>,
    seed: u64,
}

impl<T: Transport> Prepared<T> {
    /// Of one of the groups of `options`, with its share of memory.
    pub fn new(options: &ServerOptions, group: &GroupOptions) -> Result<Prepared<T>, StartError> {
        let several = options.groups.len() > 1;
        let (mut options, group) = (options.of_group(group), group.clone());
        if several {
            let (log, id) = (options.log.clone(), group.id);
            options.log = Arc::new(move |line| log(&format!("group {id:016x}: {line}")));
        }
        let [seed] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let lent = Arc::new(regions::create(&options, group.sum_key)?);
        let page = regions::create_page(&options)?;
        let channel = Channel::new().map_err(|e| StartError::Os("make an event counter", e))?;
        let memory = (lent.arena.clone(), page.clone());
        let log = options.log.clone();
        let inbound = Inbound::new((group.clone(), options.peer_role()), memory, channel.clone(), log);
        let inbound = Arc::new(inbound);
        let hall = Arc::new(Hall::new(Some(inbound.clone())));
        Ok(Prepared { options, group, lent, page, channel, inbound, hall, seed })
    }

    /// What it lends to clients, and to the leader of a term.
    pub fn grants(&self) -> Vec<Grant> {
        [self.lent.grants(), self.inbound.grants()].concat()
    }

    /// Lets it live.
    pub fn start(self, transport: Arc<T>) -> Result<Replica, StartError> {
        let Prepared { options, group, lent, page, channel, inbound, hall, seed } = self;
        let patience = group.timing.election;
        let node = Node::new(transport, (options, group), (lent, page), hall, inbound, channel, seed)?;
        let (leave, stop) = (node.leave(), node.stopper());
        let (told, stands, contents) = (node.stats_of(), node.stands_of(), node.contents());
        let thread = Some(spawn("longarm-node", move || node.run())?);
        Ok(Replica { thread, leave, patience, stop, told, stands, contents })
    }
}

/// A replica that lives.
pub(crate) struct Replica {
    thread: Option<Thread>,
    leave: Arc<Mutex<Leave>>,
    /// How long it may take to part with its group: an election's time, which is longer than a lease.
    pub patience: Nanos,
    stop: (Arc<Pause>, Channel),
    pub told: Told,
    pub stands: Stands,
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
