//! A directory tree as a source: regular files, sorted by path; links and special files are left out.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use longarm_base::limits::{KEY_MAX, VALUE_MAX};

use super::digest::{Digest, stamp};
use super::item::{Item, Next, Source, Total, too_long, within_limits};
use crate::output::{Exit, Failure};

/// One file of the listing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Listed {
    /// Path below the root; its bytes are the key.
    pub path: PathBuf,
    /// Size, and time of change in seconds and nanoseconds.
    pub stamp: [u64; 3],
}

/// A directory tree, and how far it was read.
pub struct Tree {
    root: PathBuf,
    prefix: Vec<u8>,
    files: Vec<Listed>,
    at: usize,
    /// Directories that could not be listed: each a record of its own, before the files.
    unlisted: Vec<String>,
    unlisted_at: usize,
}

impl Tree {
    /// Lists the tree.
    pub fn open(root: &Path, prefix: &[u8]) -> Result<Tree, Failure> {
        // The root itself must be readable. Directories below it may be closed to this user.
        std::fs::read_dir(root).map_err(|error| Failure::io("list", root, &error))?;
        let mut tree = Tree {
            root: root.into(),
            prefix: prefix.into(),
            files: Vec::new(),
            at: 0,
            unlisted: Vec::new(),
            unlisted_at: 0,
        };
        let mut open = vec![PathBuf::new()];
        while let Some(directory) = open.pop() {
            if let Err(error) = tree.list(&directory, &mut open) {
                tree.unlisted.push(format!("{}: {error}", directory.display()));
            }
        }
        tree.files.sort();
        tree.unlisted.sort();
        Ok(tree)
    }

    fn list(&mut self, directory: &Path, open: &mut Vec<PathBuf>) -> std::io::Result<()> {
        for entry in std::fs::read_dir(self.root.join(directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                match entry.metadata() {
                    Ok(about) => self.files.push(Listed { path, stamp: stamp(&about) }),
                    Err(error) => self.unlisted.push(format!("{}: {error}", path.display())),
                }
            }
        }
        Ok(())
    }

    /// The files, sorted.
    pub fn files(&self) -> &[Listed] {
        &self.files
    }

    /// Keeps the first `files` files.
    pub fn truncate(&mut self, files: usize) {
        self.files.truncate(files);
    }

    fn read(&self, file: &Listed) -> Result<Item, String> {
        let key = [&self.prefix[..], file.path.as_os_str().as_bytes()].concat();
        if key.len() > KEY_MAX {
            return Err(format!("the key has {} bytes, at most {KEY_MAX} are possible", key.len()));
        }
        if file.stamp[0] > VALUE_MAX as u64 {
            return Err(too_long(file.stamp[0]));
        }
        let open = std::fs::File::open(self.root.join(&file.path)).map_err(|error| error.to_string())?;
        let mut value = Vec::with_capacity(file.stamp[0] as usize + 1);
        open.take(VALUE_MAX as u64 + 1).read_to_end(&mut value).map_err(|error| error.to_string())?;
        let bytes = value.len() as u64;
        within_limits(Item { key, value, ttl: None, place: file.path.display().to_string(), bytes })
    }
}

impl Source for Tree {
    fn next(&mut self) -> Result<Option<Next>, Failure> {
        if let Some(text) = self.unlisted.get(self.unlisted_at) {
            self.unlisted_at += 1;
            return Ok(Some(Next::Skipped(text.clone())));
        }
        let Some(file) = self.files.get(self.at) else { return Ok(None) };
        self.at += 1;
        Ok(Some(match self.read(file) {
            Ok(item) => Next::Item(item),
            Err(why) => Next::Skipped(format!("{}: {why}", file.path.display())),
        }))
    }

    fn skip(&mut self) -> Result<bool, Failure> {
        if self.unlisted_at < self.unlisted.len() {
            self.unlisted_at += 1;
            return Ok(true);
        }
        let there = self.at < self.files.len();
        self.at += usize::from(there);
        Ok(there)
    }

    fn total(&self) -> Total {
        let bytes = self.files.iter().map(|file| file.stamp[0]).sum();
        Total { records: Some((self.files.len() + self.unlisted.len()) as u64), bytes: Some(bytes) }
    }

    fn fingerprint(&self) -> Option<u64> {
        let digest = self.files.iter().fold(Digest::new(), |digest, file| {
            digest.bytes(file.path.as_os_str().as_bytes()).words(&file.stamp)
        });
        Some(digest.words(&[self.unlisted.len() as u64]).0)
    }
}

/// Refuses a tree without a single file: most likely a wrong path.
pub fn refuse_empty(tree: &Tree) -> Result<(), Failure> {
    if !tree.files.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("{} has no regular files", tree.root.display())))
}
