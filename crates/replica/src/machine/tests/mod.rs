//! Tests of the machine alone, event by event (`table.rs`), faults found in it (`found.rs`), a replica that
//! rests (`rest.rs`), a replica whose disk holds no promise (`blank.rs`), elections from disks (`recall.rs`),
//! another set of replicas (`change.rs`), and groups of machines in a hostile world (`twin.rs`).

mod backoff;
mod blank;
mod change;
mod found;
mod recall;
mod table;
mod twin;

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{MemberAt, Members};

use crate::Timing;

const TIMING: Timing = Timing {
    heartbeat: Nanos::from_millis(5),
    suspect: Nanos::from_millis(15),
    promise: Nanos::from_millis(50),
    election: Nanos::from_millis(70),
};

fn member(replica: u8) -> MemberAt {
    MemberAt { replica: ReplicaId(replica), address: format!("n{replica}") }
}

/// The replicas with which a group began.
fn members(replicas: &[u8]) -> Members {
    Members {
        term: Term::ZERO,
        changed: false,
        list: replicas.iter().map(|&replica| member(replica)).collect(),
    }
}
