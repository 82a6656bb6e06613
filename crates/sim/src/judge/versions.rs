//! I7: no version is used for two writes, and what readers find of a key never gets older. I8: a write that
//! is acknowledged was applied, and readers find it or something newer.

use std::collections::BTreeMap;

use longarm_base::{Csn, Term};
use longarm_host::observe::Observation;

use super::book::Book;
use super::rules::{Rules, Seen};

#[derive(Debug, Default)]
pub(super) struct Versions {
    /// By version: the write that has it, as term, stream and position.
    used: BTreeMap<Csn, (Term, u16, u64)>,
    /// By term and key: the newest version that readers found, and whether they find one now.
    shown: BTreeMap<(Term, u64), (Csn, bool)>,
}

impl Rules for Versions {
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String> {
        let term = seen.term;
        match seen.event {
            Observation::Restored { key: Some(key), csn, value, .. } => {
                let newest = self.shown.entry((term, *key)).or_insert((*csn, *value));
                *newest = (*newest).max((*csn, *value));
                Ok(())
            }
            Observation::Shown { key, csn } => {
                let newest = self.shown.entry((term, *key)).or_insert((*csn, true));
                if *csn == Csn::NONE {
                    newest.1 = false;
                    return Ok(());
                }
                if *csn < newest.0 {
                    return Err(format!("I7: key {key:x} goes back from version {:?} to {csn:?}", newest.0));
                }
                *newest = (*csn, true);
                Ok(())
            }
            Observation::Applied { stream, position } => {
                let Some(entry) = book.entry(term, *stream, *position) else { return Ok(()) };
                let this = (term, *stream, *position);
                if entry.write.is_none() || *self.used.entry(entry.csn).or_insert(this) == this {
                    return Ok(());
                }
                let other = self.used[&entry.csn];
                Err(format!("I7: version {:?} is that of {other:?} and of {this:?}", entry.csn))
            }
            Observation::Acknowledged { stream, position } => {
                let applied =
                    book.terms.get(&term).and_then(|led| led.streams.get(stream)).map(|s| s.applied);
                if applied.is_none_or(|applied| *position >= applied) {
                    return Err(format!(
                        "I8: {stream}:{position} of term {term} is acknowledged, not applied"
                    ));
                }
                let entry = book.entry(term, *stream, *position);
                let Some((csn, (key, value))) = entry.and_then(|entry| Some((entry.csn, entry.write?)))
                else {
                    return Ok(());
                };
                match self.shown.get(&(term, key)) {
                    Some((newest, true)) if *newest >= csn => Ok(()),
                    // The key was deleted since, or by this write.
                    Some((_, false)) => Ok(()),
                    None if !value => Ok(()),
                    shown => Err(format!(
                        "I8: version {csn:?} of key {key:x} is acknowledged; readers find {shown:?}"
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}
