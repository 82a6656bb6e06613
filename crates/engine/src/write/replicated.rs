//! A write of a group: written here, applied when the followers have it (LoLKV 3.3.2; M5).
//!
//! (1) A write is judged while it holds its stripe (`stripes.rs`), so the item that it found still holds when
//!     the write is applied.
//! (2) Every write is an entry, also a delete (a tombstone) and an item that would fit into a slot: followers
//!     have entries only.
//! (3) The csn is drawn and the entry finished without a step between that could fail.
//! (4) Applying cannot fail: it takes slots of the index beyond the memory limit, if it must. A new key whose
//!     pair is known to take no more is refused when it is judged (decision 17).

use std::sync::atomic::Ordering;

use longarm_base::{Csn, Mutant, UnixMillis};
use longarm_host::observe::{Observation, ReplicaStep, observe, reach};
use longarm_index::hash::{INLINE_MAX, NoRoom, Table};
use longarm_memory::{Hash, OwnedWords};
use longarm_store::{Draft, DraftError, EntryKind, EntryMeta, Writer};
use longarm_wire::Status;

use super::PendingWrite;
use super::judge::Judged;
use super::number::DIGITS_MAX;
use crate::commit::{Commit, Replicated};
use crate::engine::{ATTEMPTS, Engine};
use crate::newest::names;
use crate::outcome::{Outcome, Short};
use crate::stream::{IndexChange, Stream, StreamWriter, Written};
use crate::stripes::Stripe;
use crate::timestamps::Timestamps;
use crate::worker_context::WorkerContext;

/// How many entries ahead of applying each part of what they change is fetched.
const HEADER: u64 = 9;
const SLOT: u64 = 6;
const ENTRY: u64 = 3;

/// The result of a write while it held its stripe.
enum StripeOutcome {
    /// An entry, which keeps the stripe until it is applied.
    Wrote(Outcome),
    /// Writes nothing.
    Answer(Outcome),
}

impl<M: OwnedWords> Engine<M> {
    pub(super) fn write_replicated(
        &self,
        group: &Replicated,
        context: &mut WorkerContext<M>,
        times: Timestamps,
        write: &PendingWrite<'_>,
    ) -> Result<Outcome, Short> {
        let WorkerContext { writer, bytes, stream, .. } = context;
        let Some(stream) = stream.as_mut().filter(|stream| !stream.is_full()) else {
            return Err(Short::Busy);
        };
        let stripe = group.enter(write.hash, write.blind)?;
        let held = self.write_held(StreamWriter { writer, stream }, bytes, times, write, stripe);
        if !matches!(held, Ok(StripeOutcome::Wrote(_))) {
            group.stripes.leave(stripe);
        }
        held.map(|(StripeOutcome::Wrote(outcome) | StripeOutcome::Answer(outcome))| outcome)
    }

    fn write_held(
        &self,
        StreamWriter { writer, stream }: StreamWriter<'_, M>,
        bytes: &mut Vec<u8>,
        times: Timestamps,
        write: &PendingWrite<'_>,
        stripe: Stripe,
    ) -> Result<StripeOutcome, Short> {
        let (key, hash) = (write.request.key, write.hash);
        // The stripe is held exclusively, so the item that is seen stays the newest. Collection may move it,
        // and its room may be used again: then the write is tried anew.
        let seen = self.look(bytes, times, write)?;
        let mut text = [0; DIGITS_MAX];
        let meta = |kind: EntryKind, expiry| {
            let meta = EntryMeta::of(kind).expiring(expiry);
            write.session.map_or(meta, |session| meta.by(session))
        };
        let (drafted, change, number) = match self.judged(write, seen.as_ref()) {
            Judged::Answer(outcome) => return Ok(StripeOutcome::Answer(outcome)),
            Judged::Store { .. } if !self.has_place(key, hash) => return Err(Short::Crowded),
            Judged::Store { value, expiry, number } => {
                let value = self.bytes_of(value, seen.as_ref(), bytes, &mut text)?;
                let drafted = writer.draft(key, value, meta(EntryKind::Put, expiry));
                (drafted, IndexChange::Store { hash, stripe }, number)
            }
            Judged::Remove => {
                let drafted = draft_tombstone(writer, key, meta(EntryKind::Tombstone, UnixMillis::NEVER));
                (drafted, IndexChange::Remove { hash, stripe }, 0)
            }
        };
        let draft = match drafted {
            Ok(draft) => draft,
            Err(DraftError::Full(_)) => return Err(self.short(times)),
            Err(DraftError::Key(_) | DraftError::Value(_)) => {
                return Ok(StripeOutcome::Answer(Outcome::of(Status::Invalid)));
            }
        };
        let csn = self.write_drawn(writer, stream, draft, change);
        Ok(StripeOutcome::Wrote(Outcome { number, ..Outcome::ok(csn) }))
    }

