//! A request in flight: its name, the state that is kept until its answer comes, and its outcome.

use std::time::Duration;

use longarm_base::{Csn, Nanos};
use longarm_wire::RequestKind;

use crate::error::Error;

/// The name of a submitted request until its answer is polled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct RequestId(pub u64);

/// The outcome of a request. The statuses that are errors come as [`Error`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// Done; the version written or removed.
    Done(Csn),
    /// An increment's result and version.
    Number(i64, Csn),
    /// No such key.
    NotFound,
    /// The condition did not hold; the key's version, if the key is there.
    Mismatch(Option<Csn>),
    /// The value that the server read for a client that could not read it, and its version.
    Value(Vec<u8>, Csn),
    /// Text of the server's statistics.
    Text(String),
}

/// A request that has no answer yet.
pub(crate) struct InFlight {
    pub(crate) operation: u64,
    pub(crate) kind: RequestKind,
    pub(crate) message: Vec<u8>,
    pub(crate) deadline: Nanos,
    /// The lowest of the versions that servers told when the request was sent to them, first or again: a
    /// version of the request is higher.
    pub(crate) since: Csn,
    pub(crate) abandoned: bool,
}

impl InFlight {
    /// Gives the request up: it had no answer within its timeout, and its outcome is in doubt.
    pub(crate) fn abandon(&mut self, timeout: Duration) -> Error {
        self.abandoned = true;
        Error::InDoubt(format!("no answer within {timeout:?}"))
    }
}
