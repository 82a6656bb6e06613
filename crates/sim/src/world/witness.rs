//! The witness of a world: who is told what its tasks do, and says how they go on.

use std::rc::Rc;

use longarm_base::Nanos;
use longarm_host::observe::Observation;

/// A function that is told each event: when, on which machine, and what. It says how the task goes on.
pub type Witness = Rc<dyn Fn(Nanos, u32, &Observation) -> Witnessed>;

/// How the task goes on that told an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Witnessed {
    /// At once.
    GoesOn,
    /// The world stops before anything else happens, so that the run can decide what becomes of the machine.
    Halts,
    /// After so long; other tasks of its machine go on meanwhile.
    Stalls(Nanos),
}
