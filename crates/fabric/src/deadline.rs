//! A blocking stream over a socket with one deadline for everything said on it, however slowly the peer
//! dribbles.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// Reads and writes a socket (blocking or not) until a moment; then every call answers `TimedOut`.
#[derive(Debug)]
pub struct DeadlineSocket<S> {
    socket: S,
    until: Instant,
}

impl<S: AsFd> DeadlineSocket<S> {
    /// A stream over `socket` that ends after `time`.
    pub fn new(socket: S, time: Duration) -> DeadlineSocket<S> {
        DeadlineSocket { socket, until: Instant::now() + time }
    }

    /// Time that is left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The socket.
    pub fn get(&self) -> &S {
        &self.socket
    }

    /// The socket, and no deadline any more.
    pub fn into_inner(self) -> S {
        self.socket
    }

    fn wait(&self, what: PollFlags) -> Result<()> {
        loop {
            let left = self.left();
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos() as i64 };
            match rustix::event::poll(&mut [PollFd::new(&self.socket, what)], Some(&limit)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl<S: AsFd> Read for DeadlineSocket<S> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            match rustix::net::recv(&self.socket, &mut *into, RecvFlags::DONTWAIT) {
                Ok((_, n)) => return Ok(n),
                Err(Errno::AGAIN) => self.wait(PollFlags::IN)?,
                Err(Errno::INTR) => {}
                Err(e) => return Err(Error::from(e)),
            }
        }
    }
}

impl<S: AsFd> Write for DeadlineSocket<S> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        loop {
            match rustix::net::send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(n) => return Ok(n),
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT)?,
                Err(Errno::INTR) => {}
                Err(e) => return Err(Error::from(e)),
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
