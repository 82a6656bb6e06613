//! Traps, which strike a replica at a point of what it does rather than at a time.

use longarm_host::observe::Observation;

use crate::faults::Fault;
use crate::points::Point;

/// A trap that is set.
#[derive(Clone, Debug)]
struct Trap {
    fault: Fault,
    point: Point,
    /// How many replicas pass before it springs.
    passes: u32,
}

/// The traps of a run.
#[derive(Debug, Default)]
pub(crate) struct Traps {
    set: Vec<Trap>,
    /// The fault of the trap that sprang, until the run takes it.
    sprung: Option<Fault>,
}

impl Traps {
    /// Sets a trap. It springs on the next replica that comes to the point after so many passes.
    pub fn set(&mut self, fault: Fault, point: Point, passes: u32) {
        self.set.push(Trap { fault, point, passes });
    }

    /// Whether a trap springs on the replica of this event.
    pub fn hear(&mut self, event: &Observation) -> bool {
        let Some(point) = Point::of(event).filter(|_| self.sprung.is_none()) else { return false };
        let Some(at) = self.set.iter().position(|trap| trap.point == point) else { return false };
        if self.set[at].passes > 0 {
            self.set[at].passes -= 1;
            return false;
        }
        self.sprung = Some(self.set.swap_remove(at).fault);
        true
    }

    /// Takes the fault of the trap that sprang.
    pub fn take(&mut self) -> Option<Fault> {
        self.sprung.take()
    }

    /// Removes all traps that are set.
    pub fn clear(&mut self) {
        self.set.clear();
    }
}

#[test]
fn a_trap_springs_once_on_the_one_after_those_it_lets_pass() {
    use longarm_base::Nanos;
    use longarm_host::observe::ReplicaStep;

    use crate::points::Blow;

    let what = crate::faults::What::Trap {
        point: Point::Step(ReplicaStep::Joined),
        passes: 1,
        blow: Blow::Pause(Nanos(7)),
    };
    let fault = Fault { at: Nanos(0), what };
    let (joined, table) = (
        Observation::Reached { step: ReplicaStep::Joined },
        Observation::Reached { step: ReplicaStep::Table },
    );
    let mut traps = Traps::default();
    traps.set(fault.clone(), Point::Step(ReplicaStep::Joined), 1);
    assert!(!traps.hear(&joined) && !traps.hear(&table));
    assert!(traps.hear(&joined));
    assert_eq!(traps.take(), Some(fault));
    assert!(!traps.hear(&joined) && traps.take().is_none());
}
