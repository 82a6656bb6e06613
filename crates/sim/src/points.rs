//! The points in what a replica does at which a trap may strike it, and the blows.

use longarm_base::Nanos;
use longarm_base::random::SplitMix64;
use longarm_host::observe::{Observation, ReplicaStep};

/// A point at which a replica may be struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A step that has a name of its own.
    Step(ReplicaStep),
    /// A promise is on disk.
    Promised,
    /// No WRITE of an older term's leader lands at the replica any more.
    Fenced,
    /// The replica reported what it holds.
    Reported,
    /// The candidate begins to install a start set.
    Installing,
    /// The replica holds a term's start set.
    Adopted,
    /// The leader begins to serve.
    Served,
    /// The leader gives up the promises it holds, because another replica is to lead.
    HandedOver,
    /// The leader leads no more.
    SteppedDown,
    /// The replica has another set of replicas on its disk.
    Kept,
    /// Another set of replicas is agreed on.
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

/// Fewer replicas than this pass a trap at a step that threads take all the time before it springs.
const TURNS: u64 = 400;
/// Fewer pass another trap.
const PASSES: u64 = 6;

impl Point {
    /// Draws a point at which a thread may lose its core, and how many pass it before one does.
    pub fn draw_stall(chance: &mut SplitMix64) -> (Point, u32) {
        let at = chance.below(2 * ReplicaStep::TURNS.len() as u64) as usize;
        match ReplicaStep::TURNS.get(at) {
            Some(step) => (Point::Step(*step), chance.below(TURNS) as u32),
            None => Point::draw_trap(chance),
        }
    }

    /// Draws a point at which a replica is struck, and how many pass it before one is.
    pub fn draw_trap(chance: &mut SplitMix64) -> (Point, u32) {
        (Point::draw(chance), chance.below(PASSES) as u32)
    }

    /// Draws any point, but for those that threads pass all the time.
    fn draw(chance: &mut SplitMix64) -> Point {
        let at = chance.below((OTHERS.len() + ReplicaStep::ALL.len()) as u64) as usize;
        OTHERS.get(at).copied().unwrap_or_else(|| Point::Step(ReplicaStep::ALL[at - OTHERS.len()]))
    }

    /// The point at which an event happens, if it happens at one.
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

/// What becomes of the replica that comes to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// The replica loses its memory and is down for so long, unless as many replicas have lost theirs as a
    /// group can bear.
    Crash(Nanos),
    /// The replica's CPUs stand still for so long.
    Pause(Nanos),
    /// The server's CPUs stand still, and then it loses its power: readers see meanwhile what may be lost.
    Fail {
        /// How long until then.
        within: Nanos,
        /// How long it is down.
        time: Nanos,
    },
    /// The thread that comes to the point loses its core for so long; the replica's other threads go on.
    Stall(Nanos),
}
