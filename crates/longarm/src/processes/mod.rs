//! Servers as processes that this process started, and that end with it, whatever happens to it.
//!
//! A child stops when its stdin ends, so that one whose parent is killed does not stay behind. [`Replicas`]
//! are a whole group.

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

/// How long a server may take until it is gone: one that leads a group has an election's time to hand over.
const STOP_MAX: Duration = Duration::from_secs(20);
/// Between two looks at a process.
pub const PAUSE: Duration = Duration::from_millis(5);

/// A directory among the temporary files that is removed when it is dropped, unless it is to be kept.
pub struct Directory {
    path: PathBuf,
    kept: bool,
}

impl Directory {
    /// A new one, of this process, which its owner alone may enter.
    pub fn create(name: &str) -> Result<Directory, Failure> {
        let path = std::env::temp_dir().join(format!("longarm-{name}-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::io("create", &path, &error))?;
        Ok(Directory { path, kept: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It stays.
    pub fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.kept {
            // It is among the temporary files; one that cannot be removed harms nobody.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Where the program is that runs here.
pub fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(Exit::System, format!("cannot find this program: {error}")))
}

/// The server of `program`, which is `longarm`, to be told the rest by flags: settings of the user's own
/// server do not belong here.
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

/// Ends a server: the end of its stdin asks it to stop; one that does not is killed.
pub fn end(child: &mut Child) {
    drop(child.stdin.take());
    let began = Instant::now();
    // An error of these calls means that it is gone already.
    while let Ok(None) = child.try_wait() {
        if began.elapsed() > STOP_MAX {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::park_timeout(PAUSE);
    }
}
