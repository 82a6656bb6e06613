//! An item on its way into the index: inline, or drafted as an entry, and the switch that makes it current.

use longarm_base::{Csn, UnixMillis};
use longarm_index::hash::{EntryRef, Found, Record};
use longarm_memory::{Hash, OwnedWords};
use longarm_store::{Draft, DraftError, EntryMeta, EntryPlace, Writer};
use longarm_wire::Status;

use crate::clock::Moment;
use crate::engine::{Current, Engine, Outcome, PairOf, Short};

/// An item that needs only its csn. Dropping it leaves nothing behind.
pub(crate) enum Item<'a> {
    /// Small enough for a slot.
    Inline { key: &'a [u8], value: &'a [u8], expiry: UnixMillis },
    /// In its room in the arena.
    Drafted { draft: Draft, hash: Hash, expiry: UnixMillis },
}

/// Why an item could not be prepared.
pub(crate) enum Refusal {
    /// For want of memory.
    Short(Short),
    /// It exceeds a limit.
    Invalid,
}

impl Refusal {
    /// As an operation reports it.
    pub fn outcome(self) -> Result<Outcome, Short> {
        match self {
            Refusal::Short(short) => Err(short),
            Refusal::Invalid => Ok(Outcome::of(Status::Invalid)),
        }
    }
}

/// Slots name an entry in the terms of the index.
pub(crate) fn entry_ref(place: EntryPlace) -> EntryRef {
    EntryRef { offset: place.offset, len: place.len }
}

impl<M: OwnedWords> Engine<M> {
    /// Prepares an item: no lock is held for the copy of a value.
    #[inline]
    pub(crate) fn prepare<'a>(
        &self,
        writer: &mut Writer<M>,
        moment: Moment,
        (key, value): (&'a [u8], &'a [u8]),
        hash: Hash,
        expiry: UnixMillis,
    ) -> Result<Item<'a>, Refusal> {
        if Record::fits_inline(self.options.slots, key.len(), value.len(), expiry) {
            return Ok(Item::Inline { key, value, expiry });
        }
        match writer.draft(key, value, EntryMeta::PUT.expiring(expiry)) {
            Ok(draft) => Ok(Item::Drafted { draft, hash, expiry }),
            Err(DraftError::Full(_)) => Err(Refusal::Short(self.short(moment))),
            Err(DraftError::Key(_) | DraftError::Value(_)) => Err(Refusal::Invalid),
        }
    }

    /// Makes the item current under the lock: draws its csn, finishes it, supersedes the old entry, and only
    /// then switches the slot. The slot was reserved.
    #[inline]
    pub(crate) fn switch(
        &self,
        writer: &mut Writer<M>,
        pair: &mut PairOf<'_, M>,
        old: Option<(&Found, &Current)>,
        item: Item<'_>,
    ) -> Csn {
        let csn = self.next_csn();
        let record = match item {
            Item::Inline { key, value, expiry } => Record::Inline { csn, key, value, expiry, entry: None },
            Item::Drafted { draft, hash, expiry } => {
                let entry = entry_ref(writer.finish(draft, csn));
                Record::Entry { csn, entry, hash, expiry }
            }
        };
        let switched = match old {
            Some((found, current)) => {
                if let Some(place) = current.place {
                    self.store.supersede(place, current.csn);
                }
                pair.replace(found, &record)
            }
            None => pair.insert(&record),
        };
        assert!(switched.is_ok(), "a slot that was reserved under the lock is gone");
        csn
    }
}
