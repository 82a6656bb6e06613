//! Writes of a group: judged and written here, applied later, when the followers have them (LoLKV 3.3.2;
//! M5). The counterpart of `put`, `delete`, `increment` and `touch`, which apply at once.
//!
//! (1) A write is judged while it holds its stripe (`stripes.rs`), so what it found still holds when it is
//!     applied.
//! (2) Every write is an entry, also a delete (a tombstone) and what would fit into a slot: followers have
//!     entries only.
//! (3) The csn is drawn and the entry finished without a step between that could fail.
//! (4) Applying cannot fail: what it needs of the index it takes beyond the memory limit, if it must. A new
//!     key of which it is known that its pair takes no more is refused when it is judged (decision 17).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::{Csn, Mutant, Nanos, UnixMillis};
use longarm_host::observe::{Event, observe};
use longarm_index::hash::{NoRoom, Table};
use longarm_memory::{Hash, OwnedWords};
use longarm_store::{Draft, DraftError, EntryMeta, EntryPlace, Kind, Session};
use longarm_wire::{Condition, Request, RequestKind, Status};

use crate::account::Deletes;
use crate::clock::Moment;
use crate::engine::{ATTEMPTS, Current, Engine, Hand, Outcome, Short, holds};
use crate::increment::{DIGITS_MAX, decimal, parse};
use crate::newest::names;
use crate::stream::{Change, Progress, Stream, Written};
use crate::stripes::{Stripe, Stripes};

/// So many entries before they are applied, what they will change is fetched.
const HEADER: u64 = 9;
const SLOT: u64 = 6;
const ENTRY: u64 = 3;

/// What the writes of a group share.
#[derive(Debug)]
pub(crate) struct Later {
    pub stripes: Stripes,
    /// By stream.
    pub progress: Vec<Arc<Progress>>,
    /// What was deleted, and may explain an entry that no slot names.
    pub deletes: Deletes,
    /// When the leader's lease ends, in nanoseconds of the monotonic clock.
    lease: AtomicU64,
}

impl Later {
    pub fn new(streams: u16) -> Later {
        let progress = (0..streams).map(|_| Arc::default()).collect();
        Later { stripes: Stripes::default(), progress, deletes: Deletes::default(), lease: AtomicU64::new(0) }
    }

    /// The lease lasts until then.
    pub fn set_lease(&self, end: Nanos) {
        // Release: pairs with `leads`.
        self.lease.store(end.0, Ordering::Release);
    }

    /// When it ends, as far as it was renewed.
    pub fn lease(&self) -> Nanos {
        // Acquire: pairs with `set_lease`.
        Nanos(self.lease.load(Ordering::Acquire))
    }

    /// Whether what was seen before `now` was the newest: to be asked after looking (L9, etcd 20418).
    pub fn leads(&self, now: Nanos) -> bool {
        // Acquire: pairs with `set_lease`.
        now.0 < self.lease.load(Ordering::Acquire) || Mutant::NoLease.is_on()
    }
}

/// What a request wants, after it was judged.
pub(crate) enum Judged<'a> {
    /// Nothing is written.
    Answer(Outcome),
    /// The key gets this value.
    Store { value: &'a [u8], expiry: UnixMillis, number: i64 },
    /// The key goes.
    Remove,
}

