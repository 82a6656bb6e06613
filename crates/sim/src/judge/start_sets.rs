//! I2: what was committed in a term is in the start set of each later term that serves: by the cuts, from
//! base to base, and by the entries that its leader then found. I13: what was deleted is not back. I6:
//! nothing is found that nobody wrote. I3: nothing is found that was cut off (L16).

use std::collections::{BTreeMap, BTreeSet};

use longarm_base::{Csn, Term};
use longarm_host::observe::Observation;

use super::book::{Book, Reign};
use super::rules::{Rules, Seen};

/// The newest version of a key, and whether it has a value.
type Newest = BTreeMap<u64, (Csn, bool)>;

/// A write: version, key, and whether it has a value.
type Write = (Csn, u64, bool);

/// A position of a term's stream.
type At = (Term, u16, u64);

#[derive(Debug, Default)]
pub(super) struct StartSets {
    /// Every write, and where it was written.
    written: BTreeMap<Write, Vec<At>>,
    /// What readers may have seen, in any term.
    visible: Newest,
    /// By term: what its leader found.
    found: BTreeMap<Term, Newest>,
    /// By term that began with a mixture: all that its leader found, which is its start set.
    mixtures: BTreeMap<Term, BTreeSet<Write>>,
}

fn newer(newest: &mut Newest, key: u64, csn: Csn, value: bool) {
    let known = newest.entry(key).or_insert((csn, value));
    *known = (*known).max((csn, value));
}

/// Whose cuts, or whose mixture, say what `later` has of the streams of `term`.
fn source(book: &Book, later: Term, term: Term, is_it: fn(&Reign) -> bool) -> Option<(Term, &Reign)> {
    let mut of = later;
    while let Some(reign) = book.reigns.get(&of) {
        if reign.base <= term || is_it(reign) {
            return Some((of, reign));
        }
        of = reign.base;
    }
    None
}

/// Whether a term has, by its cuts, a stream's positions below this.
fn keeps(reign: &Reign, (term, stream, below): At) -> bool {
    let cut = reign.cuts.get(usize::from(stream)).copied().unwrap_or(0);
    reign.base == term && cut >= below
}

/// Whether positions of a term's stream below this are in the start set of a later term.
fn includes(book: &Book, later: Term, at: At) -> bool {
    source(book, later, at.0, |_| false).is_some_and(|(_, reign)| keeps(reign, at))
}

impl StartSets {
    /// Whether a write, by where it was written, is in the start set of a later term.
    fn holds(&self, book: &Book, later: Term, write: &Write, (term, stream, position): At) -> bool {
        match source(book, later, term, |reign| reign.mixed) {
            Some((of, reign)) if reign.mixed => {
                self.mixtures.get(&of).is_some_and(|found| found.contains(write))
            }
            Some((_, reign)) => keeps(reign, (term, stream, position + 1)),
            None => false,
        }
    }

    /// Whether a write that the leader of `term` found was cut off before, there where it was written. What a
    /// mixture consists of may have been cut off by terms that never served.
    fn is_cut_off(&self, book: &Book, term: Term, write: &Write, at: At) -> bool {
        match book.reigns.get(&term) {
            Some(reign) if reign.mixed => {
                let mut served =
                    book.reigns.range(at.0..term).filter(|(of, reign)| **of > at.0 && reign.served);
                served.any(|(&of, _)| !self.holds(book, of, write, at))
            }
            _ => !self.holds(book, term, write, at),
        }
    }

    /// Whether a term, by what its leader found, has this version of a key, or a newer one.
    fn check(&self, term: Term, key: u64, (csn, value): (Csn, bool)) -> Result<(), String> {
        let found = self.found.get(&term).and_then(|found| found.get(&key));
        match found {
            Some(&(found, _)) if found >= csn => Ok(()),
            // A delete that is stored nowhere any more, and nothing of what it ended.
            None if !value => Ok(()),
            // Nor is an older delete, which a move had taken to a younger segment.
            Some(&(_, false)) if !value => Ok(()),
            Some(&(found, _)) if !value => {
                Err(format!("I13: term {term} has version {found:?} of key {key:x}, deleted by {csn:?}"))
            }
            _ => Err(format!("I2: term {term} lost version {csn:?} of key {key:x}; it has {found:?}")),
        }
    }

    fn served(&mut self, term: Term, book: &Book) -> Result<(), String> {
        for (&older, reign) in book.reigns.range(..term) {
            for (&stream, of) in reign.streams.iter().filter(|(_, of)| of.committed > 0) {
                if !includes(book, term, (older, stream, of.committed)) {
                    let below = of.committed;
                    return Err(format!("I2: {stream}:{below} of term {older} is not in term {term}"));
                }
            }
        }
        // One that stood still while another came to lead does not know yet that it is over: it need not have
        // what is visible since. It has no lease to tell anybody anything under (I9).
        if book.served_after(term).next().is_none() {
            self.visible.iter().try_for_each(|(&key, &newest)| self.check(term, key, newest))?;
        }
        // What it found readers see from now on, though whoever wrote it may not have lived to apply it.
        for (&key, &(csn, value)) in self.found.get(&term).into_iter().flatten() {
            newer(&mut self.visible, key, csn, value);
        }
        Ok(())
    }
}

impl Rules for StartSets {
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String> {
        let Seen { node, term, .. } = seen;
        match seen.event {
            Observation::Wrote { stream, position, csn, write: Some((key, value)) } => {
                self.written.entry((*csn, *key, *value)).or_default().push((term, *stream, *position));
                Ok(())
            }
            Observation::Restored { key: Some(key), csn, value, .. } => {
                let entry = || format!("version {csn:?} of key {key:x}");
                let write = (*csn, *key, *value);
                let Some(written) = self.written.get(&write) else {
                    return Err(format!("I6: node {node} found {}, which nobody wrote", entry()));
                };
                if written.iter().all(|&at| self.is_cut_off(book, term, &write, at)) {
                    return Err(format!("I3: term {term} has {}, which was cut off: {written:?}", entry()));
                }
                if book.reigns.get(&term).is_some_and(|reign| reign.mixed) {
                    self.mixtures.entry(term).or_default().insert(write);
                }
                newer(self.found.entry(term).or_default(), *key, *csn, *value);
                Ok(())
            }
            Observation::Served { term, .. } => self.served(*term, book),
            Observation::Committed { stream, below, .. } => {
                match book.served_after(term).find(|&of| !includes(book, of, (term, *stream, *below))) {
                    None => Ok(()),
                    Some(of) => Err(format!("I2: {stream}:{below} of term {term} is not in term {of}")),
                }
            }
            Observation::Applied { stream, position } => {
                let entry = book.entry(term, *stream, *position);
                let Some((csn, (key, value))) = entry.and_then(|entry| Some((entry.csn, entry.write?)))
                else {
                    return Ok(());
                };
                newer(&mut self.visible, key, csn, value);
                newer(self.found.entry(term).or_default(), key, csn, value);
                book.served_after(term).try_for_each(|of| self.check(of, key, (csn, value)))
            }
            _ => Ok(()),
        }
    }
}
