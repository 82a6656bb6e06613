//! Servers and groups that a benchmark starts for itself: child processes of this program, in a directory of
//! their own.

mod group;
mod process;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use longarm_bench::driver::{LongarmFactory, ServerInfo, Target, TargetError};
use longarm_bench::{Plan, TargetFactory};
use longarm_client::{Address, Any, Options, Topology};
use longarm_index::hash::layout::SlotKind;

use process::{Directory, LOOK_AGAIN, Process};

use super::args::{Args, Transport};
use super::nic;
use super::plan::{replicas, value_max};
use crate::cluster::{Division, Durability};
use crate::config::settings::SETTINGS;
use crate::config::{self, Config, Origin};
use crate::connect;
use crate::output::{Exit, Failure};

/// How long a server may take until it answers.
const START_MAX: Duration = Duration::from_secs(20);
/// The number of tries to start: another program may take a port between the benchmark's look and the
/// server's bind.
const PORTS_TRIED: u32 = 5;
/// The memory of a server for small plans. Memory that is not touched costs nothing, except where all of it
/// is locked.
const MEMORY_MIN: u64 = 1 << 30;
const LOCKED_MIN: u64 = 128 << 20;
/// Index bytes of an item while a table grows: the old table at 71 % and the new one at 35 %, with headers.
const INDEX_BYTES: u64 = 300;

/// A transport, the address of this machine at which servers of it listen, and how many there are.
#[derive(Clone, Copy, Debug)]
struct Place {
    transport: Transport,
    ip: IpAddr,
    /// Their group; one replica is a server without a group.
    group: Division,
}

impl Place {
    /// Finds the address of the servers: RDMA devices have their own.
    fn of(transport: Transport, replicas: u8, args: &Args, config: &Config) -> Result<Place, Failure> {
        let ip = match transport {
            Transport::Shm | Transport::Tcp => Ipv4Addr::LOCALHOST.into(),
            Transport::Verbs => nic::address(args, config)?,
        };
        let durability = match (&config.data, config.durability) {
            (Some(_), config::Durability::Sync) => Durability::Sync,
            (Some(_), config::Durability::Async) => Durability::Async,
            (Some(_), config::Durability::Pmem) => Durability::Pmem,
            (None, _) => Durability::Memory,
        };
        let group =
            Division { groups: 1, replicas: replicas.into(), durability, loss_window: config.loss_window };
        Ok(Place { transport, ip, group })
    }

    fn label(self) -> String {
        let group = if self.group.replicas > 1 { "group-" } else { "" };
        format!("longarm-{group}{}", self.transport.name())
    }

    /// Finds addresses that were free a moment ago.
    fn addresses(self, directory: &Directory) -> Result<Vec<Address>, Failure> {
        let socket = |number| Address::Shm(directory.path().join(format!("sock{number}")));
        if self.transport == Transport::Shm {
            return Ok((0..self.group.replicas).map(socket).collect());
        }
        let ports = free_ports(self.ip, self.group.replicas)?.into_iter().map(|port| port.to_string());
        Ok(match self.transport {
            Transport::Verbs => ports.map(Address::Verbs).collect(),
            _ => ports.map(Address::Tcp).collect(),
        })
    }

    /// Chooses the addresses and the arguments of the servers.
    fn servers(self, directory: &Directory) -> Result<Servers, Failure> {
        let addresses = self.addresses(directory)?;
        let arguments = match &addresses[..] {
            [address] => vec![vec!["--address".into(), address.to_string()]],
            members => group::arguments(members, self.group, directory.path())?,
        };
        Ok(Servers { addresses, arguments })
    }
}

/// Servers that are to be started.
struct Servers {
    addresses: Vec<Address>,
    /// The arguments in which each server differs from the others.
    arguments: Vec<Vec<String>>,
}

impl Servers {
    fn factory(self, label: String, client: &ClientSetup) -> LongarmFactory {
        client.factory(label, Topology::of_one(self.addresses))
    }
}

