//! Shared memory: both processes on one host, the poster's CPU does the work.
//!
//! | file | what |
//! |---|---|
//! | `listen.rs`, `connect.rs` | the handshake over a Unix socket; memory files after the login (`fds.rs`) |
//! | `queue.rs` | the page two ends share: arrivals, receive buffers, the bell |
//! | `qp.rs`, `pending.rs` | the queue pair: completions in order, polling, sleeping, breaking |
//! | `read.rs`, `write.rs` | the operations, on the peer's memory as it is mapped here |
//! | `death.rs` | the peer as a process: its end, waking it, killing it |
//!
//! Rights are the kernel's: a region lent for READ is passed as a read-only descriptor. A region lent for
//! WRITE can be written by the peer's process in any way, as with any mapping; the checks of `write.rs` guard
//! against mistakes, not against malice. So a server lends a client its own ring for WRITE and nothing else.
//!
//! A mapping cannot be taken back from another process. So `revoke` of a peer that was lent anything for
//! WRITE or atomics kills the peer's process and waits for its exit; of a mere reader it ends the connection.
//! A peer in this process (tests, an embedded server) is fenced by a word of the queue page instead.

mod connect;
mod death;
mod fds;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod listen;
mod pending;
mod qp;
mod queue;
mod read;
mod remote;
mod write;

use crate::{Address, ConnectRequest, Connected, ListenOptions, SetupError, Transport};

pub use listen::{ShmIncoming, ShmListener};
pub use qp::ShmQp;

/// The shared-memory transport.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shm;

impl Transport for Shm {
    type Qp = ShmQp;
    type Listener = ShmListener;

    fn listen(&self, address: &Address, options: ListenOptions) -> Result<ShmListener, SetupError> {
        listen::listen(path(address)?, options)
    }

    fn connect(
        &self,
        address: &Address,
        request: ConnectRequest<'_>,
    ) -> Result<Connected<ShmQp>, SetupError> {
        connect::connect(path(address)?, request)
    }
}

fn path(address: &Address) -> Result<&std::path::Path, SetupError> {
    match address {
        Address::Shm(path) => Ok(path),
        other => {
            Err(SetupError::Unsupported(format!("{other} is not an address of shared memory (shm:/path)")))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
