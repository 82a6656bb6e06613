//! A simulated world, in which time passes when the world says so.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use longarm_base::{Nanos, UnixMillis};

use crate::event::Observation;

/// The services that a simulated world offers to the task that runs in it. All of it belongs to one thread; a
/// call that waits lets other tasks run.
pub trait World {
    /// The monotonic clock of the running task's machine.
    fn now(&self) -> Nanos;

    /// That machine's calendar.
    fn unix(&self) -> UnixMillis;

    /// Starts a task on the same machine; returns its number.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce()>) -> u64;

    /// Waits until a task is over; returns whether it panicked.
    fn join(&self, task: u64) -> bool;

    /// Whether a task is over.
    fn is_over(&self, task: u64) -> bool;

    /// Lets the running task sleep until `bed` is poked or the time, on its machine's clock, is over. Returns
    /// `false` at once if nothing may wait any more: while the tasks of a crashed machine are dropped.
    fn park(&self, bed: usize, until: Nanos) -> bool;

    /// Wakes the tasks that are parked in `bed`.
    fn unpark(&self, bed: usize);

    /// Lets other tasks continue, since the running task looks at something again and again.
    fn relax(&self);

    /// A random word, of the seed.
    fn draw(&self) -> u64;

    /// The machine of the running task.
    fn machine(&self) -> u32;

    /// The number of cores of that machine. The machines of a world must not depend on the cores of the
    /// simulating machine, or a seed would be another run elsewhere.
    fn cores(&self) -> usize {
        1
    }

    /// The world's own time, which no machine knows, for the parts of the world between machines.
    fn time(&self) -> Nanos;

    /// Has the world do, at this time or now if it is past, something that is no task's: a NIC works.
    fn at(&self, time: Nanos, event: Box<dyn FnOnce()>);

    /// Observes a step, on the machine of the running task unless the event says otherwise.
    fn observe(&self, event: Observation) {
        let _ = event;
    }
}

thread_local! {
    /// Whether `WORLD` holds a world: an ordinary thread looks at nothing else.
    static ENTERED: Cell<bool> = const { Cell::new(false) };
    static WORLD: RefCell<Option<Rc<dyn World>>> = const { RefCell::new(None) };
}

/// Runs `body` in `world`. The thread is ordinary again when this returns or panics.
pub fn enter<R>(world: Rc<dyn World>, body: impl FnOnce() -> R) -> R {
    struct Leave(Option<Rc<dyn World>>);
    impl Drop for Leave {
        fn drop(&mut self) {
            ENTERED.set(self.0.is_some());
            WORLD.replace(self.0.take());
        }
    }
    let _leave = Leave(WORLD.replace(Some(world)));
    ENTERED.set(true);
    body()
}

/// The world that this thread has entered, if any.
#[inline(always)]
pub fn entered() -> Option<Rc<dyn World>> {
    if ENTERED.get() { world() } else { None }
}

#[cold]
fn world() -> Option<Rc<dyn World>> {
    WORLD.with_borrow(Clone::clone)
}

/// Whether this thread has entered a world.
pub fn is_simulated() -> bool {
    ENTERED.get()
}
