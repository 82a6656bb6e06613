//! A server in a process of its own, with a socket in a directory of its own. Both are gone when [`Host`] is
//! dropped.
//!
//! The child stops when its stdin ends, so that a demo that is killed leaves no process either.

use std::process::Child;
use std::time::{Duration, Instant};

use longarm_fabric::Address;

use crate::config::Config;
use crate::connect;
use crate::output::{Exit, Failure};
use crate::processes::{Directory, PAUSE, end, server, this_program};

/// How long the server may take until it answers.
const START_MAX: Duration = Duration::from_secs(20);

/// The server of a demo.
pub struct Host {
    child: Child,
    directory: Directory,
    config: Config,
}

impl Host {
    /// Starts a server with `memory` bytes, and waits until it answers.
    pub fn start(config: &Config, memory: u64) -> Result<Host, Failure> {
        let directory = Directory::create("demo")?;
        let address = match config.connect_address() {
            // A user who names a transport over the network wants to see that transport.
            Address::Tcp(host) | Address::Verbs(host) if host.ends_with(":0") => {
                let text = format!("{}: the demo needs a port to connect to", config.connect_address());
                return Err(Failure::new(Exit::Usage, text).hint("name a free one"));
            }
            named @ (Address::Tcp(_) | Address::Verbs(_) | Address::Sim(_)) => named.clone(),
            Address::Shm(_) => Address::Shm(directory.path().join("socket")),
        };
        let system = |what: &str, error: std::io::Error| {
            Failure::new(Exit::System, format!("cannot start the demo's server: {what}: {error}"))
        };
        let log = std::fs::File::create(directory.path().join("log"));
        let mut command = server(&this_program()?);
        command
            .args(["--log", "warn", "--address", &address.to_string()])
            .args(["--memory", &memory.to_string(), "--workers", "1"])
            .stderr(log.map_err(|error| system("its log", error))?);
        let child = command.spawn().map_err(|error| system("running this program", error))?;
        let mut config = config.clone();
        config.address = vec![address];
        config.cluster = None;
        (config.secret_file, config.peer_secret_file) = (None, None);
        // A server, readers and writers may share two cores, so an operation may well wait for its turn.
        config.timeout = config.timeout.max(Duration::from_secs(10));
        let mut host = Host { child, directory, config };
        host.wait_until_ready()?;
        Ok(host)
    }

    fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                let text = format!("the demo's server ended at once with {status}: {}", said.trim());
                return Err(
                    Failure::new(Exit::System, text).hint("`longarm doctor` shows what this machine lacks")
                );
            }
            match connect::connect(&self.config, "longarm demo") {
                Ok(_) => return Ok(()),
                Err(failure) if began.elapsed() > START_MAX => return Err(failure),
                Err(_) => std::thread::park_timeout(PAUSE),
            }
        }
    }

    /// Settings of clients of this server.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The process id of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The CPU seconds that the server has used so far, to the hundredth; zero if it is gone.
    pub fn cpu(&self) -> f64 {
        longarm_bench::cpu::seconds_of(&[self.child.id()]).unwrap_or(0.0)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
