//! What sessions may still ask for outlives the entries that say it (VERIFY L17; rule KeepNewest of
//! `docs/spec`).
//!
//! A completion record is part of its entry. When the entry is superseded and its segment about to be freed,
//! what a client may still ask for (it has at most a queue of operations in flight) is written once more, as
//! an entry that says nothing else.

use longarm_memory::OwnedWords;
use longarm_store::{EntryMeta, Kind};

use crate::engine::{Engine, Hand};
use crate::session::Sessions;
use crate::stream::{Change, Written};

impl<M: OwnedWords> Engine<M> {
    /// Saves the records that a dead segment, or run, holds.
    pub(crate) fn save_records(&self, hand: &mut Hand<M>, segment: u32, sessions: &Sessions) {
        let mut saved = Vec::new();
        self.store.visit(segment, &mut |place, entry| {
            let asked = |by: &longarm_store::Session| sessions.may_ask(by.id, by.operation);
            if let Some(by) = entry.session.filter(asked)
                && entry.kind != Kind::Noop
            {
                let number = std::str::from_utf8(entry.value).ok().and_then(|text| text.parse::<i64>().ok());
                saved.push((place, by, entry.csn, number));
            }
        });
        for (place, by, csn, number) in saved {
            let text = number.map_or_else(String::new, |number| number.to_string());
            let meta = EntryMeta::of(Kind::Noop).by(by);
            // The reserve is for this: it must not fail for want of memory.
            let Ok(draft) = hand.writer.draft_kept(&[], text.as_bytes(), meta) else { continue };
            let copy = hand.writer.finish(draft, csn);
            let stream = hand.stream.as_mut().expect("a hand of a group has a stream");
            stream.push(Written { place: copy, csn, change: Change::Replace { from: place, csn } });
        }
    }
}
