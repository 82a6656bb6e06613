//! A medium that is a file: of its whole size from the beginning, and open in one process alone.

use std::fs::{File, OpenOptions, rename};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, FallocateFlags, FlockOperation};
use rustix::io::Errno;

use crate::error::DiskError;
use crate::medium::Medium;
use crate::prewriter::Prewriter;

/// Bytes of zeros that are written at once.
const CHUNK: u64 = 1 << 20;

/// A file.
#[derive(Debug)]
pub struct FileMedium {
    /// Dropped before the file's lock.
    prewriter: Option<Prewriter>,
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl FileMedium {
    /// A file of zeros under the name `path` with `.new` behind it, until it is to [appear](Self::appear).
    /// One that was left there is begun anew.
    pub fn create(path: &Path, bytes: u64) -> Result<FileMedium, DiskError> {
        let fresh = fresh(path);
        let fail = |error| DiskError::io("make", &fresh, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&fresh).map_err(fail)?;
        lock(&file, &fresh)?;
        file.set_len(0).map_err(fail)?;
        if let Err(error) = allocate(&file, bytes) {
            let error = full(error, &fresh, bytes);
            let _ = std::fs::remove_file(&fresh);
            return Err(error);
        }
        Ok(FileMedium { prewriter: None, file, path: path.to_path_buf(), bytes })
    }

    /// The file is complete: it has its name from now on, also after a loss of power.
    pub fn appear(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        rename(fresh(&self.path), &self.path)?;
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()
    }

    /// A file that is there, to be read alone. If it is not `locked`, a server may be writing to it.
    pub fn look(path: &Path, locked: bool) -> Result<FileMedium, DiskError> {
        let fail = |error| DiskError::io("open", path, error);
        let file = File::open(path).map_err(fail)?;
        if locked {
            lock(&file, path)?;
        }
        let bytes = file.metadata().map_err(fail)?.len();
        Ok(FileMedium { prewriter: None, file, path: path.to_path_buf(), bytes })
    }

    /// The file, to be mapped.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// A file that is there.
    pub fn open(path: &Path) -> Result<FileMedium, DiskError> {
        let fail = |error| DiskError::io("open", path, error);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(fail)?;
        lock(&file, path)?;
        let bytes = file.metadata().map_err(fail)?.len();
        Ok(FileMedium { prewriter: None, file, path: path.to_path_buf(), bytes })
    }
}

impl Medium for FileMedium {
    fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(prewriter) = &self.prewriter {
            prewriter.before_write(at..at + bytes.len() as u64);
        }
        self.file.write_all_at(bytes, at)
    }

    fn prepare(&mut self, from: u64) {
        if self.prewriter.is_none() {
            self.prewriter = Prewriter::start(&self.path, from);
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    fn read_back(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        // Pages that are not written yet stay; those that are come from the device.
        let len = std::num::NonZeroU64::new(into.len() as u64);
        rustix::fs::fadvise(&self.file, at, len, Advice::DontNeed)?;
        self.read(at, into)
    }
}

/// Takes room for so many zeros.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP) => {
            let zeros = vec![0; CHUNK as usize];
            (0..bytes)
                .step_by(CHUNK as usize)
                .try_for_each(|at| file.write_all_at(&zeros[..CHUNK.min(bytes - at) as usize], at))
        }
        allocated => Ok(allocated?),
    }
}

fn fresh(path: &Path) -> PathBuf {
    path.with_added_extension("new")
}

/// Keeps other processes out, as long as the file is open.
fn lock(file: &File, path: &Path) -> Result<(), DiskError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(DiskError::InUse { path: path.to_path_buf() }),
        Err(error) => Err(DiskError::io("lock", path, error)),
    }
}

/// Why there is no file of so many bytes.
fn full(error: io::Error, path: &Path, needs: u64) -> DiskError {
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge);
    match rustix::fs::statvfs(path.parent().unwrap_or(Path::new("."))) {
        Ok(disk) if is_full => {
            // What of the file was taken already is free again when it goes.
            let taken =
                std::fs::metadata(path).map_or(0, |file| std::os::unix::fs::MetadataExt::blocks(&file) * 512);
            let free = disk.f_bavail * disk.f_frsize + taken;
            DiskError::Full { path: path.to_path_buf(), needs, free }
        }
        _ => DiskError::io("make", path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_its_size_at_once_and_its_name_once_it_is_complete() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("arena");
        let mut file = FileMedium::create(&path, 3 << 20).expect("room");
        file.write(1 << 20, b"bytes").expect("written");
        assert!(!path.exists());
        file.appear().expect("named");
        drop(file);
        let file = FileMedium::open(&path).expect("opened");
        let mut bytes = [0; 7];
        file.read((1 << 20) - 1, &mut bytes).expect("read");
        assert_eq!((file.bytes(), &bytes), (3 << 20, b"\0bytes\0"));
        assert!(file.read((3 << 20) - 1, &mut bytes).is_err(), "beyond its end");
    }

    #[test]
    fn one_that_was_left_half_made_is_begun_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("arena");
        let mut file = FileMedium::create(&path, 1 << 20).expect("room");
        file.write(0, b"left").expect("written");
        drop(file);
        let file = FileMedium::create(&path, 1 << 20).expect("room");
        let mut bytes = [9; 4];
        file.read(0, &mut bytes).expect("read");
        assert_eq!(bytes, [0; 4]);
    }

    #[test]
    fn errors_say_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("arena");
        let error = |made: Result<FileMedium, DiskError>| made.expect_err("it is refused").to_string();
        let file = FileMedium::create(&path, 4096).expect("room");
        assert!(error(FileMedium::create(&path, 4096)).contains("in use by another process"));
        drop(file);
        let huge = error(FileMedium::create(&path, 1 << 60));
        assert!(
            huge.contains("needs 1152921504606846976 bytes") && huge.contains("are free: free some"),
            "{huge}"
        );
        assert!(!fresh(&path).exists(), "nothing is left behind");
        let missing = error(FileMedium::open(&path));
        assert!(missing.contains("cannot open") && missing.contains("arena"), "{missing}");
        let nowhere = error(FileMedium::create(&dir.path().join("no").join("arena"), 4096));
        assert!(nowhere.contains("cannot make"), "{nowhere}");
    }
}
