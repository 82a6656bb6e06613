//! The description beside the plain files of an arena, by which they can be opened and verified later.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use longarm_group::StartError;

/// The text file `arena.json` of an arena directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Version of all layouts.
    pub layout: u32,
    /// Key of the record checksums.
    pub sum_key: u64,
    /// Bytes of the control page's file.
    pub control_bytes: u64,
    /// Bytes of the index's file.
    pub index_bytes: u64,
    /// Bytes of the arena's file.
    pub arena_bytes: u64,
}

impl Saved {
    /// Version of the layouts that this build writes and reads.
    pub const LAYOUT: u32 = 1;
    /// Name of the text file.
    pub const FILE: &str = "arena.json";

    /// The control page's file.
    pub fn control_path(dir: &Path) -> PathBuf {
        dir.join("control.arena")
    }

    /// The index's file.
    pub fn index_path(dir: &Path) -> PathBuf {
        dir.join("index.arena")
    }

    /// The arena's file.
    pub fn segments_path(dir: &Path) -> PathBuf {
        dir.join("segments.arena")
    }

    /// Reads the description of a saved arena.
    pub fn read(dir: &Path) -> Result<Saved, String> {
        let path = dir.join(Saved::FILE);
        let text = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let saved: Saved = serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if saved.layout != Saved::LAYOUT {
            let (have, can) = (saved.layout, Saved::LAYOUT);
            return Err(format!("{}: layout {have}, this build reads layout {can}", path.display()));
        }
        Ok(saved)
    }

    /// Writes the description, which must not exist yet: two servers never share a directory, and no saved
    /// file is overwritten.
    pub(crate) fn create(&self, dir: &Path) -> Result<(), StartError> {
        let text = serde_json::to_vec_pretty(self).expect("numbers become JSON");
        let wrong = |text: String| StartError::Directory { dir: dir.display().to_string(), text };
        // The file holds the key of the checksums, so only its owner may read it.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(Saved::FILE));
        let mut file: File = file.map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => wrong(
                "it holds an arena already: inspect it, then remove it or choose another directory".into(),
            ),
            std::io::ErrorKind::NotFound => wrong("it does not exist: create it first".into()),
            _ => wrong(e.to_string()),
        })?;
        file.write_all(&text).map_err(|e| wrong(format!("{}: {e}", Saved::FILE)))
    }

    /// Removes the description that a failed start had made.
    pub(crate) fn remove(dir: &Path) {
        for path in [Saved::control_path(dir), Saved::index_path(dir), Saved::segments_path(dir)] {
            let _ = std::fs::remove_file(path);
        }
        let _ = std::fs::remove_file(dir.join(Saved::FILE));
    }
}
