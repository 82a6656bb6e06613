//! Where a background thread sleeps: until its time is over, somebody pokes it, or it is told to stop.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

#[derive(Debug, Default)]
struct State {
    stop: bool,
    poked: bool,
}

/// One sleeper's bed. A poke while it is awake makes its next sleep short.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    state: Mutex<State>,
    changed: Condvar,
}

impl Pause {
    /// Sleeps at most so long; `false` once it was told to stop.
    pub fn sleep(&self, time: Duration) -> bool {
        let state = self.state.lock().expect("nobody panics with the bed made");
        let quiet = |state: &mut State| !state.stop && !state.poked;
        let (mut state, _) =
            self.changed.wait_timeout_while(state, time, quiet).expect("nobody panics with the bed made");
        state.poked = false;
        !state.stop
    }

    /// Wakes the sleeper.
    pub fn poke(&self) {
        self.state.lock().expect("nobody panics with the bed made").poked = true;
        self.changed.notify_all();
    }

    /// Wakes the sleeper for good.
    pub fn stop(&self) {
        self.state.lock().expect("nobody panics with the bed made").stop = true;
        self.changed.notify_all();
    }

    /// Whether it was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.state.lock().expect("nobody panics with the bed made").stop
    }
}
