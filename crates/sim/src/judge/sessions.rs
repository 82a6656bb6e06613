//! I14: each operation of a session has one effect, whichever leader executed it, and however often the
//! client sent it (L17).

use std::collections::BTreeMap;

use longarm_base::{Csn, Term};
use longarm_host::observe::Observation;

use super::book::{Book, GivenUp};
use super::rules::{Rules, Seen};

/// An operation of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct By {
    session: u64,
    operation: u64,
}

#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// By term and version: the operation that made it.
    ran: BTreeMap<(Term, Csn), By>,
    /// By term: the effects that its leader found, which count once it serves.
    found: BTreeMap<Term, Vec<(By, Csn)>>,
    /// By operation: its version, and the term in which that was known first.
    effects: BTreeMap<By, (Csn, Term)>,
}

impl Sessions {
    fn effect(&mut self, term: Term, by: By, csn: Csn) -> Result<(), String> {
        match self.effects.entry(by).or_insert((csn, term)).0 {
            before if before != csn => Err(twice(by, before, csn)),
            _ => Ok(()),
        }
    }
}

fn twice(By { session, operation }: By, before: Csn, csn: Csn) -> String {
    format!("I14: operation {operation} of session {session:x} is version {before:?} and {csn:?}")
}

impl Rules for Sessions {
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String> {
        let term = seen.term;
        match seen.event {
            Observation::Ran { session, operation, csn } if *session != 0 && csn.is_valid() => {
                let by = By { session: *session, operation: *operation };
                self.ran.insert((term, *csn), by);
                match self.effects.get(&by) {
                    // An earlier leader that does not know yet that it is deposed may run the operation
                    // again. It cannot commit that, so no client is told and nothing is applied.
                    Some((before, since)) if before != csn && term >= *since => Err(twice(by, *before, *csn)),
                    _ => Ok(()),
                }
            }
            Observation::Applied { stream, position } => {
                let entry = book.entry(term, *stream, *position).filter(|entry| entry.write.is_some());
                let by = entry.and_then(|entry| Some((*self.ran.get(&(term, entry.csn))?, entry.csn)));
                by.map_or(Ok(()), |(by, csn)| self.effect(term, by, csn))
            }
            Observation::Restored { by: Some((session, operation)), csn, .. } => {
                let by = By { session: *session, operation: *operation };
                self.found.entry(term).or_default().push((by, *csn));
                Ok(())
            }
            Observation::Served { term, .. } => {
                // What a leader from a disk gave up never was: its clients may do it once more.
                if let Some(GivenUp { stable, first, .. }) = book.given_up(*term) {
                    self.effects.retain(|_, (csn, since)| *csn <= stable || *since >= first);
                }
                let found = self.found.remove(term).unwrap_or_default();
                found.into_iter().try_for_each(|(by, csn)| self.effect(*term, by, csn))
            }
            _ => Ok(()),
        }
    }
}
