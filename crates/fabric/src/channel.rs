//! Completion channel: where a thread that serves many queue pairs sleeps until one of them has something.
//! Threads poll for a while before they do: polling is faster, sleep spares the CPU (NoSQL landscape 2.4).
//!
//! Where a transport has no device that executes what peers ask, the thread can be that itself
//! ([`Channel::driving`]): whoever reads a socket executes what comes in on it and answers, without handing
//! anything to another thread.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longarm_host::Pause;
use longarm_host::world::is_simulated;
use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, Timespec};

use crate::buffer::{Buffer, INPUT};
use crate::poller::Poller;

/// Events taken by one call of the system; what is left wakes the next wait at once.
const EVENTS: usize = 64;
/// Event data of the channel's own counter.
const OWN: u64 = u64::MAX;

/// A connection that is served by whoever waits on its channel.
pub(crate) trait Driven: Send + Sync + std::fmt::Debug {
    /// Moves what can be moved, after these events. `raw` is empty before and after.
    fn drive(&self, events: EventFlags, raw: &mut Buffer) -> Drove;
    /// Its socket.
    fn socket(&self) -> BorrowedFd<'_>;
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Drove {
    /// Its user has something to poll.
    pub news: bool,
    /// It is over.
    pub ended: bool,
}

/// The name under which [`Channel::wait_for`] tells of a queue pair that has something to poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// It is told of whenever there is something: the waiting thread served it.
    Always(u64),
    /// It is told of once it was [armed](crate::QueuePair::arm); until then it is looked at.
    Armed(u64),
}

impl Told {
    /// The name.
    pub fn name(self) -> u64 {
        match self {
            Told::Always(name) | Told::Armed(name) => name,
        }
    }
}

/// Sleeps until its counter is notified or a watched socket has news. Cloning gives the same channel.
///
/// No descriptor of a channel is ever given to another process: a peer that shared the counter could swallow
/// the notifications of others, or make our read of it block (the non-blocking flag belongs to both).
#[derive(Clone, Debug)]
pub struct Channel(Arc<ChannelKind>);

#[derive(Debug)]
enum ChannelKind {
    Sockets(Sockets),
    /// Of a simulated world, where no socket is.
    Simulated(Pause),
}

#[derive(Debug)]
struct Sockets {
    poller: Arc<Poller>,
    counter: OwnedFd,
    hangups: AtomicU64,
    /// The connections that the waiting thread serves, by name; `None` once it serves none any more.
    driven: Mutex<Option<HashMap<u64, Arc<dyn Driven>>>>,
    /// How many there are.
    drives: AtomicUsize,
    /// Where bytes of any of them are received.
    raw: Mutex<Buffer>,
}

impl Channel {
    /// A fresh channel.
    pub fn new() -> io::Result<Channel> {
        Channel::make(None)
    }

    /// A fresh channel for a thread that looks at it all the time, and sleeps nowhere else: connections
    /// without a device are served by its waits.
    pub fn driving() -> io::Result<Channel> {
        Channel::make(Some(HashMap::new()))
    }

    fn make(driven: Option<HashMap<u64, Arc<dyn Driven>>>) -> io::Result<Channel> {
        if is_simulated() {
            return Ok(Channel(Arc::new(ChannelKind::Simulated(Pause::default()))));
        }
        let counter = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let poller = Arc::new(Poller::new()?);
        poller.add(&counter, OWN, EventFlags::IN)?;
        let (hangups, drives) = (AtomicU64::new(0), AtomicUsize::new(0));
        let raw = Mutex::new(Buffer::new(INPUT));
        let sockets = Sockets { poller, counter, hangups, driven: Mutex::new(driven), drives, raw };
        Ok(Channel(Arc::new(ChannelKind::Sockets(sockets))))
    }

