//! A directory with all that a server of its own keeps: who it is, what it promised, and its arena.

use std::fs::File;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longarm_base::{ReplicaId, Term};
use longarm_disk::{ArenaDisk, DiskError, Found, MediumKind, Shape};
use longarm_host::random;

use crate::durable::options::{DiskSource, ReplicaDisk};
use crate::durable::owner_file::{self, Unread};
use crate::options::StartError;
use crate::vault::{self, Vault};
use crate::vote_store::{FileVoteStore, Promise, VoteStore, make_dir, signed};

/// The name of the file that says whose directory it is.
pub(super) const IDENTITY: &str = "identity";
/// The key of its checksum, which guards against damage, not against people.
const SUM_KEY: u64 = 0x6964_656E_7469_7479;
/// The name of the root, in the directory of a server that serves from persistent memory (`served.rs`).
pub(super) const ROOT: &str = "root";
/// The names of its tables and of its entries.
pub(super) const INDEX: &str = "index";
pub(super) const ENTRIES: &str = "entries";
/// Where such a server serves from.
const FROM_PERSISTENT: &str = "persistent memory (durability pmem, index_updates out-of-place)";

/// The only replica of its group.
const ONLY: ReplicaId = ReplicaId(0);

/// Who a server is: the same in each of its lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// The number of its group.
    pub id: u64,
    /// The key of the checksums.
    pub sum_key: u64,
    /// The key of the hashes.
    pub hash_key: u64,
}

impl Identity {
    /// One that no server has: its numbers are drawn.
    pub(super) fn draw() -> Result<Identity, StartError> {
        let [id, sum_key, hash_key] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        // Zero names no group.
        Ok(Identity { id: id.max(1), sum_key, hash_key })
    }

    /// `longarm-data 1 ID SUM_KEY HASH_KEY CHECKSUM`, numbers in hexadecimal, and a line's end.
    pub(super) fn text(&self) -> String {
        let Identity { id, sum_key, hash_key } = self;
        signed(SUM_KEY, format!("longarm-data 1 {id:016x} {sum_key:016x} {hash_key:016x}"))
    }

    /// What is in the file of this text, if it is as it was written.
    pub fn parse(text: &str) -> Option<Identity> {
        let words: Vec<_> = text.trim_end().split(' ').collect();
        let ["longarm-data", "1", id, sum_key, hash_key, _] = words[..] else { return None };
        let number = |word| u64::from_str_radix(word, 16).ok();
        let identity = Identity { id: number(id)?, sum_key: number(sum_key)?, hash_key: number(hash_key)? };
        (identity.text() == text).then_some(identity)
    }
}

/// A directory that this process alone uses.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(super) dir: PathBuf,
    pub identity: Identity,
    medium: u64,
    kind: MediumKind,
    /// Its lock keeps other processes out.
    _identity: File,
}

impl Directory {
    /// The directory of a server that ran on it before, or an empty one, which may have to be made. `kind` is
    /// what it is on.
    pub fn open(dir: &Path, kind: MediumKind) -> Result<Directory, StartError> {
        let wrong = |text: String| StartError::Directory { dir: dir.display().to_string(), text };
        let failed = |step: &str, error: Error| wrong(format!("cannot {step}: {error}"));
        make_dir(dir).map_err(|error| failed("make it", error))?;
        if !dir.join(IDENTITY).exists() {
            let mut files = dir.read_dir().map_err(|error| failed("read it", error))?;
            let is_ours = |name: &std::ffi::OsStr| name == "identity.new" || name == "lost+found";
            let foreign = files.find_map(|file| {
                let name = file.ok()?.file_name();
                (!is_ours(&name)).then(|| name.to_string_lossy().into_owned())
            });
            if let Some(name) = foreign {
                return Err(wrong(format!(
                    "it holds `{name}` and no `{IDENTITY}`, so no server of its own kept its data there: \
                     name the directory of one, or an empty one"
                )));
            }
            let text = Identity::draw()?.text();
            owner_file::make(dir, IDENTITY, &text).map_err(|error| failed("write to it", error))?;
        }
        let (text, file) = owner_file::read(dir, IDENTITY, true).map_err(|why| match why {
            Unread::InUse => wrong("it is in use by another process: a server runs on it".into()),
            Unread::Failed(step, error) => failed(&format!("{step} its `{IDENTITY}`"), error),
        })?;
        let Some(identity) = Identity::parse(&text) else {
            let text = "its `identity` is damaged, and without the keys in it nothing that the server kept \
                        can be read: restore that file"
                .to_string();
            return Err(wrong(text));
        };
        let [medium] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        Ok(Directory { dir: dir.into(), identity, medium, kind, _identity: file })
    }

