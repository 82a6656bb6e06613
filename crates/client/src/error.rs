//! The errors of a caller. "Not found" and "condition not met" are results, not errors.

use std::io;
use std::time::Duration;

use longarm_fabric::SetupError;
use longarm_wire::Refusal;

/// Why an operation has no result.
///
/// The table shows what a write that ended with an error has done, and whether to repeat it:
///
/// | error | the write |
/// |---|---|
/// | [`InDoubt`](Error::InDoubt) | has happened, or not, or may yet: read the key to see |
/// | [`Protocol`](Error::Protocol) | the same: an answer came, and cannot be understood |
/// | all others | has not happened, and will not |
///
/// [`is_in_doubt`](Error::is_in_doubt) tells the two kinds apart. Of the writes that have not happened, some
/// are refused for good, and the caller must change them ([`KeyLength`](Error::KeyLength),
/// [`ValueLength`](Error::ValueLength), [`NotANumber`](Error::NotANumber), [`Overflow`](Error::Overflow),
/// [`Invalid`](Error::Invalid)). The others may be tried again unchanged. A condition that does not hold is
/// no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection could be made.
    #[error("{0}")]
    Connect(#[from] SetupError),
    /// The connection is gone and could not be made again within the timeout. This operation changed nothing.
    #[error("connection to {address} lost: {reason}")]
    Lost {
        /// Where the server was.
        address: String,
        /// How the connection was lost.
        reason: String,
    },
    /// The server is there but makes no progress (stopped, or starved): its memory cannot be trusted.
    #[error("the server at {address} has made no progress for {waited:?}; nothing was read from its memory")]
    Unresponsive {
        /// Where the server is.
        address: String,
        /// How long the client tried.
        waited: Duration,
    },
    /// The connection of a [`SharedClient`](crate::SharedClient) was busy with what other threads asked for
    /// until the timeout was over. This operation was not begun.
    #[error("the shared connection was busy for {waited:?}; this operation was not begun")]
    Busy {
        /// How long the thread waited.
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
    /// The index has no slot for one more key like this: too many keys have nearly the same hash, which does
    /// not happen by chance. Nothing was stored.
    #[error(
        "too many keys have nearly the same hash as this one; nothing was stored. Somebody chose them so:
            delete them, or take another key"
    )]
    Crowded,
    /// The disk of the server failed, and it keeps no more writes; nothing was stored.
    #[error(
        "the server's disk failed, so it takes no write; nothing was stored. Reads go on. Its log says what \
         failed: mend that, and start the server again"
    )]
    NoDisk,
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
    /// A read found the key changing or the connection broken in each of so many tries within the timeout. A
    /// key that is written often does not cause this: after a few dozen tries a GET asks the server.
    #[error("the key could not be read in {0} tries")]
    Contended(u32),
    /// The server, or its group, keeps no ordered index, so no replica of it answers scans.
    #[error("there is no ordered index, so no scans are answered")]
    NotOrdered,
    /// No replica gave a page of a scan within the timeout; the text names the last reason.
    #[error("no replica answered the scan within the timeout: {0}")]
    NoPage(String),
    /// The replica that kept a snapshot for a scan does so no more; the text names the reason. Items that
    /// came are of the snapshot. Take another one.
    #[error("the snapshot is not kept any more: {0}")]
    SnapshotGone(String),
    /// The token does not say where this scan goes on.
    #[error("no token of this scan: {0}")]
    Token(&'static str),
    /// The server, or the leader of its group, takes no part in a backup; the text says why.
    #[error("no backup can be made: {0}")]
    NoBackup(&'static str),
    /// A backup that was being made is not kept for any more; the text says why. What was copied is no
    /// backup.
    #[error("the backup was given up: {0}")]
    BackupOver(&'static str),
    /// The server sent or shows something that is not this protocol.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// As many requests are in flight as may be, or so many outcomes were not fetched: poll first.
    #[error("too many requests in flight, or outcomes that were not fetched: poll for answers first")]
    Full,
}

impl Error {
    /// Whether a write that ended with this may have happened, or may yet. If not, it has not and will not.
    pub fn is_in_doubt(&self) -> bool {
        match self {
            Error::InDoubt(_) | Error::Protocol(_) => true,
            Error::Connect(_)
            | Error::Lost { .. }
            | Error::Unresponsive { .. }
            | Error::Busy { .. }
            | Error::OutOfMemory
            | Error::Crowded
            | Error::NoDisk
            | Error::Closing
            | Error::KeyLength(_)
            | Error::ValueLength(_)
            | Error::NotANumber
            | Error::Overflow
            | Error::Invalid(_)
            | Error::Contended(_)
            | Error::NotOrdered
            | Error::NoPage(_)
            | Error::SnapshotGone(_)
            | Error::Token(_)
            | Error::NoBackup(_)
            | Error::BackupOver(_)
            | Error::Full => false,
        }
    }
}

/// The error of operations that were tried together and not begun, for each of them but the first.
pub(crate) fn same_of_another(error: &Error) -> Error {
    match error {
        Error::Lost { address, reason } => Error::Lost { address: address.clone(), reason: reason.clone() },
        Error::Unresponsive { address, waited } => {
            Error::Unresponsive { address: address.clone(), waited: *waited }
        }
        Error::Connect(error) => Error::Connect(same_at_setup(error)),
        Error::Contended(tries) => Error::Contended(*tries),
        Error::Closing => Error::Closing,
        other => Error::Protocol(other.to_string()),
    }
}

fn same_at_setup(error: &SetupError) -> SetupError {
    let same = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
    match error {
        SetupError::Unreachable { address, source } => {
            SetupError::Unreachable { address: address.clone(), source: same(source) }
        }
        SetupError::Timeout(address) => SetupError::Timeout(address.clone()),
        SetupError::Refused(reason) => SetupError::Refused(reason.clone()),
        SetupError::Login(why) => SetupError::Login(why.clone()),
        SetupError::Unsupported(what) => SetupError::Unsupported(what.clone()),
        SetupError::Os(what, error) => SetupError::Os(what, same(error)),
        SetupError::Protocol(why) => SetupError::Protocol(why.clone()),
        other => SetupError::Protocol(other.to_string()),
    }
}

/// The refusal of a client, if the node refused it and not its transport.
pub fn refusal(error: &SetupError) -> Option<Refusal> {
    match error {
        SetupError::Refused(reason) => Refusal::decode(&reason.text, &reason.bytes).ok(),
        _ => None,
    }
}
