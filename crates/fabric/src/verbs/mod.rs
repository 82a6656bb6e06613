//! RDMA: the contract over the verbs of a NIC, which it took its words from.
//!
//! A connection is set up over TCP (`connect`, `listen`): the handshake of every transport, and behind HELLO
//! and WELCOME, so only after the login, each side's [`endpoint`]: number of its queue pair, GID, and the
//! keys of what it lends. From then on the NICs do the work: they judge bounds and rights, and no CPU of the
//! peer takes part in READ, WRITE and atomics. The TCP stream stays open as the [`lifeline`]: its end is the
//! end of the peer's process, and it carries the last word of a peer that leaves.
//!
//! (1) A region is registered once for each set of rights, however many peers it is lent to, and its key ends
//!     with the last of them ([`register`]); its pages are then locked, so it never gives them back.
//!     Registrations never have relaxed ordering: clients parse what the owner stores, in the order of the
//!     stores.
//! (2) Outgoing bytes are copied to registered [`staging`] memory when posted, and travel inline where they
//!     are short. READs land in the landing buffer.
//! (3) Of silent requests every so many is signalled, so that room comes back; success of a later request is
//!     success of all before it.
//! (4) Each queue pair has receives of its own: the flush of one is the proof of a revocation, which a shared
//!     receive queue does not give (docs/decisions/0008).

mod adapter;
mod bare;
mod connect;
mod endpoint;
mod failed;
mod lifeline;
mod listen;
mod loopback;
mod open;
mod pending;
mod post;
mod qp;
mod receives;
mod register;
mod settings;
mod slot;
mod staging;

use longarm_ibverbs as ib;

use crate::{Address, ConnectRequest, Connected, ListenOptions, SetupError, Transport};

pub use adapter::{DeviceChoice, DeviceInfo, survey};
pub use bare::{BARE_BATCH_MAX, BARE_MAX, Bare, BareOp};
pub use ib::{Attributes, Error as VerbsError, Gid, GidKind, Port};
pub use listen::{VerbsIncoming, VerbsListener};
pub use loopback::{LoopbackReport, Way, loopback, way};
pub use qp::VerbsQp;
pub use settings::{RETRIES_MAX, Verbs};

impl Transport for Verbs {
    type Qp = VerbsQp;
    type Listener = VerbsListener;

    fn listen(&self, address: &Address, options: ListenOptions) -> Result<VerbsListener, SetupError> {
        listen::listen(self, address, options)
    }

    fn connect(
        &self,
        address: &Address,
        request: ConnectRequest<'_>,
    ) -> Result<Connected<VerbsQp>, SetupError> {
        connect::connect(self, address, request)
    }
}

/// What this process has of its RDMA devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Queue pairs.
    pub queue_pairs: u64,
    /// Bytes of memory that are registered, and so locked.
    pub registered_bytes: u64,
}

/// What this process has of its RDMA devices now.
pub fn usage() -> Usage {
    Usage { queue_pairs: ib::queue_pairs(), registered_bytes: ib::registered_bytes() }
}