    /// What the server promised: here, or in this directory.
    pub fn vote_store(&self, vault: Option<&Path>) -> Result<Arc<FileVoteStore>, StartError> {
        let (data, group, replica) = (&*self.dir, self.identity.id, ONLY);
        Vault { data, dir: vault, group, replica, of_several: false }.open().map(Arc::new)
    }
}

impl DiskSource for Directory {
    fn open(&self, shape: Shape) -> Result<(ReplicaDisk, Found), DiskError> {
        let root = self.dir.join(ROOT);
        if root.exists() {
            return Err(DiskError::OtherForm { path: root, from: FROM_PERSISTENT });
        }
        let promise = || vault::pointed(&self.dir)?.load();
        open_arena(&self.dir, shape, self.medium, self.kind, promise)
    }
}

/// The file of the arena in a directory: as it is, or a new one. A replica has its file before it promises
/// anything, so one that promised a term, or cannot tell, and has no file has lost it.
pub(super) fn open_arena(
    dir: &Path,
    shape: Shape,
    medium: u64,
    kind: MediumKind,
    promise: impl FnOnce() -> std::io::Result<Option<Promise>>,
) -> Result<(ReplicaDisk, Found), DiskError> {
    let arena = dir.join("arena");
    let promised = |kept: Option<Promise>| kept.is_some_and(|promise| promise.term > Term::ZERO);
    if !arena.exists() && promise().map_or(true, promised) {
        return Err(DiskError::Missing { path: arena });
    }
    let (disk, found) = ArenaDisk::in_dir(dir, shape, medium)?;
    Ok((disk.on(kind)?, found))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SHAPE: Shape = Shape { group: 1, segments: 4, table: 1 };

    fn text(opened: Result<Directory, StartError>) -> String {
        opened.expect_err("it is refused").to_string()
    }

    #[test]
    fn a_server_is_the_same_in_each_of_its_lives_and_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = dir.path().join("not").join("there");
        let first = Directory::open(&at, MediumKind::Disk).expect("made");
        assert!(text(Directory::open(&at, MediumKind::Disk)).contains("in use by another process"));
        let (identity, shape) = (first.identity, Shape { group: first.identity.id, ..SHAPE });
        first.open(shape).expect("made");
        drop(first);
        let again = Directory::open(&at, MediumKind::Disk).expect("opened");
        assert_eq!(again.identity, identity);
        again.open(shape).expect("opened");
        for file in ["identity", "arena"] {
            let mode = at.join(file).metadata().expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        let other = Directory::open(&dir.path().join("other"), MediumKind::Disk).expect("made");
        assert_ne!(other.identity.id, identity.id);
        assert!(again.open(Shape { segments: 9, ..shape }).is_err(), "of another size");
    }

    #[test]
    fn what_is_no_data_directory_or_lacks_a_part_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("thesis.tex"), "years of work").expect("written");
        let foreign = text(Directory::open(dir.path(), MediumKind::Disk));
        assert!(foreign.contains("`thesis.tex`") && foreign.contains("an empty one"), "{foreign}");
        std::fs::remove_file(path("thesis.tex")).expect("removed");
        let made = Directory::open(dir.path(), MediumKind::Disk).expect("made");
        let shape = Shape { group: made.identity.id, ..SHAPE };
        made.open(shape).expect("made");
        let promise = Promise { term: Term::new(1, ReplicaId(0)), ..Default::default() };
        made.vote_store(None).expect("a store").store(&promise).expect("stored");
        std::fs::remove_file(path("arena")).expect("removed");
        let lost = made.open(shape).map(|_| ()).expect_err("it is refused").to_string();
        assert!(lost.contains("is missing") && lost.contains("backup"), "{lost}");
        drop(made);
        let bytes = std::fs::read_to_string(path("identity")).expect("read");
        std::fs::write(path("identity"), bytes.replace(" 1 ", " 2 ")).expect("written");
        assert!(text(Directory::open(dir.path(), MediumKind::Disk)).contains("is damaged"));
    }
}
