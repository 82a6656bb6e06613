//! The other half of the contract: how a queue pair comes about. Who listens and who connects, and what each
//! proves, says and lends.

use std::sync::Arc;
use std::time::Duration;

use crate::contract::{Grant, QueuePair};
use crate::{Address, Channel, Reason, SetupError};

/// Who a connecting process says it is, and what it asks for.
pub struct ConnectRequest<'a> {
    /// Application bytes for the listener, at most [`HELLO_MAX`](crate::HELLO_MAX).
    pub hello: &'a [u8],
    /// Regions lent to the listener's side (a client: the ring its answers are written to).
    pub grants: Vec<Grant>,
    /// Size of the landing buffer for READs.
    pub landing: u32,
    /// Proof of identity, where the listener asks for it.
    pub login: Login,
    /// Bound on the whole handshake.
    pub timeout: Duration,
}

/// How a client proves who it is, before any key is handed out.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Login {
    /// By nothing (shm still checks the user id; mTLS proves it below this).
    #[default]
    None,
    /// By a secret both sides have; it never travels (challenge and HMAC-SHA-256 answer, in both directions).
    Secret(Arc<[u8]>),
    /// By a secret that replicas and operators have, and clients have not, in the same way.
    Peer(Arc<[u8]>),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Login::None => "Login::None",
            Login::Secret(_) => "Login::Secret(..)",
            Login::Peer(_) => "Login::Peer(..)",
        })
    }
}

/// A fresh connection.
#[derive(Debug)]
pub struct Connected<Q> {
    /// Our end.
    pub qp: Q,
    /// The listener's application bytes.
    pub welcome: Vec<u8>,
}

/// What somebody has proved to be, from the least to the most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PeerRole {
    /// One who may be a client.
    Client,
    /// A replica or an operator, by the secret that they have ([`Login::Peer`]).
    Peer,
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// What it has proved to be.
    pub role: PeerRole,
    /// For logs: an address, or a process id.
    pub name: String,
    /// The peer's process, where the transport knows it (shm).
    pub pid: Option<u32>,
    /// The peer's user, where the transport knows it (shm).
    pub uid: Option<u32>,
}

/// What a listener demands of those who connect.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// The secret clients must prove, if any.
    pub login: Login,
    /// The secret that lets in as well, as [`PeerRole::Peer`]; [`Login::None`]: there is none.
    pub peers: Login,
    /// Bound on one handshake; a peer that dawdles is dropped and holds up nobody else.
    pub handshake: Duration,
    /// Peers on their way in at once, from their knock until they are accepted or rejected; others wait.
    pub pending: usize,
    /// shm: mode of the socket file.
    pub mode: u32,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        let (login, peers) = (Login::None, Login::None);
        ListenOptions { login, peers, handshake: Duration::from_secs(5), pending: 256, mode: 0o600 }
    }
}

/// A way to reach peers.
pub trait Transport: Send + Sync + 'static {
    /// Its queue pairs.
    type Qp: QueuePair + 'static;
    /// Its listening side.
    type Listener: Listener<Qp = Self::Qp>;

    /// Starts listening. Connections live on after the listener is dropped.
    fn listen(&self, address: &Address, options: ListenOptions) -> Result<Self::Listener, SetupError>;

    /// Connects, logs in, exchanges hello and welcome, and maps or registers what was granted.
    fn connect(
        &self,
        address: &Address,
        request: ConnectRequest<'_>,
    ) -> Result<Connected<Self::Qp>, SetupError>;
}

/// The listening side of a transport.
pub trait Listener: Send {
    /// Its queue pairs.
    type Qp: QueuePair + 'static;
    /// A peer that has logged in and said hello.
    type Incoming: Incoming<Qp = Self::Qp>;

    /// The next peer, or `None` when the time is over. Failed handshakes: [`failures`](Self::failures).
    fn accept(&mut self, timeout: Duration) -> Result<Option<Self::Incoming>, SetupError>;

    /// Where it really listens (a TCP port of 0 is resolved).
    fn address(&self) -> Address;

    /// Does ahead what lending these will take: a NIC registers them. What may only be read keeps its key;
    /// what may be written has another key whenever nobody has it lent any more, and is ready for that. Peers
    /// that come meanwhile wait.
    fn prepare(&mut self, _grants: &[Grant]) -> Result<(), SetupError> {
        Ok(())
    }

    /// Handshakes that failed since the last call, one line each, at most a bounded number.
    fn failures(&mut self) -> Vec<String>;
}

/// A peer that has logged in and waits to be let in.
pub trait Incoming: Send {
    /// The queue pair it becomes.
    type Qp: QueuePair + 'static;

    /// Its hello.
    fn hello(&self) -> &[u8];
    /// Who it is.
    fn peer(&self) -> PeerInfo;
    /// Whether its process is passed files of what it is lent.
    fn needs_files(&self) -> bool {
        true
    }
    /// Lets it in: lends it `grants`, sends `welcome`, and reports its completions to `channel`. `landing` is
    /// the size of our own landing buffer for READs of its memory.
    fn accept(
        self,
        welcome: &[u8],
        grants: Vec<Grant>,
        landing: u32,
        channel: &Channel,
    ) -> Result<Self::Qp, SetupError>;
    /// Sends it away with a reason it can show its user.
    fn reject(self, reason: Reason);
}
