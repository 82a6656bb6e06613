//! Servers of a world: one of its own, or the replicas of a group.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longarm_base::{Nanos, NodeId};
use longarm_fabric::Address;
use longarm_fabric::sim::Sim;
use longarm_server::{GroupOptions, GroupStats, Member, Promise, Server, ServerOptions, Timing, Vault};

/// Between two looks at what a replica is.
const LOOK: Duration = Duration::from_micros(500);

/// A disk that takes its time, and outlives its machine's memory.
#[derive(Debug, Default)]
pub struct Disk {
    kept: Mutex<Option<Promise>>,
    /// How long a write takes.
    pub fsync: Duration,
}

impl Vault for Disk {
    fn load(&self) -> std::io::Result<Option<Promise>> {
        Ok(*self.kept.lock().expect("nobody panics with it"))
    }

    fn store(&self, promise: Promise) -> std::io::Result<()> {
        longarm_host::sleep(self.fsync);
        *self.kept.lock().expect("nobody panics with it") = Some(promise);
        Ok(())
    }
}

/// The servers of a run.
pub struct Servers {
    /// Where they are; their machines are the first ones, in this order.
    pub addresses: Vec<Address>,
    options: ServerOptions,
    timing: Timing,
    disks: Vec<Arc<Disk>>,
    told: Vec<Rc<RefCell<GroupStats>>>,
}

impl Servers {
    /// So many servers; more than one are the replicas of a group.
    pub fn new(count: u32, options: ServerOptions, timing: Timing, fsync: Duration) -> Servers {
        let disk = || Arc::new(Disk { fsync, ..Disk::default() });
        Servers {
            addresses: (0..count).map(|node| Address::Sim(format!("node{node}"))).collect(),
            options,
            timing,
            disks: (0..count).map(|_| disk()).collect(),
            told: (0..count).map(|_| Rc::default()).collect(),
        }
    }

    /// What each is, as it said last.
    pub fn told(&self, node: u32) -> GroupStats {
        self.told[node as usize].borrow().clone()
    }

    /// What the server of this number does for as long as its machine runs.
    pub fn body(&self, sim: &Sim, node: u32) -> impl FnOnce() + 'static {
        let (sim, options) = (sim.clone(), self.options_of(node));
        let told = self.told[node as usize].clone();
        told.replace(GroupStats::default());
        move || {
            let server = Server::start_on(&sim, options).expect("a server starts");
            loop {
                match server.stats().group {
                    None => longarm_host::sleep(Duration::from_secs(1)),
                    Some(group) => {
                        told.replace(group);
                        longarm_host::sleep(LOOK);
                    }
                }
            }
        }
    }

    fn options_of(&self, node: u32) -> ServerOptions {
        let mut options = self.options.clone();
        options.addresses = vec![self.addresses[node as usize].clone()];
        if self.addresses.len() > 1 {
            let name = |node: usize| NodeId(node as u8);
            let member =
                |(node, address): (usize, &Address)| Member { node: name(node), address: address.clone() };
            options.group = Some(GroupOptions {
                id: 7,
                node: name(node as usize),
                members: self.addresses.iter().enumerate().map(member).collect(),
                timing: self.timing,
                sum_key: 0x5EED,
                hash_key: 0x4A54,
                vault: self.disks[node as usize].clone(),
            });
        }
        options
    }
}

/// The paper's timing (LoLKV 6.6: a heartbeat each 300 us, three missed) and leases of five milliseconds.
pub const QUICK: Timing = Timing {
    heartbeat: Nanos::from_micros(300),
    suspect: Nanos::from_micros(900),
    promise: Nanos::from_millis(5),
    election: Nanos::from_millis(20),
};
