//! The manifest: what a backup is of, and which parts it has. It comes last, so whoever finds one finds a
//! backup that was completed.
//!
//! It is a line of JSON, and a line with the SHA-256 of the first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::error::BackupError;

/// The format that is written.
pub(crate) const FORMAT: u32 = 1;
/// The most bytes of a manifest: as many segments as an arena may have.
pub(crate) const BYTES_MAX: u64 = 256 << 20;

/// A part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Its bytes.
    pub bytes: u32,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
}

/// The name of a use of a segment: no other use of any segment of the group has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct UseName {
    /// The segment, or the first of the run.
    pub segment: u32,
    /// The number of the claim.
    pub claim: u64,
    /// The term, as its bits.
    pub term: u64,
}

/// What a backup has of a use of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Contents {
    /// Which one.
    #[serde(flatten)]
    pub name: UseName,
    /// Segments: one, or those of the run.
    pub run: u32,
    /// Bytes of it that were handed out as rooms.
    pub tail: u32,
    /// Whether it was full, and all of it was taken: it never changes any more.
    pub whole: bool,
    /// Whether it is in this backup, and not in the one that this rests on.
    pub here: bool,
}

/// The older backup that one rests on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Since {
    /// Its identity.
    pub id: String,
    /// Where it was.
    pub path: PathBuf,
}

/// What a backup is of.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of the backup.
    pub format: u32,
    /// Drawn for each backup, in hexadecimal.
    pub id: String,
    /// The group, in hexadecimal.
    pub group: String,
    /// The version: of each key the newest one up to it.
    pub version: u64,
    /// The leader's calendar, in unix milliseconds.
    pub unix_ms: u64,
    /// The term in which the leader led, as its bits.
    pub term: u64,
    /// Entries in this backup.
    pub entries: u64,
    /// Bytes of segments that were copied for it.
    pub copied: u64,
    /// Rooms that held no whole entry: left of writes that a leader before did not end.
    pub unfinished: u64,
    /// The backup that this one rests on.
    pub since: Option<Since>,
    /// The parts, in order.
    pub parts: Vec<Part>,
    /// The segments that were in use.
    pub segments: Vec<Contents>,
}

impl Manifest {
    /// One of the format that is written, with nothing in it.
    pub fn new() -> Manifest {
        Manifest { format: FORMAT, ..Manifest::default() }
    }

    /// Its two lines.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("it is plain data");
        let sum = hex(digest(&SHA256, &text).as_ref());
        text.push(b'\n');
        text.extend_from_slice(sum.as_bytes());
        text.push(b'\n');
        text
    }

    /// Reads the two lines, which are at `path`.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Manifest, BackupError> {
        let damaged = |what: &str| BackupError::damaged(path, what);
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged("it is cut off"))?;
        let (text, sum) = (&bytes[..end], &bytes[end + 1..]);
        if format!("{}\n", hex(digest(&SHA256, text).as_ref())).as_bytes() != sum {
            return Err(damaged("its sum does not hold"));
        }
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Format { format: found } = serde_json::from_slice(text).map_err(|e| damaged(&e.to_string()))?;
        if found != FORMAT {
            return Err(BackupError::Version { path: path.into(), found, known: FORMAT });
        }
        serde_json::from_slice(text).map_err(|error| damaged(&error.to_string()))
    }

    /// The segments of which everything is in the backup, or in those that it rests on, for good: with the
    /// bytes that were handed out.
    pub fn whole(&self) -> BTreeMap<UseName, u32> {
        self.segments.iter().filter(|it| it.whole).map(|it| (it.name, it.tail)).collect()
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
