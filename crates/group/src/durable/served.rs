//! The files from which a server of its own serves, in persistent memory: what it is in its next life, too
//! (`longarm_engine::persistent::root`).
//!
//! The root appears first, all zero, and is laid out last. So a root that is zero, beside tables that are, is
//! of a server that never came to serve, and its files are made anew.

use std::path::Path;
use std::sync::Arc;

use longarm_base::limits::SEGMENT_BYTES;
use longarm_disk::{DiskError, FileMedium, Medium, MediumKind, persistent_region};
use longarm_engine::persistent::layout;
use longarm_engine::persistent::root::Root;
use longarm_memory::{Persistence, Region};
use longarm_store::segment::layout::arena_bytes;

use crate::durable::directory::{Directory, ENTRIES, INDEX, ROOT};
use crate::keys::Keys;
use crate::options::StartError;

/// Bytes that are looked at at once.
const CHUNK: u64 = 1 << 20;
/// Where one serves from whose directory has an arena.
const FROM_MEMORY: &str = "memory, of which its directory has a copy (index_updates in-place)";

/// The memory of a server of its own that serves from persistent memory, and its keys.
pub struct PersistentData {
    /// The root.
    pub root: Arc<Region>,
    /// The tables.
    pub index: Arc<Region>,
    /// The entries.
    pub arena: Arc<Region>,
    /// The keys of checksums and hashes.
    pub keys: Keys,
    /// What outlives what.
    pub persistence: Persistence,
    /// Its lock keeps other processes out; none of a simulated server.
    directory: Option<Directory>,
}

impl PersistentData {
    /// Bytes of root, index and arena of a server with so much memory: either of the two may take all of it.
    pub fn bytes(memory: u64) -> [u64; 3] {
        [layout::BYTES, memory, arena_bytes(memory)]
    }

    /// Opens the directory of the data, or makes it, with files of so many bytes.
    pub fn open(
        dir: &Path,
        medium: MediumKind,
        [root, index, arena]: [u64; 3],
    ) -> Result<PersistentData, StartError> {
        let directory = Directory::open(dir, medium)?;
        let or_file = medium != MediumKind::PersistentMemory { or_file: false };
        let dir = &directory.dir;
        let copy = dir.join("arena");
        if copy.exists() {
            return Err(DiskError::OtherForm { path: copy, from: FROM_MEMORY }.into());
        }
        let open = |name: &str, bytes| {
            let file = opened(&dir.join(name), bytes)?;
            persistent_region(&file, or_file).map(|(region, persistence)| (Arc::new(region), persistence))
        };
        let make = |name: &str, bytes| made(&dir.join(name), bytes);
        let is_laid_out = || Ok::<_, DiskError>(Root::is_laid_out(open(ROOT, root)?.0.memory()));
        if !dir.join(ROOT).exists() || !is_laid_out()? {
            check_never_served(dir)?;
            make(ROOT, root)?;
            // Without persistent memory nothing large is made.
            is_laid_out()?;
            make(INDEX, index)?;
            make(ENTRIES, arena)?;
        }
        let (root, persistence) = open(ROOT, root)?;
        let ((index, _), (arena, _)) = (open(INDEX, index)?, open(ENTRIES, arena)?);
        let keys = Keys { sum: directory.identity.sum_key, hash: directory.identity.hash_key };
        Ok(PersistentData { root, index, arena, keys, persistence, directory: Some(directory) })
    }

    /// These regions, which outlive a loss of power, in whatever way that is: root, index and arena. Zeros,
    /// or what the last life of a server with these keys left.
    pub fn over([root, index, arena]: [Region; 3], keys: Keys) -> PersistentData {
        let [root, index, arena] = [root, index, arena].map(Arc::new);
        PersistentData { root, index, arena, keys, persistence: Persistence::Power, directory: None }
    }

    /// Where its regions are, for people.
    pub fn place(&self) -> String {
        let dir = self.directory.as_ref().map(|directory| directory.dir.display().to_string());
        dir.unwrap_or_else(|| "its memory".into())
    }
}

/// Refuses a directory whose root is gone, or empty, though its server came to serve: who writes a first item
/// stores to a table.
fn check_never_served(dir: &Path) -> Result<(), DiskError> {
    let (root, index) = (dir.join(ROOT), dir.join(INDEX));
    if !index.exists() {
        return Ok(());
    }
    let file = FileMedium::open(&index)?;
    let mut bytes = vec![0; CHUNK as usize];
    for at in (0..file.bytes()).step_by(CHUNK as usize) {
        let chunk = &mut bytes[..CHUNK.min(file.bytes() - at) as usize];
        file.read(at, chunk).map_err(|error| DiskError::io("read", &index, error))?;
        if chunk.iter().any(|byte| *byte != 0) {
            return match root.exists() {
                false => Err(DiskError::Missing { path: root }),
                true => {
                    let what = "it is empty, though the server came to serve: put back a copy".into();
                    Err(DiskError::Damaged { path: root, what })
                }
            };
        }
    }
    Ok(())
}

