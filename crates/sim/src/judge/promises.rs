//! I1: at most one replica leads a term, and a majority had promised it; what is promised outlives a loss
//! of memory (L2).

use std::collections::{BTreeMap, BTreeSet};

use longarm_base::Term;
use longarm_host::observe::Observation;

use super::book::Book;
use super::rules::{Rules, Seen};

#[derive(Debug, Default)]
pub(super) struct Promises {
    /// By replica: the highest term that it kept on disk.
    kept: BTreeMap<u32, Term>,
    /// By replica: the highest term that it kept and that another node knows of. The term is that node's own,
    /// or the node has promised it, too.
    known: BTreeMap<u32, Term>,
    /// The replicas whose disks were lost, and that have promised nothing since.
    blank: BTreeSet<u32>,
}

impl Promises {
    /// Notes that a replica has promised a term.
    fn note(&mut self, node: u32, term: Term) {
        self.blank.remove(&node);
        self.kept.insert(node, term);
        let of = u32::from(term.leader().0);
        // No other node knows of a replica's own term before another has promised it, too.
        if of != node {
            for node in [of, node] {
                let known = self.known.entry(node).or_insert(term);
                *known = (*known).max(term);
            }
        }
    }

    /// Whether all replicas have promised this term, or a later one.
    fn by_all(&self, term: Term, book: &Book) -> bool {
        let members = book.terms.get(&term).map(|led| &led.members);
        let has = |node: &u32| self.kept.get(node).is_some_and(|kept| *kept >= term);
        members.is_some_and(|members| members.iter().all(has))
    }

    /// Whether a majority has promised this term, or a later one.
    fn by_majority(&self, term: Term, book: &Book) -> bool {
        book.is_majority(term, self.kept.iter().filter(|(_, kept)| **kept >= term).map(|(&node, _)| node))
    }
}

impl Rules for Promises {
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String> {
        let node = seen.node;
        let kept = self.kept.get(&node).copied().unwrap_or(Term::ZERO);
        match seen.event {
            // A replica without its disk cannot know its promises, and asks the others. What it promises then
            // is not below a promise of its own that others know of. A term of its own that no other replica
            // promised never was.
            Observation::Started { .. } if self.blank.contains(&node) => Ok(()),
            Observation::Started { term } if *term < kept => {
                Err(format!("I1: node {node} starts with a promise of term {term}, and had promised {kept}"))
            }
            Observation::Promised { term } => {
                let known = self.known.get(&node).copied().unwrap_or(Term::ZERO);
                let goes_back = match self.blank.contains(&node) {
                    true => *term < known,
                    false => *term <= kept,
                };
                if goes_back {
                    return Err(format!("I1: node {node} promises term {term}, and had promised {kept}"));
                }
                self.note(node, *term);
                Ok(())
            }
            Observation::Reported { term, .. } if *term > kept => {
                Err(format!("I1: node {node} reports for term {term}, and has promised {kept} only"))
            }
            Observation::Installing { term, disk: Some(_), .. } if !self.by_all(*term, book) => {
                Err(format!("D6: node {node} leads term {term} from its disk, and not all have promised it"))
            }
            Observation::Installing { term, .. } | Observation::Served { term, .. }
                if !self.by_majority(*term, book) =>
            {
                Err(format!("I1: node {node} leads term {term}, which no majority has promised"))
            }
            Observation::Served { term, .. } => {
                let synced = book.adopted.iter().filter(|(of, _)| of == term).map(|(_, node)| *node);
                if book.is_majority(*term, synced) {
                    return Ok(());
                }
                Err(format!("I1: node {node} serves term {term}, whose start set no majority has (L1)"))
            }
            _ => Ok(()),
        }
    }

    fn reformatted(&mut self, node: u32) {
        self.blank.insert(node);
    }
}
