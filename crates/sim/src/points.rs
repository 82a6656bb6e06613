//! The points of what a replica does at which it may be struck, and with what.

use longarm_base::Nanos;
use longarm_base::random::SplitMix64;
use longarm_host::observe::{Observation, ReplicaStep};

/// Where a replica may be struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A step that has a name of its own.
    Step(ReplicaStep),
    /// A promise is on disk.
    Promised,
    /// Nothing of older terms lands any more.
    Fenced,
    /// It said what it holds.
    Reported,
    /// It begins to make a start set its own.
    Installing,
    /// It holds a term's start set.
    Adopted,
    /// It begins to serve.
    Served,
    /// It takes back what it was promised: another is to lead.
    HandedOver,
    /// It leads no more.
    SteppedDown,
    /// Another set of replicas is on its disk.
    Kept,
    /// Other replicas are agreed on.
    Agreed,
    /// A follower was told how many segments are free.
    Told,
}

/// The points that have no name as a step.
const OTHERS: [Point; 11] = [
    Point::Promised,
    Point::Fenced,
    Point::Reported,
    Point::Installing,
    Point::Adopted,
    Point::Served,
    Point::HandedOver,
    Point::SteppedDown,
    Point::Kept,
    Point::Agreed,
    Point::Told,
];

impl Point {
    /// Any of them.
    pub fn draw(chance: &mut SplitMix64) -> Point {
        let at = chance.below((OTHERS.len() + ReplicaStep::ALL.len()) as u64) as usize;
        OTHERS.get(at).copied().unwrap_or_else(|| Point::Step(ReplicaStep::ALL[at - OTHERS.len()]))
    }

    /// Where an event is, if it is anywhere.
    pub(crate) fn of(event: &Observation) -> Option<Point> {
        Some(match event {
            Observation::Reached { step } => Point::Step(*step),
            Observation::Promised { .. } => Point::Promised,
            Observation::Fenced { .. } => Point::Fenced,
            Observation::Reported { .. } => Point::Reported,
            Observation::Installing { .. } => Point::Installing,
            Observation::Adopted { .. } => Point::Adopted,
            Observation::Served { .. } => Point::Served,
            Observation::HandedOver { .. } => Point::HandedOver,
            Observation::SteppedDown { .. } => Point::SteppedDown,
            Observation::Kept { .. } => Point::Kept,
            Observation::Agreed { .. } => Point::Agreed,
            Observation::Told { .. } => Point::Told,
            _ => return None,
        })
    }
}

/// What becomes of whoever comes to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// It loses its memory, and is down for so long; unless as many have as a group can bear.
    Crash(Nanos),
    /// Its CPUs stand still for so long.
    Pause(Nanos),
}
