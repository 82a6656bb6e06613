//! The socket below a connection: reads and writes that never block.

use std::net::TcpStream;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::buffer::Buffer;

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
    loop {
        let free = into.free(READ_LEAST, most);
        match rustix::net::recv(socket, free, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => {
                return Received::Gone("its end of the connection was closed without a goodbye".into());
            }
            Ok((_, n)) => {
                into.filled(n);
                return Received::Bytes(n);
            }
            Err(Errno::AGAIN) => return Received::Empty,
            Err(Errno::INTR) => {}
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
