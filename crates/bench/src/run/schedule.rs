//! When the operations of an open loop are due, and how a client waits for that moment.

use std::time::Duration;

use super::client::Window;
use super::pause;
use crate::plan::Pace;
use crate::random::Random;

/// The kernel wakes a sleeper this much late at most on an idle machine (timer slack is 50 us); the rest of a
/// wait is spent looking at the clock.
const WAKE_EARLY: u64 = 120_000;

/// Due times of one client.
pub struct Schedule {
    next: f64,
    /// Mean distance in nanoseconds.
    mean: f64,
    random: Option<Random>,
}

impl Schedule {
    /// The due times of client `client` of `clients`, from zero; `None` for a closed loop. At a fixed rate
    /// the clients take turns.
    pub fn new(pace: Pace, client: usize, clients: usize, seed: u64) -> Option<Schedule> {
        let mean = 1e9 * clients as f64 / pace.rate()?;
        let mut schedule = match pace {
            Pace::Poisson(_) => {
                let random = Random::new(seed ^ 0x5343_4845_4455_4C45, client as u64);
                Schedule { next: 0.0, mean, random: Some(random) }
            }
            _ => Schedule { next: mean * client as f64 / clients as f64, mean, random: None },
        };
        if schedule.random.is_some() {
            schedule.advance();
        }
        Some(schedule)
    }

    /// When the next operation is due, in nanoseconds since the origin of the run.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next as u64
    }

    /// Goes on to the one after it.
    #[inline]
    pub fn advance(&mut self) {
        self.next += match &mut self.random {
            None => self.mean,
            // 1 - u is in (0, 1], so the logarithm is finite.
            Some(random) => -self.mean * (1.0 - random.unit()).ln(),
        };
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
