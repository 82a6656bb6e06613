//! One server as a child process, and the directory in which it is.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::output::{Exit, Failure};

/// The pause between two looks at a server.
pub const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long a server may take until it ends.
const STOP_MAX: Duration = Duration::from_secs(10);

/// A server as a child process. It ends when this is dropped.
pub struct Process {
    child: Child,
    said: PathBuf,
}

impl Process {
    /// Starts a server. If `setpriv` exists, the server also ends with the thread that started it, so that a
    /// killed benchmark leaves no server behind.
    pub fn spawn(directory: &Directory, arguments: &[String]) -> Result<Process, Failure> {
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
        // Flags state all settings, also those that this process took from its environment.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("LONGARM_")) {
                command.env_remove(name);
            }
        }
        let said = directory.new_file("stderr");
        let log = fs::File::create(&said).map_err(|e| system("creating its log", e))?;
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|e| system("spawning", e))?;
        Ok(Process { child, said })
    }

    /// Fails if the server has ended, with its last words.
    pub fn check(&mut self) -> Result<(), String> {
        let Ok(Some(status)) = self.child.try_wait() else { return Ok(()) };
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        Err(format!("it ended at once with {status}: {}", said.trim()))
    }

    /// Asks the server to end.
    pub fn ask_to_end(&self) {
        // An error means that the process is gone already.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Waits for the server's end; kills it if that takes too long.
    pub fn stop(&mut self) {
        let begun = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if begun.elapsed() > STOP_MAX {
                // As in `ask_to_end`.
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            std::thread::park_timeout(LOOK_AGAIN);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.ask_to_end();
        self.stop();
    }
}

/// A new directory that only this user may enter. It is removed when this is dropped.
pub struct Directory {
    path: PathBuf,
    files: AtomicU32,
}

impl Directory {
    /// Makes a directory among the temporary files.
    pub fn new() -> Result<Directory, Failure> {
        Directory::new_in(&std::env::temp_dir())
    }

    /// Makes a directory in another one.
    pub fn new_in(base: &Path) -> Result<Directory, Failure> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the number itself matters.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("longarm-bench-{}-{number}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| Failure::io("create", &path, &e))?;
        Ok(Directory { path, files: AtomicU32::new(0) })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the path of a new file in the directory.
    fn new_file(&self, name: &str) -> PathBuf {
        // Relaxed: only the number itself matters.
        self.path.join(format!("{name}{}", self.files.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The directory is among the temporary files, where one that stays does no harm.
        let _ = fs::remove_dir_all(&self.path);
    }
}
