//! M14: from one term that serves to the next the replicas of the group are the same, or one more, or one
//! less. A new set counts as agreed on once majorities of both sets have it on disk, and no earlier. From
//! then on the next term has the new set.

use std::collections::{BTreeMap, BTreeSet};

use longarm_base::{ReplicaId, Term};
use longarm_host::observe::Observation;

use super::book::{Book, is_majority_of, numbers};
use super::rules::{Rules, Seen};

#[derive(Debug, Default)]
pub(super) struct Agreements {
    /// By term: the replicas that the next one has.
    agreed: BTreeMap<Term, BTreeSet<u32>>,
    /// By term and a set of replicas that it, or the next term, has: the nodes that have the set on disk.
    kept: BTreeMap<(Term, BTreeSet<u32>), BTreeSet<u32>>,
}

impl Agreements {
    fn agree(&mut self, term: Term, members: &[ReplicaId], book: &Book) -> Result<(), String> {
        let next = numbers(members);
        let by = self.kept.entry((term, next.clone())).or_default();
        let have = || by.iter().copied();
        if !book.is_majority(term, have()) || !is_majority_of(&next, have()) {
            return Err(format!(
                "M14: term {term} agrees on replicas {next:?}, which only {by:?} have on disk"
            ));
        }
        match self.agreed.insert(term, next) {
            None => Ok(()),
            Some(first) => Err(format!("M14: term {term} agrees twice, first on {first:?}")),
        }
    }

    /// Checks the set with which a term begins. A replica that knows of a set that was agreed on helps no
    /// candidate to lead that does not know of it.
    fn installs(&self, term: Term, members: &[ReplicaId]) -> Result<(), String> {
        let Some((&older, agreed)) = self.agreed.range(..term).next_back() else { return Ok(()) };
        // A set that reached a disk later may be agreed on by now, or be agreed on later.
        let later = self.kept.keys().any(|&(kept, _)| kept > older && kept < term);
        let is = numbers(members);
        if later || *agreed == is {
            return Ok(());
        }
        Err(format!("M14: term {older} agreed on replicas {agreed:?}, and term {term} begins with {is:?}"))
    }

    fn served(&self, term: Term, book: &Book) -> Result<(), String> {
        let mut before = book.terms.range(..term).filter(|(_, led)| led.served);
        let (Some((&older, last)), Some(led)) = (before.next_back(), book.terms.get(&term)) else {
            return Ok(());
        };
        if last.members.symmetric_difference(&led.members).count() > 1 {
            let (was, is) = (&last.members, &led.members);
            return Err(format!("M14: term {older} has replicas {was:?}, and term {term} {is:?}"));
        }
        match self.agreed.get(&older) {
            Some(agreed) if *agreed != led.members => {
                let is = &led.members;
                Err(format!("M14: term {older} agreed on replicas {agreed:?}, and term {term} has {is:?}"))
            }
            _ => Ok(()),
        }
    }
}

impl Rules for Agreements {
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String> {
        match seen.event {
            Observation::Kept { term, members } => {
                self.kept.entry((*term, numbers(members))).or_default().insert(seen.node);
                Ok(())
            }
            Observation::Agreed { term, members } => self.agree(*term, members, book),
            Observation::Installing { term, members, .. } => self.installs(*term, members),
            Observation::Served { term, .. } => self.served(*term, book),
            _ => Ok(()),
        }
    }
}
