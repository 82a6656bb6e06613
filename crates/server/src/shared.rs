//! The state that all threads of a server share: the core that they serve from, and the connected clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use longarm_group::{Core, SharedReleases, Standing};
use longarm_host::Mutex;
use longarm_ordered::OrderedStats;

use crate::backup::Backups;
use crate::options::ServerOptions;

/// One connected client, for statistics.
#[derive(Debug)]
pub(crate) struct ConnectedClient {
    pub name: String,
    pub peer: String,
    pub transport: String,
    pub requests: AtomicU64,
    /// Bytes of memory of its connection, as of a while ago.
    pub bytes: AtomicU64,
}

/// The state that threads share.
pub(crate) struct Shared {
    pub core: Arc<Core>,
    pub options: ServerOptions,
    pub addresses: OnceLock<Vec<longarm_fabric::Address>>,
    /// What a backup keeps from being used again.
    pub backups: Arc<Backups>,
    replica: OfReplica,
    clients: Mutex<BTreeMap<u64, Arc<ConnectedClient>>>,
    slots: AtomicUsize,
    next_client: AtomicU64,
    grow_failed: AtomicBool,
    /// A flag by which tests make workers hang.
    #[cfg(test)]
    pub hang: AtomicBool,
    /// A flag by which tests make connections move to the next worker, and how many did.
    #[cfg(test)]
    pub wanders: AtomicBool,
    #[cfg(test)]
    pub moves: AtomicU64,
}

/// What a replica tells of itself to the threads that serve while it leads; nothing for a server without
/// replicas.
#[derive(Clone, Default)]
pub(crate) struct OfReplica {
    /// How it stands in its group, if there is a group that clients know of.
    pub standing: Option<Arc<Mutex<Standing>>>,
    /// The figures of its ordered index, if it keeps one.
    pub ordered: Option<Arc<Mutex<OrderedStats>>>,
    /// Who is to let go of a segment before it is used again.
    pub releases: Option<Arc<SharedReleases>>,
}

/// A client's place among those allowed at once.
pub(crate) struct ClientSlot {
    shared: Arc<Shared>,
    number: u64,
}

impl Shared {
    /// The state over a core, perhaps a replica's.
    pub fn new(options: ServerOptions, core: Arc<Core>, replica: OfReplica) -> Shared {
        Shared {
            core,
            options,
            addresses: OnceLock::new(),
            backups: Backups::new(replica.releases.clone()),
            replica,
            clients: Mutex::default(),
            slots: AtomicUsize::new(0),
            next_client: AtomicU64::new(0),
            grow_failed: AtomicBool::new(false),
            #[cfg(test)]
            hang: AtomicBool::new(false),
            #[cfg(test)]
            wanders: AtomicBool::new(false),
            #[cfg(test)]
            moves: AtomicU64::new(0),
        }
    }

    pub fn log(&self, line: &str) {
        self.core.log(line);
    }

    /// The standing that the replica reports.
    pub fn standing(&self) -> Option<Standing> {
        self.replica.standing.as_ref().map(|standing| standing.lock().clone())
    }

    /// The figures of the replica's ordered index.
    pub fn ordered(&self) -> Option<OrderedStats> {
        self.replica.ordered.as_ref().map(|ordered| *ordered.lock())
    }

    /// Takes a slot, unless all are taken.
    pub fn take_slot(self: &Arc<Shared>) -> Option<ClientSlot> {
        let max = self.options.max_clients;
        // Relaxed: counters that publish nothing.
        let taken =
            self.slots.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < max).then_some(n + 1));
        taken.ok()?;
        // Relaxed: as above.
        let number = self.next_client.fetch_add(1, Ordering::Relaxed);
        Some(ClientSlot { shared: self.clone(), number })
    }

    pub fn clients(&self) -> Vec<Arc<ConnectedClient>> {
        self.clients.lock().values().cloned().collect()
    }

    /// `true` the first time only: a limit that was reached is logged once.
    pub fn first_grow_failure(&self) -> bool {
        // Relaxed: only which of several lines is logged depends on it.
        !self.grow_failed.swap(true, Ordering::Relaxed)
    }
}

impl ClientSlot {
    /// Lists the client that has this slot.
    pub fn list(&self, client: Arc<ConnectedClient>) {
        let mut clients = self.shared.clients.lock();
        clients.insert(self.number, client);
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        if let Some(mut clients) = self.shared.clients.lock_to_drop() {
            clients.remove(&self.number);
        }
        // Relaxed: as in `take_slot`.
        self.shared.slots.fetch_sub(1, Ordering::Relaxed);
    }
}
