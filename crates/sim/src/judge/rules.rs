//! The interface of a family of rules, which hears of events and says what was violated.

use longarm_base::{Nanos, Term};
use longarm_host::observe::Observation;

use super::book::Book;

/// An event, and where it happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    /// The time of the world.
    pub time: Nanos,
    /// The machine.
    pub node: u32,
    /// The term that the machine leads or is about to lead; zero if none.
    pub term: Term,
    pub event: &'a Observation,
}

/// A family of rules.
pub(super) trait Rules {
    /// Hears of an event, which the book knows already. An error says what was violated.
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String>;

    /// Notes that a replica's disk was lost with its memory.
    fn reformatted(&mut self, _node: u32) {}

    /// Notes that bytes on disks may have changed by themselves.
    fn rotted(&mut self) {}
}
