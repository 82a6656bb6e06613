//! The parts of a backup: bytes, cut every 8 MiB, each part with its SHA-256.
//!
//! In a directory a part is a file, `part-000000` and so on, and the manifest a file `manifest`. On a stream
//! all follow each other: a line that begins it, then `[kind u32 | length u32][SHA-256]` and the bytes, parts
//! first and the manifest last.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use crate::error::BackupError;
use crate::manifest::{BYTES_MAX, Part, hex};

/// Bytes of a part, but for the last one.
pub(crate) const PART_BYTES: usize = 8 << 20;
/// The name of the manifest in a directory.
pub(crate) const MANIFEST: &str = "manifest";
/// The line that begins a stream.
pub(crate) const STREAM: &[u8; 17] = b"longarm-backup 1\n";
/// "PART".
pub(crate) const PART: u32 = 0x5452_4150;
/// "MANI".
pub(crate) const LAST: u32 = 0x494E_414D;
/// Bytes of a header on a stream.
pub(crate) const HEADER: usize = 8 + SHA256_OUTPUT_LEN;

/// Where a part is in a directory.
pub(crate) fn part_path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("part-{number:06}"))
}

/// The header of a part or manifest on a stream, and what a manifest says of a part.
pub(crate) fn header(kind: u32, bytes: &[u8]) -> ([u8; HEADER], Part) {
    let sum = digest(&SHA256, bytes);
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&kind.to_le_bytes());
    header[4..8].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    header[8..].copy_from_slice(sum.as_ref());
    (header, Part { bytes: bytes.len() as u32, sha256: hex(sum.as_ref()) })
}

/// Where parts come from, one after the other, each verified.
pub(crate) enum Parts<'a> {
    /// Files, as the manifest has them.
    Files {
        /// Where they are.
        dir: &'a Path,
        /// What is said of each.
        parts: &'a [Part],
        /// Those that were read.
        read: usize,
    },
    /// A stream.
    Stream {
        /// What to call it.
        name: &'a Path,
        /// Where its bytes come from.
        from: &'a mut dyn Read,
        /// The parts so far.
        parts: Vec<Part>,
        /// The manifest, once it came.
        manifest: Option<Vec<u8>>,
    },
}

impl Parts<'_> {
    /// What to call where they come from.
    pub fn name(&self) -> &Path {
        match self {
            Parts::Files { dir, .. } => dir,
            Parts::Stream { name, .. } => name,
        }
    }

    /// The next part; `None` behind the last.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, BackupError> {
        match self {
            Parts::Files { dir, parts, read } => {
                let Some(part) = parts.get(*read) else { return Ok(None) };
                let path = part_path(dir, *read);
                *read += 1;
                read_part(&path, part).map(Some)
            }
            Parts::Stream { name, from, parts, manifest } => {
                if manifest.is_some() {
                    return Ok(None);
                }
                let (kind, bytes) = next_of_stream(name, *from, parts.len())?;
                if kind == LAST {
                    *manifest = Some(bytes);
                    return Ok(None);
                }
                parts.push(header(PART, &bytes).1);
                Ok(Some(bytes))
            }
        }
    }
}

/// Reads a part from its file.
fn read_part(path: &Path, part: &Part) -> Result<Vec<u8>, BackupError> {
    let file = std::fs::File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => BackupError::damaged(path, "it is missing"),
        _ => BackupError::io("open", path, error),
    })?;
    let has = file.metadata().map_err(|error| BackupError::io("read", path, error))?.len();
    if has != u64::from(part.bytes) || part.bytes as usize > PART_BYTES {
        return Err(BackupError::damaged(path, format!("it has {has} bytes, not {}", part.bytes)));
    }
    let mut bytes = Vec::with_capacity(part.bytes as usize);
    let read = file.take(has).read_to_end(&mut bytes);
    read.map_err(|error| BackupError::io("read", path, error))?;
    match header(PART, &bytes).1 == *part {
        true => Ok(bytes),
        false => Err(BackupError::damaged(path, "its sum does not hold")),
    }
}

/// Reads the line that begins a stream.
pub(crate) fn begin_stream(name: &Path, from: &mut dyn Read) -> Result<(), BackupError> {
    let mut line = [0; STREAM.len()];
    exactly(name, from, &mut line, "it is shorter than the line that begins a backup")?;
    match line == *STREAM {
        true => Ok(()),
        false => Err(BackupError::damaged(name, "it does not begin as a backup of this format does")),
    }
}

/// Reads the next part, or the manifest, of a stream.
fn next_of_stream(name: &Path, from: &mut dyn Read, number: usize) -> Result<(u32, Vec<u8>), BackupError> {
    let cut_off = format!("it ends in part {number}, or before it: its manifest is missing");
    let mut head = [0; HEADER];
    exactly(name, from, &mut head, &cut_off)?;
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let (kind, len) = (word(0), word(4));
    let most = match kind {
        PART => PART_BYTES as u64,
        LAST => BYTES_MAX,
        _ => return Err(BackupError::damaged(name, format!("no part begins behind part {number}"))),
    };
    if u64::from(len) > most {
        return Err(BackupError::damaged(name, format!("part {number} says that it has {len} bytes")));
    }
    let mut bytes = vec![0; len as usize];
    exactly(name, from, &mut bytes, &cut_off)?;
    match header(kind, &bytes).0 == head {
        true => Ok((kind, bytes)),
        false => Err(BackupError::damaged(name, format!("the sum of part {number} does not hold"))),
    }
}

fn exactly(name: &Path, from: &mut dyn Read, into: &mut [u8], cut_off: &str) -> Result<(), BackupError> {
    from.read_exact(into).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => BackupError::damaged(name, cut_off),
        _ => BackupError::io("read", name, error),
    })
}
