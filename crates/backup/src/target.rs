//! Where a backup goes: a directory, or a stream.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::BackupError;
use crate::frame::Frame;
use crate::manifest::{Manifest, Part};
use crate::parts::{LAST, MANIFEST, PART, PART_BYTES, STREAM, header, part_path};

/// What messages call a stream that is written.
const STDOUT: &str = "stdout";

/// Where the bytes go.
enum To {
    /// A directory, and whether it was made for this.
    Directory(PathBuf, bool),
    Stream(Box<dyn Write + Send>),
}

/// A place that takes a backup.
pub struct Target {
    to: To,
    buffer: Vec<u8>,
    parts: Vec<Part>,
    entries: u64,
}

impl Target {
    /// A directory, which is new or empty.
    pub fn directory(dir: &Path) -> Result<Target, BackupError> {
        let made = make_empty(dir)?;
        Ok(Target::over(To::Directory(dir.into(), made)))
    }

    /// A stream.
    pub fn stream(mut to: Box<dyn Write + Send>) -> Result<Target, BackupError> {
        to.write_all(STREAM).map_err(|error| BackupError::io("write to", Path::new(STDOUT), error))?;
        Ok(Target::over(To::Stream(to)))
    }

    fn over(to: To) -> Target {
        Target { to, buffer: Vec::with_capacity(2 * PART_BYTES), parts: Vec::new(), entries: 0 }
    }

    /// What to call it.
    fn name(&self) -> &Path {
        match &self.to {
            To::Directory(dir, _) => dir,
            To::Stream(_) => Path::new(STDOUT),
        }
    }

    /// Takes a frame.
    pub fn take(&mut self, frame: &Frame) -> Result<(), BackupError> {
        self.entries += u64::from(frame.entries);
        self.append(&frame.head())?;
        self.append(frame.body())
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<(), BackupError> {
        while self.buffer.len() + bytes.len() >= PART_BYTES {
            let (now, later) = bytes.split_at(PART_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(now);
            self.write_part()?;
            bytes = later;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn write_part(&mut self) -> Result<(), BackupError> {
        let (head, part) = header(PART, &self.buffer);
        match &mut self.to {
            To::Directory(dir, _) => write_file(&part_path(dir, self.parts.len()), &self.buffer)?,
            To::Stream(to) => {
                let written = to.write_all(&head).and_then(|()| to.write_all(&self.buffer));
                written.map_err(|error| BackupError::io("write to", Path::new(STDOUT), error))?;
            }
        }
        self.parts.push(part);
        self.buffer.clear();
        Ok(())
    }

    /// Writes the last part and the manifest: the backup is complete, and stays so after a loss of power,
    /// when this returns. The manifest, with what of it the target knows; and the bytes of all parts.
    pub fn finish(mut self, manifest: Manifest) -> Result<(Manifest, u64), BackupError> {
        if !self.buffer.is_empty() {
            self.write_part()?;
        }
        let bytes = self.parts.iter().map(|part| u64::from(part.bytes)).sum();
        let name = self.name().to_path_buf();
        let complete = Manifest { parts: self.parts, entries: self.entries, ..manifest };
        let manifest = complete.encode();
        match &mut self.to {
            To::Directory(dir, _) => {
                let fresh = dir.join("manifest.new");
                write_file(&fresh, &manifest)?;
                let path = dir.join(MANIFEST);
                let named = std::fs::rename(&fresh, &path).and_then(|()| File::open(&*dir)?.sync_all());
                named.map_err(|error| BackupError::io("complete", &path, error))?;
            }
            To::Stream(to) => {
                let (head, _) = header(LAST, &manifest);
                let written = to.write_all(&head).and_then(|()| to.write_all(&manifest));
                let written = written.and_then(|()| to.flush());
                written.map_err(|error| BackupError::io("write to", &name, error))?;
            }
        }
        Ok((complete, bytes))
    }

    /// Removes what was written, since the backup will not be completed.
    pub fn abandon(self) {
        let To::Directory(dir, made) = self.to else { return };
        for number in 0..=self.parts.len() {
            let _ = std::fs::remove_file(part_path(&dir, number));
        }
        let _ = std::fs::remove_file(dir.join("manifest.new"));
        if made {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

/// Writes a file that only its owner reads, and waits until it is there.
fn write_file(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    let fail = |error| BackupError::io("write", path, error);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(fail)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(fail)
}

/// Makes a directory, or takes one that is empty. Whether it was made.
pub(crate) fn make_empty(dir: &Path) -> Result<bool, BackupError> {
    let made = !dir.exists();
    if !made && !dir.is_dir() {
        return Err(BackupError::NotDirectory { path: dir.into() });
    }
    make_dir(dir).map_err(|error| BackupError::io("make", dir, error))?;
    let mut files = dir.read_dir().map_err(|error| BackupError::io("read", dir, error))?;
    let foreign = files.find_map(|file| Some(file.ok()?.file_name()).filter(|name| name != "lost+found"));
    match foreign {
        Some(name) => {
            let name = name.to_string_lossy().into_owned();
            Err(BackupError::NotEmpty { path: dir.into(), name })
        }
        None => Ok(made),
    }
}

/// Makes a directory that others may not enter, and those above it that are not there. A directory is on disk
/// when the one above it is.
fn make_dir(dir: &Path) -> std::io::Result<()> {
    let above = dir.parent().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    let Some(above) = above.filter(|_| !dir.is_dir()) else { return Ok(()) };
    make_dir(above)?;
    DirBuilder::new().mode(0o700).create(dir)?;
    File::open(above)?.sync_all()
}
