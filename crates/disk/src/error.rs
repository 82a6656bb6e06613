//! Why a file of an arena is of no use, or of no more use.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What went wrong, and what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The system refused something, or the disk failed. Whatever was written since the last sync may be
    /// there or not, and a later sync says nothing of it: the file is not written any more.
    #[error("cannot {step} {path}: {source}")]
    Io {
        /// What was to be done.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// There is no room for the file, which has its whole size from the beginning.
    #[error(
        "{path} needs {needs} bytes on its disk, and {free} are free: free some, name another directory, or \
         lower the memory of the server"
    )]
    Full {
        /// The file.
        path: PathBuf,
        /// Bytes that it takes.
        needs: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// It was there, and is not any more.
    #[error(
        "{path} is missing, though the server kept data in it: put it back, restore a backup, or name an \
         empty directory to begin without data"
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// It was to be on persistent memory.
    #[error(
        "{path} is on no persistent memory (a file system mounted with `dax`): name a directory that is, \
         take durability \"sync\", or, to try it without, --pmem file: an ordinary file stands for it \
         then, which outlives the server's process and no loss of power"
    )]
    NotPersistent {
        /// The file.
        path: PathBuf,
    },
    /// The directory is of a server that serves from persistent memory, or of one that does not.
    #[error("{path} is of a server that serves from {from}: start it as before, or name another directory")]
    OtherForm {
        /// A file of the directory.
        path: PathBuf,
        /// What that server serves from, and by which options.
        from: &'static str,
    },
    /// Another process has it open.
    #[error("{path} is in use by another process: a server runs on this directory already")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It is no file of an arena.
    #[error("{path} is no file of an arena: name the directory of a server's data, or an empty one")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A later version wrote it.
    #[error(
        "{path} has version {found} of the file, and this program knows {known}: use the one that wrote it"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Of the file.
        found: u64,
        /// Of the program.
        known: u64,
    },
    /// It is of another group.
    #[error("{path} is of group {found:016x}, and this replica of {group:016x}: name its own directory")]
    Group {
        /// The file.
        path: PathBuf,
        /// Of the file.
        found: u64,
        /// Of the replica.
        group: u64,
    },
    /// The arena has another size.
    #[error(
        "{path} is of an arena of {found} segments, and the server's has {segments}: start it with the \
         memory that it had"
    )]
    Shape {
        /// The file.
        path: PathBuf,
        /// Of the file.
        found: u64,
        /// Of the server.
        segments: u64,
    },
    /// Bytes of it are not what was written.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl DiskError {
    /// What the system says of a step.
    pub fn io(step: &'static str, path: &Path, error: impl Into<io::Error>) -> DiskError {
        DiskError::Io { step, path: path.to_path_buf(), source: Arc::new(error.into()) }
    }
}
