//! Completion channel: where a thread that serves many queue pairs sleeps until one of them has something.
//! Threads poll for a while before they do: polling is faster, sleep spares the CPU (NoSQL landscape 2.4).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longarm_host::Pause;
use longarm_host::world::is_simulated;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec};

/// Events taken by one call of the system; what is left wakes the next wait at once.
const EVENTS: usize = 64;
/// Event data of the channel's own counter.
const OWN: u64 = u64::MAX;

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
    epoll: OwnedFd,
    counter: OwnedFd,
    hangups: AtomicU64,
}

impl Channel {
    /// A fresh channel.
    pub fn new() -> std::io::Result<Channel> {
        if is_simulated() {
            return Ok(Channel(Arc::new(ChannelKind::Simulated(Pause::default()))));
        }
        let counter = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &counter, EventData::new_u64(OWN), EventFlags::IN)?;
        Ok(Channel(Arc::new(ChannelKind::Sockets(Sockets { epoll, counter, hangups: AtomicU64::new(0) }))))
    }

    /// The descriptor, to pass to a poller: readable when a wait would return at once.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.sockets().epoll.as_fd()
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
    /// (edge-triggered): nobody needs to read the bytes for the next event to count.
    pub fn watch(&self, socket: impl AsFd) -> std::io::Result<()> {
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.sockets().epoll, socket, EventData::new_u64(0), flags)?)
    }

    /// Ends a [`watch`](Self::watch).
    pub fn unwatch(&self, socket: impl AsFd) {
        // ENOENT means it was not watched: what was asked for is so.
        let _ = epoll::delete(&self.sockets().epoll, socket);
    }

    /// How often a watched socket has ended: when this changed, somebody's peer is gone.
    pub fn hangups(&self) -> u64 {
        // Relaxed: a hint to look, which the same thread's wait has counted.
        self.sockets().hangups.load(Ordering::Relaxed)
    }

    /// Sleeps until notified or the time is over; then forgets all notifications. Returns whether it was
    /// notified.
    pub fn wait(&self, timeout: Duration) -> bool {
        match &*self.0 {
            ChannelKind::Sockets(sockets) => sockets.wait(timeout),
            ChannelKind::Simulated(pause) => pause.sleep_unless_poked(timeout),
        }
    }
}

impl Sockets {
    fn wait(&self, timeout: Duration) -> bool {
        let limit = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos() as i64 };
        let mut room = [MaybeUninit::uninit(); EVENTS];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut room, Some(&limit)) else {
            return false;
        };
        for event in events.iter() {
            let (data, flags) = (event.data, event.flags);
            if data.u64() == OWN {
                let mut count = [0u8; 8];
                let _ = rustix::io::read(&self.counter, &mut count);
            } else if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                // Relaxed: as in `hangups`.
                self.hangups.fetch_add(1, Ordering::Relaxed);
            }
        }
        !events.is_empty()
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
