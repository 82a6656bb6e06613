//! Traps: what strikes a replica at a step of what it does, rather than at some time.

use longarm_base::Nanos;
use longarm_host::observe::{Event, Step};

use crate::faults::Fault;
use crate::world::Chance;

/// Where a replica may be struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A step that has a name of its own.
    Step(Step),
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
    pub fn draw(chance: &mut Chance) -> Point {
        let at = chance.below((OTHERS.len() + Step::ALL.len()) as u64) as usize;
        OTHERS.get(at).copied().unwrap_or_else(|| Point::Step(Step::ALL[at - OTHERS.len()]))
    }

    /// Where an event is, if it is anywhere.
    fn of(event: &Event) -> Option<Point> {
        Some(match event {
            Event::Reached { step } => Point::Step(*step),
            Event::Promised { .. } => Point::Promised,
            Event::Fenced { .. } => Point::Fenced,
            Event::Reported { .. } => Point::Reported,
            Event::Installing { .. } => Point::Installing,
            Event::Adopted { .. } => Point::Adopted,
            Event::Served { .. } => Point::Served,
            Event::HandedOver { .. } => Point::HandedOver,
            Event::SteppedDown { .. } => Point::SteppedDown,
            Event::Kept { .. } => Point::Kept,
            Event::Agreed { .. } => Point::Agreed,
            Event::Told { .. } => Point::Told,
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

/// A trap that is set.
#[derive(Clone, Debug)]
struct Trap {
    fault: Fault,
    point: Point,
    /// How many come by before it springs.
    passes: u32,
}

/// The traps of a run.
#[derive(Debug, Default)]
pub(crate) struct Traps {
    set: Vec<Trap>,
    /// What sprang, until somebody takes it.
    sprung: Option<Fault>,
}

impl Traps {
    /// One more; it springs on whoever is the next there, after so many others.
    pub fn set(&mut self, fault: Fault, point: Point, passes: u32) {
        self.set.push(Trap { fault, point, passes });
    }

    /// Whether a trap springs on whom this event is of.
    pub fn hear(&mut self, event: &Event) -> bool {
        let Some(point) = Point::of(event).filter(|_| self.sprung.is_none()) else { return false };
        let Some(at) = self.set.iter().position(|trap| trap.point == point) else { return false };
        if self.set[at].passes > 0 {
            self.set[at].passes -= 1;
            return false;
        }
        self.sprung = Some(self.set.swap_remove(at).fault);
        true
    }

    /// What sprang.
    pub fn take(&mut self) -> Option<Fault> {
        self.sprung.take()
    }

    /// None is set any more.
    pub fn clear(&mut self) {
        self.set.clear();
    }
}

#[test]
fn a_trap_springs_once_on_the_one_after_those_it_lets_pass() {
    let what = crate::faults::What::Trap {
        point: Point::Step(Step::Joined),
        passes: 1,
        blow: Blow::Pause(Nanos(7)),
    };
    let fault = Fault { at: Nanos(0), what };
    let (joined, table) = (Event::Reached { step: Step::Joined }, Event::Reached { step: Step::Table });
    let mut traps = Traps::default();
    traps.set(fault.clone(), Point::Step(Step::Joined), 1);
    assert!(!traps.hear(&joined) && !traps.hear(&table));
    assert!(traps.hear(&joined));
    assert_eq!(traps.take(), Some(fault));
    assert!(!traps.hear(&joined) && traps.take().is_none());
}