    /// The descriptor, to pass to a poller: readable when a wait would return at once.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.sockets().poller.fd()
    }

    fn sockets(&self) -> &Sockets {
        match &*self.0 {
            ChannelKind::Sockets(sockets) => sockets,
            ChannelKind::Simulated(_) => unreachable!("transports with sockets are not simulated"),
        }
    }

    /// Wakes the sleeper, now or when it next sleeps.
    pub fn notify(&self) {
        match &*self.0 {
            // EAGAIN means the counter is full: the sleeper will wake all the same.
            ChannelKind::Sockets(sockets) => {
                let _ = rustix::io::write(&sockets.counter, &1u64.to_le_bytes());
            }
            ChannelKind::Simulated(pause) => pause.poke(),
        }
    }

    /// From now on bytes that come in on `socket`, and its end, wake the sleeper. Each such event wakes once
    /// (edge-triggered): nobody needs to read the bytes for the next event to count. The name under which
    /// [`wait_for`](Self::wait_for) tells of it.
    pub fn watch(&self, socket: impl AsFd) -> io::Result<u64> {
        let token = self.sockets().poller.token();
        self.watch_as(token, socket).map(|()| token)
    }

    /// The same, under a name that another socket has already.
    pub fn watch_as(&self, token: u64, socket: impl AsFd) -> io::Result<()> {
        self.sockets().poller.add(socket, token, EventFlags::IN | EventFlags::RDHUP | EventFlags::ET)
    }

    /// Ends a [`watch`](Self::watch).
    pub fn unwatch(&self, socket: impl AsFd) {
        self.sockets().poller.forget(socket);
    }

    /// What a connection that is to be served by this channel's thread waits with; `None` if the thread
    /// serves none.
    pub(crate) fn poller(&self) -> Option<&Arc<Poller>> {
        let sockets = self.sockets();
        sockets.driven().is_some().then_some(&sockets.poller)
    }

    /// Has the waiting thread serve a connection of this name, which is to be added to the poller then;
    /// `false` if it serves none any more.
    pub(crate) fn enter(&self, token: u64, connection: Arc<dyn Driven>) -> bool {
        let sockets = self.sockets();
        let mut driven = sockets.driven();
        let Some(driven) = &mut *driven else { return false };
        driven.insert(token, connection);
        // Release: pairs with the look of `drives`.
        sockets.drives.store(driven.len(), Ordering::Release);
        true
    }

    /// The waiting thread serves the connection of this name no more; the connection, if it did.
    pub(crate) fn leave(&self, token: u64) -> Option<Arc<dyn Driven>> {
        self.sockets().leave(token)
    }

    /// Whether the waiting thread has connections to serve: it has to look again and again.
    #[inline]
    pub fn drives(&self) -> bool {
        match &*self.0 {
            // Acquire: pairs with the stores of the number.
            ChannelKind::Sockets(sockets) => sockets.drives.load(Ordering::Acquire) > 0,
            ChannelKind::Simulated(_) => false,
        }
    }

    /// The thread ends: connections that it served are over, and none is served any more.
    pub fn end(&self) {
        if let ChannelKind::Sockets(sockets) = &*self.0 {
            let driven = sockets.driven().take();
            // Release: as in `enter`.
            sockets.drives.store(0, Ordering::Release);
            // Dropped without the lock: a connection may be the last that has this channel.
            drop(driven);
        }
    }

    /// How often a watched socket has ended: when this changed, somebody's peer is gone.
    pub fn hangups(&self) -> u64 {
        // Relaxed: a hint to look, which the same thread's wait has counted.
        self.sockets().hangups.load(Ordering::Relaxed)
    }

    /// Sleeps until notified or the time is over; then forgets all notifications. Returns whether it was
    /// notified.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.wait_for(timeout, &mut Vec::new())
    }

    /// The same, and serves the connections that it drives: the names of those whose users have something to
    /// poll go to `ready`, and those of watched sockets that have news.
    pub fn wait_for(&self, timeout: Duration, ready: &mut Vec<u64>) -> bool {
        match &*self.0 {
            ChannelKind::Sockets(sockets) => sockets.wait(timeout, ready),
            ChannelKind::Simulated(pause) => pause.sleep_unless_poked(timeout),
        }
    }
}

