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
mod lifeline;
mod listen;
mod loopback;
mod open;
mod pending;
mod post;
mod qp;
mod receives;
mod register;
mod staging;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use longarm_ibverbs as ib;

use crate::{Address, ConnectRequest, Connected, ListenOptions, SetupError, Transport};

pub use adapter::{DeviceChoice, Survey, survey};
pub use bare::{BARE_BATCH_MAX, BARE_MAX, Bare, BareOp};
pub use ib::{Attributes, Error as VerbsError, Gid, GidKind, Port};
pub use listen::{VerbsIncoming, VerbsListener};
pub use loopback::{LoopbackReport, Way, loopback, way};
pub use qp::VerbsQp;

use adapter::Adapter;

/// On a machine with so many cores or fewer, polls that bring nothing yield now and then.
const FEW_CORES: usize = 4;
/// Most tries again: Soft-RoCE takes 7 for "for ever".
pub const RETRIES_MAX: u8 = 6;
/// Of silent requests every so many is signalled.
const SIGNAL_EVERY: usize = 32;
/// How long the TCP stream may have bytes that the peer's host does not acknowledge.
const STALL: Duration = Duration::from_secs(30);

/// The transport and its settings.
#[derive(Clone, Debug)]
pub struct Verbs {
    device: Option<DeviceChoice>,
    reliability: ib::Reliability,
    receives: u16,
    connections: usize,
    spin: Duration,
    yields: bool,
    /// Devices that are open; shared by clones.
    adapters: Arc<Mutex<Vec<Weak<Adapter>>>>,
}

impl Default for Verbs {
    fn default() -> Verbs {
        Verbs {
            device: None,
            reliability: ib::Reliability {
                timeout: 14,
                retries: RETRIES_MAX,
                receive_retries: 7,
                receive_timer: 1,
            },
            receives: 32,
            connections: 4096,
            spin: Duration::from_micros(200),
            yields: std::thread::available_parallelism().is_ok_and(|cores| cores.get() <= FEW_CORES),
            adapters: Arc::default(),
        }
    }
}

impl Verbs {
    /// The usual settings.
    pub fn new() -> Verbs {
        Verbs::default()
    }

    /// Takes this device, instead of the one that has the address listened on or connected from.
    pub fn with_device(mut self, device: DeviceChoice) -> Verbs {
        self.device = Some(device);
        self
    }

    /// An acknowledgement is waited for 4.096 us times 2 to the power `timeout` (1 to 31), and a request
    /// tried again `retries` times (0 to 6) before the peer counts as lost. Devices round the time up.
    pub fn with_patience(mut self, timeout: u8, retries: u8) -> Verbs {
        self.reliability.timeout = timeout.clamp(1, 31);
        self.reliability.retries = retries.min(RETRIES_MAX);
        self
    }

    /// Arrivals of one connection that may wait for a poll before the peer's device is asked to try again;
    /// 4 KiB of registered memory each. At least [`RECEIVES`](crate::RECEIVES).
    pub fn with_receives(mut self, receives: u16) -> Verbs {
        self.receives = receives.clamp(crate::RECEIVES as u16, 4096);
        self
    }

    /// Queue pairs of one listener at once.
    pub fn with_connections(mut self, connections: usize) -> Verbs {
        self.connections = connections;
        self
    }

    /// How long a queue pair that waits looks again, yielding, before it sleeps. Zero: not at all.
    pub fn with_spin(mut self, spin: Duration) -> Verbs {
        self.spin = spin;
        self
    }

    /// Whether polls that bring nothing yield the core now and then. Busy pollers would keep it from the
    /// device's own work where that is done by the kernel (Soft-RoCE), and from the peer on the same machine.
    pub fn with_yielding(mut self, yields: bool) -> Verbs {
        self.yields = yields;
        self
    }

    /// Bytes of memory that one connection registers of its own, besides its landing buffer.
    pub fn bytes_per_connection(&self) -> usize {
        staging::BYTES + usize::from(self.receives) * crate::SEND_MAX + receives::CREDIT_BYTES
    }

    fn open_adapters(&self) -> Vec<Arc<Adapter>> {
        let adapters = self.adapters.lock().unwrap_or_else(PoisonError::into_inner);
        adapters.iter().filter_map(Weak::upgrade).collect()
    }

    /// The device for a connection from, or a listener at, our address `local`.
    fn adapter(&self, local: std::net::IpAddr) -> Result<Arc<Adapter>, SetupError> {
        let choice = adapter::choose(self.device.as_ref(), local)?;
        if let Some(open) = self.open_adapters().into_iter().find(|open| open.choice == choice) {
            return Ok(open);
        }
        let adapter = Arc::new(Adapter::open(choice)?);
        let mut adapters = self.adapters.lock().unwrap_or_else(PoisonError::into_inner);
        adapters.retain(|adapter| adapter.strong_count() > 0);
        adapters.push(Arc::downgrade(&adapter));
        Ok(adapter)
    }
}

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

/// A failed verb, as a set-up error.
fn failed(error: ib::Error) -> SetupError {
    match error {
        ib::Error::Verb { verb, source, .. } => SetupError::Os(verb, source),
        other => SetupError::Unsupported(other.to_string()),
    }
}
