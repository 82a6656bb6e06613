//! The small file that says whose a directory is. Its lock keeps other processes out.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::FlockOperation;

use crate::vote_store::appear;

/// Why such a file cannot be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// Another process has locked it.
    InUse,
    /// The step that the system refused.
    Failed(&'static str, Error),
}

/// Reads the file of this name, and locks it first if `locks`: for as long as it is open.
pub(crate) fn read(dir: &Path, name: &str, locks: bool) -> Result<(String, File), Unread> {
    let mut file = File::open(dir.join(name)).map_err(|error| Unread::Failed("read", error))?;
    if locks {
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(Error::from);
        locked.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Unread::InUse,
            _ => Unread::Failed("lock", error),
        })?;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| Unread::Failed("read", error))?;
    // What is no text is damaged, and so is that text.
    Ok((String::from_utf8_lossy(&bytes).into_owned(), file))
}

/// Makes a small file, which appears at once, and whole.
pub(crate) fn make(dir: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let fresh = dir.join(format!("{name}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    appear(&file, &fresh, &dir.join(name))
}
