//! What can go wrong with a backup, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use longarm_disk::DiskError;

/// An error of a backup, or of what is made of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The system refused something.
    #[error("cannot {step} {path}: {source}")]
    Io {
        /// What was to be done.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The directory holds something already.
    #[error("{path} is not empty: it holds `{name}`. Name a new directory, or an empty one")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// What it holds.
        name: String,
    },
    /// A file is where a directory is to be made.
    #[error("{path} is a file, and not a directory. Name a new directory, or an empty one")]
    NotDirectory {
        /// The file.
        path: PathBuf,
    },
    /// Nothing is there.
    #[error("{path} does not exist: name the directory of a backup")]
    Absent {
        /// Where a backup was looked for.
        path: PathBuf,
    },
    /// A file is where the directory of a backup is looked for.
    #[error(
        "{path} is a file, and a backup is a directory. One that was written as a stream is read from stdin: \
         name `-`, and add `< {path}`"
    )]
    Stream {
        /// The file.
        path: PathBuf,
    },
    /// The directory is one of a server.
    #[error(
        "{path} is the data directory of a server, and no backup: `longarm server --data {path}` starts from \
         it, and `longarm backup` then makes one"
    )]
    OfServer {
        /// The directory.
        path: PathBuf,
    },
    /// There is no manifest, which comes last.
    #[error("{path} has no manifest: it is no backup, or one that was not completed. Take another one")]
    Incomplete {
        /// The backup.
        path: PathBuf,
    },
    /// Bytes are not what was written, or are not there.
    #[error("{path} is damaged: {what}. Take another copy of it, or another backup")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Another version wrote it.
    #[error(
        "{path} has format {found} of backups, and this program knows {known}: use the one that wrote it"
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Of the backup.
        found: u32,
        /// Of the program.
        known: u32,
    },
    /// A backup on which another one rests is not where it was.
    #[error(
        "{path} rests on the backup {id}, which is neither at {at} nor beside it: put it back at one of both"
    )]
    NoParent {
        /// The backup that rests on it.
        path: PathBuf,
        /// The identity of the older one.
        id: String,
        /// Where it was.
        at: PathBuf,
    },
    /// The older backup is of another group, or younger.
    #[error("{path} cannot be what another backup rests on: {what}. Take a whole one, without --since")]
    Unrelated {
        /// The older backup.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// There is too little room.
    #[error(
        "the backup needs an arena of {needs} MiB at least{}, and this memory has one of {has} MiB: raise \
         --memory", if *.so_far { " for what was read of it so far" } else { "" }
    )]
    TooSmall {
        /// Segments that are needed.
        needs: u64,
        /// Whether the rest of the backup, which is a stream, needs more.
        so_far: bool,
        /// Segments that there are.
        has: u64,
    },
    /// The file of the arena cannot be made.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The data directory cannot be made.
    #[error("{0}")]
    Directory(String),
}

impl BackupError {
    pub(crate) fn io(step: &'static str, path: &Path, source: io::Error) -> BackupError {
        BackupError::Io { step, path: path.into(), source }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> BackupError {
        BackupError::Damaged { path: path.into(), what: what.into() }
    }

    /// Whether bytes are not what was written.
    pub fn is_damage(&self) -> bool {
        matches!(self, BackupError::Damaged { .. } | BackupError::Incomplete { .. })
    }
}
