//! The software NIC of a listener: one thread that serves all its connections.
//!
//! It sleeps in epoll and uses no CPU while nothing happens. While requests come it looks again for a short
//! time before it sleeps, giving way to other threads at every look, as machines may have two cores.
//! It ends when the listener is gone and the last connection is over.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longarm_base::Nanos;
use longarm_host::{AdaptiveSpin, now};
use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;

use super::buffer::Buffer;
use super::codec::INPUT;
use super::link::{NicTurn, TcpLink};
use crate::Channel;
use crate::poller::{Poller, WAKE};

/// Events of one look.
const EVENTS: usize = 64;

/// Handle of a NIC thread.
#[derive(Debug)]
pub struct Nic {
    poller: Arc<Poller>,
    wake: Channel,
    entering: Mutex<Vec<Arc<TcpLink>>>,
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

struct NicEntry {
    link: Arc<TcpLink>,
    raw: Buffer,
}

impl Nic {
    /// Starts the thread, which lives while anybody holds the NIC or a connection lives.
    pub fn start(spin: Duration) -> io::Result<Hold> {
        let wake = Channel::new()?;
        let poller = Arc::new(Poller::new()?);
        poller.add(wake.fd(), WAKE, EventFlags::IN)?;
        let nic = Arc::new(Nic {
            poller,
            wake,
            entering: Mutex::new(Vec::new()),
            holders: AtomicUsize::new(0),
            spin,
        });
        let (engine, hold) = (nic.clone(), Hold::new(nic));
        std::thread::Builder::new().name("longarm-nic".into()).spawn(move || engine.run())?;
        Ok(hold)
    }

    /// What the thread waits with.
    pub(super) fn poller(&self) -> &Arc<Poller> {
        &self.poller
    }

    /// Hands a link to the thread.
    pub fn enter(&self, link: Arc<TcpLink>) {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        self.wake.notify();
    }

    fn run(&self) {
        let _crash = CrashOnPanic;
        let mut links: HashMap<u64, NicEntry> = HashMap::new();
        let mut spin = AdaptiveSpin::new(Nanos(self.spin.as_nanos() as u64));
        // Whether it looks without sleeping, and whether anything came since it began to.
        let (mut looks, mut waits) = (false, false);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut room = [MaybeUninit::uninit(); EVENTS];
            let events = self.poller.wait(&mut room, if looks { Some(&zero) } else { None });
            let mut busy = false;
            let mut woken = false;
            for event in events {
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
            match (busy, waits) {
                (true, false) => looks = true,
                (true, true) => {
                    spin.end(now());
                    (looks, waits) = (true, false);
                }
                (false, false) => (looks, waits) = (spin.begin(now(), Nanos(0)), true),
                // No yield: on a loaded machine it costs a whole slice, sleeping costs a wake-up.
                (false, true) => looks = spin.looks_again(now()),
            }
        }
    }

    fn nobody_enters(&self) -> bool {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take_in(&self, links: &mut HashMap<u64, NicEntry>) {
        let entering = std::mem::take(&mut *self.entering.lock().unwrap_or_else(PoisonError::into_inner));
        for link in entering {
            match link.take_in() {
                Ok(()) => {
                    links.insert(link.token, NicEntry { link, raw: Buffer::new(INPUT) });
                }
                // Out of kernel memory or watches: this connection ends, the others go on.
                Err(_) => link.revoke(),
            }
        }
    }

    /// Returns whether anything moved.
    fn serve(&self, links: &mut HashMap<u64, NicEntry>, token: u64, flags: EventFlags) -> bool {
        let Some(NicEntry { link, raw }) = links.get_mut(&token) else { return false };
        match link.serve(raw, flags) {
            NicTurn::Busy => true,
            NicTurn::Idle => false,
            NicTurn::Forget => {
                self.poller.forget(&link.socket);
                links.remove(&token);
                false
            }
        }
    }
}
