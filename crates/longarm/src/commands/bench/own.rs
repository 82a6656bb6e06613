//! Servers that a benchmark starts for itself: child processes of this program, in a directory of their own.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use longarm_bench::driver::{LongarmFactory, ServerInfo, Target, TargetError};
use longarm_bench::{Plan, TargetFactory};
use longarm_client::{Address, Any, Options};
use longarm_index::hash::layout::SlotKind;
use rustix::process::{Pid, Signal, kill_process};

use super::plan::value_max;
use super::{Args, nic};
use crate::commands::connect;
use crate::config::settings::SETTINGS;
use crate::config::{Config, Origin};
use crate::output::{Exit, Failure};

/// How long a server may take until it answers, and until it ends.
const START_MAX: Duration = Duration::from_secs(20);
const STOP_MAX: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Another program may take the port between our look and the server's bind.
const PORTS_TRIED: u32 = 5;
/// Memory of a server for small plans. What nobody touches costs nothing, except where all of it is locked.
const MEMORY_MIN: u64 = 1 << 30;
const LOCKED_MIN: u64 = 128 << 20;
/// Index bytes of an item while a table grows: the old table at 71 % and the new one at 35 %, with headers.
const INDEX_BYTES: u64 = 300;

/// How a server of our own is reached.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Shared memory
    Shm,
    /// TCP on the loopback
    Tcp,
    /// RDMA: at an address of --peer-device, else of --verbs-device, else of the first device that is ready
    Verbs,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Tcp => "tcp",
            Transport::Verbs => "verbs",
        }
    }
}

/// A transport, and the address of this machine at which a server of it listens.
#[derive(Clone, Copy, Debug)]
struct Place {
    transport: Transport,
    ip: IpAddr,
}

impl Place {
    /// RDMA devices say where they are.
    fn of(transport: Transport, args: &Args, config: &Config) -> Result<Place, Failure> {
        let ip = match transport {
            Transport::Shm | Transport::Tcp => Ipv4Addr::LOCALHOST.into(),
            Transport::Verbs => nic::address(args, config)?,
        };
        Ok(Place { transport, ip })
    }

    fn label(self) -> String {
        format!("longarm-{}", self.transport.name())
    }

    /// An address that was free a moment ago.
    fn address(self, directory: &Path) -> Result<Address, Failure> {
        Ok(match self.transport {
            Transport::Shm => Address::Shm(directory.join("sock")),
            Transport::Tcp => Address::Tcp(free_port(self.ip)?.to_string()),
            Transport::Verbs => Address::Verbs(free_port(self.ip)?.to_string()),
        })
    }
}

/// How clients of this configuration connect; `cache` places are remembered.
pub fn client_of(config: &Config, cache: Option<usize>) -> Result<(Any, Options), Failure> {
    let options = connect::options(config, "bench")?;
    // A benchmark asks a loaded server; what is late is a figure, not a failure.
    let timeout = options.timeout.max(Duration::from_secs(10));
    Ok((connect::transport(config)?, Options { timeout, connect_timeout: timeout, cache, ..options }))
}

/// Memory that a plan needs.
pub fn memory_for(plan: &Plan, transport: Transport) -> u64 {
    let (key, value) = (24, value_max(plan));
    let inline = longarm_index::hash::Record::fits_inline(
        SlotKind::Inline64,
        key,
        value,
        longarm_base::UnixMillis::NEVER,
    );
    // Values in the arena have a header, and half of a segment may be garbage before it is collected.
    let entry = if inline { 0 } else { (value as u64 + 128) * 2 };
    let min = if transport == Transport::Verbs { LOCKED_MIN } else { MEMORY_MIN };
    (plan.records * (INDEX_BYTES + entry)).max(min).next_multiple_of(64 << 20)
}

/// A server of our own as a target. Clearing it means a new one: that is quicker than removing every item,
/// and its index is small again.
pub struct OwnServer {
    place: Place,
    arguments: Vec<String>,
    client: (Any, Options),
    running: Mutex<Running>,
    /// Somebody connected since the server started.
    used: AtomicBool,
}

struct Running {
    process: Process,
    factory: LongarmFactory,
}

