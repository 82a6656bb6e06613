//! What can go wrong for a caller. "Not found" and "condition not met" are results, not errors.

use std::time::Duration;

use longarm_fabric::SetupError;

/// Why an operation has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection could be made.
    #[error("{0}")]
    Connect(#[from] SetupError),
    /// The connection is gone and could not be made again within the timeout. Nothing was changed by this
    /// operation.
    #[error("connection to {address} lost: {reason}")]
    Lost {
        /// Where the server was.
        address: String,
        /// How it was lost.
        reason: String,
    },
    /// The server is there but makes no progress (stopped, or starved): its memory cannot be trusted.
    #[error("the server at {address} has made no progress for {waited:?}; nothing was read from its memory")]
    Unresponsive {
        /// Where the server is.
        address: String,
        /// How long we tried.
        waited: Duration,
    },
    /// The answer to a write never came: it may have been executed, or may yet be.
    #[error("in doubt: {0}; the write may have taken effect")]
    InDoubt(String),
    /// The server's memory limit is reached; nothing was stored.
    #[error(
        "the server is out of memory; nothing was stored. Delete keys, raise its memory limit,
            or turn eviction on"
    )]
    OutOfMemory,
    /// The server is shutting down; nothing was done.
    #[error("the server is shutting down; nothing was done")]
    Closing,
    /// The key is empty or too long.
    #[error("a key has 1 to 1024 bytes, this one has {0}")]
    KeyLength(usize),
    /// The value is too long.
    #[error("a value has at most 64 MiB, this one has {0} bytes")]
    ValueLength(usize),
    /// The value to increment is not a number.
    #[error("the value is not a decimal number of 64 bits")]
    NotANumber,
    /// The sum leaves 64 bits.
    #[error("the increment overflows 64 bits; nothing was changed")]
    Overflow,
    /// The request makes no sense to the server; nothing was done.
    #[error("the server refused the request: {0}")]
    Invalid(&'static str),
    /// READs of a key kept tearing, or its index pair kept changing, for the whole timeout.
    #[error("the key changed under every one of {0} reads")]
    Contended(u32),
    /// What the server sent or shows is not this protocol.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// As many requests are in flight as may be: poll first.
    #[error("too many requests in flight: poll for answers first")]
    Full,
}
