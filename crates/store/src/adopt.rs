//! Taking over an arena that another leader filled: the next leader makes a store over the previous one's
//! WRITEs.
//!
//! [`Store::adopt`] reads the segment table only. [`Store::replay`] then shows what the segments hold, one
//! segment after the other, and the caller builds its index from that.
//!
//! The adopting node writes lines and marks. No client reads: this memory was a follower's, so no slot and no
//! location cache of a client names anything in it before the caller has published its index.
//! (1) Only bytes that verify and bear stream, term and generation of their segment's line are an entry.
//!     Every other room is voided: bytes of an older use, and half-landed entries.
//! (2) The old leader knew which entries are superseded; the bit on this node may show it or not. So replay
//!     clears the bit and counts the entry live, and the caller supersedes all but the newest entry of each
//!     key, as it comes to know them. Clearing is safe because no client reads yet; the bit of an entry that
//!     may be cached never goes from set to clear (docs/spec: ClearAfter).
//! (3) A segment is held until it has been replayed, as if by a draft: it does not die while entries may
//!     still be counted. It may die with the end of its replay. A segment that dies before the index is
//!     published dies unread, so it needs no quarantine ([`Store::bury_unread`]). Otherwise leaders that each
//!     end before a quarantine does could fill the memory with dead segments.
//! (4) Adopted segments are sealed; new entries come into segments of this term. Claim numbers and
//!     generations continue from those that were found.

use std::cmp::Reverse;
use std::sync::Arc;

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{EntryRef, Term};
use longarm_memory::{Budget, OwnedWords, SumKey};

use crate::object::{Entry, layout};
use crate::segment::layout::segment_at;
use crate::segment::{ArenaGeometry, Ledger, Line, Phase, read_table};
use crate::settled::Rooms;
use crate::store::check_shape;
use crate::written::{Scratch, TOGETHER, fetch_ahead, together, written};
use crate::{CreateStoreError, Settled, Store, StoreOptions};

