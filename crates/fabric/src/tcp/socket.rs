//! The socket below a connection: options, and reads and writes that never block.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};

use super::buffer::Buffer;

/// Silence after which the kernel asks whether the peer still lives, and between its questions.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// Free bytes offered to one read at least, where the buffer has them.
pub const READ_LEAST: usize = 64 << 10;

/// Sets what every connection has: no delay, and an end when the peer vanishes, or takes nothing for `stall`.
pub fn prepare(socket: &TcpStream, stall: Duration) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    // Covers both bytes that nobody acknowledges and a window that stays shut.
    sockopt::set_tcp_user_timeout(socket, stall.as_millis().clamp(1, u32::MAX.into()) as u32)?;
    Ok(())
}

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

/// Reads and forgets what is there, within bounds: a close with unread bytes resets the connection, and the
/// reset could overtake our goodbye.
pub fn drain(socket: &TcpStream) {
    let mut bytes = [0u8; 16 << 10];
    for _ in 0..64 {
        match rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, n)) if n > 0 => {}
            _ => return,
        }
    }
}