    /// Draws a csn and writes the entry into the stream.
    fn write_drawn(
        &self,
        writer: &mut Writer<M>,
        stream: &mut Stream,
        draft: Draft,
        change: IndexChange,
    ) -> Csn {
        stream.announce(self.csn());
        let csn = self.next_csn();
        let place = writer.finish(draft, csn);
        stream.push(Written { place, csn, change });
        csn
    }

    /// Whether the key is there, or a slot for it can be had. If only the memory limit is in the way, the
    /// arena decides. Writes under way may take the last slot; a write without one finds another place
    /// (`newest.rs`).
    fn has_place(&self, key: &[u8], hash: Hash) -> bool {
        self.index
            .is_tight(hash)
            .then(|| {
                (0..ATTEMPTS).find_map(|_| {
                    let index = self.index.read();
                    let mut pair = index.lock(hash);
                    if pair.find(key).is_some() || pair.reserve(None).is_ok() {
                        return Some(true);
                    }
                    drop(pair);
                    drop(index);
                    self.index.make_room(hash).err().map(|no_room| no_room == NoRoom::Table)
                })
            })
            .flatten()
            .unwrap_or(true)
    }

    /// Removes an expired item of a group; `false` if that is not possible now.
    pub fn expire_replicated(
        &self,
        group: &Replicated,
        context: &mut WorkerContext<M>,
        key: &[u8],
        hash: Hash,
        times: Timestamps,
    ) -> bool {
        let WorkerContext { writer, stream, .. } = context;
        let Some(stream) = stream.as_mut().filter(|stream| !stream.is_full()) else { return false };
        let Some(stripe) = group.stripes.enter(hash, true) else { return false };
        let gone = {
            let index = self.index.read();
            let pair = index.lock(hash);
            pair.find(key).is_some_and(|found| self.current(&found, times).gone)
        };
        let draft = gone.then(|| draft_tombstone(writer, key, EntryMeta::TOMBSTONE).ok()).flatten();
        let Some(draft) = draft else {
            group.stripes.leave(stripe);
            return !gone;
        };
        self.write_drawn(writer, stream, draft, IndexChange::Remove { hash, stripe });
        // Relaxed: a counter.
        self.counts.expired.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Applies committed entries, in order; returns how many.
    pub fn apply_committed(&self, context: &mut WorkerContext<M>, times: Timestamps) -> u64 {
        let mut applied = 0;
        let mut newest = None;
        while let Some(written) = context.stream.as_ref().and_then(Stream::next_to_apply) {
            let table = newest.get_or_insert_with(|| self.index.newest());
            context.stream.iter().for_each(|stream| self.prefetch(table, stream));
            self.apply(&mut context.bytes, times, &written);
            reach(ReplicaStep::Showing);
            context.stream.as_mut().expect("it had one just now").set_applied();
            applied += 1;
        }
        applied
    }

    /// Prefetches what entries that are to be applied soon will change. Each of them alone would wait for
    /// memory three times: for the header of its pair, the slot, and the entry that it replaces.
    #[inline]
    fn prefetch(&self, table: &Table, stream: &Stream) {
        let soon = |after| stream.to_apply(after).and_then(|written| written.change.hash());
        if let Some(hash) = soon(HEADER) {
            self.index.prefetch(table, hash);
        }
        if let Some(hash) = soon(SLOT) {
            self.index.prefetch_slot(table, hash);
        }
        if let Some(entry) = soon(ENTRY).and_then(|hash| self.index.likely_entry(table, hash)) {
            self.store.memory().prefetch(entry.offset);
        }
    }

    fn apply(&self, bytes: &mut Vec<u8>, times: Timestamps, written: &Written) {
        let Written { place, csn, change } = *written;
        match change {
            IndexChange::Store { hash, stripe } => {
                let entry = self.store.own(place, csn, bytes, INLINE_MAX);
                if self.set_newest(times, place, &entry, hash) {
                    // Relaxed: a counter.
                    self.counts.expired.fetch_add(1, Ordering::Relaxed);
                }
                self.show(entry.key, hash);
                self.leave(stripe);
                self.mark(hash);
            }
            IndexChange::Remove { hash, stripe } => {
                let entry = self.store.own(place, csn, bytes, INLINE_MAX);
                if let Commit::Replicated(group) = &self.commit {
                    group.deletes.note(hash, csn);
                    group.keep(EntryKind::Tombstone, place);
                }
                self.remove_older(entry.key, hash, csn);
                self.show(entry.key, hash);
                self.leave(stripe);
            }
            IndexChange::Move { hash, from } => {
                let entry = self.store.own(place, csn, bytes, INLINE_MAX);
                let index = self.index.read();
                let mut pair = index.lock(hash);
                match pair.find(entry.key) {
                    Some(found) if names(&found, csn, from) || Mutant::MoveAnyway.is_on() => {
                        let record = self.record_of(place, &entry, hash);
                        self.store.supersede(from, csn);
                        let switched = pair.replace(&found, &record);
                        assert!(switched.is_ok(), "a record that is replaced in place needs no room");
                        // Relaxed: a counter.
                        self.counts.moved.fetch_add(1, Ordering::Relaxed);
                        drop(pair);
                        drop(index);
                        self.show(entry.key, hash);
                    }
                    // Another write replaced it first.
                    _ => {
                        self.store.supersede(place, csn);
                    }
                }
            }
            IndexChange::Replace { from, csn: replaced } => {
                self.store.supersede(from, replaced);
            }
        }
    }

    /// Tells a simulated world the version of a key that readers find.
    fn show(&self, key: &[u8], hash: Hash) {
        observe(|| {
            let csn = self.index.read().lock(hash).find(key).map_or(Csn::NONE, |found| found.record().csn());
            Observation::Shown { key: hash.0, csn }
        });
    }

    fn leave(&self, stripe: Stripe) {
        if let Commit::Replicated(group) = &self.commit {
            group.stripes.leave(stripe);
        }
    }

    /// The csn up to which all are applied (M10, "stable point").
    pub fn stable_point(&self) -> Csn {
        // The counter first: a write that draws after this look is above it, and a write that drew before had
        // announced itself (`Stream::announce`).
        let counter = self.csn();
        let below = u64::from(!Mutant::StableHigh.is_on());
        let under_way = self.progress().iter().filter_map(|progress| progress.low());
        under_way.fold(counter, |stable, low| stable.min(Csn(low.0 - below)))
    }
}

/// Drafts a delete. A delete is drafted even if memory is full, since it gives memory back.
fn draft_tombstone<M: OwnedWords>(
    writer: &mut Writer<M>,
    key: &[u8],
    meta: EntryMeta,
) -> Result<Draft, DraftError> {
    writer.draft(key, &[], meta).or_else(|_| writer.draft_kept(key, &[], meta))
}
