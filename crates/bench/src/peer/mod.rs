//! Starts the servers that are compared with, and stops them: on free loopback ports, with everything in
//! memory, and with a given limit of it.
//!
//! A group is three servers. They end with the benchmark, however it ends: [`process`] and [`scratch`].

mod etcd;
mod memcached;
mod orders;
mod process;
mod redis;
mod scratch;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use orders::{GROUP, Orders};
use process::Process;
use scratch::Scratch;

use crate::driver::TargetFactory;
use crate::pause::pause;
use crate::url::{Protocol, Url};

pub use orders::PeerOptions;

/// How long servers may take until they answer.
const START_MAX: Duration = Duration::from_secs(20);
/// Another program may take the port between our look and the server's bind.
const PORTS_TRIED: u32 = 5;

/// What can be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerKind {
    /// `redis-server`
    Redis,
    /// `memcached`
    Memcached,
    /// `redis-server` with two replicas; a write counts when one of them has it
    RedisGroup,
    /// `redis-server` whose log is on disk before it answers a write
    RedisFsync,
    /// Three `etcd` with their data in memory
    EtcdGroup,
    /// Three `etcd` whose logs are on disk before they answer a write
    EtcdFsync,
}

impl PeerKind {
    /// All kinds.
    pub const ALL: [PeerKind; 6] = [
        PeerKind::Redis,
        PeerKind::Memcached,
        PeerKind::RedisGroup,
        PeerKind::RedisFsync,
        PeerKind::EtcdGroup,
        PeerKind::EtcdFsync,
    ];

    /// The kind called `name`.
    pub fn named(name: &str) -> Option<PeerKind> {
        PeerKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Name on command lines and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            PeerKind::Redis => "redis",
            PeerKind::Memcached => "memcached",
            PeerKind::RedisGroup => "redis-group",
            PeerKind::RedisFsync => "redis-fsync",
            PeerKind::EtcdGroup => "etcd-group",
            PeerKind::EtcdFsync => "etcd-fsync",
        }
    }

    const fn program(self) -> &'static str {
        match self {
            PeerKind::Redis | PeerKind::RedisGroup | PeerKind::RedisFsync => "redis-server",
            PeerKind::Memcached => "memcached",
            PeerKind::EtcdGroup | PeerKind::EtcdFsync => "etcd",
        }
    }

    /// The language that it speaks.
    pub const fn protocol(self) -> Protocol {
        match self {
            PeerKind::Redis | PeerKind::RedisGroup | PeerKind::RedisFsync => Protocol::Redis,
            PeerKind::Memcached => Protocol::Memcached,
            PeerKind::EtcdGroup | PeerKind::EtcdFsync => Protocol::Etcd,
        }
    }

    /// Debian's package of it, and the service that it starts.
    const fn package(self) -> (&'static str, &'static str) {
        match self {
            PeerKind::Redis | PeerKind::RedisGroup | PeerKind::RedisFsync => ("redis-server", "redis-server"),
            PeerKind::Memcached => ("memcached", "memcached"),
            PeerKind::EtcdGroup | PeerKind::EtcdFsync => ("etcd-server", "etcd"),
        }
    }

    /// Whether it writes to a disk, in the directory of [`PeerOptions`].
    const fn is_on_disk(self) -> bool {
        matches!(self, PeerKind::RedisFsync | PeerKind::EtcdFsync)
    }

    /// How many processes it is.
    pub const fn processes(self) -> usize {
        match self {
            PeerKind::Redis | PeerKind::RedisFsync | PeerKind::Memcached => 1,
            PeerKind::RedisGroup | PeerKind::EtcdGroup | PeerKind::EtcdFsync => GROUP,
        }
    }

    /// The program in `PATH` or where Debian puts servers; otherwise what to do.
    pub fn find(self) -> Result<PathBuf, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let known = ["/usr/bin", "/usr/local/bin", "/usr/sbin"].map(PathBuf::from);
        let found = std::env::split_paths(&path).chain(known).map(|dir| dir.join(self.program()));
        found.into_iter().find(|program| program.is_file()).ok_or_else(|| {
            let (package, service) = self.package();
            format!(
                "{} is not installed: 'apt-get install {package}' brings it (stop the service it starts: \
                 'systemctl disable --now {service}'), or name a running server by its URL",
                self.program()
            )
        })
    }
}

/// What the processes of a kind are told.
fn orders(kind: PeerKind, options: &PeerOptions, scratch: &Scratch) -> Result<Orders, String> {
    match kind {
        PeerKind::Redis => redis::alone(options),
        PeerKind::RedisGroup => redis::group(options),
        PeerKind::RedisFsync => redis::synced(options, scratch),
        PeerKind::Memcached => memcached::alone(options),
        PeerKind::EtcdGroup => etcd::group(options, scratch),
        PeerKind::EtcdFsync => etcd::synced(options, scratch),
    }
}

/// Running servers of ours; killed when dropped.
pub struct Peer {
    kind: PeerKind,
    url: Url,
    settings: Vec<(String, String)>,
    // Before the directory in which they write.
    processes: Vec<Process>,
    _scratch: Scratch,
}

impl Peer {
    /// Starts servers and waits until they answer `factory`, which is given where they listen.
    pub fn start(
        kind: PeerKind,
        options: &PeerOptions,
        factory: &dyn Fn(Url) -> Box<dyn TargetFactory>,
    ) -> Result<Peer, String> {
        let program = kind.find()?;
        let mut last = String::new();
        for _ in 0..PORTS_TRIED {
            let on_disk = options.data.as_deref().filter(|_| kind.is_on_disk());
            let scratch = Scratch::new(on_disk)?;
            let Orders { url, arguments, settings } = orders(kind, options, &scratch)?;
            let asks = factory(url.clone());
            let start = |(number, arguments): (usize, Vec<String>)| {
                Process::start(&program, &arguments, &scratch.path().join(format!("said-{number}")))
            };
            let processes = arguments.into_iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
            let mut peer = Peer { kind, url, settings, processes, _scratch: scratch };
            match peer.wait_until_ready(asks.as_ref()) {
                Ok(()) => return Ok(peer),
                Err(why) => last = why,
            }
        }
        Err(format!("{} did not come up: {last}", program.display()))
    }

    /// Until all processes are found by whoever asks the server about itself.
    fn wait_until_ready(&mut self, factory: &dyn TargetFactory) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            self.processes.iter_mut().try_for_each(Process::check)?;
            let why = match factory.describe() {
                Ok(info) if info.pids.len() == self.kind.processes() => return Ok(()),
                Ok(info) => format!("{} of {} servers are there", info.pids.len(), self.kind.processes()),
                Err(error) => error.to_string(),
            };
            if begun.elapsed() > START_MAX {
                return Err(why);
            }
            pause(Duration::from_millis(10));
        }
    }

    /// Where it listens.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// What the report is to say of how it keeps what it is given.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }
}

#[cfg(test)]
mod tests;