impl Sockets {
    fn driven(&self) -> std::sync::MutexGuard<'_, Option<HashMap<u64, Arc<dyn Driven>>>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, timeout: Duration, ready: &mut Vec<u64>) -> bool {
        let limit = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos() as i64 };
        let mut room = [MaybeUninit::uninit(); EVENTS];
        let events = self.poller.wait(&mut room, Some(&limit));
        let mut raw = self.raw.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            let (data, flags) = (event.data.u64(), event.flags);
            if data == OWN {
                let mut count = [0u8; 8];
                let _ = rustix::io::read(&self.counter, &mut count);
            } else if !self.drive(data, flags, &mut raw, ready) {
                if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                    // Relaxed: as in `hangups`.
                    self.hangups.fetch_add(1, Ordering::Relaxed);
                }
                ready.push(data);
            }
        }
        !events.is_empty()
    }

    /// Serves a connection that is driven; whether this is one.
    fn drive(&self, token: u64, flags: EventFlags, raw: &mut Buffer, ready: &mut Vec<u64>) -> bool {
        let found = self.driven().as_ref().and_then(|driven| driven.get(&token).cloned());
        let Some(connection) = found else { return false };
        let Drove { news, ended } = connection.drive(flags, raw);
        if news {
            ready.push(token);
        }
        if ended {
            self.poller.forget(connection.socket());
            self.leave(token);
        }
        true
    }

    fn leave(&self, token: u64) -> Option<Arc<dyn Driven>> {
        let mut driven = self.driven();
        let driven = driven.as_mut()?;
        let left = driven.remove(&token);
        // Release: as in `enter`.
        self.drives.store(driven.len(), Ordering::Release);
        left
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_notification_before_the_wait_is_not_lost() {
        let channel = Channel::new().expect("eventfd");
        channel.clone().notify();
        assert!(channel.wait(Duration::from_secs(5)));
        assert!(!channel.wait(Duration::ZERO), "forgotten once taken");
    }

    #[test]
    fn every_byte_and_the_end_of_a_watched_socket_wake_once() {
        let channel = Channel::new().expect("eventfd");
        let (mut near, far) = UnixStream::pair().expect("sockets");
        channel.watch(&far).expect("watch");
        for _ in 0..3 {
            near.write_all(b"!").expect("write");
            assert!(channel.wait(Duration::from_secs(5)), "also while earlier bytes lie unread");
            assert!(!channel.wait(Duration::ZERO), "once");
        }
        assert_eq!(channel.hangups(), 0);
        drop(near);
        assert!(channel.wait(Duration::from_secs(5)));
        assert_eq!(channel.hangups(), 1);
    }

    /// A connection that cannot be waited for is not served: it would keep the thread of a NIC for good.
    #[test]
    fn a_connection_that_left_is_driven_no_more() {
        #[derive(Debug)]
        struct Still(UnixStream);
        impl Driven for Still {
            fn drive(&self, _: EventFlags, _: &mut Buffer) -> Drove {
                Drove { news: false, ended: false }
            }
            fn socket(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }
        let channel = Channel::driving().expect("eventfd");
        let (near, far) = UnixStream::pair().expect("sockets");
        assert!(channel.enter(7, Arc::new(Still(near))) && channel.drives());
        channel.leave(7);
        assert!(!channel.drives());
        assert!(!Channel::new().expect("eventfd").enter(7, Arc::new(Still(far))), "it serves none");
    }

    #[test]
    fn an_unwatched_socket_wakes_nobody() {
        let channel = Channel::new().expect("eventfd");
        let (mut near, far) = UnixStream::pair().expect("sockets");
        channel.watch(&far).expect("watch");
        channel.unwatch(&far);
        near.write_all(b"!").expect("write");
        assert!(!channel.wait(Duration::ZERO));
    }
}
