//! A medium that is persistent memory: a file that is mapped, where a write is stores and a write-back of
//! their lines, and a sync is a fence (Continuity hashing III.C).
//!
//! The unit that a loss of power leaves whole is a word, and of the words of a line a prefix in the order of
//! their stores. A disk's sector is more. A note and a page of the table verify themselves, and what makes an
//! entry void is one word. An entry that is not whole is judged by its position, which its first line has
//! behind the words that say that an entry is there: so the words of a line are stored from the last to the
//! first, and where the first ones are, the others are.

use std::io;
use std::path::{Path, PathBuf};

use longarm_base::limits::LINE;
use longarm_memory::{Mapped, OwnedWords, Persistence, Region, Words, map_persistent};

use crate::error::DiskError;
use crate::file::FileMedium;
use crate::medium::Medium;

/// What a file is kept on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MediumKind {
    /// A disk: a sync waits for the device.
    #[default]
    Disk,
    /// Persistent memory: the file is mapped, and a sync is a fence of the processor.
    PersistentMemory {
        /// An ordinary file may stand for it, which outlives the process and no loss of power.
        or_file: bool,
    },
}

/// A file that is mapped.
pub struct PersistentMedium {
    memory: Mapped,
    persistence: Persistence,
    path: PathBuf,
    /// Its lock keeps other processes out.
    _file: FileMedium,
}

impl PersistentMedium {
    /// The memory that this file is. If it is none that outlives a loss of power it is refused, unless an
    /// ordinary file may stand for it.
    pub fn over(file: FileMedium, or_file: bool) -> Result<PersistentMedium, DiskError> {
        let path = file.path().to_path_buf();
        let mapped = map_persistent(file.file(), file.bytes());
        let (memory, persistence) = mapped.map_err(|error| DiskError::io("map", &path, error))?;
        check_outlives(&path, persistence, or_file)?;
        Ok(PersistentMedium { memory, persistence, path, _file: file })
    }
}

/// The region that this file is, to be served from. If it is none that outlives a loss of power it is
/// refused, unless an ordinary file may stand for it. Its lock goes with the region.
pub fn persistent_region(file: &FileMedium, or_file: bool) -> Result<(Region, Persistence), DiskError> {
    let path = file.path();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The descriptor is of the same open file, and so of the same lock.
    let region = file.file().try_clone().and_then(|own| Region::persistent(&name, own, file.bytes()));
    let (region, persistence) = region.map_err(|error| DiskError::io("map", path, error))?;
    check_outlives(path, persistence, or_file)?;
    Ok((region, persistence))
}

/// Refuses a file that outlives no loss of power, unless it may stand for one that does.
fn check_outlives(path: &Path, persistence: Persistence, or_file: bool) -> Result<(), DiskError> {
    match persistence {
        Persistence::Process if !or_file => Err(DiskError::NotPersistent { path: path.to_path_buf() }),
        _ => Ok(()),
    }
}

impl Medium for PersistentMedium {
    fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut from, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let (line, behind) = rest.split_at(rest.len().min((LINE - from % LINE) as usize));
            for (number, word) in line.chunks(8).enumerate().rev() {
                self.memory.copy_in(from + 8 * number as u64, word);
            }
            (from, rest) = (from + line.len() as u64, behind);
        }
        self.memory.flush(at, bytes.len() as u64);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.memory.fence();
        Ok(())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.memory.copy_out(at, into);
        Ok(())
    }

    fn persistence(&self) -> Option<Persistence> {
        Some(self.persistence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(path: &Path) -> FileMedium {
        let mut file = FileMedium::create(path, 1 << 20).expect("room");
        file.appear().expect("named");
        file
    }

    #[test]
    fn a_file_that_is_no_persistent_memory_is_refused_unless_it_may_stand_for_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("arena");
        match PersistentMedium::over(made(&path), false) {
            // The tests run on a file system that maps such memory.
            Ok(medium) => assert_eq!(medium.persistence(), Some(Persistence::Power)),
            Err(error) => {
                let error = error.to_string();
                assert!(
                    error.contains("on no persistent memory") && error.contains("--pmem file"),
                    "{error}"
                );
            }
        }
        let again = FileMedium::open(&path).expect("its lock went with it");
        assert!(PersistentMedium::over(again, true).expect("it may").persistence().is_some());
    }

    #[test]
    fn what_is_written_is_in_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("arena");
        let mut memory = PersistentMedium::over(made(&path), true).expect("mapped");
        assert_eq!((memory.bytes(), memory.path()), (1 << 20, &*path));
        memory.write(8 * 77, b"some words and five").expect("written");
        memory.sync().expect("synced");
        assert!(FileMedium::open(&path).is_err(), "it is in use");
        let mut bytes = [9; 32];
        memory.read(8 * 77, &mut bytes).expect("read");
        assert_eq!(&bytes, b"some words and five\0\0\0\0\0\0\0\0\0\0\0\0\0");
        drop(memory);
        let mut found = [9; 32];
        FileMedium::open(&path).expect("opened").read(8 * 77, &mut found).expect("read");
        assert_eq!(found, bytes);
    }
}
