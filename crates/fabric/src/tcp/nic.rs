//! The software NIC of a listener: one thread that serves the connections whose users sleep elsewhere.
//!
//! It waits on a channel that drives them, and uses no CPU while nothing happens. While requests come it
//! looks again for a short time before it sleeps. It ends when the listener is gone and the last connection
//! is over.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longarm_base::Nanos;
use longarm_host::{AdaptiveSpin, now};

use crate::Channel;

/// The longest sleep; nothing depends on it.
const SLEEP: Duration = Duration::from_secs(3600);

/// Handle of a NIC thread.
#[derive(Debug)]
pub struct Nic {
    channel: Channel,
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

    /// The channel that drives what the NIC serves.
    pub fn channel(&self) -> &Channel {
        &self.0.channel
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
        self.0.channel.notify();
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

impl Nic {
    /// Starts the thread, which lives while anybody holds the NIC or a connection lives.
    pub fn start(spin: Duration) -> io::Result<Hold> {
        let nic = Arc::new(Nic { channel: Channel::driving()?, holders: AtomicUsize::new(0), spin });
        let (engine, hold) = (nic.clone(), Hold::new(nic));
        std::thread::Builder::new().name("longarm-nic".into()).spawn(move || engine.run())?;
        Ok(hold)
    }

    fn run(&self) {
        let _crash = CrashOnPanic;
        let mut spin = AdaptiveSpin::new(Nanos(self.spin.as_nanos() as u64));
        // Whether it looks without sleeping, and whether anything came since it began to.
        let (mut looks, mut waits) = (false, false);
        // Users poll their links by themselves: who has something is of no interest here.
        let mut ready = Vec::new();
        loop {
            let busy = self.channel.wait_for(if looks { Duration::ZERO } else { SLEEP }, &mut ready);
            ready.clear();
            // Acquire: pairs with the Release of a holder's end, so that what it entered is seen after it.
            if self.holders.load(Ordering::Acquire) == 0 && !self.channel.drives() {
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
                (false, true) => looks = spin.looks_again(now()) && spin.offer(),
            }
        }
    }
}
