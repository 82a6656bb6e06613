//! When the operations of an open loop are due.

use longarm_base::random::SplitMix64;
use longarm_workload::random::{stream, unit};

use crate::plan::Pace;

/// Due times of one client.
pub struct Schedule {
    next: f64,
    /// Mean distance in nanoseconds.
    mean: f64,
    random: Option<SplitMix64>,
}

impl Schedule {
    /// The due times of client `client` of `clients`, from zero; `None` for a closed loop. At a fixed rate
    /// the clients take turns.
    pub fn new(pace: Pace, client: usize, clients: usize, seed: u64) -> Option<Schedule> {
        let mean = 1e9 * clients as f64 / pace.rate()?;
        let mut schedule = match pace {
            Pace::Poisson(_) => {
                let random = stream(seed ^ 0x5343_4845_4455_4C45, client as u64);
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
            Some(random) => -self.mean * (1.0 - unit(random)).ln(),
        };
    }
}
