//! I2: an entry that was committed in a term is in the start set of each later term that serves: by the cuts,
//! from base to base, and by the entries that its leader then found. I13: a deleted item does not come back.
//! I6: a leader finds no entry that was never written. I3: a leader finds no entry that was cut off (L16).
//! D2, D6: a leader from a disk has all that was committed up to the version of that disk, and nothing
//! beyond; what is given up was written within the window.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use longarm_base::{Csn, Nanos, Term};
use longarm_host::observe::Observation;

use super::book::{Book, GivenUp, LeaderTerm};
use super::losses::LATE;
use super::rules::{Rules, Seen};

/// The newest version of each key, and whether it has a value.
type Newest = BTreeMap<u64, (Csn, bool)>;

/// A version of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Version {
    csn: Csn,
    key: u64,
    /// Whether the key has a value in it; else it was deleted.
    value: bool,
}

/// A position of a term's stream.
#[derive(Clone, Copy, Debug)]
struct At {
    term: Term,
    stream: u16,
    position: u64,
}

#[derive(Debug, Default)]
pub(super) struct StartSets {
    /// Every version that was written, and where.
    written: BTreeMap<Version, Vec<At>>,
    /// The newest versions that readers may have seen, in any term.
    visible: Newest,
    /// By term: the newest versions that its leader found.
    found: BTreeMap<Term, Newest>,
    /// By term that began with a mixture: all that its leader found, which is its start set.
    mixtures: BTreeMap<Term, BTreeSet<Version>>,
    /// All versions that readers may have seen, and that were not given up.
    seen: BTreeMap<Csn, Version>,
    /// When each version was written first: the number of a write that was cut off is drawn again.
    times: BTreeMap<Csn, Nanos>,
    /// The last term that served with what a disk had.
    from_disk: Term,
    /// Within how much time the writes were taken that may be given up then.
    window: Nanos,
}

fn newer(newest: &mut Newest, Version { csn, key, value }: Version) {
    let known = newest.entry(key).or_insert((csn, value));
    *known = (*known).max((csn, value));
}

/// The term whose cuts, or whose mixture, say what `later` has of the streams of `term`.
fn source(
    book: &Book,
    later: Term,
    term: Term,
    is_it: fn(&LeaderTerm) -> bool,
) -> Option<(Term, &LeaderTerm)> {
    let mut of = later;
    while let Some(led) = book.terms.get(&of) {
        if led.base <= term || is_it(led) {
            return Some((of, led));
        }
        of = led.base;
    }
    None
}

/// Whether a term has, by its cuts, a stream's positions below this.
fn keeps(led: &LeaderTerm, below: At) -> bool {
    let cut = led.cuts.get(usize::from(below.stream)).copied().unwrap_or(0);
    led.base == below.term && cut >= below.position
}

/// Whether positions of a term's stream below this are in the start set of a later term.
fn includes(book: &Book, later: Term, below: At) -> bool {
    source(book, later, below.term, |_| false).is_some_and(|(_, led)| keeps(led, below))
}

impl StartSets {
    /// Of a group that may give up the writes of so much time, if all lose their memory.
    pub fn within(window: Nanos) -> StartSets {
        StartSets { window, ..StartSets::default() }
    }

    /// Whether a write, by where it was written, is in the start set of a later term.
    fn holds(&self, book: &Book, later: Term, write: &Version, at: At) -> bool {
        match source(book, later, at.term, |led| led.mixed) {
            Some((of, led)) if led.mixed => self.mixtures.get(&of).is_some_and(|found| found.contains(write)),
            // A disk has no more than up to its version, though it may have later positions.
            Some((_, led)) => {
                let given_up = led.disk.is_some_and(|stable| write.csn > stable);
                keeps(led, At { position: at.position + 1, ..at }) && !given_up
            }
            None => false,
        }
    }

    /// Whether a write that the leader of `term` found was cut off before, at the position where it was
    /// written. Entries of a mixture may have been cut off by terms that never served.
    fn is_cut_off(&self, book: &Book, term: Term, write: &Version, at: At) -> bool {
        match book.terms.get(&term) {
            Some(led) if led.mixed => {
                let mut served =
                    book.terms.range(at.term..term).filter(|(of, led)| **of > at.term && led.served);
                served.any(|(&of, _)| !self.holds(book, of, write, at))
            }
            _ => !self.holds(book, term, write, at),
        }
    }

    /// Whether a term, by what its leader found, has this version of a key, or a newer one.
    fn check(&self, term: Term, Version { csn, key, value }: Version) -> Result<(), String> {
        let found = self.found.get(&term).and_then(|found| found.get(&key));
        match found {
            Some(&(found, _)) if found >= csn => Ok(()),
            // The delete is stored nowhere any more, nor is anything that it deleted.
            None if !value => Ok(()),
            // An older delete is stored, as a move had taken it to a younger segment.
            Some(&(_, false)) if !value => Ok(()),
            Some(&(found, _)) if !value => {
                Err(format!("I13: term {term} has version {found:?} of key {key:x}, deleted by {csn:?}"))
            }
            _ => Err(format!("I2: term {term} lost version {csn:?} of key {key:x}; it has {found:?}")),
        }
    }

