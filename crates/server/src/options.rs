//! The options of a server, and their check.

use std::time::Duration;

use longarm_base::limits::{self, LOSS_WINDOW_MAX, LOSS_WINDOW_MIN};
use longarm_disk::MediumKind;
use longarm_engine::Eviction;
use longarm_fabric::tcp::Tls;
use longarm_fabric::verbs::Verbs;
use longarm_fabric::{Address, Login, PeerRole, ring};
use longarm_group::{CoreOptions, DataOptions, Durability, GroupOptions, KeepUp, Log, StartError};
use longarm_index::hash::{Discipline, SlotKind};

/// Pages behind the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// Pages of the system.
    #[default]
    Ordinary,
    /// 2 MiB pages of the reserved pool if it has enough, else pages of the system.
    HugeIfAvailable,
    /// 2 MiB pages of the reserved pool; without them the server does not start.
    Huge,
}

/// The options of a server. Start from [`ServerOptions::default`] and name at least one address.
#[derive(Clone)]
pub struct ServerOptions {
    /// Addresses to listen on.
    pub addresses: Vec<Address>,
    /// Threads that execute writes.
    pub workers: usize,
    /// Limit on the bytes of index and arena together.
    pub memory: u64,
    /// How long a heartbeat vouches for the memory.
    pub lease: Duration,
    /// How long a worker may make no progress before heartbeats stop.
    pub stall: Duration,
    /// Longest one-sided READ that may count.
    pub read_bound: Duration,
    /// Kind of index slots.
    pub slots: SlotKind,
    /// How the index replaces records. Out of place it is as persistent memory wants it (decision 48), of a
    /// server of its own without `ordered`; with `data` in persistent memory the server serves from there
    /// (decision 52).
    pub discipline: Discipline,
    /// Items that the index has room for before it first grows.
    pub expected_items: u64,
    /// Pages behind the memory.
    pub pages: Pages,
    /// How a write is treated when memory is full.
    pub eviction: Eviction,
    /// The most clients at once.
    pub max_clients: usize,
    /// Bytes of the request ring lent to each client.
    pub ring_bytes: u64,
    /// How long an idle worker, and an orderer that has answered, keeps looking before it sleeps.
    pub spin: Duration,
    /// The proof that clients must give.
    pub login: Login,
    /// The proof that replicas and operators must give, and that this node gives to them ([`Login::Peer`],
    /// decision 19). With [`Login::None`] any client may be one of them too.
    pub peers: Login,
    /// TLS below the tcp addresses.
    pub tls: Option<Tls>,
    /// Settings of verbs addresses.
    pub verbs: Verbs,
    /// Mode of the sockets of shm addresses.
    pub socket_mode: u32,
    /// The live share, in percent, below which a segment is collected when all memory is used. The share
    /// falls with the memory used.
    pub collect_percent: u32,
    /// Of a group: deletes and outcomes that are remembered may take one part in so many of the memory before
    /// segments are emptied for them, and a quarter of that while memory is short.
    pub kept_share: u32,
    /// How long completions of a client that left are remembered.
    pub keep_sessions: Duration,
    /// Of a group: when a follower keeps up to date what it needs to serve at once when it leads.
    pub standby: KeepUp,
    /// Whether to keep an ordered index, from which scans are answered: in a group by followers. A server of
    /// its own is a group of one replica then (decision 33), without eviction and arena directory.
    pub ordered: bool,
    /// The groups that the node has replicas of; none for a server of its own. Each has its part of `memory`
    /// ([`GroupOptions::memory_parts`]). They share `expected_items` equally. Each has `workers` divided by
    /// their number, at least one. Up to `max_clients` may be connected to each.
    pub groups: Vec<GroupOptions>,
    /// Where a server of its own keeps its data, if it does: it is a group of one replica then, as with
    /// `ordered`, unless it serves from persistent memory.
    pub data: Option<DataOptions>,
    /// Receives the events of the server, one line each.
    pub log: Log,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            addresses: Vec::new(),
            workers: 1,
            memory: 1 << 30,
            lease: Duration::from_millis(10),
            stall: Duration::from_millis(100),
            read_bound: Duration::from_millis(100),
            slots: SlotKind::Inline64,
            discipline: Discipline::InPlace,
            expected_items: 1 << 16,
            pages: Pages::Ordinary,
            eviction: Eviction::None,
            max_clients: limits::CLIENTS,
            ring_bytes: 256 << 10,
            spin: Duration::from_micros(50),
            login: Login::None,
            peers: Login::None,
            tls: None,
            verbs: Verbs::default(),
            socket_mode: 0o600,
            collect_percent: 50,
            kept_share: 16,
            keep_sessions: Duration::from_secs(60),
            standby: KeepUp::WhileIdle,
            ordered: false,
            groups: Vec::new(),
            data: None,
            log: Log::silent(),
        }
    }
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions")
            .field("addresses", &self.addresses)
            .field("workers", &self.workers)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// The smallest memory limit: segment table, reserve, and a few segments that can be written to.
