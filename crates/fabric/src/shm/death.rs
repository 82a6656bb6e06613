//! The peer as a process: who it is, whether it lives, waking it, and killing it.
//!
//! The Unix socket of the handshake stays open. It tells of the peer's death (the kernel closes it), and it
//! is the bell: one byte wakes a peer that armed. Unlike an eventfd, which both would share, a socket's two
//! ends have nothing in common that a hostile peer could use to block us: every call on it is non-blocking by
//! its own flag.

use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::SetupError;

/// How long a killed process may take to be gone.
const KILL: Duration = Duration::from_secs(2);
/// Bell bytes taken at once.
const BELLS: usize = 64;

/// The process at the other end of a Unix socket.
#[derive(Debug)]
pub(super) struct Peer {
    socket: OwnedFd,
    pid: u32,
    uid: u32,
    pidfd: Option<OwnedFd>,
}

impl Peer {
    /// Asks the kernel who is at the other end.
    pub(super) fn of(socket: OwnedFd) -> Result<Peer> {
        // SAFETY: all zeroes is a value of this struct of three integers.
        let mut who: libc::ucred = unsafe { std::mem::zeroed() };
        socket_option(&socket, libc::SO_PEERCRED, &mut who)?;
        // A pid of 0 is a process of another pid namespace, which we cannot name.
        let pid = u32::try_from(who.pid).unwrap_or(0);
        let pidfd = pidfd_of(&socket).or_else(|| {
            let pid = Pid::from_raw(who.pid)?;
            rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
        });
        Ok(Peer { socket, pid, uid: who.uid, pidfd })
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Process id, unless the peer lives in another pid namespace.
    pub(super) fn pid(&self) -> Option<u32> {
        (self.pid != 0).then_some(self.pid)
    }

    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether both ends are in this process.
    pub(super) fn is_us(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Whether the connection has ended. One call of the system.
    pub(super) fn hung_up(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Sleeps until the bell rings, the connection ends, or the time is over. Returns whether it has ended.
    fn wait(&self, timeout: Duration) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN | PollFlags::RDHUP)];
        let polled = rustix::event::poll(&mut fds, Some(&timespec(timeout)));
        let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR | PollFlags::NVAL;
        matches!(polled, Ok(n) if n > 0) && fds[0].revents().intersects(gone)
    }

    /// Wakes the peer.
    pub(super) fn ring_bell(&self) {
        // EAGAIN: unread bells enough lie there already. Any other error: it is dead, which the next check
        // finds.
        let _ = rustix::net::send(&self.socket, b"!", SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Takes the bell's bytes, a bounded number.
    pub(super) fn hush(&self) {
        let mut bytes = [0u8; BELLS];
        let _ = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT);
    }

    /// Ends the connection for both.
    pub(super) fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Whether the peer's process is gone, its mappings with it, as far as can be told.
    pub(super) fn is_dead(&self) -> bool {
        let Some(pidfd) = &self.pidfd else { return false };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        matches!(rustix::event::poll(&mut fds, Some(&timespec(Duration::ZERO))), Ok(n) if n > 0)
    }

    /// Kills the peer's process and waits until it is gone, its mappings with it. A child it forked that
    /// inherited its mappings lives on: a process that lends itself to fencing must not fork.
    pub(super) fn kill(&self) -> std::result::Result<(), SetupError> {
        let Some(pidfd) = &self.pidfd else {
            return Err(SetupError::Unsupported(
                "fencing the peer: it is in another pid namespace, so it cannot be killed from here".into(),
            ));
        };
        match rustix::process::pidfd_send_signal(pidfd, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(e) => return Err(SetupError::Os("kill the revoked peer", e.into())),
        }
        let until = Instant::now() + KILL;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&timespec(left))) {
                Ok(n) if n > 0 => return Ok(()),
                Ok(_) if left.is_zero() => {
                    return Err(SetupError::Timeout(format!("process {} to die when revoked", self.pid)));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(SetupError::Os("wait for the revoked peer to exit", e.into())),
            }
        }
    }
}

pub(super) fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos() as i64 }
}

/// The peer's process as it was when it connected (Linux 6.5): unlike its number, never another's.
fn pidfd_of(socket: &OwnedFd) -> Option<OwnedFd> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut fd: libc::c_int = -1;
    socket_option(socket, SO_PEERPIDFD, &mut fd).ok()?;
    // SAFETY: the kernel just made this descriptor for us; nobody else has it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn socket_option<T: Copy>(socket: &OwnedFd, name: libc::c_int, value: &mut T) -> Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `len` bytes, and both types used (integers, a struct of integers) have
    // no bytes that are not values.
    let result = unsafe {
        let to = std::ptr::from_mut(value).cast();
        libc::getsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, name, to, &mut len)
    };
    if result == 0 && len as usize == size_of::<T>() { Ok(()) } else { Err(Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn knows_itself_its_bell_and_its_end() {
        let (near, far) = UnixStream::pair().expect("sockets");
        let (near, far) = (Peer::of(near.into()).expect("peer"), Peer::of(far.into()).expect("peer"));
        assert!(near.is_us() && near.pid() == Some(std::process::id()));
        assert!(!near.hung_up());
        far.ring_bell();
        assert!(!near.wait(Duration::from_secs(5)), "rung, not ended");
        near.hush();
        drop(far);
        assert!(near.hung_up());
    }

    #[test]
    fn bells_beyond_the_buffer_do_not_block() {
        let (near, _far) = UnixStream::pair().expect("sockets");
        let near = Peer::of(near.into()).expect("peer");
        for _ in 0..10_000 {
            near.ring_bell();
        }
    }
}
