//! Tests of the machine alone, event by event (`table.rs`), faults found in it (`found.rs`), a replica that
//! rests (`rest.rs`), a replica whose disk holds no promise (`blank.rs`), another set of replicas
//! (`change.rs`), and groups of machines in a hostile world (`twin.rs`).

mod backoff;
mod blank;
mod change;
mod found;
mod table;
mod twin;

use longarm_base::{NodeId, Term};
use longarm_wire::{MemberAt, Members};

fn member(node: u8) -> MemberAt {
    MemberAt { node: NodeId(node), address: format!("n{node}") }
}

/// The replicas with which a group began.
fn members(nodes: &[u8]) -> Members {
    Members { term: Term::ZERO, changed: false, list: nodes.iter().map(|&node| member(node)).collect() }
}