impl<M: OwnedWords> Engine<M> {
    /// Judges a write and writes its entry; it is applied once the stream's position that is `written` now
    /// is. An outcome without an entry was judged by what is here: it holds if the lease does, after.
    pub(crate) fn write_later(
        &self,
        hand: &mut Hand<M>,
        moment: Moment,
        (request, session): (&Request<'_>, Option<Session>),
    ) -> Result<Outcome, Short> {
        let later = self.later.as_ref().expect("only groups write so");
        if hand.stream.as_ref().is_none_or(Stream::is_full) {
            return Err(Short::Busy);
        }
        let hash = self.hash(request.key);
        let blind =
            request.kind == RequestKind::Put && request.condition == Condition::Always && !request.keep_ttl;
        let alone = !blind && !Mutant::ShareStripes.is_on();
        let stripe = later.stripes.enter(hash, alone).ok_or(Short::Busy)?;
        let outcome = self.write_held(hand, moment, (request, session), (hash, stripe, blind));
        if !matches!(outcome, Ok(Ok(_))) {
            later.stripes.leave(stripe);
        }
        outcome.map(|outcome| outcome.unwrap_or_else(|answer| answer))
    }

    /// `Ok(Ok(_))` if an entry was written, `Ok(Err(_))` if there was nothing to write.
    fn write_held(
        &self,
        hand: &mut Hand<M>,
        moment: Moment,
        (request, session): (&Request<'_>, Option<Session>),
        (hash, stripe, blind): (Hash, Stripe, bool),
    ) -> Result<Result<Outcome, Outcome>, Short> {
        let Hand { writer, bytes, .. } = &mut *hand;
        let mut text = [0; DIGITS_MAX];
        let judged = match blind {
            true => self.judge_blind(moment, request),
            false => {
                let live = self.live_item(hash, request.key, moment);
                self.judge((bytes, &mut text), moment, request, live)?
            }
        };
        let meta = |kind: Kind, expiry| {
            let meta = EntryMeta::of(kind).expiring(expiry);
            session.map_or(meta, |session| meta.by(session))
        };
        let (drafted, change, number) = match judged {
            Judged::Answer(outcome) => return Ok(Err(outcome)),
            Judged::Store { .. } if !self.has_place(request.key, hash) => return Err(Short::Crowded),
            Judged::Store { value, expiry, number } => {
                let drafted = writer.draft(request.key, value, meta(Kind::Put, expiry));
                (drafted, Change::Store { hash, stripe }, number)
            }
            Judged::Remove => {
                let meta = meta(Kind::Tombstone, UnixMillis::NEVER);
                // Deletes go on when memory is full: they give it back.
                let drafted = writer.draft(request.key, &[], meta);
                let drafted = drafted.or_else(|_| writer.draft_kept(request.key, &[], meta));
                (drafted, Change::Remove { hash, stripe }, 0)
            }
        };
        let draft = match drafted {
            Ok(draft) => draft,
            Err(DraftError::Full(_)) => return Err(self.short(moment)),
            Err(DraftError::Key(_) | DraftError::Value(_)) => {
                return Ok(Err(Outcome::of(Status::Invalid)));
            }
        };
        let csn = self.write_drawn(hand, draft, change);
        Ok(Ok(Outcome { number, ..Outcome::ok(csn) }))
    }

    /// Draws a csn and writes the entry into the stream.
    fn write_drawn(&self, hand: &mut Hand<M>, draft: Draft, change: Change) -> Csn {
        let stream = hand.stream.as_mut().expect("a hand of a group has a stream");
        stream.announce(self.csn());
        let csn = self.next_csn();
        let place = hand.writer.finish(draft, csn);
        stream.push(Written { place, csn, change });
        csn
    }

    /// Whether the key is there, or a slot for it can be had; where the memory limit is in the way, that is
    /// for the arena to say. Writes under way may take the last one: they find another place (`newest.rs`).
    fn has_place(&self, key: &[u8], hash: Hash) -> bool {
        self.index
            .is_tight(hash)
            .then(|| {
                (0..ATTEMPTS).find_map(|_| {
                    let mut pair = self.index.lock(hash);
                    if pair.find(key).is_some() || pair.reserve(None).is_ok() {
                        return Some(true);
                    }
                    drop(pair);
                    self.index.make_room(hash).err().map(|no_room| no_room == NoRoom::Table)
                })
            })
            .flatten()
            .unwrap_or(true)
    }

    fn judge_blind<'a>(&self, moment: Moment, request: &Request<'a>) -> Judged<'a> {
        match self.expiry_in(request.ttl_ms, moment) {
            Some(expiry) => Judged::Store { value: request.value, expiry, number: 0 },
            None => Judged::Answer(Outcome::of(Status::Invalid)),
        }
    }

