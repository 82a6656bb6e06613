//! A server in a process of its own, with a socket in a directory of its own; both are gone when this is
//! dropped.
//!
//! The child stops when its stdin ends, so that a demo that is killed leaves no process either.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use longarm_fabric::Address;

use crate::commands::connect;
use crate::config::Config;
use crate::output::{Exit, Failure};

/// How long the server may take until it answers, and until it is gone.
const START_MAX: Duration = Duration::from_secs(20);
const STOP_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// The server.
pub struct Host {
    child: Child,
    directory: Directory,
    config: Config,
}

/// A directory that is removed when it is dropped.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // It is among the temporary files; one that cannot be removed harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Host {
    /// Starts a server with so much memory, and waits until it answers.
    pub fn start(config: &Config, memory: u64) -> Result<Host, Failure> {
        let path = std::env::temp_dir().join(format!("longarm-demo-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::io("create", &path, &error))?;
        let directory = Directory(path);
        let address = match config.connect_address() {
            // One who names a transport over the network wants to see that one.
            Address::Tcp(host) | Address::Verbs(host) if host.ends_with(":0") => {
                let text = format!("{}: the demo needs a port to connect to", config.connect_address());
                return Err(Failure::new(Exit::Usage, text).hint("name a free one"));
            }
            named @ (Address::Tcp(_) | Address::Verbs(_) | Address::Sim(_)) => named.clone(),
            Address::Shm(_) => Address::Shm(directory.0.join("socket")),
        };
        let system = |what: &str, error: std::io::Error| {
            Failure::new(Exit::System, format!("cannot start the demo's server: {what}: {error}"))
        };
        let program = std::env::current_exe().map_err(|error| system("finding this program", error))?;
        let log = std::fs::File::create(directory.0.join("log")).map_err(|error| system("its log", error))?;
        let mut command = Command::new(program);
        // Everything is said by flags: settings of the user's own server do not belong here.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("LONGARM_")) {
                command.env_remove(name);
            }
        }
        command
            .args(["server", "--stop-with-stdin", "--log", "warn", "--address", &address.to_string()])
            .args(["--memory", &memory.to_string(), "--workers", "1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn().map_err(|error| system("running this program", error))?;
        let mut config = config.clone();
        config.address = vec![address];
        config.cluster = None;
        config.secret_file = None;
        // Two cores shared by a server, readers and writers: an operation may well wait for its turn.
        config.timeout = config.timeout.max(Duration::from_secs(10));
        let mut host = Host { child, directory, config };
        host.wait_until_ready()?;
        Ok(host)
    }

    fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = std::fs::read_to_string(self.directory.0.join("log")).unwrap_or_default();
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

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU seconds it has used so far, to the hundredth; zero if it is gone.
    pub fn cpu(&self) -> f64 {
        longarm_bench::cpu::seconds_of(&[self.child.id()]).unwrap_or(0.0)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The end of its stdin asks it to stop; an error of these calls means that it is gone already.
        drop(self.child.stdin.take());
        let began = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if began.elapsed() > STOP_MAX {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}