const MEMORY_MIN: u64 = 16 << 20;
/// The most workers of a server; each has a stream of the store.
const WORKERS_MAX: usize = 256;
/// How long a leader can tell the next one that a version is old (`longarm_replica::page`).
const KEEP_SESSIONS_MAX: Duration = Duration::from_secs(1000);
/// The largest ring, of either side: an immediate names a frame by its offset in sixteenths.
pub(crate) const RING_MAX: u64 = 1 << 30;

impl ServerOptions {
    /// Whether what is lent is registered with a NIC, which locks all of its pages.
    pub(crate) fn registers(&self) -> bool {
        self.addresses.iter().any(|address| matches!(address, Address::Verbs(_)))
    }

    /// Whether it is a server of its own that is a group of one replica: it keeps an ordered index, or data.
    pub(crate) fn is_group_of_one(&self) -> bool {
        let keeps = self.ordered || self.data.is_some();
        keeps && self.groups.is_empty() && self.served_from().is_none()
    }

    /// The persistent memory from which a server of its own serves, if it does: its tables are out of place
    /// there.
    pub(crate) fn served_from(&self) -> Option<&DataOptions> {
        let data = self.data.as_ref().filter(|_| self.groups.is_empty() && !self.ordered)?;
        let is_memory = matches!(data.medium, MediumKind::PersistentMemory { .. });
        (is_memory && self.discipline == Discipline::OutOfPlace).then_some(data)
    }

    /// The proof that this node gives to other replicas.
    pub(crate) fn peer_login(&self) -> Login {
        match &self.peers {
            Login::None => self.login.clone(),
            peers => peers.clone(),
        }
    }

    /// The least role that other replicas, and operators, must have proved.
    pub(crate) fn peer_role(&self) -> PeerRole {
        match &self.peers {
            Login::None => PeerRole::Client,
            _ => PeerRole::Peer,
        }
    }

    /// How much of a node's memory a replica has, where it is divided into so many parts.
    pub fn share(memory: u64, parts: usize) -> u64 {
        memory / parts as u64
    }

    /// How much of the memory the replica of a group has.
    fn share_of(&self, group: &GroupOptions) -> u64 {
        ServerOptions::share(self.memory, group.memory_parts.max(self.groups.len()))
    }

    /// The options of one of the groups by itself: with its part of what the groups share.
    pub(crate) fn of_group(&self, group: &GroupOptions) -> ServerOptions {
        let count = self.groups.len();
        ServerOptions {
            memory: self.share_of(group),
            workers: (self.workers / count).max(1),
            expected_items: self.expected_items.div_ceil(count as u64),
            groups: vec![group.clone()],
            ..self.clone()
        }
    }

    /// The options that its threads share, and that a replica must know.
    pub(crate) fn core(&self) -> CoreOptions {
        CoreOptions {
            workers: self.workers,
            memory: self.memory,
            lease: self.lease,
            stall: self.stall,
            read_bound: self.read_bound,
            slots: self.slots,
            discipline: self.discipline,
            expected_items: self.expected_items,
            eviction: self.eviction,
            sessions: 2 * self.max_clients,
            keep_sessions: self.keep_sessions,
            standby: self.standby,
            log: self.log.clone(),
        }
    }

