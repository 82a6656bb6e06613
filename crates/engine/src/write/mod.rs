//! Executes a write: it looks at the item, judges the request by it, and writes the outcome, which takes
//! effect at once on a server of its own (`direct.rs`), and in a group when the followers have it
//! (`replicated.rs`; LoLKV 3.3.2, M5).
//!
//! A request that makes no sense is refused whatever is stored: a time to live that no clock reaches, a key
//! or a value beyond its limit.

pub mod direct;
pub mod judge;
pub mod number;
pub mod replicated;

use longarm_base::{EntryRef, UnixMillis};
use longarm_index::hash::{INLINE_MAX, Record};
use longarm_memory::{Hash, OwnedWords};
use longarm_store::OperationId;
use longarm_wire::{Request, RequestKind, Status};

use crate::commit::Commit;
use crate::engine::Engine;
use crate::outcome::{Outcome, Short};
use crate::timestamps::Timestamps;
use crate::worker_context::WorkerContext;
use judge::{Judged, LiveItem, NewValue, is_blind, judge};
use number::{DIGITS_MAX, decimal, parse};

/// A write on its way.
pub struct PendingWrite<'a> {
    pub request: &'a Request<'a>,
    /// The session and number of the operation, if its client numbered it.
    pub session: Option<OperationId>,
    pub hash: Hash,
    /// The expiry that its time to live gives.
    pub expiry: UnixMillis,
    /// Whether no stored item matters to its judgement.
    pub blind: bool,
}

/// The item that a look at a key has found.
pub struct Seen {
    pub live: LiveItem,
    value: SeenValue,
}

/// The place of the value.
enum SeenValue {
    /// A copy of the value in the slot.
    Inline([u8; INLINE_MAX], usize),
    Entry(EntryRef),
}

impl<M: OwnedWords> Engine<M> {
    /// Executes a PUT, DELETE, INCREMENT or TOUCH. In a group it takes effect once the position that the
    /// context's stream has written now is applied. An outcome without an entry was judged by the items here,
    /// and holds if the leader has its lease afterwards.
    #[inline]
    pub fn write(
        &self,
        context: &mut WorkerContext<M>,
        times: Timestamps,
        request: &Request<'_>,
        session: Option<OperationId>,
    ) -> Result<Outcome, Short> {
        let Some(expiry) = self.expiry_in(request.ttl_ms, times) else {
            return Ok(Outcome::of(Status::Invalid));
        };
        let (hash, blind) = (self.hash(request.key), is_blind(request));
        let write = PendingWrite { request, session, hash, expiry, blind };
        match &self.commit {
            Commit::Direct => self.write_direct(context, times, &write),
            Commit::Replicated(group) => self.write_replicated(group, context, times, &write),
        }
    }

    /// Judges a write by the item that was seen.
    fn judged<'a>(&self, write: &PendingWrite<'a>, seen: Option<&Seen>) -> Judged<'a> {
        judge(write.request, write.expiry, seen.map(|seen| seen.live))
    }

    /// The live item that a write is about, if there is one; none for a blind write. [`Short::Busy`] if its
    /// entry's room was used again since it was found: the caller looks for it anew.
    pub fn look(
        &self,
        bytes: &mut Vec<u8>,
        times: Timestamps,
        write: &PendingWrite<'_>,
    ) -> Result<Option<Seen>, Short> {
        if write.blind {
            return Ok(None);
        }
        let index = self.index.read();
        let pair = index.lock(write.hash);
        let Some(found) = pair.find(write.request.key) else { return Ok(None) };
        let current = self.current(&found, times);
        if current.gone {
            return Ok(None);
        }
        let (value, is_short) = match found.record() {
            Record::Inline { value, .. } => {
                let mut copy = [0; INLINE_MAX];
                copy[..value.len()].copy_from_slice(value);
                (SeenValue::Inline(copy, value.len()), true)
            }
            Record::Entry { csn, entry, .. } => {
                let is_short = self.arena.value_len(entry, csn) <= DIGITS_MAX;
                (SeenValue::Entry(self.arena.with_len(entry)), is_short)
            }
        };
        drop(pair);
        drop(index);
        let live = LiveItem { csn: current.csn, expiry: current.expiry, number: None };
        let mut seen = Seen { live, value };
        if write.request.kind == RequestKind::Increment && is_short {
            seen.live.number = parse(self.value_of(&seen, bytes)?);
        }
        Ok(Some(seen))
    }

    /// The value that was seen. No lock is held for the copy, however long the value is.
    pub fn value_of<'a>(&self, seen: &'a Seen, bytes: &'a mut Vec<u8>) -> Result<&'a [u8], Short> {
        match &seen.value {
            SeenValue::Inline(value, len) => Ok(&value[..*len]),
            SeenValue::Entry(place) => match self.store.read(*place, seen.live.csn, bytes) {
                Ok(entry) => Ok(entry.value),
                Err(_) => Err(Short::Busy),
            },
        }
    }

    /// The bytes of the value that the key is to get.
    fn bytes_of<'a>(
        &self,
        value: NewValue<'a>,
        seen: Option<&'a Seen>,
        bytes: &'a mut Vec<u8>,
        text: &'a mut [u8; DIGITS_MAX],
    ) -> Result<&'a [u8], Short> {
        match (value, seen) {
            (NewValue::Given(value), _) => Ok(value),
            (NewValue::Decimal(number), _) => Ok(decimal(number, text)),
            (NewValue::Kept, Some(seen)) => self.value_of(seen, bytes),
            (NewValue::Kept, None) => unreachable!("nothing is kept of an item that is not there"),
        }
    }
}
