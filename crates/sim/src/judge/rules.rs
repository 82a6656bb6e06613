//! What every family of rules is: it hears of what happened, and says what was violated.

use longarm_base::{Nanos, Term};
use longarm_host::observe::Observation;

use super::book::Book;

/// Something that happened, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    /// Of the world.
    pub time: Nanos,
    /// The machine.
    pub node: u32,
    /// The term that it leads or is about to; zero if none.
    pub term: Term,
    pub event: &'a Observation,
}

/// One family of rules.
pub(super) trait Rules {
    /// Hears of something that happened, which the book knows already. An error: what was violated.
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String>;

    /// A replica's disk was lost with its memory.
    fn reformatted(&mut self, _node: u32) {}
}
