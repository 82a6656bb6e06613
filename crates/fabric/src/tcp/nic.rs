//! The software NIC of a listener: one thread that serves all its connections.
//!
//! It sleeps in epoll and uses no CPU while nothing happens. While requests come it looks again for a short
//! time before it sleeps, giving way to other threads at every look, as machines may have two cores.
//! It ends when the listener is gone and the last connection is over.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use super::buffer::Buffer;
use super::codec::INPUT;
use super::link::{Link, Next};
use crate::Channel;

/// Token of the wake-up descriptor; links count from 1.
const WAKE: u64 = 0;
/// Events of one look.
const EVENTS: usize = 64;

/// Handle of a NIC thread.
#[derive(Debug)]
pub struct Nic {
    epoll: OwnedFd,
    wake: Channel,
    entering: Mutex<Vec<Arc<Link>>>,
    tokens: AtomicU64,
    /// The listener, and peers not let in yet: those who may still enter links.
    holders: AtomicUsize,
    spin: Duration,
}

/// The right to enter links: keeps the thread alive.
#[derive(Debug)]
pub struct Hold(Arc<Nic>);

impl Hold {
    fn new(nic: Arc<Nic>) -> Hold {
        // Relaxed: whoever makes a hold has one, or starts the thread.
        nic.holders.fetch_add(1, Ordering::Relaxed);
        Hold(nic)
    }

    /// The NIC.
    pub fn nic(&self) -> &Arc<Nic> {
        &self.0
    }
}

impl Clone for Hold {
    fn clone(&self) -> Hold {
        Hold::new(self.0.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `run`.
        self.0.holders.fetch_sub(1, Ordering::Release);
        self.0.wake.notify();
    }
}

/// A NIC thread that fell over would leave its peers waiting for good: the process goes with it, after the
/// message.
struct CrashOnPanic;

impl Drop for CrashOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

struct Entry {
    link: Arc<Link>,
    raw: Buffer,
}

impl Nic {
    /// Starts the thread, which lives while anybody holds the NIC or a connection lives.
    pub fn start(spin: Duration) -> io::Result<Hold> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Channel::new()?;
        epoll::add(&epoll, wake.fd(), EventData::new_u64(WAKE), EventFlags::IN)?;
        let nic = Arc::new(Nic {
            epoll,
            wake,
            entering: Mutex::new(Vec::new()),
            tokens: AtomicU64::new(WAKE + 1),
            holders: AtomicUsize::new(0),
            spin,
        });
        let (engine, hold) = (nic.clone(), Hold::new(nic));
        std::thread::Builder::new().name("longarm-nic".into()).spawn(move || engine.run())?;
        Ok(hold)
    }

    /// A name for a new link.
    pub fn token(&self) -> u64 {
        // Relaxed: only uniqueness counts.
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands a link to the thread.
    pub fn enter(&self, link: Arc<Link>) {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        self.wake.notify();
    }

    /// Changes what a link waits for. A link that the thread has not taken in yet, or has forgotten, waits
    /// for nothing, and needs nothing: new ones are looked at once.
    pub(super) fn watch(&self, link: &Link, events: EventFlags) {
        let changed = epoll::modify(&self.epoll, &*link.socket, EventData::new_u64(link.token), events);
        debug_assert!(matches!(changed, Ok(()) | Err(rustix::io::Errno::NOENT)), "epoll: {changed:?}");
    }

    fn run(&self) {
        let _crash = CrashOnPanic;
        let mut links: HashMap<u64, Entry> = HashMap::new();
        let mut hot = Instant::now();
        let mut spinning = false;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            let limit = if spinning { Some(&zero) } else { None };
            // Interrupted, or nothing: look again.
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), limit);
            let mut busy = false;
            let mut woken = false;
            for event in &events {
                match event.data.u64() {
                    WAKE => woken = true,
                    token => busy |= self.serve(&mut links, token, event.flags),
                }
            }
            if woken {
                self.wake.wait(Duration::ZERO);
                self.take_in(&mut links);
            }
            // Acquire: pairs with the Release of a holder's end, so that what it entered is seen after it.
            if links.is_empty() && self.holders.load(Ordering::Acquire) == 0 && self.nobody_enters() {
                return;
            }
            if busy {
                (spinning, hot) = (true, Instant::now());
            } else if spinning {
                // No yield: on a loaded machine it costs a whole slice, sleeping costs a wake-up.
                spinning = hot.elapsed() < self.spin;
            }
        }
    }

    fn nobody_enters(&self) -> bool {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take_in(&self, links: &mut HashMap<u64, Entry>) {
        let entering = std::mem::take(&mut *self.entering.lock().unwrap_or_else(PoisonError::into_inner));
        for link in entering {
            let (data, flags) = (EventData::new_u64(link.token), EventFlags::IN | EventFlags::OUT);
            match epoll::add(&self.epoll, &*link.socket, data, flags) {
                Ok(()) => {
                    links.insert(link.token, Entry { link, raw: Buffer::new(INPUT) });
                }
                // Out of kernel memory or watches: this connection ends, the others go on.
                Err(_) => link.revoke(),
            }
        }
    }

    /// Returns whether anything moved.
    fn serve(&self, links: &mut HashMap<u64, Entry>, token: u64, flags: EventFlags) -> bool {
        let Some(Entry { link, raw }) = links.get_mut(&token) else { return false };
        match link.serve(raw, flags) {
            Next::Busy => true,
            Next::Idle => false,
            Next::Forget => {
                let _ = epoll::delete(&self.epoll, &*link.socket);
                links.remove(&token);
                false
            }
        }
    }
}