impl OwnServer {
    /// Starts a server with the settings of `config`, with memory for `plan` unless that is set.
    pub fn start(
        transport: Transport,
        plan: &Plan,
        args: &Args,
        config: &Config,
    ) -> Result<OwnServer, Failure> {
        let place = Place::of(transport, args, config)?;
        let arguments = arguments(config, plan, transport);
        let client = client_of(config, args.cache)?;
        let running = Mutex::new(Running::start(place, &arguments, &client)?);
        Ok(OwnServer { place, arguments, client, running, used: AtomicBool::new(false) })
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

    fn describe(&self) -> Result<ServerInfo, TargetError> {
        self.factory(|factory| factory.describe())
    }

    fn clear(&self) -> Result<bool, TargetError> {
        // Relaxed: as in `connect`.
        if !self.used.swap(false, Ordering::Relaxed) {
            return Ok(true);
        }
        let mut running = self.running.lock().expect("no holder of this lock panics");
        running.process.stop();
        let next = Running::start(self.place, &self.arguments, &self.client);
        *running = next.map_err(|failure| TargetError::Lost(failure.message))?;
        Ok(true)
    }
}

/// Flags of the server: whatever somebody set anywhere, and memory for the plan.
fn arguments(config: &Config, plan: &Plan, transport: Transport) -> Vec<String> {
    let mut words = vec!["server".to_string()];
    // The server has an address of its own, which names its device, too.
    let ours = |key: &str| ["address", "cluster", "verbs.device"].contains(&key);
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
        words.extend(["--memory".into(), memory_for(plan, transport).to_string()]);
    }
    if config.origin("log") == Origin::Default {
        words.extend(["--log".into(), "warn".into()]);
    }
    words
}

/// A child process and its directory; both are gone when it is dropped.
struct Process {
    child: Child,
    directory: PathBuf,
}

impl Running {
    fn start(place: Place, arguments: &[String], client: &(Any, Options)) -> Result<Running, Failure> {
        let mut last = String::new();
        for _ in 0..PORTS_TRIED {
            let directory = directory()?;
            let address = place.address(&directory)?;
            let mut process = Process::spawn(directory, arguments, &address)?;
            let factory = LongarmFactory::new(place.label(), address, client.0.clone(), client.1.clone());
            match process.wait_until_ready(&factory) {
                Ok(()) => return Ok(Running { process, factory }),
                Err(why) => last = why,
            }
        }
        Err(Failure::new(Exit::CannotConnect, format!("the benchmark's server did not come up: {last}")))
    }
}

impl Process {
    /// Where `setpriv` exists the server also ends with the thread that started it, so that a killed
    /// benchmark leaves no server behind.
    fn spawn(directory: PathBuf, arguments: &[String], address: &Address) -> Result<Process, Failure> {
        let system = |what: &str, e: std::io::Error| {
            Failure::new(Exit::System, format!("cannot start the benchmark's server: {what}: {e}"))
        };
        let program = std::env::current_exe().map_err(|e| system("finding this program", e))?;
        let setpriv = Path::new("/usr/bin/setpriv");
        let mut command = if setpriv.is_file() {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "TERM", "--"]).arg(&program);
            command
        } else {
            Command::new(&program)
        };
        // Everything is said by flags: what this process took from its environment is among them.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("LONGARM_")) {
                command.env_remove(name);
            }
        }
        let said = fs::File::create(directory.join("stderr")).map_err(|e| system("creating its log", e))?;
        command.args(arguments).arg("--address").arg(address.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let child = command.spawn().map_err(|e| system("spawning", e))?;
        Ok(Process { child, directory })
    }

    fn wait_until_ready(&mut self, factory: &LongarmFactory) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = fs::read_to_string(self.directory.join("stderr")).unwrap_or_default();
                return Err(format!("it ended at once with {status}: {}", said.trim()));
            }
            match factory.describe() {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > START_MAX => return Err(error.to_string()),
                Err(_) => std::thread::park_timeout(LOOK_AGAIN),
            }
        }
    }

    /// Asks it to end, and waits; kills it if it takes too long.
    fn stop(&mut self) {
        let begun = Instant::now();
        // An error of these calls means that it is gone already.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        while let Ok(None) = self.child.try_wait() {
            if begun.elapsed() > STOP_MAX {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            std::thread::park_timeout(LOOK_AGAIN);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
        // It is in a directory of temporary files; one that cannot be removed harms nobody.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A new directory that only this user may enter.
fn directory() -> Result<PathBuf, Failure> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only the number itself matters.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("longarm-bench-{}-{number}", std::process::id()));
    let made = fs::DirBuilder::new().mode(0o700).create(&path);
    made.map_err(|e| Failure::io("create", &path, &e))?;
    Ok(path)
}

fn free_port(ip: IpAddr) -> Result<SocketAddr, Failure> {
    let listener = std::net::TcpListener::bind((ip, 0)).and_then(|listener| listener.local_addr());
    listener.map_err(|e| Failure::new(Exit::System, format!("no free port at {ip}: {e}")))
}
