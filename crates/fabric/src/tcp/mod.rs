//! The TCP transport: a software NIC for any network, with optional TLS.
//!
//! The accepting side has one thread (`nic`) that executes peers' requests on the regions lent to them, so
//! the server's workers take no part in a READ. The connecting side has no thread: its user's `poll` and
//! `wait` execute what the server writes into its regions (`alone`). Both run the same `session` over the
//! same [`frame`]s.

mod alone;
mod buffer;
mod codec;
mod connect;
pub mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod inbox;
mod link;
mod listen;
mod nic;
mod qp;
mod session;
mod socket;
mod tls;

use std::time::Duration;

use crate::{Address, ConnectRequest, Connected, ListenOptions, SetupError, Transport};

pub use listen::{TcpIncoming, TcpListener};
pub use qp::TcpQp;
pub use tls::{Identity, Tls};

/// The transport and its settings.
#[derive(Clone, Debug)]
pub struct Tcp {
    tls: Option<Tls>,
    spin: Duration,
    stall: Duration,
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

impl Transport for Tcp {
    type Qp = TcpQp;
    type Listener = TcpListener;

    fn listen(&self, address: &Address, options: ListenOptions) -> Result<TcpListener, SetupError> {
        listen::listen(self, address, options)
    }

    fn connect(
        &self,
        address: &Address,
        request: ConnectRequest<'_>,
    ) -> Result<Connected<TcpQp>, SetupError> {
        connect::connect(self, address, request)
    }
}

#[cfg(test)]
mod tests;
