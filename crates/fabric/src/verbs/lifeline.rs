//! The TCP stream of a connection after its set-up: it ends when the peer's process does, and carries the
//! last word of a peer that leaves.

use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::{Broken, stream};

/// The last word of a side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Farewell {
    /// It leaves in good order; all its requests are done.
    Closed = b'C',
    /// It revoked the other side.
    Revoked = b'R',
    /// A request was refused, by its device or by the other's.
    Broke = b'B',
}

#[derive(Debug)]
pub(super) struct Lifeline(pub Arc<TcpStream>);

impl Lifeline {
    /// Says the last word. Whoever does not hear it learns of the end all the same.
    pub fn say(&self, word: Farewell) {
        let _ = rustix::net::send(&*self.0, &[word as u8], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Hangs up.
    pub fn hang_up(&self) {
        stream::leave(&self.0);
    }

    /// What the peer said, or the end of its stream, if there is either.
    pub fn listen(&self) -> Option<Broken> {
        let mut word = [0];
        loop {
            let broken = match rustix::net::recv(&*self.0, &mut word[..], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => return None,
                Err(Errno::INTR) => continue,
                Err(e) => Broken::PeerLost(e.to_string()),
                Ok((_, 0)) => Broken::PeerLost("its process ended or cut the connection".into()),
                Ok(_) if word[0] == Farewell::Closed as u8 => Broken::Closed,
                Ok(_) if word[0] == Farewell::Revoked as u8 => {
                    Broken::PeerLost("it revoked this connection".into())
                }
                Ok(_) if word[0] == Farewell::Broke as u8 => Broken::Protocol(
                    "the peer broke the connection after a request that was not allowed, ours or its own"
                        .into(),
                ),
                Ok(_) => Broken::Protocol("the peer sent bytes on the stream of the set-up".into()),
            };
            return Some(broken);
        }
    }
}

impl AsFd for Lifeline {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
