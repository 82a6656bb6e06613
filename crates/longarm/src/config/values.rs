//! Every setting with its value, and where the value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use longarm_base::limits;
use longarm_fabric::Address;
use longarm_fabric::verbs::{DeviceChoice, RETRIES_MAX, Verbs};
use longarm_server::MediumKind;

/// The size of an index slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// 64 bytes: small items live in the slot.
    Inline64,
    /// 16 bytes: the slot always points to an entry.
    Pointer16,
}

impl Slot {
    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Slot::Inline64 => 64,
            Slot::Pointer16 => 16,
        }
    }
}

/// How the index replaces a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Updates {
    /// In its slot.
    InPlace,
    /// In a free slot, by one store behind the write-back of the record.
    OutOfPlace,
}

/// Whether memory comes from the reserved pool of 2 MiB pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugePages {
    /// Takes pages of the pool if it has enough.
    Auto,
    /// Takes pages of the pool; a server fails to start if the pool has too few.
    On,
    /// Takes no pages of the pool.
    Off,
}

/// The answer of a full memory to a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eviction {
    /// Refuses the write.
    None,
    /// Makes room: items that were not used lately go.
    Lru,
}

/// When a follower prepares to lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standby {
    /// While a core is idle, or little is written.
    Idle,
    /// Always.
    Always,
}

/// When a write is acknowledged, where data is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// When it is in memory; the disk follows within a bound.
    Async,
    /// When it is on disk.
    Sync,
    /// When it is in persistent memory.
    Pmem,
}

/// What persistent memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pmem {
    /// A directory on a file system that maps it, mounted with `dax`.
    Dax,
    /// Ordinary files may stand for it, which outlive the process and no loss of power.
    File,
}

impl Pmem {
    /// What data is kept on, which is persistent memory or not.
    pub fn medium(self, is_memory: bool) -> MediumKind {
        match is_memory {
            false => MediumKind::Disk,
            true => MediumKind::PersistentMemory { or_file: self == Pmem::File },
        }
    }
}

/// How much is said on stderr. Each level adds to the levels before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Log {
    /// Says what failed.
    Error,
    /// Says what may fail, too.
    Warn,
    /// Says what happened, too.
    Info,
    /// Says how it happened, too.
    Debug,
}

/// Files of a TLS set-up; all empty means no TLS.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Tls {
    /// This side's certificate chain.
    pub cert: Option<PathBuf>,
    /// This side's private key.
    pub key: Option<PathBuf>,
    /// Authorities whose clients a server lets in (mTLS).
    pub client_ca: Option<PathBuf>,
    /// Authorities whose servers a client trusts.
    pub server_ca: Option<PathBuf>,
}

/// Settings of the verbs transport.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rdma {
    /// The device, if it is not to be the device that has the address.
    pub device: Option<DeviceChoice>,
    /// The exponent of the time for which an acknowledgement is awaited: 4.096 us times 2 to this power.
    pub timeout: u8,
    /// The number of tries without an acknowledgement.
    pub retries: u8,
    /// The number of arrivals on one connection that may wait.
    pub receives: u16,
}

impl Default for Rdma {
    fn default() -> Rdma {
        Rdma { device: None, timeout: 14, retries: RETRIES_MAX, receives: 32 }
    }
}

impl Rdma {
    /// Turns them into the settings of the transport.
    pub fn transport(&self) -> Verbs {
        let verbs = Verbs::new().with_patience(self.timeout, self.retries).with_receives(self.receives);
        match &self.device {
            Some(device) => verbs.with_device(device.clone()),
            None => verbs,
        }
    }
}

/// Every setting with its value, and where the value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The addresses at which the server listens; clients use the first.
    pub address: Vec<Address>,
    /// The file of the cluster that clients and nodes use instead of the address.
    pub cluster: Option<PathBuf>,
    /// Bytes for items and index.
    pub memory: u64,
    /// Threads that execute what clients ask; `None`: as many as [`Config::workers_of`] says.
    pub workers: Option<usize>,
    /// The time for which a client may trust what it reads.
    pub lease: Duration,
    /// Slot size of the index.
    pub slot: Slot,
    /// How the index replaces a record.
    pub index_updates: Updates,
    /// Backing of the memory.
    pub hugepages: HugePages,
    /// What a server does with a write when its memory is full.
    pub eviction: Eviction,
    /// When a follower prepares to lead.
    pub standby: Standby,
    /// Whether to keep an ordered index; in a group followers do.
    pub ordered: bool,
    /// The most clients at once.
    pub max_clients: usize,
    /// Bytes of each client's request ring.
    pub ring_bytes: u64,
    /// Microseconds for which an idle thread polls before it sleeps, at most.
    pub spin_us: u64,
    /// Directory in which a server keeps its data, if any; in a cluster, what its replicas promised.
    pub data: Option<PathBuf>,
    /// Directory in which a server keeps what it promised, if not with its data.
    pub vault_dir: Option<PathBuf>,
    /// When a write is acknowledged, where data is kept.
    pub durability: Durability,
    /// What persistent memory is.
    pub pmem: Pmem,
    /// The time within which the writes were taken that a loss of power loses, at most.
    pub loss_window: Duration,
    /// Bytes a second that a server reads back of what it keeps, to see whether it is still there.
    pub scrub_rate: u64,
    /// File of the shared secret, if any.
    pub secret_file: Option<PathBuf>,
    /// File with the secret that replicas and operators of a cluster have, and clients have not.
    pub peer_secret_file: Option<PathBuf>,
    /// TLS files.
    pub tls: Tls,
    /// Settings of the verbs transport.
    pub verbs: Rdma,
    /// Bound on connecting and on each operation of a client.
    pub timeout: Duration,
    /// How much is said on stderr.
    pub log: Log,
    /// The origins of those values that are not defaults.
    pub(super) origins: BTreeMap<&'static str, Origin>,
}

