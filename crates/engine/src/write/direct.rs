//! A write that takes effect at once, on a server without followers.
//!
//! The worker drafts the entry, locks the pair, looks again at the item that it judged, reserves the slot,
//! draws the csn, finishes the entry, supersedes the older one, and switches the slot (`store.rs` (1) and
//! (2)). No lock is held for the copy of a value. If another write of the key came between, the worker does
//! all of it anew.

use std::sync::atomic::Ordering;

use longarm_base::{Csn, UnixMillis};
use longarm_index::hash::{Found, Record};
use longarm_memory::{Hash, OwnedWords};
use longarm_store::{Draft, DraftError, EntryMeta, Writer};
use longarm_wire::Status;

use super::judge::Judged;
use super::number::DIGITS_MAX;
use super::{PendingWrite, Seen};
use crate::engine::{ATTEMPTS, Current, Engine, PairOf};
use crate::outcome::{Outcome, Short};
use crate::timestamps::Timestamps;
use crate::worker_context::WorkerContext;

/// An item that needs only its csn. Dropping it leaves nothing behind.
enum PreparedItem<'a> {
    /// Small enough for a slot.
    Inline { key: &'a [u8], value: &'a [u8], expiry: UnixMillis },
    /// In its room in the arena.
    Drafted { draft: Draft, hash: Hash, expiry: UnixMillis },
}

/// The end of one try to store an item.
enum StoreAttempt<'a> {
    Done(Csn),
    /// The item has changed since it was judged.
    Changed,
    /// The index has no slot. Once it has one, the same item can be stored.
    NoSlot(PreparedItem<'a>),
}

impl<M: OwnedWords> Engine<M> {
    pub(super) fn write_direct(
        &self,
        context: &mut WorkerContext<M>,
        times: Timestamps,
        write: &PendingWrite<'_>,
    ) -> Result<Outcome, Short> {
        for _ in 0..ATTEMPTS {
            let Ok(seen) = self.look(&mut context.bytes, times, write) else { continue };
            match self.judged(write, seen.as_ref()) {
                Judged::Answer(outcome) => return Ok(outcome),
                Judged::Remove => {
                    if let Some(csn) = self.try_remove(times, write, seen.as_ref()) {
                        return Ok(Outcome::ok(csn));
                    }
                }
                Judged::Store { value, expiry, number } => {
                    let mut text = [0; DIGITS_MAX];
                    let WorkerContext { writer, bytes, .. } = &mut *context;
                    let Ok(value) = self.bytes_of(value, seen.as_ref(), bytes, &mut text) else { continue };
                    let item = match self.prepare(writer, times, write, value, expiry) {
                        Ok(item) => item,
                        Err(refusal) => return refusal,
                    };
                    if let Some(csn) = self.store_item(writer, times, write, seen.as_ref(), item)? {
                        self.mark(write.hash);
                        return Ok(Outcome { number, ..Outcome::ok(csn) });
                    }
                }
            }
        }
        Err(Short::Wait)
    }

    /// Prepares an item. If it cannot be stored, this returns an answer, or a shortage of memory, instead.
    #[inline]
    fn prepare<'a>(
        &self,
        writer: &mut Writer<M>,
        times: Timestamps,
        write: &PendingWrite<'a>,
        value: &'a [u8],
        expiry: UnixMillis,
    ) -> Result<PreparedItem<'a>, Result<Outcome, Short>> {
        let (key, hash) = (write.request.key, write.hash);
        if Record::fits_inline(self.options.slots, key.len(), value.len(), expiry) {
            return Ok(PreparedItem::Inline { key, value, expiry });
        }
        match writer.draft(key, value, EntryMeta::PUT.expiring(expiry)) {
            Ok(draft) => Ok(PreparedItem::Drafted { draft, hash, expiry }),
            Err(DraftError::Full(_)) => Err(Err(self.short(times))),
            Err(DraftError::Key(_) | DraftError::Value(_)) => Err(Ok(Outcome::of(Status::Invalid))),
        }
    }

    /// Stores an item; `None` if the judged item is no longer there.
    #[inline]
    fn store_item(
        &self,
        writer: &mut Writer<M>,
        times: Timestamps,
        write: &PendingWrite<'_>,
        seen: Option<&Seen>,
        mut item: PreparedItem<'_>,
    ) -> Result<Option<Csn>, Short> {
        for _ in 0..ATTEMPTS {
            match self.try_store(writer, times, write, seen, item) {
                StoreAttempt::Done(csn) => return Ok(Some(csn)),
                StoreAttempt::Changed => return Ok(None),
                StoreAttempt::NoSlot(again) => item = again,
            }
            self.make_room(write.hash, times)?;
        }
        Err(Short::Wait)
    }

    #[inline]
    fn try_store<'a>(
        &self,
        writer: &mut Writer<M>,
        times: Timestamps,
        write: &PendingWrite<'_>,
        seen: Option<&Seen>,
        item: PreparedItem<'a>,
    ) -> StoreAttempt<'a> {
        let index = self.index.read();
        let mut pair = index.lock(write.hash);
        let found = pair.find(write.request.key);
        let current = found.as_ref().map(|found| self.current(found, times));
        if !write.blind && !is_still(seen, current.as_ref()) {
            return StoreAttempt::Changed;
        }
        if pair.reserve(found.as_ref()).is_err() {
            return StoreAttempt::NoSlot(item);
        }
        if current.is_some_and(|current| current.gone) {
            // Relaxed: a counter.
            self.counts.expired.fetch_add(1, Ordering::Relaxed);
        }
        StoreAttempt::Done(self.switch(writer, &mut pair, found.as_ref().zip(current.as_ref()), item))
    }

    /// Makes the item current under the lock: draws its csn, finishes it, supersedes the old entry, and only
    /// then switches the slot. The slot was reserved.
    #[inline]
    fn switch(
        &self,
        writer: &mut Writer<M>,
        pair: &mut PairOf<'_, M>,
        old: Option<(&Found, &Current)>,
        item: PreparedItem<'_>,
    ) -> Csn {
        let csn = self.next_csn();
        let record = match item {
            PreparedItem::Inline { key, value, expiry } => {
                Record::Inline { csn, key, value, expiry, entry: None }
            }
            PreparedItem::Drafted { draft, hash, expiry } => {
                let entry = self.finish(writer, draft, csn);
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

    /// Removes the judged item; `None` if it is no longer there. A volatile server without followers needs no
    /// tombstone.
    fn try_remove(&self, times: Timestamps, write: &PendingWrite<'_>, seen: Option<&Seen>) -> Option<Csn> {
        let index = self.index.read();
        let mut pair = index.lock(write.hash);
        let found = pair.find(write.request.key)?;
        if !is_still(seen, Some(&self.current(&found, times))) {
            return None;
        }
        // A delete is a write, so it takes its place among the versions.
        let csn = self.next_csn();
        self.remove(&mut pair, &found);
        Some(csn)
    }
}

/// Whether the present item is the judged one. An expired item counts as no item.
fn is_still(seen: Option<&Seen>, current: Option<&Current>) -> bool {
    let there = current.filter(|current| !current.gone).map_or(Csn::NONE, |current| current.csn);
    seen.map_or(Csn::NONE, |seen| seen.live.csn) == there
}
