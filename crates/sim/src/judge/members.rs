//! M14: from one term that serves to the next the replicas of the group are the same, or one more, or one
//! less; and once majorities of both sets have agreed, the next term has the new one.

use std::collections::{BTreeMap, BTreeSet};

use longarm_base::Term;
use longarm_host::observe::Event;

use super::book::Book;
use super::{Rules, Seen};

#[derive(Debug, Default)]
pub(super) struct Agreements {
    /// By term: the replicas that the next one has.
    agreed: BTreeMap<Term, BTreeSet<u32>>,
}

impl Agreements {
    fn served(&self, term: Term, book: &Book) -> Result<(), String> {
        let mut before = book.reigns.range(..term).filter(|(_, reign)| reign.served);
        let (Some((&older, last)), Some(reign)) = (before.next_back(), book.reigns.get(&term)) else {
            return Ok(());
        };
        if last.members.symmetric_difference(&reign.members).count() > 1 {
            let (was, is) = (&last.members, &reign.members);
            return Err(format!("M14: term {older} has replicas {was:?}, and term {term} {is:?}"));
        }
        match self.agreed.get(&older) {
            Some(agreed) if *agreed != reign.members => {
                let is = &reign.members;
                Err(format!("M14: term {older} agreed on replicas {agreed:?}, and term {term} has {is:?}"))
            }
            _ => Ok(()),
        }
    }
}

impl Rules for Agreements {
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String> {
        match seen.event {
            Event::Agreed { term, members } => {
                let members = members.iter().map(|node| u32::from(node.0)).collect();
                match self.agreed.insert(*term, members) {
                    None => Ok(()),
                    Some(first) => Err(format!("M14: term {term} agrees twice, first on {first:?}")),
                }
            }
            Event::Served { term, .. } => self.served(*term, book),
            _ => Ok(()),
        }
    }
}
