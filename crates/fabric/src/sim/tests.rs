//! The suite, on threads. What only the simulator can do is tested in its world (crates/sim).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::Nanos;
use longarm_memory::Words;

use super::{Landing, Sim, Weather};
use crate::conformance::Setup;
use crate::conformance::harness::{ALL, TestServer, take};
use crate::{Address, Completion, Op, QueuePair, Ticket};

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

/// Bytes land long after their WRITE was acknowledged.
struct Late;

impl Setup for Late {
    type Transport = Sim;
    const SUITE: &'static str = module_path!();

    fn transport() -> Sim {
        static SIM: OnceLock<Sim> = OnceLock::new();
        let late = Weather { spread: Nanos::from_millis(10_000), landing: Landing::Any, ..Weather::FINE };
        SIM.get_or_init(|| Sim::new(late)).clone()
    }

    fn address() -> Address {
        OverSim::address()
    }
}

/// Found by the judge of a group: a replica was counted for an entry, was fenced, and did not have it.
#[test]
fn what_was_acknowledged_is_there_after_revoke() {
    let mut server = TestServer::<Late>::new();
    let all = server.memory.all.memory().clone();
    for i in 1..=8 {
        let (mut ours, mut theirs, _) = server.connection();
        theirs.post(Op::Write { region: ALL, offset: 0, bytes: &[i; 512] }, Ticket(1)).expect("room");
        theirs.ring();
        assert_eq!(take(&mut theirs, 1), [Completion::Done(Ticket(1), Ok(0))]);
        ours.revoke().expect("revoke");
        let mut there = [0; 512];
        all.copy_out(0, &mut there);
        assert_eq!(there, [i; 512]);
    }
}
