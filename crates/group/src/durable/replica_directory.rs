//! A directory with the arena of one replica of a cluster's group. What the replica promised is beside it.

use std::fs::File;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longarm_base::ReplicaId;
use longarm_disk::{DiskError, Found, MediumKind, Shape};
use longarm_host::random;

use crate::durable::directory::open_arena;
use crate::durable::options::{DiskSource, ReplicaDisk};
use crate::durable::owner_file::{self, Unread};
use crate::options::StartError;
use crate::vote_store::{VoteStore, make_dir, signed};

/// The name of the file that says whose directory it is.
pub(super) const WHOSE: &str = "replica";
/// The key of its checksum, which guards against damage, not against people.
const SUM_KEY: u64 = 0x7265_706C_6963_6121;

/// What the file says: `longarm-replica 1 GROUP REPLICA CHECKSUM`, and a line's end.
pub(super) fn whose(group: u64, replica: ReplicaId) -> String {
    signed(SUM_KEY, format!("longarm-replica 1 {group:016x} {replica}"))
}

/// The directory of a replica's arena, which this process alone uses.
pub struct ReplicaDirectory {
    dir: PathBuf,
    votes: Arc<dyn VoteStore>,
    medium: u64,
    kind: MediumKind,
    /// It was made just now, and what the replica promised is elsewhere: the replica may have lost its disk,
    /// and knows what it promised.
    is_lost: bool,
    /// Its lock keeps other processes out.
    _whose: File,
}

impl ReplicaDirectory {
    /// The directory of this replica, or a new one, which is made. `votes` has what the replica promised,
    /// `apart` from the directory or not, and `kind` is what the directory is on.
    pub fn open(
        dir: &Path,
        group: u64,
        replica: ReplicaId,
        votes: Arc<dyn VoteStore>,
        apart: bool,
        kind: MediumKind,
    ) -> Result<ReplicaDirectory, StartError> {
        let wrong = |text: String| StartError::Directory { dir: dir.display().to_string(), text };
        let failed = |step: &str, error: Error| wrong(format!("cannot {step}: {error}"));
        make_dir(dir).map_err(|error| failed("make it", error))?;
        let text = whose(group, replica);
        let is_new = !dir.join(WHOSE).exists();
        if is_new {
            if dir.join("arena").exists() {
                return Err(wrong(format!(
                    "it holds an `arena` and no `{WHOSE}`, so no replica of a cluster kept its data there: \
                     name the directory of this node, or an empty one"
                )));
            }
            owner_file::make(dir, WHOSE, &text).map_err(|error| failed("write to it", error))?;
        }
        let (found, file) = owner_file::read(dir, WHOSE, true).map_err(|why| match why {
            Unread::InUse => wrong("it is in use by another process: a node runs on it".into()),
            Unread::Failed(step, error) => failed(&format!("{step} its `{WHOSE}`"), error),
        })?;
        if found != text {
            let whose = match found.split(' ').collect::<Vec<_>>()[..] {
                ["longarm-replica", "1", of, number, _] => format!("is of replica {number} of group {of}"),
                _ => "is damaged".into(),
            };
            return Err(wrong(format!(
                "its `{WHOSE}` {whose}, and this is replica {replica} of group {group:016x}: name the \
                 directory of this node, or an empty one"
            )));
        }
        let [medium, ..] = random::<1>().map_err(|e| StartError::Os("draw random numbers", e))?;
        Ok(ReplicaDirectory { dir: dir.into(), votes, medium, kind, is_lost: is_new && apart, _whose: file })
    }
}

impl DiskSource for ReplicaDirectory {
    fn open(&self, shape: Shape) -> Result<(ReplicaDisk, Found), DiskError> {
        let promised = || if self.is_lost { Ok(None) } else { self.votes.load() };
        open_arena(&self.dir, shape, self.medium, self.kind, promised)
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::Term;

    use super::*;
    use crate::{FileVoteStore, Promise};

    const GROUP: u64 = 7;
    const SHAPE: Shape = Shape { group: GROUP, segments: 4, table: 1 };

    fn opened(dir: &Path, replica: u8) -> Result<ReplicaDirectory, StartError> {
        opened_with(dir, replica, false)
    }

    fn opened_with(dir: &Path, replica: u8, apart: bool) -> Result<ReplicaDirectory, StartError> {
        let votes = Arc::new(FileVoteStore::open(dir).expect("a store"));
        let (arenas, kind) = (dir.join("arenas"), MediumKind::Disk);
        ReplicaDirectory::open(&arenas, GROUP, ReplicaId(replica), votes, apart, kind)
    }

    fn refused(dir: &Path, replica: u8) -> String {
        opened(dir, replica).map(|_| ()).expect_err("it is refused").to_string()
    }

    #[test]
    fn a_directory_is_of_one_replica_and_one_process() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = opened(dir.path(), 1).expect("made");
        assert!(refused(dir.path(), 1).contains("in use by another process"));
        first.open(SHAPE).expect("made");
        drop(first);
        let other = refused(dir.path(), 2);
        assert!(other.contains("is of replica 1 of group 0000000000000007"), "{other}");
        let again = opened(dir.path(), 1).expect("its own");
        again.open(SHAPE).expect("there");
        drop(again);
        std::fs::write(dir.path().join("arenas").join(WHOSE), "nonsense").expect("written");
        assert!(refused(dir.path(), 1).contains("is damaged"));
        std::fs::remove_file(dir.path().join("arenas").join(WHOSE)).expect("removed");
        assert!(refused(dir.path(), 1).contains("holds an `arena` and no `replica`"));
    }

    #[test]
    fn a_replica_that_promised_and_has_no_arena_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = opened(dir.path(), 1).expect("made");
        made.open(SHAPE).expect("a new one");
        std::fs::remove_file(dir.path().join("arenas").join("arena")).expect("removed");
        made.open(SHAPE).expect("nothing was promised");
        let promise = Promise { term: Term::new(1, ReplicaId(0)), ..Default::default() };
        made.votes.store(&promise).expect("stored");
        std::fs::remove_file(dir.path().join("arenas").join("arena")).expect("removed");
        let lost = made.open(SHAPE).map(|_| ()).expect_err("it is refused").to_string();
        assert!(lost.contains("is missing"), "{lost}");
        // The whole directory is gone, as if its disk were: whoever knows what it promised begins without.
        drop(made);
        std::fs::remove_dir_all(dir.path().join("arenas")).expect("removed");
        assert!(opened(dir.path(), 1).expect("made").open(SHAPE).is_err(), "the promise is of the same disk");
        std::fs::remove_dir_all(dir.path().join("arenas")).expect("removed");
        opened_with(dir.path(), 1, true).expect("made").open(SHAPE).expect("a new one");
    }
}
