//! Before a leader frees entries of earlier leaders, it checks that each of them is accounted for.
//!
//! A segment is freed when none of its entries counts, by the counts that a restore began with. If the
//! restore had missed an entry, its segment would be freed on every replica, and an acknowledged write would
//! be lost silently. So each value in such a segment must be explained: the index has that version or a newer
//! one, or the key was deleted after it. A segment with an unexplained entry stays, and the log says so.
//!
//! A delete is a tombstone, which is kept for as long as any segment may hold an older entry of its key. So
//! the known deletes are those whose tombstones are stored, no more than memory has room for. Segments of the
//! leader's own term need no check: the leader applied their entries one by one.

use std::collections::HashMap;

use longarm_base::Csn;
use longarm_host::observe::WATCHED;
use longarm_memory::OwnedWords;

use crate::engine::Engine;

/// An unexplained entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unaccounted {
    /// Its key.
    pub key: Box<[u8]>,
    /// Its version.
    pub csn: Csn,
}

impl<M: OwnedWords> Engine<M> {
    /// In a group: an unexplained entry of a dead segment, or run, of an earlier term.
    pub fn unaccounted(&self, segment: u32) -> Option<Unaccounted> {
        let (known, term) = self.deletes().zip(self.options.term)?;
        let (mut missing, mut deletes) = (Vec::new(), HashMap::<Box<[u8]>, Csn>::new());
        self.store.visit(segment, 0, &mut |_, entry| {
            if entry.term == term {
                return false;
            }
            let (key, csn, hash) = (entry.key, entry.csn, self.hash(entry.key));
            if entry.kind == longarm_store::EntryKind::Tombstone {
                // The tombstone may be dropped with all that it hides, if that is in its own segment.
                let newest = deletes.entry(key.into()).or_insert(csn);
                *newest = (*newest).max(csn);
            } else if entry.kind.is_value() {
                let there = self.index.read().lock(hash).find(key).map(|found| found.record().csn());
                if there.max(known.newest(key, hash)).is_none_or(|newest| newest < csn) {
                    missing.push(Unaccounted { key: key.into(), csn });
                }
            }
            true
        });
        let deleted = |of: &Unaccounted| deletes.get(&of.key).is_some_and(|delete| *delete > of.csn);
        let missing = missing.into_iter().find(|missing| !deleted(missing));
        assert!(!WATCHED || missing.is_none(), "nothing explains {missing:?}, and segment {segment} is dead");
        missing
    }
}