    /// Finds what does not go with a server that is a group of one replica, or with replicas of any kind.
    fn check_alone(&self) -> Result<(), StartError> {
        let wrong = |what: &'static str, text: String| Err(StartError::Option { what, text });
        if self.is_group_of_one() && self.eviction != Eviction::None {
            let text = "with `ordered`, and with `data`, items stay: it must be none";
            return wrong("eviction", text.into());
        }
        if !self.groups.is_empty() && self.data.is_some() {
            let text = "the replicas of a cluster do not keep their data on disks yet";
            return wrong("data", text.into());
        }
        if let Some(data) = self.served_from() {
            if self.registers() {
                let text = "a NIC cannot know persistent memory of a file system: with `index_updates` \
                            out-of-place and `data` clients come by shm or tcp";
                return wrong("addresses", text.into());
            }
            if data.vault.is_some() {
                return wrong(
                    "vault_dir",
                    "a server that serves from persistent memory promises nothing".into(),
                );
            }
            if data.accept_damage {
                let text = "of a server that serves from persistent memory there is no second copy: put back \
                            a copy of the directory";
                return wrong("accept_damage", text.into());
            }
        }
        let replicated = !self.groups.is_empty() || self.is_group_of_one();
        if replicated && self.discipline == Discipline::OutOfPlace {
            let text = "it is in place in a group, with `ordered`, and with `data` that is not in persistent \
                        memory: there each item is an entry";
            return wrong("discipline", text.into());
        }
        if replicated && self.keep_sessions > KEEP_SESSIONS_MAX {
            let text = format!(
                "{:?} given, up to {KEEP_SESSIONS_MAX:?} are possible in a group, with `ordered` and `data`",
                self.keep_sessions
            );
            return wrong("keep_sessions", text);
        }
        if let Some(DataOptions { durability: Durability::Async { window }, .. }) = &self.data
            && !(LOSS_WINDOW_MIN..=LOSS_WINDOW_MAX).contains(window)
        {
            let text = format!("{window:?} given, {LOSS_WINDOW_MIN:?} to {LOSS_WINDOW_MAX:?} are possible");
            return wrong("loss_window", text);
        }
        Ok(())
    }

    /// Finds the first option that makes no sense.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let wrong = |what: &'static str, text: String| Err(StartError::Option { what, text });
        if self.addresses.is_empty() {
            return wrong("addresses", "none given: name at least one, as shm:/path.sock".into());
        }
        if matches!(self.login, Login::Peer(_)) || matches!(self.peers, Login::Secret(_)) {
            return wrong("login", "clients prove Login::Secret, and replicas Login::Peer".into());
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return wrong("workers", format!("{} given, 1 to {WORKERS_MAX} are possible", self.workers));
        }
        if !(MEMORY_MIN..=1 << 40).contains(&self.memory) {
            let text = format!("{} bytes given, {MEMORY_MIN} bytes to 1 TiB are possible", self.memory);
            return wrong("memory", text);
        }
        let lease_ok = (Duration::from_millis(1)..=Duration::from_secs(60)).contains(&self.lease);
        if !lease_ok {
            return wrong("lease", format!("{:?} given, 1 ms to 60 s are possible", self.lease));
        }
        let waits = [("read_bound", self.read_bound), ("stall", self.stall)];
        for (what, time) in waits {
            if time.is_zero() || time > Duration::from_secs(60) {
                return wrong(what, format!("{time:?} given, up to 60 s are possible"));
            }
        }
        if !(1..=limits::CLIENTS_MAX).contains(&self.max_clients) {
            let text = format!("{} given, 1 to {} are possible", self.max_clients, limits::CLIENTS_MAX);
            return wrong("max_clients", text);
        }
        if !self.ring_bytes.is_multiple_of(4096) || !(ring::RING_MIN..=RING_MAX).contains(&self.ring_bytes) {
            let text = format!("{} given: a multiple of 4096 up to 1 GiB is possible", self.ring_bytes);
            return wrong("ring_bytes", text);
        }
        self.check_alone()?;
        for (at, group) in self.groups.iter().enumerate() {
            group.check()?;
            if self.groups[..at].iter().any(|other| other.id == group.id) {
                return wrong("groups", format!("group {:016x} is named twice", group.id));
            }
            let share = self.share_of(group);
            if share < MEMORY_MIN {
                let text = format!(
                    "{} bytes given, of which each group gets {share}, and needs {MEMORY_MIN}",
                    self.memory
                );
                return wrong("memory", text);
            }
            if self.eviction != Eviction::None {
                return wrong("eviction", "a group does not evict: set it to none".into());
            }
        }
        if self.kept_share == 0 {
            return wrong("kept_share", "0 given, where 1 is all of the memory".into());
        }
        if self.collect_percent > 95 {
            return wrong("collect_percent", format!("{} given, up to 95 is possible", self.collect_percent));
        }
        Ok(())
    }
}
