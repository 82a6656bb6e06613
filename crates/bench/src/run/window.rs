//! When a run measures, and how a client waits for a moment of it.

use std::time::{Duration, Instant};

use crate::pause::pause;

/// The kernel wakes a sleeper this much late at most on an idle machine (timer slack is 50 us); the rest of a
/// wait is spent looking at the clock.
const WAKE_EARLY: u64 = 120_000;

/// When a run measures, in nanoseconds since `origin`.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Zero of the run's clock.
    pub origin: Instant,
    /// End of the warm-up.
    pub start: u64,
    /// End of the measurement.
    pub stop: u64,
    /// How long an open loop may go on to answer what was due before `stop`.
    pub grace: u64,
}

impl Window {
    /// Nanoseconds since `origin`.
    #[inline]
    pub fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}

/// Waits until `due` and returns the time then, which is later where the client is behind.
pub fn wait_until(window: &Window, due: u64) -> u64 {
    loop {
        let now = window.now();
        if now >= due {
            return now;
        }
        match due - now {
            left if left > 2 * WAKE_EARLY => pause(Duration::from_nanos(left - WAKE_EARLY)),
            // The server may need this core to answer others.
            _ => std::thread::yield_now(),
        }
    }
}
