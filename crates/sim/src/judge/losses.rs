//! D2: what a server finds after a loss of power is what it held at a moment, in the order of versions, and
//! the writes that are lost were all taken within the window.

use std::collections::BTreeMap;

use longarm_base::{Csn, Nanos, Term};
use longarm_host::observe::Observation;

use super::book::Book;
use super::rules::{Rules, Seen};

/// What a server may be late by with a look at its clock: it stands still between the look and the write.
pub(super) const LATE: Nanos = Nanos::from_millis(70);

/// A write that is not lost, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Write {
    key: u64,
    /// Whether the key has a value in it; else it was deleted.
    value: bool,
    at: Nanos,
}

#[derive(Debug)]
pub(super) struct Losses {
    window: Nanos,
    writes: BTreeMap<Csn, Write>,
    /// By term and key: the newest version that its leader found, and whether that has a value.
    found: BTreeMap<Term, BTreeMap<u64, (Csn, bool)>>,
}

impl Losses {
    /// The losses of a server that takes writes of one window at most.
    pub fn new(window: Nanos) -> Losses {
        Losses { window, writes: BTreeMap::new(), found: BTreeMap::new() }
    }

    /// The server holds what it found. All above the highest version that it found is lost.
    fn served(&mut self, found: &BTreeMap<u64, (Csn, bool)>) -> Result<(), String> {
        let last = found.values().map(|(csn, _)| *csn).max().unwrap_or(Csn::NONE);
        let lost = self.writes.split_off(&Csn(last.0 + 1));
        let mut held: BTreeMap<u64, (Csn, bool)> = BTreeMap::new();
        self.writes.iter().for_each(|(&csn, write)| _ = held.insert(write.key, (csn, write.value)));
        for (key, &(csn, value)) in &held {
            match found.get(key) {
                Some(&there) if there == (csn, value) => {}
                // The delete was needless by then: nothing of the key is stored, or an older delete.
                None | Some((_, false)) if !value => {}
                there => {
                    return Err(format!(
                        "D2: key {key:x} had version {csn:?} when version {last:?} was drawn, and {there:?} \
                         is there"
                    ));
                }
            }
        }
        if let Some(key) = found.keys().find(|key| !held.contains_key(key)) {
            return Err(format!("D2: key {key:x} is there, and nobody wrote it, or it was lost before"));
        }
        let times = || lost.values().map(|write| write.at);
        let span = times().max().unwrap_or_default().since(times().min().unwrap_or_default());
        if span > self.window + LATE {
            let (ms, window) = (span.0 / 1_000_000, self.window.0 / 1_000_000);
            return Err(format!("D2: the writes of {ms} ms are lost, where {window} ms may be"));
        }
        Ok(())
    }
}

impl Rules for Losses {
    fn hear(&mut self, seen: Seen<'_>, _book: &Book) -> Result<(), String> {
        match seen.event {
            Observation::Wrote { csn, write: Some((key, value)), .. } => {
                self.writes.insert(*csn, Write { key: *key, value: *value, at: seen.time });
                Ok(())
            }
            Observation::Restored { key: Some(key), csn, value, .. } => {
                let newest = self.found.entry(seen.term).or_default().entry(*key).or_default();
                *newest = (*newest).max((*csn, *value));
                Ok(())
            }
            Observation::Served { term, .. } => {
                let found = self.found.remove(term).unwrap_or_default();
                self.served(&found)
            }
            _ => Ok(()),
        }
    }
}
