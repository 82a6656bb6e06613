//! What a thread that serves sockets waits with: epoll, and a name for each socket.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

/// The sockets that are waited for, each under its name.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    tokens: AtomicU64,
}

impl Poller {
    /// Waits for nothing yet.
    pub fn new() -> io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, tokens: AtomicU64::new(0) })
    }

    /// Readable when a wait would return at once.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// A name for a new connection.
    pub fn token(&self) -> u64 {
        // Relaxed: only uniqueness counts.
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits for these events.
    pub fn add(&self, of: impl AsFd, token: u64, events: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, of, EventData::new_u64(token), events)?)
    }

    /// Changes what is waited for. A socket that was not added yet, or is forgotten, waits for nothing, and
    /// needs nothing: new ones are looked at once.
    pub fn watch(&self, of: impl AsFd, token: u64, events: EventFlags) {
        let changed = epoll::modify(&self.epoll, of, EventData::new_u64(token), events);
        debug_assert!(matches!(changed, Ok(()) | Err(rustix::io::Errno::NOENT)), "epoll: {changed:?}");
    }

    /// Waits for a socket no more. If it was not waited for, what was asked for is so.
    pub fn forget(&self, of: impl AsFd) {
        let _ = epoll::delete(&self.epoll, of);
    }

    /// What happened; waits for something, at most as long as the limit.
    pub fn wait<'r>(&self, room: &'r mut [MaybeUninit<Event>], limit: Option<&Timespec>) -> &'r [Event] {
        // Interrupted, or nothing: look again.
        epoll::wait(&self.epoll, room, limit).map_or(&[], |(events, _)| events)
    }
}