/// The visitor of the entries of a replayed segment.
pub trait Visit {
    /// Announces an entry that is visited after a few others, so that memory it will need can be fetched.
    fn ahead(&mut self, _entry: &Entry<'_>) {}
    /// Visits an entry at its place.
    fn entry(&mut self, place: EntryRef, entry: &Entry<'_>);
}

impl<F: FnMut(EntryRef, &Entry<'_>)> Visit for F {
    fn entry(&mut self, place: EntryRef, entry: &Entry<'_>) {
        self(place, entry);
    }
}

impl<M: OwnedWords> Store<M> {
    /// A store over an arena that earlier leaders filled, under terms below that of the options. It takes the
    /// table, all segments in use and as much of the reserve as is free from the budget, if need be beyond
    /// its limit. Until every segment of [`adopted`](Self::adopted) has been replayed, no entry in them is
    /// read, superseded or collected.
    ///
    /// The stable point is the highest that any claim noted.
    pub fn adopt(
        memory: M,
        budget: Arc<Budget>,
        options: StoreOptions,
        sums: SumKey,
    ) -> Result<Store<M>, CreateStoreError> {
        let geometry = ArenaGeometry::read(&memory, &sums)?;
        check_shape(geometry.segments as u64 * SEGMENT_BYTES, &options)?;
        let found = read_table(&memory, &sums, geometry);
        let (term, segment) = found.term;
        if term > options.term || (term == options.term && term != Term::ZERO) {
            return Err(CreateStoreError::Term { segment, found: term, term: options.term });
        }
        // Segments in use are charged, whatever the limit.
        budget
            .take_anyway(Store::<M>::table_bytes(geometry.segments) + u64::from(found.used) * SEGMENT_BYTES);
        let freed: Vec<(u32, Line)> =
            found.freed.iter().map(|&segment| (segment, found.segments[segment as usize].line)).collect();
        let (stable, mut adopted) = (found.claim_csn, found.adopted.clone());
        adopted.sort_by_key(|&segment| Reverse(found.segments[segment as usize].line.claim_csn));
        let ledger = Ledger::adopt(found, geometry.table, options.reserve, &budget);
        let mut store = Store::with_ledger(memory, budget, options, sums, geometry, ledger);
        for &segment in &adopted {
            let tally = &store.tallies[segment as usize];
            tally.reset(true);
            tally.drafted();
        }
        for (segment, line) in freed {
            store.put_line(segment, &line);
        }
        store.adopted = adopted.into();
        store.set_stable(stable);
        Ok(store)
    }

    /// The segments and heads of runs that may hold entries, as [`adopt`](Self::adopt) found them; none after
    /// [`create`](Self::create). Those that were claimed last come first: who replays them in this order
    /// mostly sees the newest version of a key before the others, which then need nothing but their own bit.
    pub fn adopted(&self) -> &[u32] {
        &self.adopted
    }

    /// The number of rooms in the adopted segments, a run having one: the bound on the number of entries.
    pub fn adopted_rooms(&self) -> u64 {
        let ledger = self.ledger.lock();
        self.adopted.iter().map(|&segment| ledger.segments[segment as usize].line.rooms().1).sum()
    }

    /// Presumes the rooms that `settled` knows of adopted segments, which are then not replayed. The watch
    /// that saw them settle knows their entries, and `live` says how many of each segment count, and their
    /// cache lines. The superseded bits are as the watch left them. Call it before anything is replayed.
    pub fn presume(&mut self, settled: &Settled, live: impl Fn(u32) -> (u64, u64)) {
        let ledger = self.ledger.lock();
        self.presumed = vec![None; self.segments as usize].into();
        for &segment in &self.adopted {
            let line = &ledger.segments[segment as usize].line;
            // The ledger has the state of an adopted segment; the other fields say which use it is.
            let Some(rooms) = settled.rooms(segment, line) else { continue };
            let (entries, units) = live(segment);
            self.tallies[segment as usize].presumed(entries, units);
            self.presumed[segment as usize] = Some(rooms);
        }
    }

    /// Shows the presumed entries.
    pub fn visit_presumed(&self, visit: &mut dyn FnMut(EntryRef, &Entry<'_>)) {
        for (segment, rooms) in (0..).zip(&self.presumed) {
            let Some(rooms) = rooms else { continue };
            let room = self.ledger.lock().segments[segment as usize].line.rooms().0;
            let end = segment_at(segment) + rooms.end * room;
            self.visit(segment, 0, &mut |place, entry| {
                let seen = place.offset < end;
                if seen {
                    visit(place, entry);
                }
                seen
            });
        }
    }

    /// Shows every entry of one adopted segment, or run, that was not [`presumed`](Self::presume), to
    /// `visit`, which may [`supersede`](Self::supersede) it and any that was visited before. Call it once for
    /// each of [`adopted`](Self::adopted), in any order, from several threads if need be.
    ///
    /// # Panics
    /// If the segment was not adopted, or has been replayed.
    pub fn replay(&self, segment: u32, scratch: &mut Scratch, visit: &mut impl Visit) {
        let line = {
            let mut ledger = self.ledger.lock();
            let known = &mut ledger.segments[segment as usize];
            assert_eq!(
                known.phase,
                Phase::Adopted,
                "segment {segment} is replayed once, after it was adopted"
            );
            known.phase = if known.line.stride == 0 { Phase::Run } else { Phase::Sealed };
            known.line
        };
        let tail = self.replay_rooms(segment, &line, scratch, visit);
        let line = {
            let mut ledger = self.ledger.lock();
            let known = &mut ledger.segments[segment as usize].line;
            known.tail = tail;
            *known
        };
        // The line first, as in `seal`.
        self.put_line(segment, &line);
        self.abandoned(segment);
    }

    /// Replays the rooms of a segment; returns the tail: the end of the last entry's room. In a run, which
    /// has one room, it is zero.
    fn replay_rooms(
        &self,
        segment: u32,
        line: &Line,
        Scratch(scratch): &mut Scratch,
        visit: &mut impl Visit,
    ) -> u32 {
        let (room, rooms) = line.rooms();
        let presumed = self.presumed.get(segment as usize).copied().flatten();
        let Rooms { seen, end } = presumed.unwrap_or(Rooms { seen: 0, end: 0 });
        let mut tail = end * room;
        let mut rooms = written(&self.memory, segment, room, rooms, seen).peekable();
        while rooms.peek().is_some() {
            let mut found: [Option<(EntryRef, Entry<'_>)>; TOGETHER] = [const { None }; TOGETHER];
            let group = rooms.by_ref().take(together(room)).map(|i| (i, segment_at(segment) + i * room));
            for (((i, offset), bytes), found) in group.zip(scratch.iter_mut()).zip(&mut found) {
                fetch_ahead(&self.memory, offset, room);
                let Some((place, entry)) = self.replay_room(line, offset, room, bytes) else { continue };
                tail = (i + 1) * room;
                // Counted first: the visitor may supersede it at once.
                self.tallies[segment as usize].found(place.units());
                visit.ahead(&entry);
                *found = Some((place, entry));
            }
            for (place, entry) in found.iter().flatten() {
                visit.entry(*place, entry);
            }
        }
        if line.stride == 0 { 0 } else { tail as u32 }
    }

    /// Shows the entry in a room, counted as live; a room without one is voided.
    fn replay_room<'b>(
        &self,
        line: &Line,
        offset: u64,
        room: u64,
        bytes: &'b mut Vec<u8>,
    ) -> Option<(EntryRef, Entry<'b>)> {
        if self.memory.load(offset + layout::SUM) == 0 {
            return None;
        }
        let marked = line.marks(&self.memory, offset);
        let entry = marked.then(|| line.entry_in(&self.memory, &self.sums, offset, room, bytes)).flatten();
        let Some((place, entry)) = entry else {
            self.memory.store(offset + layout::SUM, 0);
            return None;
        };
        if entry.superseded {
            self.memory.store(offset + layout::MARK, line.mark());
        }
        Some((place, Entry { superseded: false, ..entry }))
    }
}
