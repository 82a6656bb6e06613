//! Traps, which strike a replica at a point of what it does rather than at a time.

use longarm_host::observe::Observation;

use crate::faults::{Fault, What};
use crate::points::{Blow, Point};
use crate::world::Witnessed;

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

    /// What becomes of the replica of this event, if a trap springs.
    pub fn hear(&mut self, event: &Observation) -> Witnessed {
        let Some(point) = Point::of(event).filter(|_| self.sprung.is_none()) else {
            return Witnessed::GoesOn;
        };
        let Some(at) = self.set.iter().position(|trap| trap.point == point) else { return Witnessed::GoesOn };
        if self.set[at].passes > 0 {
            self.set[at].passes -= 1;
            return Witnessed::GoesOn;
        }
        let fault = self.set.swap_remove(at).fault;
        if let What::Trap { blow: Blow::Stall(time), .. } = fault.what {
            return Witnessed::Stalls(time);
        }
        self.sprung = Some(fault);
        Witnessed::Halts
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

    let fault = |blow| {
        let what = What::Trap { point: Point::Step(ReplicaStep::Joined), passes: 1, blow };
        Fault { at: Nanos(0), what }
    };
    let (pause, stall) = (fault(Blow::Pause(Nanos(7))), fault(Blow::Stall(Nanos(9))));
    let (joined, table) = (
        Observation::Reached { step: ReplicaStep::Joined },
        Observation::Reached { step: ReplicaStep::Table },
    );
    let mut traps = Traps::default();
    traps.set(pause.clone(), Point::Step(ReplicaStep::Joined), 1);
    assert_eq!([&joined, &table].map(|event| traps.hear(event)), [Witnessed::GoesOn; 2]);
    assert_eq!(traps.hear(&joined), Witnessed::Halts);
    assert_eq!(traps.take(), Some(pause));
    assert_eq!((traps.hear(&joined), traps.take()), (Witnessed::GoesOn, None));
    traps.set(stall, Point::Step(ReplicaStep::Joined), 0);
    assert_eq!((traps.hear(&joined), traps.take()), (Witnessed::Stalls(Nanos(9)), None));
}
