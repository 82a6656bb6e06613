//! The ordered index of a replica within the server: its memory, its thread, and the door for clients that
//! scan.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longarm_base::ReplicaId;
use longarm_fabric::ring::{Mailbox, RING_MIN};
use longarm_fabric::{Channel, Grant, Granted, Incoming, QueuePair, Rights, SetupError};
use longarm_group::{Lent, StartError, join, spawn};
use longarm_host::{Mutex, Thread};
use longarm_index::tree::TreeOptions;
use longarm_index::tree::layout::TREE_REGION;
use longarm_memory::{Backing, Region, RegionOptions};
use longarm_ordered::{Door, Order, OrderedStats, Orderer, OrdererOptions, Orders, ScanConnection};
use longarm_wire::{
    ARENA_REGION, Agreed, RING_REGION, Refusal, RefusalCode, SCAN_MESSAGE_MAX, ScanHello, ScanWelcome,
};

use crate::options::{RING_MAX, ServerOptions};
use crate::regions;
use longarm_group::{Log, reject};

/// Bytes of the ring for the requests of one client that scans.
const REQUESTS: u64 = 16 << 10;

/// A place among the clients that may scan at once.
struct ScanPlace(Arc<AtomicUsize>);

impl Drop for ScanPlace {
    fn drop(&mut self) {
        // Relaxed: a count that publishes nothing.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where clients that scan come in.
pub(crate) struct ScanDoor<Q> {
    door: Arc<Door<Q>>,
    lent: Arc<Lent>,
    /// The tree's memory, for clients that walk over it themselves.
    tree: Arc<Region>,
    sum_key: u64,
    group: u64,
    replica: ReplicaId,
    places: Arc<AtomicUsize>,
    most: usize,
    log: Log,
}

impl<Q: QueuePair + 'static> ScanDoor<Q> {
    /// The tree's memory, as it is lent to each client that scans. A NIC learns of it at the start: what
    /// takes its time then would hold up everybody when the first client comes.
    pub fn grant(&self) -> Grant {
        Grant { id: TREE_REGION, region: self.tree.clone(), rights: Rights::READ }
    }

    /// Lets a client in, or refuses it.
    pub fn admit<I: Incoming<Qp = Q>>(&self, incoming: I, hello: &ScanHello, agreed: Agreed) {
        let (name, peer) = (hello.name.clone(), incoming.peer().name);
        if !hello.ring_bytes.is_multiple_of(4096) || !(RING_MIN..=RING_MAX).contains(&hello.ring_bytes) {
            let reason =
                format!("an answer ring of {} bytes: a multiple of 4096 is wanted", hello.ring_bytes);
            return reject(incoming, &Refusal::new(RefusalCode::Invalid, reason));
        }
        // Relaxed: a count that publishes nothing.
        if self.places.fetch_add(1, Ordering::Relaxed) >= self.most {
            drop(ScanPlace(self.places.clone()));
            let reason = format!("the replica has its limit of {} clients that scan", self.most);
            return reject(incoming, &Refusal::new(RefusalCode::Limit, reason));
        }
        let place = Box::new(ScanPlace(self.places.clone()));
        if let Err(error) = self.welcome(incoming, hello, agreed, place) {
            self.log.say(&format!("client {name:?} ({peer}), which scans, did not get in: {error}"));
        }
    }

    fn welcome<I: Incoming<Qp = Q>>(
        &self,
        incoming: I,
        hello: &ScanHello,
        agreed: Agreed,
        place: Box<ScanPlace>,
    ) -> Result<(), SetupError> {
        let ring = RegionOptions { name: "longarm-scan".into(), bytes: REQUESTS, backing: Backing::Memory };
        let ring = Arc::new(Region::create(&ring)?);
        let name = format!("{:?} ({})", hello.name, incoming.peer().name);
        let welcome = ScanWelcome {
            agreed,
            sum_key: self.sum_key,
            ring_bytes: REQUESTS,
            group: self.group,
            replica: self.replica,
        };
        let grants = vec![
            Grant { id: ARENA_REGION, region: self.lent.arena.clone(), rights: Rights::READ },
            Grant { id: RING_REGION, region: ring.clone(), rights: Rights::WRITE },
            self.grant(),
        ];
        let qp = incoming.accept(&welcome.encode(), grants, 0, &self.door.channel)?;
        let lent = |lent: &&Granted| lent.id == RING_REGION && lent.rights.allow(Rights::WRITE);
        let bytes = qp.granted().iter().find(lent).map_or(0, |lent| lent.bytes);
        if bytes != hello.ring_bytes {
            return Err(SetupError::Protocol("it lent no answer ring of the bytes it announced".into()));
        }
        let mailbox = Mailbox::new(ring.memory().clone(), RING_REGION, bytes, SCAN_MESSAGE_MAX);
        self.door.put(ScanConnection::new(qp, mailbox, name, place));
        Ok(())
    }
}

/// The ordered index of a replica, before it runs.
pub(crate) struct PreparedIndex<Q> {
    pub orders: Arc<Orders<Q>>,
    pub scans: Arc<ScanDoor<Q>>,
    orderer: Orderer<Q>,
}

/// The ordered index of a replica that runs.
pub(crate) struct RunningIndex {
    stop: Box<dyn Fn() + Send + Sync>,
    thread: Option<Thread>,
}

impl<Q: QueuePair + 'static> PreparedIndex<Q> {
    /// The index of a replica with this memory, in the group of `options`.
    pub fn new(
        options: &ServerOptions,
        lent: &Arc<Lent>,
        page: &Region,
    ) -> Result<PreparedIndex<Q>, StartError> {
        let group = options.groups.first().expect("an ordered index is a replica's");
        let channel = Channel::new().map_err(|e| StartError::Os("make an event counter", e))?;
        let tree = regions::create_tree(options)?;
        let orders = Arc::new(Orders::new(channel.clone()));
        let door = Arc::new(Door::new(channel));
        let log = options.log.clone();
        let orderer = Orderer::new(
            OrdererOptions {
                arena: lent.arena.memory().clone(),
                page: page.memory().clone(),
                tree: tree.memory().clone(),
                sum_key: group.sum_key,
                options: TreeOptions::default(),
                spin: options.spin,
                log: Arc::new(move |line| log.say(line)),
            },
            orders.clone(),
            door.clone(),
        );
        let scans = Arc::new(ScanDoor {
            door,
            lent: lent.clone(),
            tree,
            sum_key: group.sum_key,
            group: group.id,
            replica: group.replica,
            places: Arc::default(),
            most: options.max_clients,
            log: options.log.clone(),
        });
        Ok(PreparedIndex { orders, scans, orderer })
    }

    /// Shows its figures.
    pub fn stats(&self) -> Arc<Mutex<OrderedStats>> {
        self.orderer.stats()
    }

    /// Starts its thread.
    pub fn start(self) -> Result<RunningIndex, StartError> {
        let PreparedIndex { orders, orderer, .. } = self;
        let thread = Some(spawn("longarm-orderer", move || orderer.run())?);
        Ok(RunningIndex { stop: Box::new(move || orders.give(Order::Stop)), thread })
    }
}

impl RunningIndex {
    /// Ends it. Returns how many threads had panicked.
    pub fn end(&mut self) -> usize {
        (self.stop)();
        join(self.thread.take())
    }
}

impl Drop for RunningIndex {
    fn drop(&mut self) {
        self.end();
    }
}
