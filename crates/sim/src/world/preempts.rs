//! Which tasks of a world lose their cores to others, and for how long.

use longarm_base::Nanos;
use longarm_base::random::SplitMix64;

/// A task loses its core at one look of so many at the clock, for less than two to less than this power
/// nanoseconds.
const PREEMPTS: u64 = 2_000;
const PREEMPTED: u64 = 27;

/// Draws them.
#[derive(Debug)]
pub struct Preempts(SplitMix64);

impl Preempts {
    /// Those of a seed.
    pub fn new(seed: u64) -> Preempts {
        Preempts(SplitMix64::new(seed))
    }

    /// For how long the task that looks at the clock now loses its core, if it does: briefly as often as for
    /// long.
    pub fn draw(&mut self) -> Option<Nanos> {
        let Preempts(chance) = self;
        if !chance.once_in(PREEMPTS) {
            return None;
        }
        let most = 1 << chance.below(PREEMPTED);
        Some(Nanos(chance.below(most)))
    }
}
