//! Where the groups are, as a client that reads the cluster's file again would find them.

use std::sync::atomic::{AtomicU32, Ordering};

use longarm_client::Topology;
use longarm_host::Mutex;

/// A map that changes as nodes come and go.
pub struct Map {
    edition: AtomicU32,
    topology: Mutex<Topology>,
}

impl Map {
    /// The first edition.
    pub fn new(topology: Topology) -> Map {
        Map { edition: AtomicU32::new(0), topology: Mutex::new(topology) }
    }

    /// The current edition. A client with an older one may find no replica.
    pub fn edition(&self) -> u32 {
        // Relaxed: a number to compare; the map itself is behind a lock.
        self.edition.load(Ordering::Relaxed)
    }

    /// The topology of the current edition.
    pub fn topology(&self) -> Topology {
        self.topology.lock().clone()
    }

    /// Begins another edition, after nodes came or went.
    pub fn revise(&self, topology: Topology) {
        *self.topology.lock() = topology;
        // Relaxed: as in `edition`.
        self.edition.fetch_add(1, Ordering::Relaxed);
    }
}
