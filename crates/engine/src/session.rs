//! Exactly once: the outcomes of each client's operations, kept over its reconnects (L17; LoLKV 3.5 has
//! retries run again).
//!
//! A client numbers its writes and repeats a write whose answer it did not see. The session remembers what
//! the client may repeat, of its last [`WINDOW`] completions; a repeated operation is answered from them
//! and never runs twice.
//! (1) An operation runs, and is recorded, under the mutex of its session.
//! (2) Each connection of a session has a generation, and only the newest connection runs anything. So once
//!     a client was welcomed again, no request that its old connection still carries can run, and each
//!     operation that ran is on record.
//! (3) A session is forgotten some time after its client left, or sooner if there are too many. No
//!     forgotten session wrote a version above the horizon. If a client comes whose session is unknown, and
//!     an operation that it repeats may have run below the horizon, the operation is not executed: the
//!     client is told that it is forgotten. An operation that it sends for the first time runs.
//! (4) In a group the next leader knows no horizon but its own. So what entries say of a session outlives
//!     the session for as long as its client may repeat (`may_ask`), which is shorter than (3). A client
//!     repeats no operation before the oldest one that its requests name, none that is [`OPERATIONS_AHEAD`]
//!     behind its newest one, and none for longer than sessions are kept, under whichever leaders
//!     (`session/ages.rs`). Of an operation without a record that it may not repeat, nobody knows any more
//!     whether it ran, so it does not run.
//! (5) Under its session's mutex a worker also answers how many sessions there are. So a thread never waits
//!     for a session while it has the lock of all of them: it passes over the sessions that others hold.
//! (6) What a new leader finds in entries lies there until the client comes: a group waits for its leader,
//!     and most of those clients never come back.

mod ages;
mod all;
mod found;

use longarm_base::limits::OPERATIONS_AHEAD;
use longarm_base::{Csn, Mutant, Nanos};
use longarm_wire::Status;

pub use self::ages::{ToldAges, VersionAge, aged};
pub use self::all::{SessionHello, Sessions};
pub use self::found::Restored;
use crate::outcome::Outcome;
use crate::stream::StreamPosition;

/// Completions that are remembered: more than clients may still ask for.
pub const WINDOW: usize = 2 * OPERATIONS_AHEAD as usize;
/// Room for completions at first, and the factor by which it grows: most clients write little.
const NARROW: usize = 8;
const WIDER: usize = 4;
const _: () = {
    assert!(WINDOW.is_multiple_of(NARROW) && (WINDOW / NARROW).is_multiple_of(WIDER));
    assert!(WINDOW as u64 >= OPERATIONS_AHEAD, "what a client may still ask for is remembered");
};

/// One completion.
#[derive(Clone, Copy, Debug)]
struct Completed {
    operation: u64,
    csn: Csn,
    number: i64,
    status: Status,
    /// In a group: the position that must be applied before it counts.
    at: Option<StreamPosition>,
}

const NEVER: Completed = Completed { operation: 0, csn: Csn::NONE, number: 0, status: Status::Ok, at: None };

/// What the session knows about an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recall {
    /// The session has no record of it: it may run.
    New,
    /// It ran, with this outcome; the outcome counts once the position is applied, if there is one.
    Ran(Outcome, Option<StreamPosition>),
    /// Its outcome is not known any more, if it ran.
    Forgotten,
}

/// One client's session.
#[derive(Debug, Default)]
pub struct Session {
    /// The name of the session; zero belongs to no client.
    id: u64,
    generation: u64,
    /// When its last connection ended.
    left: Nanos,
    /// Highest operation on record.
    highest: u64,
    /// The highest version that any operation got.
    csn: Csn,
    /// Operations before this one may have run, if they were sent to a forgotten session of this name.
    fresh: u64,
    /// The oldest operation that the client may repeat, as far as it said.
    oldest: u64,
    /// Indexed by operation modulo its length. It is empty at first, and grows with each operation whose
    /// place is taken by one that the client may repeat, up to [`WINDOW`].
    window: Vec<Completed>,
}

impl Session {
    /// Its name; zero for a session that is never found again.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether this generation is the newest.
    #[inline]
    pub fn admits(&self, generation: u64) -> bool {
        self.generation == generation
    }

