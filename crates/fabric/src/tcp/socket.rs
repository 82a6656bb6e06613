//! The socket below a connection: reads and writes that do not block, and one read that waits.

use std::net::TcpStream;
use std::ops::RangeInclusive;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::buffer::Buffer;

/// What one read brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// Bytes.
    Bytes {
        /// They were all there were: there was room for more.
        all: bool,
    },
    /// None are there.
    Empty,
    /// The stream is over, and why.
    Gone(String),
}

/// Reads once into the free end of `into`: as many bytes of `room` as the buffer has room for. It has some.
pub fn receive(socket: &TcpStream, into: &mut Buffer, room: RangeInclusive<usize>) -> Received {
    read(socket, into, room, RecvFlags::DONTWAIT)
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
pub fn await_bytes(socket: &TcpStream, into: &mut Buffer, room: RangeInclusive<usize>) -> Received {
    read(socket, into, room, RecvFlags::empty())
}

fn read(socket: &TcpStream, into: &mut Buffer, room: RangeInclusive<usize>, flags: RecvFlags) -> Received {
    loop {
        let free = into.free(*room.start(), *room.end());
        let offered = free.len();
        match rustix::net::recv(socket, free, flags) {
            Ok((_, 0)) => {
                return Received::Gone("its end of the connection was closed without a goodbye".into());
            }
            Ok((_, n)) => {
                into.filled(n);
                return Received::Bytes { all: n < offered };
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
