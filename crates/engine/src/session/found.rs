//! What entries of earlier terms say of operations.

use std::collections::BTreeMap;

use longarm_base::{Csn, Nanos};

use super::{Session, WINDOW};
use crate::outcome::Outcome;

/// What entries say of operations, collected while they are read in any order.
#[derive(Debug, Default)]
pub struct Restored {
    pub(super) sessions: BTreeMap<u64, Recent>,
    /// Nobody asks for the outcomes of versions up to this one any more.
    aged: Csn,
}

/// The last operations of a session.
#[derive(Debug, Default)]
pub(super) struct Recent {
    pub highest: u64,
    /// The highest version that any of them got.
    pub csn: Csn,
    /// In no order; some are here twice, and some are older than a session remembers.
    completed: Vec<(u64, Outcome)>,
}

impl Recent {
    /// The session of a client that comes. It counts as having left when that was found.
    pub fn wake(self, id: u64, left: Nanos) -> Session {
        let mut session = Session { id, left, ..Session::default() };
        for (operation, outcome) in self.completed {
            if operation + WINDOW as u64 > session.highest {
                session.record(operation, outcome, None);
            }
        }
        session
    }
}

impl Restored {
    /// Notes the outcome of an operation of a session.
    pub fn note(&mut self, id: u64, operation: u64, outcome: Outcome) {
        if outcome.csn <= self.aged {
            return;
        }
        let recent = self.sessions.entry(id).or_default();
        if operation + WINDOW as u64 <= recent.highest {
            return;
        }
        recent.highest = recent.highest.max(operation);
        recent.csn = recent.csn.max(outcome.csn);
        recent.completed.push((operation, outcome));
        if recent.completed.len() >= 4 * WINDOW {
            let oldest = recent.highest.saturating_sub(WINDOW as u64 - 1);
            recent.completed.retain(|(operation, _)| *operation >= oldest);
            // Copies of an entry say the same.
            recent.completed.sort_unstable_by_key(|(operation, _)| *operation);
            recent.completed.dedup_by_key(|(operation, _)| *operation);
        }
    }

    /// Forgets the sessions that wrote nothing after this version, as nobody asks for their outcomes any
    /// more. Most items were written by such sessions.
    pub fn forget_aged(&mut self, aged: Csn) {
        if aged > self.aged {
            self.aged = aged;
            self.sessions.retain(|_, recent| recent.csn > aged);
        }
    }

    /// Takes over what another part has collected.
    pub fn take(&mut self, other: Restored) {
        for (id, recent) in other.sessions {
            recent.completed.into_iter().for_each(|(operation, outcome)| self.note(id, operation, outcome));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_aged_is_forgotten_and_not_noted_again() {
        let mut restored = Restored::default();
        for (id, operation, csn) in [(1, 1, 5), (2, 1, 6), (2, 2, 9), (3, 1, 8)] {
            restored.note(id, operation, Outcome::ok(Csn(csn)));
        }
        restored.forget_aged(Csn(8));
        restored.forget_aged(Csn(4));
        // Copies of entries that were moved are seen later.
        for (id, operation, csn) in [(1, 1, 5), (3, 1, 8), (4, 1, 10)] {
            restored.note(id, operation, Outcome::ok(Csn(csn)));
        }
        assert_eq!(restored.sessions.keys().copied().collect::<Vec<_>>(), [2, 4]);
        assert_eq!(restored.sessions[&2].completed.len(), 2, "all of one who may still ask");
    }
}