    /// The outcome of an operation, as far as it is remembered.
    #[inline]
    pub fn recall(&self, operation: u64) -> Recall {
        if operation > self.highest || Mutant::NoDedupe.is_on() {
            return if operation < self.fresh { Recall::Forgotten } else { Recall::New };
        }
        if let Some(there) = self.at(operation).filter(|there| there.operation == operation) {
            let outcome = Outcome { status: there.status, csn: there.csn, number: there.number };
            return Recall::Ran(outcome, there.at);
        }
        // What is further behind may have run under an earlier leader: what entries said of it is not kept.
        let reached = operation >= self.fresh && self.may_ask(operation);
        if reached { Recall::New } else { Recall::Forgotten }
    }

    /// Notes the oldest operation that the client may repeat.
    #[inline]
    pub fn hear(&mut self, oldest: u64) {
        self.oldest = self.oldest.max(oldest);
    }

    /// Whether the client may still ask for this operation, by what it has sent since.
    #[inline]
    fn may_ask(&self, operation: u64) -> bool {
        self.highest < operation + OPERATIONS_AHEAD && operation >= self.oldest
    }

    /// Records an operation that ran; `at` is the position of its entry, if it wrote one.
    #[inline]
    pub fn record(&mut self, operation: u64, outcome: Outcome, at: Option<StreamPosition>) {
        while self.window.len() < WINDOW && self.is_taken(operation) {
            self.widen();
        }
        let Outcome { status, csn, number } = outcome;
        let len = self.window.len();
        self.window[operation as usize % len] = Completed { operation, csn, number, status, at };
        self.highest = self.highest.max(operation);
        self.csn = self.csn.max(csn);
    }

    /// Whether there is no place for this operation, or another is there that the client may repeat.
    #[inline]
    fn is_taken(&self, operation: u64) -> bool {
        self.at(operation).is_none_or(|there| there.operation != 0 && there.operation >= self.oldest)
    }

    /// The completion at the place of this operation.
    #[inline]
    fn at(&self, operation: u64) -> Option<&Completed> {
        let len = self.window.len().max(1);
        self.window.get(operation as usize % len)
    }

    #[cold]
    fn widen(&mut self) {
        let len = (self.window.len() * WIDER).clamp(NARROW, WINDOW);
        let before = std::mem::replace(&mut self.window, vec![NEVER; len]);
        for completed in before.into_iter().filter(|completed| completed.operation != 0) {
            self.window[completed.operation as usize % len] = completed;
        }
    }

    /// Notes that the connection of this generation is over.
    pub fn leave(&mut self, generation: u64, now: Nanos) {
        if self.generation == generation {
            self.left = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_grows_with_what_it_remembers() {
        let mut session = Session::default();
        session.record(1 << 40, Outcome::ok(Csn(1)), None);
        assert_eq!(session.window.len(), NARROW);
        for operation in 1..WINDOW as u64 {
            session.record((1 << 40) + operation * 3, Outcome::ok(Csn(operation)), None);
            let least = (1 << 40) + (operation * 3).saturating_sub(WINDOW as u64 - 1);
            for known in ((1 << 40)..=(1 << 40) + operation * 3).step_by(3).filter(|known| *known >= least) {
                assert!(matches!(session.recall(known), Recall::Ran(..)), "{known} of {operation}");
            }
        }
        assert_eq!(session.window.len(), WINDOW);
    }

    #[test]
    fn an_operation_is_recalled_until_the_window_has_passed() {
        let mut session = Session::default();
        for operation in 1..=WINDOW as u64 + 1 {
            assert_eq!(session.recall(operation), Recall::New);
            session.record(operation, Outcome::ok(Csn(operation)), None);
            assert_eq!(session.recall(operation), Recall::Ran(Outcome::ok(Csn(operation)), None));
        }
        assert_eq!(session.recall(1), Recall::Forgotten);
        assert_eq!(session.recall(2), Recall::Ran(Outcome::ok(Csn(2)), None));
        session.record(WINDOW as u64 + 10, Outcome::ok(Csn(5)), None);
        assert_eq!(session.recall(WINDOW as u64 + 5), Recall::New, "one that never came");
    }
}
