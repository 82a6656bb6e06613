//! The transport over verbs as its user sets it up, and the devices that are open for it.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use longarm_ibverbs as ib;

use super::adapter::{self, Adapter, DeviceChoice};
use super::{receives, staging};
use crate::SetupError;

/// On a machine with so many cores or fewer, polls that bring nothing yield now and then.
const FEW_CORES: usize = 4;
/// Most tries again: Soft-RoCE takes 7 for "for ever".
pub const RETRIES_MAX: u8 = 6;
/// How long the TCP stream may have bytes that the peer's host does not acknowledge.
pub(super) const STALL: Duration = Duration::from_secs(30);

/// The transport and its settings.
#[derive(Clone, Debug)]
pub struct Verbs {
    pub(super) device: Option<DeviceChoice>,
    pub(super) reliability: ib::Reliability,
    pub(super) receives: u16,
    pub(super) connections: usize,
    pub(super) yields: bool,
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
    pub(super) fn adapter(&self, local: std::net::IpAddr) -> Result<Arc<Adapter>, SetupError> {
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