/// A new file of zeros.
fn made(path: &Path, bytes: u64) -> Result<(), DiskError> {
    let mut file = FileMedium::create(path, bytes)?;
    file.appear().map_err(|error| DiskError::io("make", path, error))
}

/// A file that is there, of so many bytes.
fn opened(path: &Path, bytes: u64) -> Result<FileMedium, DiskError> {
    if !path.exists() {
        return Err(DiskError::Missing { path: path.into() });
    }
    let file = FileMedium::open(path)?;
    if file.bytes() != bytes {
        let [found, segments] = [file.bytes(), bytes].map(|bytes| bytes / SEGMENT_BYTES);
        return Err(DiskError::Shape { path: path.into(), found, segments });
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    use longarm_memory::{OwnedWords, Words};

    use super::*;
    use crate::durable::options::DiskSource;

    const INDEX_BYTES: u64 = 1 << 20;
    const ARENA_BYTES: u64 = 4 << 20;

    fn open_in(dir: &Path, or_file: bool, arena: u64) -> Result<PersistentData, StartError> {
        let bytes = [layout::BYTES, INDEX_BYTES, arena];
        PersistentData::open(dir, MediumKind::PersistentMemory { or_file }, bytes)
    }

    fn refused(opened: Result<PersistentData, StartError>) -> String {
        opened.map(|_| ()).expect_err("it is refused").to_string()
    }

    #[test]
    fn memory_is_there_in_the_next_life_once_it_was_laid_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = || open_in(dir.path(), true, ARENA_BYTES);
        let first = open().expect("made");
        assert!(refused(open()).contains("in use by another process"));
        first.arena.memory().store(64, 7);
        drop(first);
        let again = open().expect("made anew");
        assert_eq!(again.arena.memory().load(64), 0, "it never came to serve");
        again.arena.memory().store(64, 8);
        again.root.memory().store(0, layout::MAGIC);
        drop(again);
        assert_eq!(open().expect("opened").arena.memory().load(64), 8);
        let other = refused(open_in(dir.path(), true, 2 * ARENA_BYTES));
        assert!(other.contains("start it with the memory that it had"), "{other}");
        let write = |name: &str, at: u64, bytes: &[u8]| {
            let file = OpenOptions::new().write(true).open(dir.path().join(name)).expect("there");
            file.write_all_at(bytes, at).expect("written");
        };
        write(INDEX, INDEX_BYTES - 1, &[7]);
        write(ROOT, 0, &[0; 8]);
        assert!(refused(open()).contains("it is empty, though the server came to serve"));
        std::fs::remove_file(dir.path().join(ROOT)).expect("removed");
        let lost = refused(open());
        assert!(lost.contains("root is missing") && lost.contains("though the server kept data"), "{lost}");
        std::fs::remove_file(dir.path().join(INDEX)).expect("removed");
        assert!(open().is_ok(), "nothing of it is left");
    }

    #[test]
    fn a_directory_is_of_one_form_and_of_persistent_memory() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("arena"), "").expect("written");
        std::fs::write(at("identity"), "").expect("written");
        // An identity that is damaged is told of first.
        assert!(refused(open_in(dir.path(), true, ARENA_BYTES)).contains("damaged"));
        let of_copy = tempfile::tempdir().expect("a directory");
        drop(Directory::open(of_copy.path(), MediumKind::Disk).expect("made"));
        std::fs::write(of_copy.path().join("arena"), "").expect("written");
        let told = refused(open_in(of_copy.path(), true, ARENA_BYTES));
        assert!(told.contains("serves from memory") && told.contains("start it as before"), "{told}");
        let of_memory = tempfile::tempdir().expect("a directory");
        drop(open_in(of_memory.path(), true, ARENA_BYTES).expect("made"));
        let directory = Directory::open(of_memory.path(), MediumKind::Disk).expect("its own");
        let shape = longarm_disk::Shape { group: directory.identity.id, segments: 4, table: 1 };
        let told = directory.open(shape).map(|_| ()).expect_err("it is refused").to_string();
        assert!(told.contains("serves from persistent memory") && told.contains("out-of-place"), "{told}");
        let plain = tempfile::tempdir().expect("a directory");
        if let Err(error) = open_in(plain.path(), false, ARENA_BYTES) {
            assert!(error.to_string().contains("--pmem file"), "{error}");
            assert!(!plain.path().join(ENTRIES).exists(), "nothing large was made");
        }
    }
}
