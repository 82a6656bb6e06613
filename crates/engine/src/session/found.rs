//! What entries of earlier terms say of operations.

use std::collections::BTreeMap;

use longarm_base::{Csn, Nanos};

use super::{Session, WINDOW};
use crate::outcome::Outcome;

/// What entries say of operations, collected while they are read in any order.
#[derive(Debug, Default)]
pub struct Restored(pub(super) BTreeMap<u64, Recent>);

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
        let recent = self.0.entry(id).or_default();
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

    /// Forgets a session that no entry mentions any more.
    pub fn forget(&mut self, id: u64) {
        self.0.remove(&id);
    }

    /// Takes over what another part has collected.
    pub fn take(&mut self, other: Restored) {
        for (id, recent) in other.0 {
            recent.completed.into_iter().for_each(|(operation, outcome)| self.note(id, operation, outcome));
        }
    }
}
