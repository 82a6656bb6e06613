//! Why a connection does not come about, or is not taken down as it should.

/// Why a listener lets a peer not in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    /// For people; at most [`REASON_MAX`](crate::handshake::REASON_MAX) bytes of it travel.
    pub text: String,
    /// For the program that asked to be let in: what the program that listens wants it to act on, empty if
    /// the transport itself refused. More than [`REASON_BYTES_MAX`](crate::handshake::REASON_BYTES_MAX) do
    /// not travel at all.
    pub bytes: Vec<u8>,
}

impl<T: Into<String>> From<T> for Reason {
    fn from(text: T) -> Reason {
        Reason { text: text.into(), bytes: Vec::new() }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a connection could not be set up, taken down, or accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// Nobody listens there.
    #[error("nobody listens at {address}: {source}; is the server running?")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The handshake took longer than its bound.
    #[error("no answer from {0} within the time allowed")]
    Timeout(String),
    /// The listener refused, and said why.
    #[error("refused: {0}")]
    Refused(Reason),
    /// Login failed.
    #[error("not authenticated: {0}")]
    Login(String),
    /// The other side does not speak this protocol, or another version of it.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// A transport that this machine or build lacks.
    #[error("transport not available: {0}")]
    Unsupported(String),
    /// The system refused something.
    #[error("{0}: {1}")]
    Os(&'static str, std::io::Error),
    /// Memory for the connection.
    #[error(transparent)]
    Region(#[from] RegionFailure),
}

/// A region that could not be made, mapped or registered.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RegionFailure(pub longarm_memory::RegionError);

impl From<longarm_memory::RegionError> for SetupError {
    fn from(e: longarm_memory::RegionError) -> SetupError {
        SetupError::Region(RegionFailure(e))
    }
}
