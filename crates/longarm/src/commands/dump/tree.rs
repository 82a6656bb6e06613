//! Makes a directory tree of items: a file for each item, at the path that its key is.
//!
//! No key leads out of the tree. The directory is empty at first, and the dump makes no links, so there are
//! none. Every part of a key must be an ordinary name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::output::{Exit, Failure};

/// Longest name of a directory entry on Linux.
const NAME_MAX: usize = 255;

/// The tree that is made.
pub struct Tree {
    root: PathBuf,
    prefix: Vec<u8>,
}

impl Tree {
    /// Makes the directory, or takes an empty one.
    pub fn open(root: &Path, prefix: &[u8]) -> Result<Tree, Failure> {
        std::fs::create_dir_all(root).map_err(|error| Failure::io("create", root, &error))?;
        let mut entries = std::fs::read_dir(root).map_err(|error| Failure::io("list", root, &error))?;
        if entries.next().is_some() {
            return Err(Failure::new(Exit::Usage, format!("{} is not empty", root.display()))
                .hint("name a new directory: a dump never writes over files"));
        }
        Ok(Tree { root: root.into(), prefix: prefix.into() })
    }

    /// Writes one file; the inner error says why a key cannot be a path.
    pub fn item(&self, key: &[u8], value: &[u8]) -> Result<Result<(), String>, Failure> {
        let below = match path(key.strip_prefix(&self.prefix[..]).unwrap_or(key)) {
            Ok(below) => below,
            Err(why) => return Ok(Err(why)),
        };
        let path = self.root.join(below);
        let parent = path.parent().expect("a path below the root has a parent");
        let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, value));
        match written {
            Ok(()) => Ok(Ok(())),
            // Keys "a" and "a/b": one is a file where the other needs a directory.
            Err(error) if parent.is_file() || path.is_dir() || is_clash(&error) => {
                Ok(Err(format!("another key is a file, or a directory, at this path ({error})")))
            }
            Err(error) => Err(Failure::io("write", &path, &error)),
        }
    }
}

fn is_clash(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{AlreadyExists, IsADirectory, NotADirectory};
    matches!(error.kind(), NotADirectory | IsADirectory | AlreadyExists)
}

/// Takes a key as a relative path, or says why it is none.
fn path(key: &[u8]) -> Result<&Path, String> {
    for part in key.split(|&byte| byte == b'/') {
        match part {
            b"" => return Err("an absolute path, or one with an empty part".into()),
            b"." | b".." => return Err("a path with . or .. in it".into()),
            _ if part.contains(&0) => return Err("a path with a zero byte".into()),
            _ if part.len() > NAME_MAX => return Err(format!("a name longer than {NAME_MAX} bytes")),
            _ => {}
        }
    }
    Ok(Path::new(OsStr::from_bytes(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_leads_out_of_the_tree() {
        for key in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".", "a/./b", "a\0b"] {
            assert!(path(key.as_bytes()).is_err(), "{key:?}");
        }
        for key in ["a", "a/b", "..a/b..", "\u{e4}", "a b"] {
            assert_eq!(path(key.as_bytes()).expect(key), Path::new(key));
        }
        assert!(path(&[b'x'; 256]).is_err());
        assert!(path(&[0xFF, 0xFE]).is_ok(), "names are bytes");
    }
}