    /// Readers may have seen a version.
    fn show(&mut self, version: Version) {
        newer(&mut self.visible, version);
        self.seen.insert(version.csn, version);
    }

    /// A term serves with what a disk had.
    fn served_from_disk(&mut self, term: Term, gone: GivenUp, book: &Book) -> Result<(), String> {
        let GivenUp { stable, base, first } = gone;
        if let Some(of) = book.served_after(base).find(|of| *of < term) {
            return Err(format!("D6: term {of} served, and term {term} goes by a disk of term {base}"));
        }
        let is_since =
            |write: &Version| self.written.get(write).is_some_and(|at| at.iter().any(|at| at.term >= first));
        let found = self.found.get(&term).into_iter().flatten();
        let mut found = found.map(|(&key, &(csn, value))| Version { csn, key, value });
        if let Some(Version { csn, key, .. }) = found.find(|write| write.csn > stable && !is_since(write)) {
            return Err(format!(
                "D6: term {term} goes by a disk up to version {stable:?}, and has {csn:?} of key {key:x}"
            ));
        }
        let above = self.seen.split_off(&Csn(stable.0 + 1));
        let (since, lost): (BTreeMap<_, _>, _) = above.into_iter().partition(|(_, write)| is_since(write));
        self.seen.extend(since);
        let times = || lost.keys().filter_map(|csn| self.times.get(csn)).copied();
        let span = times().max().unwrap_or_default().since(times().min().unwrap_or_default());
        if span > self.window + LATE {
            let (ms, window) = (span.0 / 1_000_000, self.window.0 / 1_000_000);
            return Err(format!("D2: the writes of {ms} ms are given up, where {window} ms may be"));
        }
        self.visible.clear();
        self.seen.values().for_each(|version| newer(&mut self.visible, *version));
        self.from_disk = term;
        Ok(())
    }

    fn served(&mut self, term: Term, book: &Book) -> Result<(), String> {
        if let Some(gone) = book.given_up(term) {
            self.served_from_disk(term, gone, book)?;
        }
        // Of what was committed before a leader from a disk, its readers see what counts.
        for (&older, led) in book.terms.range(self.from_disk..term) {
            for (&stream, of) in led.streams.iter().filter(|(_, of)| of.committed > 0) {
                let below = of.committed;
                if !includes(book, term, At { term: older, stream, position: below }) {
                    return Err(format!("I2: {stream}:{below} of term {older} is not in term {term}"));
                }
            }
        }
        // A leader that stood still while another came to lead does not know yet that its term is over. It
        // need not have what became visible since, as it has no lease under which to answer clients (I9).
        if book.served_after(term).next().is_none() {
            let mut visible = self.visible.iter();
            visible.try_for_each(|(&key, &(csn, value))| self.check(term, Version { csn, key, value }))?;
        }
        // Readers see from now on what the leader found, though the leader that wrote it may have crashed
        // before it applied that.
        let found = self.found.get(&term).cloned().unwrap_or_default();
        found.into_iter().for_each(|(key, (csn, value))| self.show(Version { csn, key, value }));
        Ok(())
    }
}

impl Rules for StartSets {
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String> {
        let Seen { node, term, .. } = seen;
        match seen.event {
            Observation::Wrote { stream, position, csn, write: Some((key, value)) } => {
                let write = Version { csn: *csn, key: *key, value: *value };
                let at = At { term, stream: *stream, position: *position };
                let found = self.found.get(&term).and_then(|found| found.get(key));
                let is_moved = found.is_some_and(|(found, _)| found >= csn);
                match self.times.entry(*csn) {
                    Entry::Occupied(_) if is_moved => {}
                    entry => _ = entry.insert_entry(seen.time),
                }
                self.written.entry(write).or_default().push(at);
                Ok(())
            }
            Observation::Restored { key: Some(key), csn, value, .. } => {
                let entry = || format!("version {csn:?} of key {key:x}");
                let write = Version { csn: *csn, key: *key, value: *value };
                let Some(written) = self.written.get(&write) else {
                    return Err(format!("I6: node {node} found {}, which nobody wrote", entry()));
                };
                if written.iter().all(|&at| self.is_cut_off(book, term, &write, at)) {
                    return Err(format!("I3: term {term} has {}, which was cut off: {written:?}", entry()));
                }
                if book.terms.get(&term).is_some_and(|led| led.mixed) {
                    self.mixtures.entry(term).or_default().insert(write);
                }
                newer(self.found.entry(term).or_default(), write);
                Ok(())
            }
            Observation::Served { term, .. } => self.served(*term, book),
            Observation::Committed { stream, below, .. } => {
                let at = At { term, stream: *stream, position: *below };
                match book.served_after(term).find(|&of| !includes(book, of, at)) {
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
                let write = Version { csn, key, value };
                self.show(write);
                newer(self.found.entry(term).or_default(), write);
                book.served_after(term).try_for_each(|of| self.check(of, write))
            }
            _ => Ok(()),
        }
    }
}
