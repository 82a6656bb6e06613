//! Moves a live entry out of a nearly dead segment (LoLKV 4.1; L11, L12).

use std::sync::atomic::Ordering;

use longarm_base::{Csn, Mutant};
use longarm_index::hash::Record;
use longarm_memory::OwnedWords;
use longarm_store::{EntryPlace, Kind};

use crate::clock::Moment;
use crate::engine::{Engine, Hand};
use crate::item::entry_ref;
use crate::newest::names;
use crate::session::Sessions;
use crate::stream::{Change, Written};

/// What became of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relocated {
    /// The entry is elsewhere now, or gone.
    Done,
    /// Somebody replaced it first, or a copy of it is on its way already.
    Lost,
    /// There is no room for the copy.
    Full,
}

impl<M: OwnedWords> Engine<M> {
    /// The same in a group: the copy is an entry of our stream, and the slot is switched when followers have
    /// it. Deletes and records of sessions move too, as long as they are needed.
    ///
    /// The copy has its place before the slot is looked at: so its segment was claimed before any delete of
    /// the key was applied, and the watermark keeps that delete for as long as the copy may be found (rule
    /// DraftFirst of `docs/spec`). The stream must not be full.
    pub(crate) fn relocate_later(
        &self,
        hand: &mut Hand<M>,
        moment: Moment,
        (place, csn): (EntryPlace, Csn),
        sessions: &Sessions,
    ) -> Relocated {
        // Collection comes by again while followers are slow. Of two copies the younger would lose.
        let is_moving = hand.stream.as_ref().is_some_and(|stream| stream.is_moving(place));
        if is_moving && !Mutant::MoveTwice.is_on() {
            return Relocated::Lost;
        }
        let Ok(entry) = self.store.read(place, csn, &mut hand.bytes) else { return Relocated::Lost };
        let (draft, change) = match entry.kind {
            Kind::Put | Kind::Move => {
                let late = Mutant::LookFirst.is_on();
                let draft = (!late).then(|| hand.writer.draft_move(&entry));
                let hash = self.hash(entry.key);
                let pair = self.index.lock(hash);
                let Some(found) = pair.find(entry.key) else { return Relocated::Lost };
                // Over: it goes by expiry. Another version: this one is being applied, or was replaced.
                if !names(&found, csn, place) || self.current(&found, moment).gone {
                    return Relocated::Lost;
                }
                (draft.unwrap_or_else(|| hand.writer.draft_move(&entry)), Change::Move { hash, from: place })
            }
            Kind::Tombstone if self.store.tombstone_may_go(place, csn) || Mutant::DropTombstones.is_on() => {
                let hash = self.hash(entry.key);
                self.later.iter().for_each(|later| later.deletes.forget(hash, csn));
                self.store.supersede(place, csn);
                return Relocated::Done;
            }
            Kind::Noop if entry.session.is_none_or(|by| !sessions.may_ask(by.id, by.operation, csn)) => {
                self.store.supersede(place, csn);
                return Relocated::Done;
            }
            Kind::Tombstone | Kind::Noop => {
                (hand.writer.draft_move(&entry), Change::Replace { from: place, csn })
            }
        };
        let Ok(draft) = draft else { return Relocated::Full };
        let copy = hand.writer.finish(draft, csn);
        let stream = hand.stream.as_mut().expect("in a group every hand has a stream");
        stream.push(Written { place: copy, csn, change });
        Relocated::Done
    }

    pub(crate) fn relocate(
        &self,
        hand: &mut Hand<M>,
        moment: Moment,
        place: EntryPlace,
        csn: Csn,
    ) -> Relocated {
        let Ok(entry) = self.store.read(place, csn, &mut hand.bytes) else { return Relocated::Lost };
        let expired = entry.expiry.expired(moment.unix);
        let hash = self.hash(entry.key);
        let draft = if expired { None } else { Some(hand.writer.draft_move(&entry)) };
        let draft = match draft.transpose() {
            Ok(draft) => draft,
            Err(_) => return Relocated::Full,
        };
        let mut pair = self.index.lock(hash);
        let Some(found) = pair.find(entry.key) else { return Relocated::Lost };
        if !names(&found, csn, place) {
            return Relocated::Lost;
        }
        let Some(draft) = draft else {
            self.remove(&mut pair, &found);
            // Relaxed: a counter.
            self.counts.expired.fetch_add(1, Ordering::Relaxed);
            return Relocated::Done;
        };
        let copy = hand.writer.finish(draft, csn);
        self.store.supersede(place, csn);
        let expiry = entry.expiry;
        let switched = pair.replace(&found, &Record::Entry { csn, entry: entry_ref(copy), hash, expiry });
        assert!(switched.is_ok(), "a record that is replaced in place needs no room");
        // Relaxed: a counter.
        self.counts.moved.fetch_add(1, Ordering::Relaxed);
        Relocated::Done
    }
}
