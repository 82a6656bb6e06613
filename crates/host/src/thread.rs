//! Threads, and waiting without an event.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::pause::Pause;
use crate::world::entered;

/// A thread that was started, or a task of the world.
#[derive(Debug)]
pub struct Thread(ThreadKind);

#[derive(Debug)]
enum ThreadKind {
    Thread(JoinHandle<()>),
    Task(u64),
}

/// A thread ended in a panic: a broken invariant, reported where it happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Panicked;

/// Starts a thread. An error is the system's, which has no room for one more thread.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    match entered() {
        None => std::thread::Builder::new().name(name.into()).spawn(body).map(ThreadKind::Thread).map(Thread),
        Some(world) => Ok(Thread(ThreadKind::Task(world.spawn(name, Box::new(body))))),
    }
}

/// The bound on the wait for a thread's end. Work that takes long has bounds of its own, far below.
const END: Duration = Duration::from_secs(60);

impl Thread {
    /// Whether the thread is over, so that to join it takes no time.
    pub fn is_over(&self) -> bool {
        match &self.0 {
            ThreadKind::Thread(handle) => handle.is_finished(),
            ThreadKind::Task(task) => entered().is_none_or(|world| world.is_over(*task)),
        }
    }

    /// Waits until the thread is over.
    ///
    /// # Panics
    /// If it does not end within a minute: it stands still, and its waiter would, too.
    pub fn join(self) -> Result<(), Panicked> {
        match self.0 {
            ThreadKind::Thread(handle) => {
                await_end(&handle, END);
                handle.join().map_err(|_| Panicked)
            }
            ThreadKind::Task(task) => {
                let world = entered().expect("a task is joined in its world");
                if world.join(task) { Err(Panicked) } else { Ok(()) }
            }
        }
    }
}

/// # Panics
/// If the thread does not end within that time.
fn await_end(thread: &JoinHandle<()>, within: Duration) {
    let (begun, mut pause) = (Instant::now(), Duration::from_micros(10));
    while !thread.is_finished() {
        let name = thread.thread().name().unwrap_or("without a name");
        assert!(begun.elapsed() < within, "thread {name} has not ended within {within:?}");
        sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(1));
    }
}

/// Runs `body` on so many threads at once, and returns when all are done. `body` gets the number of its
/// thread. No thread may wait for another: in a world one runs after the other. A panic of one of them is
/// passed on.
pub fn at_once(threads: usize, body: impl Fn(usize) + Sync) {
    if entered().is_some() || threads <= 1 {
        return (0..threads).for_each(body);
    }
    std::thread::scope(|scope| {
        let body = &body;
        let others: Vec<_> = (1..threads).map(|number| scope.spawn(move || body(number))).collect();
        body(0);
        for other in others {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// Sleeps for so long.
pub fn sleep(time: Duration) {
    // No other thread has this bed, so only the time ends the sleep.
    Pause::default().sleep(time);
}

/// Lets the time pass that a core needs for so much data. On a machine the work itself took the time. In a
/// world, where the work of a task takes no time, the time passes now.
pub fn spend(time: Duration) {
    if entered().is_some() {
        sleep(time);
    }
}

/// Gives the core to other threads, once: for loops that look again at what another thread is about to
/// change.
#[inline]
pub fn relax() {
    match entered() {
        None => std::thread::yield_now(),
        Some(world) => world.relax(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_stands_still_is_not_waited_for_for_ever() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let still =
            std::thread::Builder::new().name("still".into()).spawn(move || receiver.recv().unwrap_or(()));
        let still = still.expect("a thread");
        let wait = std::panic::AssertUnwindSafe(|| await_end(&still, Duration::from_millis(20)));
        let waited = std::panic::catch_unwind(wait);
        let said = waited.expect_err("it did not end").downcast::<String>().expect("a message");
        assert!(said.contains("thread still has not ended within 20ms"), "{said}");
        drop(sender);
        await_end(&still, Duration::from_secs(20));
        Thread(ThreadKind::Thread(still)).join().expect("it ended well");
    }
}
