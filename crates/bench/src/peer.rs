//! Starts the servers that are compared with, and stops them: persistence off, a free loopback port, a given
//! memory limit.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::driver::{Address, MemcachedFactory, Protocol, RedisFactory, TargetFactory, Url};
use crate::run::pause;

/// How long a server may take until it answers.
const START_MAX: Duration = Duration::from_secs(10);
/// Another program may take the port between our look and the server's bind.
const PORTS_TRIED: u32 = 5;

/// A server that can be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerKind {
    /// `redis-server`
    Redis,
    /// `memcached`
    Memcached,
}

impl PeerKind {
    /// The server called `name`.
    pub fn named(name: &str) -> Option<PeerKind> {
        [PeerKind::Redis, PeerKind::Memcached].into_iter().find(|kind| kind.name() == name)
    }

    /// Name on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            PeerKind::Redis => "redis",
            PeerKind::Memcached => "memcached",
        }
    }

    fn program(self) -> &'static str {
        match self {
            PeerKind::Redis => "redis-server",
            PeerKind::Memcached => "memcached",
        }
    }

    /// The program in `PATH` or where Debian puts servers; otherwise what to do.
    pub fn find(self) -> Result<PathBuf, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let known = ["/usr/bin", "/usr/local/bin", "/usr/sbin"].map(PathBuf::from);
        let found = std::env::split_paths(&path).chain(known).map(|dir| dir.join(self.program()));
        found.into_iter().find(|program| program.is_file()).ok_or_else(|| {
            let package = if self == PeerKind::Redis { "redis-server" } else { "memcached" };
            format!(
                "{} is not installed: 'apt-get install {package}' brings it (stop the service it starts: \
                 'systemctl disable --now {package}'), or name a running server by its URL",
                self.program()
            )
        })
    }
}

/// How to start a server.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// Memory limit for its data, in bytes.
    pub memory: u64,
    /// Threads that serve requests (Redis: `io-threads`; memcached: `-t`).
    pub threads: u32,
    /// Largest value that it must take, in bytes.
    pub value_max: usize,
}

impl Default for PeerOptions {
    fn default() -> PeerOptions {
        PeerOptions { memory: 4 << 30, threads: 1, value_max: 1 << 20 }
    }
}

/// A running server of ours; killed when dropped.
pub struct Peer {
    child: Child,
    url: Url,
}

impl Peer {
    /// Starts a server and waits until it answers. Where `setpriv` exists the server also dies with the
    /// thread that started it, so that a killed benchmark leaves nothing behind.
    pub fn start(kind: PeerKind, options: &PeerOptions) -> Result<Peer, String> {
        let program = kind.find()?;
        let mut last = String::new();
        for _ in 0..PORTS_TRIED {
            let port = free_port()?;
            let mut command = match PathBuf::from("/usr/bin/setpriv") {
                setpriv if setpriv.is_file() => {
                    let mut command = Command::new(setpriv);
                    command.args(["--pdeathsig", "KILL", "--"]).arg(&program);
                    command
                }
                _ => Command::new(&program),
            };
            command.args(arguments(kind, options, port)).current_dir(std::env::temp_dir());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", program.display()))?;
            let protocol = if kind == PeerKind::Redis { Protocol::Redis } else { Protocol::Memcached };
            let url = Url { protocol, address: Address::Tcp("127.0.0.1".into(), port) };
            let mut peer = Peer { child, url };
            match peer.wait_until_ready() {
                Ok(()) => return Ok(peer),
                Err(why) => last = why,
            }
        }
        Err(format!("{} did not come up: {last}", program.display()))
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let timeout = Duration::from_secs(2);
        let (label, url, pid) = (String::new(), self.url.clone(), Some(self.pid()));
        let factory: Box<dyn TargetFactory> = match url.protocol {
            Protocol::Redis => Box::new(RedisFactory::new(label, url, timeout, pid)),
            Protocol::Memcached => Box::new(MemcachedFactory::new(label, url, timeout, pid)),
        };
        let begun = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended at once with {status}"));
            }
            match factory.describe() {
                Ok(_) => return Ok(()),
                Err(e) if begun.elapsed() > START_MAX => return Err(e.to_string()),
                Err(_) => pause(Duration::from_millis(10)),
            }
        }
    }

    /// Where it listens.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // An error means that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|e| format!("no free loopback port: {e}"))
}

fn arguments(kind: PeerKind, options: &PeerOptions, port: u16) -> Vec<String> {
    let port = port.to_string();
    let threads = options.threads.max(1).to_string();
    let memory = options.memory;
    let words: Vec<String> = match kind {
        PeerKind::Redis => {
            let memory = memory.to_string();
            let arguments = [
                ["--port", &port],
                ["--bind", "127.0.0.1"],
                ["--save", ""],
                ["--appendonly", "no"],
                ["--daemonize", "no"],
                ["--maxmemory", &memory],
                ["--maxmemory-policy", "noeviction"],
                ["--io-threads", &threads],
            ];
            arguments.iter().flatten().map(|word| word.to_string()).collect()
        }
        PeerKind::Memcached => {
            let megabytes = (memory >> 20).max(64);
            let mut arguments: Vec<String> =
                ["-l", "127.0.0.1", "-p", &port, "-U", "0", "-t", &threads, "-c", "4096", "-M", "-m"]
                    .map(String::from)
                    .into();
            arguments.push(megabytes.to_string());
            // memcached refuses items above 1 MiB unless told; the item includes key and header.
            if options.value_max + 512 > 1 << 20 {
                arguments
                    .extend(["-I".into(), format!("{}m", (options.value_max + 512).div_ceil(1 << 20) + 1)]);
            }
            // It refuses to run as root without being told as whom.
            if rustix::process::geteuid().is_root() {
                arguments.extend(["-u".into(), "root".into()]);
            }
            arguments
        }
    };
    words
}
