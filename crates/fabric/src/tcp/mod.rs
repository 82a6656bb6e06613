//! The TCP transport: a software NIC for any network, with optional TLS.
//!
//! On the accepting side peers' requests are executed on the regions lent to them by whoever waits on the
//! channel of the queue pair, if that thread looks at it all the time (`Channel::driving`), and else by one
//! thread of the listener (`nic`), so that the user takes no part. The connecting side has no thread: its
//! user's `poll` and `wait` execute what the server writes into its regions (`alone`). All run the same
//! `session` over the same [`frame`]s.

mod alone;
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
mod settings;
mod socket;
mod tls;

use crate::{Address, ConnectRequest, Connected, ListenOptions, SetupError, Transport};

pub use listen::{TcpIncoming, TcpListener};
pub use qp::TcpQp;
pub use settings::Tcp;
pub use tls::{Identity, Tls};

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
