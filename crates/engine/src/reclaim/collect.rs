//! Moves a live entry out of a nearly dead segment (LoLKV 4.1; L11, L12).

use std::sync::atomic::Ordering;

use longarm_base::{Csn, EntryRef, Mutant};
use longarm_index::hash::Record;
use longarm_memory::OwnedWords;
use longarm_store::{Entry, EntryKind, Writer};

use crate::commit::Commit;
use crate::commit::Replicated;
use crate::engine::Engine;
use crate::newest::names;
use crate::session::Sessions;
use crate::stream::{IndexChange, StreamWriter, Written};
use crate::timestamps::Timestamps;
use crate::worker_context::WorkerContext;

/// The result of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relocated {
    /// The entry is elsewhere now, or gone.
    Done,
    /// Another write replaced the entry first, a copy of it is on its way already, or it is not applied yet.
    Lost,
    /// There is no room for the copy.
    Full,
    /// In a group: the item's time is over, and it is deleted.
    Expired,
}

/// The entry that is moved, and where it stands.
struct Source<'a> {
    place: EntryRef,
    entry: &'a Entry<'a>,
}

impl<M: OwnedWords> Engine<M> {
    /// Moves the entry at `place` of version `csn`. In a group the copy is an entry of the context's stream,
    /// which must not be full, and the slot is switched when followers have it; deletes and records of
    /// sessions move too, as long as they are needed.
    pub fn relocate(
        &self,
        context: &mut WorkerContext<M>,
        times: Timestamps,
        place: EntryRef,
        csn: Csn,
        sessions: &Sessions,
    ) -> Relocated {
        let WorkerContext { writer, bytes, stream, .. } = context;
        // Collection comes by again while followers are slow. Of two copies the younger one would lose.
        let is_moving = stream.as_ref().is_some_and(|stream| stream.is_moving(place));
        if is_moving && !Mutant::MoveTwice.is_on() {
            return Relocated::Lost;
        }
        let Ok(entry) = self.store.read(place, csn, bytes) else { return Relocated::Lost };
        match (&self.commit, stream) {
            (Commit::Replicated(group), Some(stream)) => {
                let to = StreamWriter { writer, stream };
                let from = Source { place, entry: &entry };
                let moved = self.relocate_replicated(group, to, times, from, sessions);
                if moved == Relocated::Expired {
                    // Its segment need not wait until expiry comes by.
                    let (key, hash) = (entry.key.to_vec(), self.hash(entry.key));
                    self.expire_replicated(group, context, &key, hash, times);
                }
                moved
            }
            _ => self.relocate_direct(writer, times, place, &entry),
        }
    }

    fn relocate_direct(
        &self,
        writer: &mut Writer<M>,
        times: Timestamps,
        place: EntryRef,
        entry: &Entry<'_>,
    ) -> Relocated {
        let (csn, expiry, hash) = (entry.csn, entry.expiry, self.hash(entry.key));
        let expired = expiry.expired(times.unix);
        let stays = !expired && !self.evicts(place, hash);
        let drafted = stays.then(|| writer.draft_move(entry));
        let Ok(draft) = drafted.transpose() else { return Relocated::Full };
        let index = self.index.read();
        let mut pair = index.lock(hash);
        let found = pair.find(entry.key).filter(|found| names(found, csn, place));
        let Some(found) = found else { return Relocated::Lost };
        let counter = match draft {
            None => {
                self.remove(&mut pair, &found);
                if expired { &self.counts.expired } else { &self.counts.evicted }
            }
            Some(draft) => {
                let copy = self.finish(writer, draft, csn);
                self.store.supersede(place, csn);
                let record = Record::Entry { csn, entry: copy, hash, expiry };
                if pair.replace(&found, &record).is_err() {
                    self.noting_move(copy, csn, || pair.replace_anyway(&found, &record));
                }
                &self.counts.moved
            }
        };
        // Relaxed: a counter.
        counter.fetch_add(1, Ordering::Relaxed);
        Relocated::Done
    }

    /// The copy has its place before the slot is looked at. So its segment was claimed before any delete of
    /// the key was applied, and the watermark keeps that delete for as long as the copy may be found (rule
    /// DraftFirst of `docs/spec`).
    fn relocate_replicated(
        &self,
        group: &Replicated,
        StreamWriter { writer, stream }: StreamWriter<'_, M>,
        times: Timestamps,
        Source { place, entry }: Source<'_>,
        sessions: &Sessions,
    ) -> Relocated {
        let csn = entry.csn;
        let (draft, change) = match entry.kind {
            EntryKind::Put | EntryKind::Move => {
                let late = Mutant::LookFirst.is_on();
                let draft = (!late).then(|| writer.draft_move(entry));
                let hash = self.hash(entry.key);
                let index = self.index.read();
                let pair = index.lock(hash);
                let Some(found) = pair.find(entry.key) else { return Relocated::Lost };
                // Another version is being applied, or was replaced.
                if !names(&found, csn, place) {
                    return Relocated::Lost;
                }
                if self.current(&found, times).gone {
                    return Relocated::Expired;
                }
                (draft.unwrap_or_else(|| writer.draft_move(entry)), IndexChange::Move { hash, from: place })
            }
            // No slot says that it is applied. Before that its own stream may be cut off at it by the next
            // leader, which would have the copy of another stream nevertheless.
            EntryKind::Tombstone | EntryKind::Noop
                if csn > self.store.stable() && !Mutant::MoveUnapplied.is_on() =>
            {
                return Relocated::Lost;
            }
            EntryKind::Tombstone | EntryKind::Noop if self.drop_needless(group, place, entry, sessions) => {
                return Relocated::Done;
            }
            EntryKind::Tombstone | EntryKind::Noop => {
                (writer.draft_move(entry), IndexChange::Replace { from: place, csn })
            }
        };
        let Ok(draft) = draft else { return Relocated::Full };
        let copy = writer.finish(draft, csn);
        stream.push(Written { place: copy, csn, change });
        Relocated::Done
    }

    /// Supersedes the tombstone, or the saved outcome, of version `csn` at `place`, if nothing needs it any
    /// more; returns whether it did.
    pub fn review(
        &self,
        context: &mut WorkerContext<M>,
        place: EntryRef,
        csn: Csn,
        sessions: &Sessions,
    ) -> bool {
        let WorkerContext { bytes, stream, .. } = context;
        let Commit::Replicated(group) = &self.commit else { return false };
        // Its copy would stay.
        if stream.as_ref().is_some_and(|stream| stream.is_moving(place)) {
            return false;
        }
        let entry = self.store.read(place, csn, bytes);
        entry.is_ok_and(|entry| self.drop_needless(group, place, &entry, sessions))
    }

    fn drop_needless(
        &self,
        group: &Replicated,
        place: EntryRef,
        entry: &Entry<'_>,
        sessions: &Sessions,
    ) -> bool {
        let csn = entry.csn;
        let asked = |by: &longarm_store::OperationId| sessions.may_ask(by.id, by.operation, csn);
        let needed = match entry.kind {
            EntryKind::Put | EntryKind::Move => true,
            EntryKind::Tombstone => {
                !self.store.tombstone_may_go(place, csn) && !Mutant::DropTombstones.is_on()
            }
            EntryKind::Noop => entry.session.as_ref().is_some_and(asked),
        };
        if needed {
            return false;
        }
        if entry.kind == EntryKind::Tombstone {
            group.deletes.forget(entry.key, self.hash(entry.key), csn);
        }
        group.drop_kept(entry.kind, place);
        self.store.supersede(place, csn);
        true
    }
}
