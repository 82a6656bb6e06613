//! The sleep of a thread: it ends with its time, by a poke, or by a stop.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use longarm_base::Nanos;

use crate::now;
use crate::world::{World, entered};

#[derive(Debug, Default)]
struct PauseState {
    stop: bool,
    poked: bool,
}

impl PauseState {
    fn quiet(&mut self) -> bool {
        !self.stop && !self.poked
    }
}

/// The bed of one sleeper. A poke while it is awake makes its next sleep short.
#[derive(Debug, Default)]
pub struct Pause {
    state: Mutex<PauseState>,
    changed: Condvar,
}

impl Pause {
    /// Sleeps at most so long; `false` once the sleeper was told to stop.
    pub fn sleep(&self, time: Duration) -> bool {
        self.sleep_unless_poked(time);
        !self.is_stopped()
    }

    /// Sleeps at most so long; returns whether the sleeper was poked, or told to stop.
    pub fn sleep_unless_poked(&self, time: Duration) -> bool {
        let mut state = match entered() {
            None => {
                let slept = self.changed.wait_timeout_while(self.lock(), time, PauseState::quiet);
                slept.expect("nobody panics with the bed made").0
            }
            Some(world) => self.park(&*world, time),
        };
        std::mem::take(&mut state.poked) || state.stop
    }

    /// Waits for a result of `look`, which looks first and after every poke; `None` when the time is over, or
    /// once the sleeper was told to stop.
    pub fn wait_for<R>(&self, until: Nanos, mut look: impl FnMut() -> Option<R>) -> Option<R> {
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            // A poke after the look makes the sleep short.
            let left = until.since(now());
            if left == Nanos(0) || !self.sleep(Duration::from_nanos(left.0)) {
                return None;
            }
        }
    }

    /// Parks in the world, which may wake the task without a reason.
    fn park(&self, world: &dyn World, time: Duration) -> MutexGuard<'_, PauseState> {
        let until = world.now() + Nanos(time.as_nanos() as u64);
        // A look at the clock lets other tasks continue, which may poke. No task runs between the last look
        // at the state and the park.
        while world.now() < until && self.lock().quiet() && world.park(self.bed(), until) {}
        self.lock()
    }

    /// Wakes the sleeper.
    pub fn poke(&self) {
        self.lock().poked = true;
        self.wake();
    }

    /// Tells the sleeper to stop, and wakes it for good.
    pub fn stop(&self) {
        self.lock().stop = true;
        self.wake();
    }

    /// Whether it was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.lock().stop
    }

    fn wake(&self) {
        match entered() {
            None => self.changed.notify_all(),
            Some(world) => world.unpark(self.bed()),
        }
    }

    /// A number that no other bed has while this one exists.
    fn bed(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn lock(&self) -> MutexGuard<'_, PauseState> {
        self.state.lock().expect("nobody panics with the bed made")
    }
}
