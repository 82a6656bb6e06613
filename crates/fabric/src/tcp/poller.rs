//! What the NIC thread of a listener waits with: epoll over the sockets of its links.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use crate::Channel;

/// Token of the wake-up descriptor; links count from 1.
pub(super) const WAKE: u64 = 0;

/// The sockets that are waited for, each under the token of its link.
#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
    tokens: AtomicU64,
}

impl Poller {
    /// Waits for the wake-up descriptor alone.
    pub fn new(wake: &Channel) -> io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, wake.fd(), EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Poller { epoll, tokens: AtomicU64::new(WAKE + 1) })
    }

    /// A name for a new link.
    pub fn token(&self) -> u64 {
        // Relaxed: only uniqueness counts.
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits for these events of a new link.
    pub fn add(&self, socket: &TcpStream, token: u64, events: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), events)?)
    }

    /// Changes what a link waits for. A link that the thread has not taken in yet, or has forgotten, waits
    /// for nothing, and needs nothing: new ones are looked at once.
    pub fn watch(&self, socket: &TcpStream, token: u64, events: EventFlags) {
        let changed = epoll::modify(&self.epoll, socket, EventData::new_u64(token), events);
        debug_assert!(matches!(changed, Ok(()) | Err(rustix::io::Errno::NOENT)), "epoll: {changed:?}");
    }

    /// Waits for a link no more.
    pub fn forget(&self, socket: &TcpStream) {
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Adds to `events` what happened; waits for something, at most as long as the limit.
    pub fn wait(&self, events: &mut Vec<Event>, limit: Option<&Timespec>) {
        // Interrupted, or nothing: look again.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), limit);
    }
}
