//! The TCP transport as its user sets it up.

use std::time::Duration;

use super::tls::Tls;

/// The transport and its settings.
#[derive(Clone, Debug)]
pub struct Tcp {
    pub(super) tls: Option<Tls>,
    pub(super) spin: Duration,
    pub(super) stall: Duration,
}

impl Default for Tcp {
    fn default() -> Tcp {
        Tcp { tls: None, spin: Duration::from_micros(50), stall: Duration::from_secs(30) }
    }
}

impl Tcp {
    /// Plain TCP with the usual settings.
    pub fn new() -> Tcp {
        Tcp::default()
    }

    /// The same with TLS below everything.
    pub fn with_tls(mut self, tls: Tls) -> Tcp {
        self.tls = Some(tls);
        self
    }

    /// How long the NIC thread, and a queue pair that waits, look again before they sleep. Zero: not at all.
    pub fn with_spin(mut self, spin: Duration) -> Tcp {
        self.spin = spin;
        self
    }

    /// How long a peer may take nothing of what was sent to it before its connection ends.
    pub fn with_stall(mut self, stall: Duration) -> Tcp {
        self.stall = stall;
        self
    }
}
