//! Threads, and waiting without an event.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::pause::Pause;
use crate::world::entered;

/// A thread that was started, or a task of the world.
#[derive(Debug)]
pub struct Thread(Inner);

#[derive(Debug)]
enum Inner {
    Thread(JoinHandle<()>),
    Task(u64),
}

/// The thread ended in a panic: a broken invariant, reported where it happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Panicked;

/// Starts a thread. Errors are the system's, which has no room for one more.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    match entered() {
        None => std::thread::Builder::new().name(name.into()).spawn(body).map(Inner::Thread).map(Thread),
        Some(world) => Ok(Thread(Inner::Task(world.spawn(name, Box::new(body))))),
    }
}

impl Thread {
    /// Waits until it is over.
    pub fn join(self) -> Result<(), Panicked> {
        match self.0 {
            Inner::Thread(handle) => handle.join().map_err(|_| Panicked),
            Inner::Task(task) => {
                let world = entered().expect("a task is joined in its world");
                if world.join(task) { Err(Panicked) } else { Ok(()) }
            }
        }
    }
}

/// Sleeps so long.
pub fn sleep(time: Duration) {
    // Nobody else has this bed: the time alone ends the sleep.
    Pause::default().sleep(time);
}

/// Gives the core to others, once: for loops that look again at what another thread is about to change.
#[inline]
pub fn relax() {
    match entered() {
        None => std::thread::yield_now(),
        Some(world) => world.relax(),
    }
}
