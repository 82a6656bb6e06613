//! The machine alone, event by event (`table.rs`), what was found in it (`found.rs`), one that rests
//! (`rest.rs`), one whose disk says nothing (`blank.rs`), another set of replicas (`change.rs`), and groups
//! of machines in a world that is against them (`twin.rs`).

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

/// Those that a group began with.
fn members(nodes: &[u8]) -> Members {
    Members { term: Term::ZERO, changed: false, list: nodes.iter().map(|&node| member(node)).collect() }
}
