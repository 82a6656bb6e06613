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

    /// The same of another key and value.
    fn of<'b>(&self, key: &'b [u8], value: &'b [u8]) -> Write<'b> {
        let Write { kind, condition, argument, ttl_ms, keep_ttl, .. } = *self;
        Write { kind, key, value, condition, argument, ttl_ms, keep_ttl }
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

/// A write that owns its key and its value.
#[derive(Clone, Debug)]
pub(crate) struct OwnedWrite {
    /// The key, then the value.
    bytes: Vec<u8>,
    key_len: usize,
    /// All else.
    rest: Write<'static>,
}

impl OwnedWrite {
    pub(crate) fn new(write: &Write<'_>) -> OwnedWrite {
        let bytes = [write.key, write.value].concat();
        OwnedWrite { bytes, key_len: write.key.len(), rest: write.of(&[], &[]) }
    }

    pub(crate) fn write(&self) -> Write<'_> {
        let (key, value) = self.bytes.split_at(self.key_len);
        self.rest.of(key, value)
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

/// Writes of each kind, by the `write` of a client: one that is used exclusively, and one that is shared,
/// differ in their receivers alone. Where it is used there must be `Csn`, `Duration`, `Error`, `Put` and
/// `Write`.
macro_rules! write_methods {
    ($own:ident, $($receiver:tt)+) => {
        /// Stores a value and returns its version.
        pub fn put($($receiver)+, key: &[u8], value: &[u8]) -> Result<Csn, Error> {
            $own.write(&Write::put(key, value))?.done()
        }

        /// Stores a value that is gone after `ttl`.
        pub fn put_for($($receiver)+, key: &[u8], value: &[u8], ttl: Duration) -> Result<Csn, Error> {
            $own.write(&Write::put(key, value).ttl(ttl))?.done()
        }

        /// Stores a value if the key is absent.
        pub fn put_if_absent($($receiver)+, key: &[u8], value: &[u8]) -> Result<Put, Error> {
            $own.write(&Write::put(key, value).if_absent())?.conditional()
        }

        /// Stores a value that is gone after `ttl`, if the key is absent.
        pub fn put_if_absent_for(
            $($receiver)+,
            key: &[u8],
            value: &[u8],
            ttl: Duration,
        ) -> Result<Put, Error> {
            $own.write(&Write::put(key, value).if_absent().ttl(ttl))?.conditional()
        }

        /// Stores a value if the key has this version.
        pub fn compare_and_set(
            $($receiver)+,
            key: &[u8],
            version: Csn,
            value: &[u8],
        ) -> Result<Put, Error> {
            $own.write(&Write::put(key, value).if_version(version))?.conditional()
        }

        /// Removes a key; `false` if it was absent.
        pub fn delete($($receiver)+, key: &[u8]) -> Result<bool, Error> {
            Ok($own.delete_versioned(key)?.is_some())
        }

        /// Removes a key, and returns the version of its removal; `None` if the key was absent.
        pub fn delete_versioned($($receiver)+, key: &[u8]) -> Result<Option<Csn>, Error> {
            $own.write(&Write::delete(key))?.done_if_found()
        }

        /// Removes a key if it has this version.
        pub fn compare_and_delete($($receiver)+, key: &[u8], version: Csn) -> Result<Put, Error> {
            $own.write(&Write::delete(key).if_version(version))?.conditional()
        }

        /// Adds to a decimal number and returns the sum.
        pub fn increment($($receiver)+, key: &[u8], by: i64) -> Result<i64, Error> {
            Ok($own.increment_versioned(key, by)?.0)
        }

        /// Adds to a decimal number; returns the sum and its version.
        pub fn increment_versioned($($receiver)+, key: &[u8], by: i64) -> Result<(i64, Csn), Error> {
            $own.write(&Write::increment(key, by))?.number()
        }

        /// Sets (or with `None` removes) the expiry of a key; `false` if the key is absent.
        pub fn touch($($receiver)+, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
            let write = Write::touch(key);
            let touched = $own.write(&ttl.map_or(write, |ttl| write.ttl(ttl)))?;
            Ok(touched.done_if_found()?.is_some())
        }
    };
}
pub(crate) use write_methods;

impl<T: Transport> Client<T> {
    write_methods!(self, &mut self);

    /// Sends any write and waits for its outcome.
    pub fn write(&mut self, write: &Write<'_>) -> Result<Reply, Error> {
        check(write)?;
        let ticket = self.post(write.to_wire(self.next_operation), &self.deadline())?;
        self.wait(ticket)
    }
}

/// What a write of one kind returns for a reply.
impl Reply {
    pub(crate) fn done(self) -> Result<Csn, Error> {
        match self {
            Reply::Done(csn) => Ok(csn),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn done_if_found(self) -> Result<Option<Csn>, Error> {
        match self {
            Reply::NotFound => Ok(None),
            other => other.done().map(Some),
        }
    }

    pub(crate) fn conditional(self) -> Result<Put, Error> {
        match self {
            Reply::Done(csn) => Ok(Put::Stored(csn)),
            Reply::Mismatch(version) => Ok(Put::Mismatch(version)),
            Reply::NotFound => Ok(Put::Mismatch(None)),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn number(self) -> Result<(i64, Csn), Error> {
        match self {
            Reply::Number(number, csn) => Ok((number, csn)),
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
