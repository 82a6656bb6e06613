//! A directory for what servers write: on a disk that is named, or in memory where the machine has such a
//! file system.
//!
//! It is gone when this process is, however that ends: what lies in memory must not stay there. Somebody has
//! to see to it who outlives us, which is a shell that waits for the end of a pipe.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where Linux has a file system in memory.
const MEMORY: &str = "/dev/shm";
/// Waits for our end, which is that of its input. Servers that die with us may still be writing.
const GUARD: &str = "trap '' INT TERM HUP; read -r _; rm -rf -- \"$0\" || { sleep 1; rm -rf -- \"$0\"; }";

/// A directory of its own.
pub(super) struct Scratch {
    path: PathBuf,
    pub(super) guard: Child,
}

impl Scratch {
    /// Makes one that only this user may enter: in this directory, or else in memory.
    pub fn new(on_disk: Option<&Path>) -> Result<Scratch, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the number itself matters.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("longarm-peer-{}-{number}", std::process::id());
        let memory = PathBuf::from(MEMORY);
        let base = on_disk.map(Path::to_path_buf);
        let base = base.unwrap_or_else(|| if memory.is_dir() { memory } else { std::env::temp_dir() });
        // Neither the servers nor the guard are where we are.
        let path = std::path::absolute(&base).unwrap_or(base).join(name);
        let wrong = |e: std::io::Error| format!("cannot make {} for a server: {e}", path.display());
        DirBuilder::new().mode(0o700).create(&path).map_err(wrong)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARD]).arg(&path).current_dir("/");
        let guard = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Scratch { guard: guard.map_err(wrong)?, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is in memory, so that to write there is not to write to a disk.
    pub fn is_in_memory(&self) -> bool {
        self.path.starts_with(MEMORY)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Its input ends: it removes the directory. One that cannot be removed harms nobody but by its size.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}
