//! The socket below a connection: reads and writes that do not block, and one read that waits.

use std::net::TcpStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::buffer::Buffer;

/// Free bytes offered to one read at least, where the buffer has them.
pub const READ_LEAST: usize = 64 << 10;

/// What one read brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// So many bytes. All there were, if fewer than [`READ_LEAST`].
    Bytes(usize),
    /// None are there.
    Empty,
    /// The stream is over, and why.
    Gone(String),
}

/// Reads once into the free end of `into`, at most `most` bytes. `into` has room.
pub fn receive(socket: &TcpStream, into: &mut Buffer, most: usize) -> Received {
    read(socket, into, most, RecvFlags::DONTWAIT)
}

/// Has [`await_bytes`] wait for no longer than this. The kernel rounds it up to its ticks. It is longer than
/// the peer takes that serves a thousand others first: to wake in vain would take their time.
pub const AWAIT: Duration = Duration::from_millis(100);

/// Prepares a socket that one thread reads for [`await_bytes`].
pub fn let_wait(socket: &TcpStream) -> std::io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(AWAIT))
}

/// The same, but waits for bytes for [`AWAIT`] at most, or until a signal comes: one call of the system where
/// to wait for readiness first takes two.
pub fn await_bytes(socket: &TcpStream, into: &mut Buffer, most: usize) -> Received {
    read(socket, into, most, RecvFlags::empty())
}

fn read(socket: &TcpStream, into: &mut Buffer, most: usize, flags: RecvFlags) -> Received {
    loop {
        let free = into.free(READ_LEAST, most);
        match rustix::net::recv(socket, free, flags) {
            Ok((_, 0)) => {
                return Received::Gone("its end of the connection was closed without a goodbye".into());
            }
            Ok((_, n)) => {
                into.filled(n);
                return Received::Bytes(n);
            }
            Err(Errno::AGAIN) => return Received::Empty,
            Err(Errno::INTR) if flags.contains(RecvFlags::DONTWAIT) => {}
            Err(Errno::INTR) => return Received::Empty,
            Err(e) => return Received::Gone(e.to_string()),
        }
    }
}

/// Writes once.
pub fn send(socket: &TcpStream, bytes: &[u8]) -> Result<usize, Errno> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