/// How the clients of a benchmark connect.
#[derive(Clone)]
pub struct ClientSetup {
    /// The transport over which they connect.
    pub transport: Any,
    /// Their options.
    pub options: Options,
    /// The connections that all of them share, if they do.
    pub connections: Option<usize>,
}

impl ClientSetup {
    /// Takes the setup from the configuration, and from what is said of each client.
    pub fn of(config: &Config, args: &Args) -> Result<ClientSetup, Failure> {
        let options = connect::options(config, "bench")?;
        // A benchmark asks a loaded server; what is late is a figure, not a failure.
        let timeout = options.timeout.max(Duration::from_secs(10));
        let mut options = Options { timeout, connect_timeout: timeout, cache: args.cache, ..options };
        if let Some(side) = args.side {
            (options.scan_side, options.get_side) = (side.fixed(), side.fixed());
        }
        let connections = args.connections.map(usize::from);
        Ok(ClientSetup { transport: connect::transport(config)?, options, connections })
    }

    /// Connections to these servers.
    pub fn factory(&self, label: String, topology: Topology) -> LongarmFactory {
        let ClientSetup { transport, options, connections } = self.clone();
        LongarmFactory::of_cluster(label, topology, transport, options).sharing(connections)
    }
}

/// Computes the memory that a plan needs.
pub fn memory_for(plan: &Plan, transport: Transport, replicas: u8) -> u64 {
    let (key, value) = (24, value_max(plan));
    let inline = longarm_index::hash::Record::fits_inline(
        SlotKind::Inline64,
        key,
        value,
        longarm_base::UnixMillis::NEVER,
    );
    // Values in the arena have a header, and half of a segment may be garbage before it is collected.
    // In a group every item has an entry.
    let entry = if inline && replicas == 1 { 0 } else { (value as u64 + 128) * 2 };
    let min = if transport == Transport::Verbs { LOCKED_MIN } else { MEMORY_MIN };
    (plan.records * (INDEX_BYTES + entry)).max(min).next_multiple_of(64 << 20)
}

/// A target that the benchmark starts itself. Clearing it starts new servers: that is quicker than removing
/// every item, and the index is small again.
pub struct OwnServer {
    place: Place,
    arguments: Vec<String>,
    /// Where the servers keep their data, if they do: each of them in a directory of its own, as long as it
    /// runs.
    data: Option<PathBuf>,
    client: ClientSetup,
    running: Mutex<Running>,
    /// Whether a client connected since the servers started.
    used: AtomicBool,
}

struct Running {
    processes: Vec<Process>,
    factory: LongarmFactory,
    // Dropped after the processes that are in it.
    _directory: Directory,
    _data: Option<Directory>,
}

impl OwnServer {
    /// Starts servers with the settings of `config`, with memory for `plan` unless that is set.
    pub fn start(
        transport: Transport,
        plan: &Plan,
        args: &Args,
        config: &Config,
    ) -> Result<OwnServer, Failure> {
        let replicas = replicas(args, plan);
        let place = Place::of(transport, replicas, args, config)?;
        let arguments = arguments(config, plan, transport, replicas);
        let client = ClientSetup::of(config, args)?;
        let data = config.data.clone();
        let running = Mutex::new(Running::start(place, &arguments, data.as_deref(), &client)?);
        Ok(OwnServer { place, arguments, data, client, running, used: AtomicBool::new(false) })
    }

    fn factory<R>(&self, act: impl FnOnce(&LongarmFactory) -> R) -> R {
        act(&self.running.lock().expect("no holder of this lock panics").factory)
    }
}

