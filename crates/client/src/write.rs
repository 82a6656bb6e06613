//! Writes: PUT, DELETE, increment, expiry. Each is a request to the server (HiStore 3.2.4), blocking here,
//! pipelined by `Client::submit`.

use std::time::Duration;

use longarm_base::Csn;
use longarm_base::limits::VALUE_MAX;
use longarm_fabric::Transport;
use longarm_wire::{Condition, Request, RequestKind};

use crate::client::Client;
use crate::error::Error;
use crate::flight::Reply;
use crate::get::check_key;

/// A write, ready to be submitted.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    kind: RequestKind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    condition: Condition,
    argument: u64,
    ttl_ms: u64,
    keep_ttl: bool,
}

impl<'a> Write<'a> {
    fn new(kind: RequestKind, key: &'a [u8], value: &'a [u8]) -> Write<'a> {
        Write { kind, key, value, condition: Condition::Always, argument: 0, ttl_ms: 0, keep_ttl: false }
    }
    /// Store a value.
    pub fn put(key: &'a [u8], value: &'a [u8]) -> Write<'a> {
        Write::new(RequestKind::Put, key, value)
    }
    /// Remove a key.
    pub fn delete(key: &'a [u8]) -> Write<'a> {
        Write::new(RequestKind::Delete, key, &[])
    }
    /// Add to a decimal number; a missing key counts as 0. The expiry stays.
    pub fn increment(key: &'a [u8], by: i64) -> Write<'a> {
        Write { argument: by as u64, ..Write::new(RequestKind::Increment, key, &[]) }
    }
    /// Change the expiry only.
    pub fn touch(key: &'a [u8]) -> Write<'a> {
        Write::new(RequestKind::Touch, key, &[])
    }
    /// Lets the item expire after this time (rounded up to milliseconds).
    pub fn ttl(self, ttl: Duration) -> Write<'a> {
        let ms = ttl.as_nanos().div_ceil(1_000_000).clamp(1, u64::MAX as u128) as u64;
        Write { ttl_ms: ms, ..self }
    }
    /// Keeps the expiry of the item.
    pub fn keep_ttl(self) -> Write<'a> {
        Write { keep_ttl: true, ..self }
    }
    /// Writes only if the key is absent.
    pub fn if_absent(self) -> Write<'a> {
        Write { condition: Condition::Absent, ..self }
    }
    /// Writes only if the key is there.
    pub fn if_present(self) -> Write<'a> {
        Write { condition: Condition::Present, ..self }
    }
    /// Writes only if the key has this version.
    pub fn if_version(self, version: Csn) -> Write<'a> {
        Write { condition: Condition::Version, argument: version.0, ..self }
    }

    pub(crate) fn to_wire(self, operation: u64) -> Request<'a> {
        Request {
            condition: self.condition,
            keep_ttl: self.keep_ttl,
            argument: self.argument,
            ttl_ms: self.ttl_ms,
            key: self.key,
            value: self.value,
            ..Request::new(self.kind, operation)
        }
    }
}

/// The outcome of a conditional write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// Stored (or removed), with this version.
    Stored(Csn),
    /// The condition did not hold; the key's version, if the key is there.
    Mismatch(Option<Csn>),
}

impl<T: Transport> Client<T> {
    /// Stores a value and returns its version.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Csn, Error> {
        match self.write(&Write::put(key, value))? {
            Reply::Done(csn) => Ok(csn),
            other => Err(unexpected(&other)),
        }
    }

    /// Stores a value that is gone after `ttl`.
    pub fn put_for(&mut self, key: &[u8], value: &[u8], ttl: Duration) -> Result<Csn, Error> {
        match self.write(&Write::put(key, value).ttl(ttl))? {
            Reply::Done(csn) => Ok(csn),
            other => Err(unexpected(&other)),
        }
    }

    /// Stores a value if the key is absent.
    pub fn put_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<Put, Error> {
        self.conditional(&Write::put(key, value).if_absent())
    }

    /// Stores a value that is gone after `ttl`, if the key is absent.
    pub fn put_if_absent_for(&mut self, key: &[u8], value: &[u8], ttl: Duration) -> Result<Put, Error> {
        self.conditional(&Write::put(key, value).if_absent().ttl(ttl))
    }

    /// Stores a value if the key has this version.
    pub fn compare_and_set(&mut self, key: &[u8], version: Csn, value: &[u8]) -> Result<Put, Error> {
        self.conditional(&Write::put(key, value).if_version(version))
    }

    /// Removes a key; `false` if it was absent.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.delete_versioned(key)?.is_some())
    }

    /// Removes a key, and returns the version of its removal; `None` if the key was absent.
    pub fn delete_versioned(&mut self, key: &[u8]) -> Result<Option<Csn>, Error> {
        match self.write(&Write::delete(key))? {
            Reply::Done(csn) => Ok(Some(csn)),
            Reply::NotFound => Ok(None),
            other => Err(unexpected(&other)),
        }
    }

    /// Removes a key if it has this version.
    pub fn compare_and_delete(&mut self, key: &[u8], version: Csn) -> Result<Put, Error> {
        self.conditional(&Write::delete(key).if_version(version))
    }

    /// Adds to a decimal number and returns the sum.
    pub fn increment(&mut self, key: &[u8], by: i64) -> Result<i64, Error> {
        Ok(self.increment_versioned(key, by)?.0)
    }

    /// Adds to a decimal number; returns the sum and its version.
    pub fn increment_versioned(&mut self, key: &[u8], by: i64) -> Result<(i64, Csn), Error> {
        match self.write(&Write::increment(key, by))? {
            Reply::Number(number, csn) => Ok((number, csn)),
            other => Err(unexpected(&other)),
        }
    }

    /// Sets (or with `None` removes) the expiry of a key; `false` if the key is absent.
    pub fn touch(&mut self, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        let write = Write::touch(key);
        match self.write(&ttl.map_or(write, |ttl| write.ttl(ttl)))? {
            Reply::Done(_) => Ok(true),
            Reply::NotFound => Ok(false),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends any write and waits for its outcome.
    pub fn write(&mut self, write: &Write<'_>) -> Result<Reply, Error> {
        check(write)?;
        let ticket = self.post(write.to_wire(self.next_operation), &self.deadline())?;
        self.wait(ticket)
    }

    fn conditional(&mut self, write: &Write<'_>) -> Result<Put, Error> {
        match self.write(write)? {
            Reply::Done(csn) => Ok(Put::Stored(csn)),
            Reply::Mismatch(version) => Ok(Put::Mismatch(version)),
            Reply::NotFound => Ok(Put::Mismatch(None)),
            other => Err(unexpected(&other)),
        }
    }
}

/// Checks the limits that need no server.
pub(crate) fn check(write: &Write<'_>) -> Result<(), Error> {
    check_key(write.key)?;
    if write.value.len() > VALUE_MAX { Err(Error::ValueLength(write.value.len())) } else { Ok(()) }
}

fn unexpected(reply: &Reply) -> Error {
    Error::Protocol(format!("the server answered {reply:?}"))
}
