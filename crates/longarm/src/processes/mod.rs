//! Starts servers as processes that end with this process, whatever happens to it.
//!
//! A child stops when its stdin ends, so that it does not stay behind when its parent is killed. [`Replicas`]
//! are the nodes of a whole cluster.

mod journal;
mod replicas;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use journal::Journal;
pub use replicas::{Ended, Plan, Replicas};

use crate::output::{Exit, Failure};

/// How long a server may take to end: the leader of a group has an election's time to hand over.
const STOP_MAX: Duration = Duration::from_secs(20);
/// The pause between two looks at a process.
pub const PAUSE: Duration = Duration::from_millis(5);

/// A directory among the temporary files that is removed when it is dropped, unless it is to be kept.
pub struct Directory {
    path: PathBuf,
    kept: bool,
}

impl Directory {
    /// Makes a directory of this process, which its owner alone may enter.
    pub fn create(name: &str) -> Result<Directory, Failure> {
        let path = std::env::temp_dir().join(format!("longarm-{name}-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::io("create", &path, &error))?;
        Ok(Directory { path, kept: false })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the directory stay.
    pub fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.kept {
            // The directory is among the temporary files, where one that stays does no harm.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Finds the program that this process runs.
pub fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(Exit::System, format!("cannot find this program: {error}")))
}

/// Makes the command of a server of `program`, which is `longarm`. The caller states its settings by flags:
/// settings of the user's own server do not belong here.
pub fn server(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("LONGARM_")) {
            command.env_remove(name);
        }
    }
    command.args(["server", "--stop-with-stdin"]).stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

/// Ends a server. The end of its stdin asks it to stop; a server that does not stop is killed.
pub fn end(child: &mut Child) {
    drop(child.stdin.take());
    let began = Instant::now();
    // An error of these calls means that the process is gone already.
    while let Ok(None) = child.try_wait() {
        if began.elapsed() > STOP_MAX {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::park_timeout(PAUSE);
    }
}