impl TargetFactory for OwnServer {
    fn label(&self) -> String {
        self.place.label()
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Target>, TargetError> {
        // Relaxed: a flag for `clear`, which comes after the clients have ended (a join orders that).
        self.used.store(true, Ordering::Relaxed);
        self.factory(|factory| factory.connect(client))
    }

    fn scans(&self) -> bool {
        self.factory(|factory| factory.scans())
    }

    fn describe(&self) -> Result<ServerInfo, TargetError> {
        self.factory(|factory| factory.describe())
    }

    fn clear(&self) -> Result<bool, TargetError> {
        // Relaxed: as in `connect`.
        if !self.used.swap(false, Ordering::Relaxed) {
            return Ok(true);
        }
        let mut running = self.running.lock().expect("no holder of this lock panics");
        running.stop();
        let next = Running::start(self.place, &self.arguments, self.data.as_deref(), &self.client);
        *running = next.map_err(|failure| TargetError::Lost(failure.message))?;
        Ok(true)
    }
}

/// Makes the flags that all servers get: settings that are stated anywhere, and memory for the plan.
fn arguments(config: &Config, plan: &Plan, transport: Transport, replicas: u8) -> Vec<String> {
    let mut words = vec!["server".to_string()];
    // The servers have addresses of their own, which name their device, too, and directories of their own.
    let ours = |key: &str| ["address", "cluster", "data", "verbs.device"].contains(&key);
    for setting in SETTINGS.iter().filter(|setting| !ours(setting.key)) {
        if config.origin(setting.key) == Origin::Default {
            continue;
        }
        let shown = match (setting.show)(config) {
            serde_json::Value::Null => continue,
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        words.extend([format!("--{}", setting.flag()), shown]);
    }
    if config.origin("memory") == Origin::Default {
        words.extend(["--memory".into(), memory_for(plan, transport, replicas).to_string()]);
    }
    if config.origin("max_clients") == Origin::Default {
        words.extend(["--max-clients".into(), plan.connections_max().to_string()]);
    }
    if plan.lengths().is_some() && config.origin("ordered") == Origin::Default {
        words.extend(["--ordered".into(), "true".into()]);
    }
    if config.origin("log") == Origin::Default {
        words.extend(["--log".into(), "warn".into()]);
    }
    words
}

impl Running {
    fn start(
        place: Place,
        arguments: &[String],
        data: Option<&Path>,
        client: &ClientSetup,
    ) -> Result<Running, Failure> {
        let mut last = String::new();
        for _ in 0..PORTS_TRIED {
            let directory = Directory::new()?;
            let servers = place.servers(&directory)?;
            let data = data.map(Directory::new_in).transpose()?;
            let kept = |number: usize| {
                let dir = data.as_ref().map(|data| data.path().join(number.to_string()));
                dir.map_or(Vec::new(), |dir| vec!["--data".into(), dir.display().to_string()])
            };
            let start = |(number, own): (usize, &Vec<String>)| {
                Process::spawn(&directory, &[arguments, own, &kept(number)].concat())
            };
            let processes = servers.arguments.iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
            let factory = servers.factory(place.label(), client);
            let mut running = Running { processes, factory, _directory: directory, _data: data };
            match running.wait_until_ready() {
                Ok(()) => return Ok(running),
                Err(why) => last = why,
            }
        }
        Err(Failure::new(Exit::CannotConnect, format!("the benchmark's server did not come up: {last}")))
    }

    /// Waits until the server serves, and until all replicas of a group are in sync: the benchmark measures a
    /// whole group.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            self.processes.iter_mut().try_for_each(Process::check)?;
            let why = match self.factory.describe() {
                Ok(info) if info.in_sync.is_none_or(|synced| synced == self.processes.len()) => {
                    return Ok(());
                }
                Ok(_) => "its followers are not in sync".to_string(),
                Err(error) => error.to_string(),
            };
            if begun.elapsed() > START_MAX {
                return Err(why);
            }
            std::thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// Ends all processes; all are asked before the first is waited for.
    fn stop(&mut self) {
        self.processes.iter().for_each(Process::ask_to_end);
        self.processes.iter_mut().for_each(Process::stop);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Finds ports that are free, all different.
fn free_ports(ip: IpAddr, count: usize) -> Result<Vec<SocketAddr>, Failure> {
    let wrong = |e| Failure::new(Exit::System, format!("no free port at {ip}: {e}"));
    // All ports are held at once, so that none is found twice.
    let held =
        (0..count).map(|_| TcpListener::bind((ip, 0))).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    held.iter().map(|listener| listener.local_addr().map_err(wrong)).collect()
}
