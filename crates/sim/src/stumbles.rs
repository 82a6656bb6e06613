//! Where clients scan: workers lose their cores for a moment between a commit and its application. A page of
//! a scan rests on words of the leader that are stored at these places (decision 30).

use longarm_base::Nanos;
use longarm_base::random::SplitMix64;
use longarm_host::observe::{Observation, ReplicaStep};

/// A worker loses its core at one of so many of these steps, for less than two to less than this power
/// nanoseconds.
const STUMBLES: u64 = 8;
const LONGEST: u64 = 18;

/// Draws when, and for how long.
#[derive(Debug)]
pub(crate) struct Stumbles(SplitMix64);

impl Stumbles {
    /// Those of a seed.
    pub fn new(seed: u64) -> Stumbles {
        Stumbles(SplitMix64::new(seed))
    }

    /// For how long the worker of this event loses its core, if it does: briefly as often as for long.
    pub fn draw(&mut self, event: &Observation) -> Option<Nanos> {
        let Observation::Reached { step: ReplicaStep::Committed | ReplicaStep::Showing } = event else {
            return None;
        };
        let Stumbles(chance) = self;
        if !chance.once_in(STUMBLES) {
            return None;
        }
        let most = 1 << chance.below(LONGEST);
        Some(Nanos(chance.below(most)))
    }
}
