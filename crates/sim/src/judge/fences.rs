//! I5: when a replica has fenced for a term, nothing of an older term's leader lands in what it lends to
//! leaders (L6, L7). The judge sees which node sent a WRITE, and not over which of its queue pairs. Only the
//! tests of `fabric` tell apart the WRITEs of one node for two of its own terms.

use std::collections::BTreeMap;

use longarm_base::Term;
use longarm_host::observe::Observation;
use longarm_wire::{ARENA_REGION, PAGE_REGION};

use super::book::Book;
use super::rules::{Rules, Seen};

#[derive(Debug, Default)]
pub(super) struct Fences {
    /// By replica: the only term whose leader may write there.
    open: BTreeMap<u32, Term>,
}

impl Rules for Fences {
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String> {
        match seen.event {
            Observation::Started { term } | Observation::Fenced { term } => {
                self.open.insert(seen.node, *term);
                Ok(())
            }
            Observation::Landed { from, into, region }
                if *into < book.servers && [ARENA_REGION, PAGE_REGION].contains(region) =>
            {
                let open = self.open.get(into).copied().unwrap_or(Term::ZERO);
                if open != Term::ZERO && u32::from(open.leader().0) == *from {
                    return Ok(());
                }
                Err(format!("I5: a WRITE of node {from} lands at node {into}, fenced for term {open}"))
            }
            _ => Ok(()),
        }
    }
}