/// The origin of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// No layer states the value.
    Default,
    /// The configuration file, with the line.
    File(PathBuf, usize),
    /// This environment variable.
    Env(String),
    /// This flag, with its dashes.
    Flag(String),
}

impl Origin {
    /// The number of the layer: a value goes over those of layers with smaller numbers.
    pub(super) fn layer(&self) -> u8 {
        match self {
            Origin::Default => 0,
            Origin::File(..) => 1,
            Origin::Env(_) => 2,
            Origin::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path, line) => write!(f, "{}:{line}", path.display()),
            Origin::Env(name) => write!(f, "environment {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// A value that a layer states for a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    /// Key of the setting.
    pub key: &'static str,
    /// Its value or values, as text.
    pub values: Vec<String>,
    /// Where the layer states it.
    pub origin: Origin,
}

/// Facts about the process on which the defaults depend.
#[derive(Clone, Debug)]
pub struct Host {
    /// The user's id: two users of a machine do not share a socket.
    pub uid: u32,
    /// `XDG_RUNTIME_DIR`, where set.
    pub runtime_dir: Option<PathBuf>,
}

impl Host {
    /// Finds the facts about this process.
    pub fn of_this_process() -> Host {
        let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
        Host { uid: rustix::process::getuid().as_raw(), runtime_dir: runtime_dir.map(PathBuf::from) }
    }
}

/// The most workers that a server has by itself, and the memory that each is worth.
const WORKERS_AUTO: usize = 4;
const MEMORY_A_WORKER: u64 = 64 << 20;

impl Config {
    /// The workers of a server on a machine with so many cores, if their number is not set: one a core, up to
    /// a few. A node of a cluster has one for all its groups, or one a group, and a server with an ordered
    /// index or a data directory has one: each worker is a stream that is replicated, and followed, by
    /// itself, and the writes of fewer streams travel together.
    pub fn workers_of(&self, cores: usize) -> usize {
        let by_memory = usize::try_from(self.memory / MEMORY_A_WORKER).unwrap_or(usize::MAX);
        let alone = cores.min(WORKERS_AUTO).min(by_memory).max(1);
        let is_replica = self.cluster.is_some() || self.ordered || self.data.is_some();
        self.workers.unwrap_or(if is_replica { 1 } else { alone })
    }

    /// The settings if no layer states a value.
    pub fn defaults(host: &Host) -> Config {
        let dir = host.runtime_dir.clone().unwrap_or_else(|| PathBuf::from("/tmp"));
        Config {
            address: vec![Address::Shm(dir.join(format!("longarm-{}.sock", host.uid)))],
            cluster: None,
            memory: 1 << 30,
            workers: None,
            lease: Duration::from_millis(10),
            slot: Slot::Inline64,
            index_updates: Updates::InPlace,
            hugepages: HugePages::Auto,
            eviction: Eviction::None,
            standby: Standby::Idle,
            ordered: false,
            max_clients: limits::CLIENTS,
            ring_bytes: 256 << 10,
            spin_us: 50,
            data: None,
            vault_dir: None,
            durability: Durability::Async,
            pmem: Pmem::Dax,
            loss_window: limits::LOSS_WINDOW,
            scrub_rate: 10 << 20,
            secret_file: None,
            peer_secret_file: None,
            tls: Tls::default(),
            verbs: Rdma::default(),
            timeout: Duration::from_secs(1),
            log: Log::Info,
            origins: BTreeMap::new(),
        }
    }

    /// The address to which a client connects.
    pub fn connect_address(&self) -> &Address {
        &self.address[0]
    }

    /// The same settings for a node of the cluster that listens at this address.
    pub fn listening_at(&self, address: Address) -> Config {
        let mut config = Config { address: vec![address], ..self.clone() };
        config.origins.insert("address", self.origin("cluster"));
        config
    }

    /// The origin of the value of the setting with this key.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }
}