    /// Says what the request makes of the item that was found. The stripe is held alone, so that item is
    /// still the newest; collection may have moved it since it was found, and its room may be used again.
    /// Then it is to be looked for anew ([`Short::Busy`]).
    pub(crate) fn judge<'a>(
        &self,
        (bytes, text): (&'a mut Vec<u8>, &'a mut [u8; DIGITS_MAX]),
        moment: Moment,
        request: &Request<'a>,
        live: Option<Current>,
    ) -> Result<Judged<'a>, Short> {
        let answer = |status| Judged::Answer(Outcome::of(status));
        let csn = live.map_or(Csn::NONE, |live| live.csn);
        let kept = live.map_or(UnixMillis::NEVER, |live| live.expiry);
        let value = |bytes: &'a mut Vec<u8>| {
            let place = live.and_then(|live| live.place).expect("an item of a group is an entry");
            self.store.read(place, csn, bytes).map(|entry| entry.value).map_err(|_| Short::Busy)
        };
        Ok(match request.kind {
            RequestKind::Put if !holds(request.condition, request.argument, csn) => {
                Judged::Answer(Outcome::mismatch(csn))
            }
            RequestKind::Put if request.keep_ttl => {
                Judged::Store { value: request.value, expiry: kept, number: 0 }
            }
            RequestKind::Put => self.judge_blind(moment, request),
            RequestKind::Increment => {
                let before = match live {
                    None => Some(0),
                    Some(_) => parse(value(bytes)?),
                };
                let Some(before) = before else { return Ok(answer(Status::NotANumber)) };
                match before.checked_add(request.argument as i64) {
                    None => answer(Status::Overflow),
                    Some(after) => Judged::Store { value: decimal(after, text), expiry: kept, number: after },
                }
            }
            RequestKind::Delete if live.is_none() => match request.condition {
                Condition::Version if request.argument != 0 => Judged::Answer(Outcome::mismatch(Csn::NONE)),
                _ => answer(Status::NotFound),
            },
            _ if live.is_none() => answer(Status::NotFound),
            _ if !holds(request.condition, request.argument, csn) => Judged::Answer(Outcome::mismatch(csn)),
            RequestKind::Delete => Judged::Remove,
            _ => match self.expiry_in(request.ttl_ms, moment) {
                Some(expiry) => Judged::Store { value: value(bytes)?, expiry, number: 0 },
                None => answer(Status::Invalid),
            },
        })
    }

    /// What is known of a key's item, if it has one that is not over.
    pub(crate) fn live_item(&self, hash: Hash, key: &[u8], moment: Moment) -> Option<Current> {
        let pair = self.index.lock(hash);
        let found = pair.find(key)?;
        Some(self.current(&found, moment)).filter(|current| !current.gone)
    }

    /// Takes an item away whose time is over. `false` if it could not be now.
    pub(crate) fn expire_later(&self, hand: &mut Hand<M>, key: &[u8], moment: Moment) -> bool {
        let later = self.later.as_ref().expect("only groups expire so");
        let hash = self.hash(key);
        if hand.stream.as_ref().is_none_or(Stream::is_full) {
            return false;
        }
        let Some(stripe) = later.stripes.enter(hash, true) else { return false };
        let gone = {
            let pair = self.index.lock(hash);
            pair.find(key).is_some_and(|found| self.current(&found, moment).gone)
        };
        let mut delete = || {
            // As other deletes: it gives memory back.
            let drafted = hand.writer.draft(key, &[], EntryMeta::TOMBSTONE);
            drafted.or_else(|_| hand.writer.draft_kept(key, &[], EntryMeta::TOMBSTONE)).ok()
        };
        let draft = if gone { delete() } else { None };
        let Some(draft) = draft else {
            later.stripes.leave(stripe);
            return !gone;
        };
        self.write_drawn(hand, draft, Change::Remove { hash, stripe });
        // Relaxed: a counter.
        self.counts.expired.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Applies what is committed, in order; how much that was.
    pub(crate) fn apply_committed(&self, hand: &mut Hand<M>, moment: Moment) -> u64 {
        let mut applied = 0;
        let mut newest = None;
        while let Some(written) = hand.stream.as_ref().and_then(Stream::next_to_apply) {
            let table = newest.get_or_insert_with(|| self.index.newest());
            hand.stream.iter().for_each(|stream| self.prefetch(table, stream));
            self.apply(&mut hand.bytes, moment, &written);
            hand.stream.as_mut().expect("it had one just now").set_applied();
            applied += 1;
        }
        applied
    }

    /// Has fetched what entries that are to be applied soon will change: each alone would wait for memory
    /// three times, for the header of its pair, the slot, and the entry that it replaces.
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

    fn apply(&self, bytes: &mut Vec<u8>, moment: Moment, written: &Written) {
        let Written { place, csn, change } = *written;
        match change {
            Change::Store { hash, stripe } => {
                let entry = self.own_entry(bytes, place, csn);
                self.set_newest(moment, (place, &entry), hash);
                self.show(entry.key, hash);
                self.leave(stripe);
                self.mark(hash);
            }
            Change::Remove { hash, stripe } => {
                let entry = self.own_entry(bytes, place, csn);
                self.later.iter().for_each(|later| later.deletes.note(hash, csn));
                self.remove_older((entry.key, hash), csn);
                self.show(entry.key, hash);
                self.leave(stripe);
            }
            Change::Move { hash, from } => {
                let entry = self.own_entry(bytes, place, csn);
                let mut pair = self.index.lock(hash);
                match pair.find(entry.key) {
                    Some(found) if names(&found, csn, from) || Mutant::MoveAnyway.is_on() => {
                        let record = self.record_of(place, &entry, hash);
                        self.store.supersede(from, csn);
                        let switched = pair.replace(&found, &record);
                        assert!(switched.is_ok(), "a record that is replaced in place needs no room");
                        // Relaxed: a counter.
                        self.counts.moved.fetch_add(1, Ordering::Relaxed);
                        drop(pair);
                        self.show(entry.key, hash);
                    }
                    // Somebody replaced it first.
                    _ => {
                        self.store.supersede(place, csn);
                    }
                }
            }
            Change::Replace { from, csn: replaced } => {
                self.store.supersede(from, replaced);
            }
        }
    }

    /// Tells a simulated world what readers find of a key.
    fn show(&self, key: &[u8], hash: Hash) {
        observe(|| {
            let csn = self.index.lock(hash).find(key).map_or(Csn::NONE, |found| found.record().csn());
            Event::Shown { key: hash.0, csn }
        });
    }

    /// An entry that this worker wrote, and that nothing has superseded: it is there.
    fn own_entry<'a>(&self, bytes: &'a mut Vec<u8>, place: EntryPlace, csn: Csn) -> longarm_store::Entry<'a> {
        match self.store.read(place, csn, bytes) {
            Ok(entry) => entry,
            Err(e) => panic!("our own entry at {place:?} of csn {csn:?} is not there: {e}"),
        }
    }

    fn leave(&self, stripe: Stripe) {
        if let Some(later) = &self.later {
            later.stripes.leave(stripe);
        }
    }

    /// All csns up to this are applied (M10, "stable point").
    pub(crate) fn stable_point(&self) -> Csn {
        // The counter first: a write that draws after this look is above it, one that drew before had
        // announced itself (`Stream::announce`).
        let counter = self.csn();
        let later = self.later.iter().flat_map(|later| &later.progress);
        let below = u64::from(!Mutant::StableHigh.is_on());
        later
            .filter_map(|progress| progress.low())
            .fold(counter, |stable, low| stable.min(Csn(low.0 - below)))
    }
}
