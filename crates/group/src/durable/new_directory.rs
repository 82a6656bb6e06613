//! A data directory that is made of something else than the life of a server: of a backup.
//!
//! Its `identity` appears last. Without it no server takes the directory for its own, so what was cut off is
//! never started from.

use std::path::{Path, PathBuf};

use longarm_disk::{ArenaDisk, DiskError, FileMedium, Found, Shape};
use longarm_host::random;
use longarm_memory::SumKey;

use crate::durable::directory::{IDENTITY, Identity, make};
use crate::options::StartError;

/// A data directory in the making. Its number and its keys are drawn: it is of another group than what it is
/// made of.
#[derive(Debug)]
pub struct NewDirectory {
    dir: PathBuf,
    identity: Identity,
    medium: u64,
}

impl NewDirectory {
    /// One in this directory, which is there, and empty.
    pub fn begin(dir: &Path) -> Result<NewDirectory, StartError> {
        let drawn = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let [id, sum_key, hash_key, medium] = drawn;
        // Zero names no group.
        Ok(NewDirectory { dir: dir.into(), identity: Identity { id: id.max(1), sum_key, hash_key }, medium })
    }

    /// The key of the checksums.
    pub fn sums(&self) -> SumKey {
        SumKey::new(self.identity.sum_key)
    }

    /// The file of an arena of this shape, with nothing in it.
    pub fn arena(&self, segments: u32, table: u32) -> Result<ArenaDisk<FileMedium>, DiskError> {
        let shape = Shape { group: self.identity.id, segments, table };
        let (disk, Found { .. }) = ArenaDisk::in_dir(&self.dir, shape, self.medium)?;
        Ok(disk)
    }

    /// All that is in the arena's file is there: a server may start from the directory.
    pub fn appear(self) -> Result<(), StartError> {
        make(&self.dir, IDENTITY, &self.identity.text())
            .map_err(|e| StartError::Os("write to the data directory", e))
    }

    /// Removes what was made.
    pub fn abandon(self) {
        for name in ["arena", "arena.new", "identity.new"] {
            let _ = std::fs::remove_file(self.dir.join(name));
        }
    }
}
