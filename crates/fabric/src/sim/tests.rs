//! The suite, on threads. What only the simulator can do is tested in its world (crates/sim).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::Nanos;

use super::{Landing, Sim, Weather};
use crate::Address;
use crate::conformance::Setup;

/// One network for all tests.
fn sim() -> Sim {
    static SIM: OnceLock<Sim> = OnceLock::new();
    // Shorter than the way back: the suite looks at memory locally as soon as a WRITE completes.
    let rough = Weather { spread: Nanos(900), landing: Landing::Any, loss: 50, ..Weather::FINE };
    SIM.get_or_init(|| Sim::new(rough)).clone()
}

struct OverSim;

impl Setup for OverSim {
    type Transport = Sim;
    const SUITE: &'static str = module_path!();

    fn transport() -> Sim {
        sim()
    }

    fn address() -> Address {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only the number itself matters.
        Address::Sim(format!("node{}", NUMBER.fetch_add(1, Ordering::Relaxed)))
    }
}

crate::conformance! { threads OverSim }
