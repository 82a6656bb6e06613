//! A data directory that is made of something else than the life of a server: of a backup.
//!
//! Its `identity`, or the `replica` of a cluster's node, appears last. Without it no server takes the
//! directory for its own, so what was cut off is never started from.

use std::path::{Path, PathBuf};

use longarm_base::{ReplicaId, Term};
use longarm_disk::{ArenaDisk, DiskError, FileMedium, Found, Shape};
use longarm_host::random;
use longarm_memory::SumKey;

use crate::durable::directory::{IDENTITY, Identity};
use crate::durable::owner_file;
use crate::durable::replica_directory::{WHOSE, whose};
use crate::options::StartError;
use crate::vote_store::{FileVoteStore, Promise, VoteStore};

/// A data directory in the making. It is of another group than what it is made of: its number and its keys
/// are drawn, or are those of a new cluster's group.
#[derive(Debug)]
pub struct NewDirectory {
    dir: PathBuf,
    group: u64,
    sum_key: u64,
    whose: Whose,
    medium: u64,
}

#[derive(Debug)]
enum Whose {
    Alone(Identity),
    Replica(ReplicaId, FileVoteStore),
}

impl NewDirectory {
    /// One in this directory, which is there, and empty.
    pub fn begin(dir: &Path) -> Result<NewDirectory, StartError> {
        let identity = Identity::draw()?;
        let [medium] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let Identity { id: group, sum_key, .. } = identity;
        Ok(NewDirectory { dir: dir.into(), group, sum_key, whose: Whose::Alone(identity), medium })
    }

    /// One of a replica of this group in this directory, which is there, and empty. `votes` is to keep what
    /// the replica promised, and has nothing yet.
    pub fn of_replica(
        dir: &Path,
        group: u64,
        sum_key: u64,
        replica: ReplicaId,
        votes: FileVoteStore,
    ) -> Result<NewDirectory, StartError> {
        let failed = |e| StartError::Os("read what the replica promised", e);
        if votes.load().map_err(failed)?.is_some() {
            let text = "the replica has promised something already: name a directory of which no node knows";
            return Err(StartError::Directory { dir: dir.display().to_string(), text: text.into() });
        }
        let [medium] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let whose = Whose::Replica(replica, votes);
        Ok(NewDirectory { dir: dir.into(), group, sum_key, whose, medium })
    }

    /// The key of the checksums.
    pub fn sums(&self) -> SumKey {
        SumKey::new(self.sum_key)
    }

    /// The file of an arena of this shape, with nothing in it.
    pub fn arena(&self, segments: u32, table: u32) -> Result<ArenaDisk<FileMedium>, DiskError> {
        let shape = Shape { group: self.group, segments, table };
        let (disk, Found { .. }) = ArenaDisk::in_dir(&self.dir, shape, self.medium)?;
        Ok(disk)
    }

    /// All that is in the arena's file is there, with a note of this term: a server may start from the
    /// directory. A replica has promised the term, or it would take itself for one that lost its memory.
    pub fn appear(self, term: Term) -> Result<(), StartError> {
        let failed = |e| StartError::Os("write to the data directory", e);
        let (name, text) = match self.whose {
            Whose::Alone(identity) => (IDENTITY, identity.text()),
            Whose::Replica(replica, votes) => {
                let promise = Promise { term, boot: 1, ..Promise::default() };
                votes.store(&promise).map_err(failed)?;
                (WHOSE, whose(self.group, replica))
            }
        };
        owner_file::make(&self.dir, name, &text).map_err(failed)
    }

    /// Removes what was made.
    pub fn abandon(self) {
        for name in ["arena", "arena.new", "identity.new", "replica.new"] {
            let _ = std::fs::remove_file(self.dir.join(name));
        }
    }
}
