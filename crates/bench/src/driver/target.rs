//! What is measured: stores behind one small trait, so that every store gets the same operations.
//!
//! A [`Target`] is one client's connection and belongs to one thread; a [`TargetFactory`] makes them and
//! describes the server. Answers carry the bytes of the value back to the harness, which checks them: a
//! server that is fast because it is wrong is not fast.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the store is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Fetch the value of the key.
    Get,
    /// Set the value of the key.
    Put,
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub struct OpRef<'a> {
    /// What to do.
    pub verb: Verb,
    /// The key.
    pub key: &'a [u8],
    /// The value to set; empty for a get.
    pub value: &'a [u8],
}

/// A scan: items in the order of their keys.
#[derive(Clone, Copy, Debug)]
pub struct ScanRef<'a> {
    /// Where it begins: with this key, or the next one that exists.
    pub from: &'a [u8],
    /// The most items.
    pub limit: u32,
    /// Values are left out.
    pub keys_only: bool,
}

/// The answer to one operation of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen<'a> {
    /// The key's value.
    Hit(&'a [u8]),
    /// There is no such key.
    Miss,
    /// The value was set.
    Stored,
    /// The store refused this operation and goes on (out of memory, for instance).
    Refused(&'a str),
}

/// Why an operation has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TargetError {
    /// The store refused this one operation; the connection is good.
    Refused(String),
    /// The connection is of no use any more, or never was.
    Lost(String),
}

impl TargetError {
    pub(crate) fn lost(text: impl Into<String>) -> TargetError {
        TargetError::Lost(text.into())
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetError::Refused(text) => write!(f, "refused: {text}"),
            TargetError::Lost(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for TargetError {}

/// One client of a store. Every wait inside is bounded.
pub trait Target: Send {
    /// Fetches a value into `value` (cleared first); `false` when there is no such key.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TargetError>;

    /// Sets a value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TargetError>;

    /// Removes keys, several under way at once; those that are not there are as good as removed.
    fn remove(&mut self, keys: &[&[u8]]) -> Result<(), TargetError>;

    /// Shows items in the order of their keys, each key with its value, or with an empty one. Only stores
    /// whose factory [says so](TargetFactory::scans) are asked.
    fn scan(&mut self, wanted: &ScanRef<'_>, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), TargetError> {
        let _ = (wanted, seen);
        Err(TargetError::lost("it keeps no order of keys"))
    }

    /// Gets so far that a remembered place answered: they cost less than those that search.
    fn remembered(&self) -> u64 {
        0
    }

    /// Has all operations under way at once and reports each answer, in any order, exactly once, with the
    /// operation's index. The store may execute them in any order.
    fn batch(&mut self, ops: &[OpRef<'_>], seen: &mut dyn FnMut(usize, Seen<'_>)) -> Result<(), TargetError> {
        let mut value = Vec::new();
        for (i, op) in ops.iter().enumerate() {
            let answer = match op.verb {
                Verb::Get => self.get(op.key, &mut value),
                Verb::Put => self.put(op.key, op.value).map(|()| false),
            };
            match (answer, op.verb) {
                (Ok(true), _) => seen(i, Seen::Hit(&value)),
                (Ok(false), Verb::Get) => seen(i, Seen::Miss),
                (Ok(false), Verb::Put) => seen(i, Seen::Stored),
                (Err(TargetError::Refused(text)), _) => seen(i, Seen::Refused(&text)),
                (Err(lost), _) => return Err(lost),
            }
        }
        Ok(())
    }
}

/// What is known about the server of a target.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Product and version.
    pub version: String,
    /// Processes of the server on this machine, whose CPU time is counted; empty when they are elsewhere.
    pub pids: Vec<u32>,
    /// Of these processes those that lead a group, where that is known.
    #[serde(default)]
    pub leaders: Vec<u32>,
    /// Of a group: those of its servers that are in sync, as far as the one that was asked knows; of several
    /// groups the fewest.
    #[serde(default)]
    pub in_sync: Option<usize>,
    /// Items stored.
    pub items: Option<u64>,
    /// Memory for data and its bookkeeping by the server's own account (`used_memory`, `bytes`).
    pub used_memory: Option<u64>,
    /// Settings worth printing, such as the number of threads and the memory limit.
    pub settings: Vec<(String, String)>,
}

/// Makes the clients of one store.
pub trait TargetFactory: Send + Sync {
    /// Name in reports; unique within one run.
    fn label(&self) -> String;

    /// Connects client number `client`, within a bounded time. Called on the thread that will use it.
    fn connect(&self, client: usize) -> Result<Box<dyn Target>, TargetError>;

    /// Asks the server about itself.
    fn describe(&self) -> Result<ServerInfo, TargetError>;

    /// Whether the store has its items in the order of their keys.
    fn scans(&self) -> bool {
        false
    }

    /// Removes all items at once, if the server was started for this benchmark and is nobody else's;
    /// `false`, and nothing done, if it was not.
    fn clear(&self) -> Result<bool, TargetError> {
        Ok(false)
    }
}
