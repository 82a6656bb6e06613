//! TCP streams: reaching a listener, options that every connection has, and leaving without a reset.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, sockopt};

use crate::{Address, SetupError};

/// Silence after which the kernel asks whether the peer still lives, and between its questions.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// Tries each address that the name `host` has, until a moment. `address` is what errors name.
pub fn reach(host: &str, address: &Address, until: Instant) -> Result<TcpStream, SetupError> {
    let unreachable = |source| SetupError::Unreachable { address: address.to_string(), source };
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for candidate in host.to_socket_addrs().map_err(unreachable)? {
        let left = until.saturating_duration_since(Instant::now());
        if left < Duration::from_micros(1) {
            return Err(SetupError::Timeout(address.to_string()));
        }
        match TcpStream::connect_timeout(&candidate, left) {
            Ok(socket) => return Ok(socket),
            Err(e) => last = e,
        }
    }
    match last.kind() {
        ErrorKind::TimedOut => Err(SetupError::Timeout(address.to_string())),
        _ => Err(unreachable(last)),
    }
}

/// The address that a listener on `host` would have, as far as the name says.
pub fn resolve(host: &str) -> Result<SocketAddr, SetupError> {
    let none = || io::Error::new(ErrorKind::NotFound, "the name has no address");
    let mut found = host.to_socket_addrs().map_err(|e| SetupError::Os("listen on the address", e))?;
    found.next().ok_or_else(|| SetupError::Os("listen on the address", none()))
}

/// Sets what every connection has: no delay, and an end when the peer vanishes, or takes nothing for `stall`.
pub fn prepare(socket: &TcpStream, stall: Duration) -> Result<(), SetupError> {
    set(socket, stall).map_err(|e| SetupError::Os("prepare the socket", e))
}

fn set(socket: &TcpStream, stall: Duration) -> io::Result<()> {
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

/// Ends our side; reads and forgets what is there, within bounds: a close with unread bytes resets the
/// connection, and the reset could overtake our last word.
pub fn leave(socket: &TcpStream) {
    let _ = socket.shutdown(Shutdown::Write);
    let mut bytes = [0u8; 16 << 10];
    for _ in 0..64 {
        match rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, n)) if n > 0 => {}
            _ => return,
        }
    }
}
