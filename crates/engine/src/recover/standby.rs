//! The standby index of a follower, which is ready when its leader is lost (LoLKV 5.1; decision 14; M8).
//!
//! Building the index is most of what a group would otherwise wait for (`restore.rs`). So settled entries of
//! a follower's arena go into its index region at once, a little at a time, by the same rules: of each key
//! the newest version, of each version the youngest copy. No client reads that region before its node leads.
//!
//! The leader frees and claims segments without asking the follower, and WRITEs over their old bytes. So the
//! follower keeps, for each segment, the hashes of the keys of its entries. When the segment's use is over,
//! it takes them out again, before it looks at an entry of the next use. An entry that goes out then was no
//! key's value any more: a segment is freed when it holds no live entry, and each replacement is here, or
//! still to be looked at.
//!
//! It writes the index region, and superseded bits of settled entries. It reads the arena.
//! (1) No decision rests on an entry that may be of another use by now: between two copies of a version, the
//!     segment line of the earlier one is read after the entry. A place that was overwritten is about to be
//!     taken out.
//! (2) A bit and the count of its segment change together, and only if the entry is still there.
//! (3) Settled entries are in the start set of the next leader, unless it says otherwise (`is_beyond`): then
//!     all of this is dropped, and the index is built anew.

use std::sync::Arc;

use longarm_base::{Csn, EntryRef, Mutant, Term};
use longarm_host::observe::WATCHED;
use longarm_index::control::Control;
use longarm_index::hash::{Found, NoRoom, Owner, SlotKind};
use longarm_memory::{Budget, Hash, OwnedWords, SumKey};
use longarm_store::object::set_superseded;
use longarm_store::segment::Line;
use longarm_store::segment::layout::segment_of;
use longarm_store::{ArenaView, Entry, EntryKind, Populated, Settled, SettledWatcher};

use crate::engine::{Engine, store_of};
use crate::entries::Arena;
use crate::index::{index_of, publisher};
use crate::newest::record_of;
use crate::options::{CreateEngineError, EngineOptions};
use crate::recover::prefetch::{Prefetch, TOGETHER};
use crate::recover::recovered::{EntryCopy, Recovered};

/// So many entries are taken out in no time to speak of.
const TAKEN_OUT: u64 = 10_000;

/// The standby index: the settled entries, and what else was found there.
pub struct Standby<M: OwnedWords> {
    /// The part of the arena that was looked at.
    pub settled: Settled,
    /// The index and the rest that was built from it.
    pub built: Built<M>,
    populated: Populated,
}

/// The index and the rest that was built from settled entries.
pub struct Built<M: OwnedWords> {
    pub index: Owner<M, Arena<M>>,
    pub budget: Arc<Budget>,
    pub found: Recovered,
    pub arena: Arena<M>,
    slots: SlotKind,
    prefetch: Prefetch,
    segments: Vec<StandbySegment>,
    /// Whether the index has no room for the next entry.
    full: bool,
}

/// The state of one use of a segment.
struct StandbySegment {
    line: Line,
    /// Entries that are not superseded, and their cache lines.
    live: (u64, u64),
    /// The hash of the key of each entry.
    hashes: Vec<Hash>,
    /// Whether there are deletes among its entries.
    deletes: bool,
    /// Whether there are saved records among its entries.
    saved: bool,
}

impl StandbySegment {
    const NONE: StandbySegment =
        StandbySegment { line: Line::FREE, live: (0, 0), hashes: Vec::new(), deletes: false, saved: false };
}

impl<M: OwnedWords + Clone + 'static> Standby<M> {
    /// An empty index over zeroed memory, with room for as many items as the options say.
    pub fn new(
        index: M,
        arena: M,
        control: Control<M>,
        sums: SumKey,
        budget: Arc<Budget>,
        options: &EngineOptions,
    ) -> Result<Standby<M>, CreateEngineError> {
        let arena = Arena { memory: arena };
        let index = index_of(index, arena.clone(), publisher(control, None), sums, budget.clone(), options)?;
        let built = Built {
            prefetch: Prefetch::of(&index),
            index,
            budget,
            found: Recovered::default(),
            arena,
            slots: options.slots,
            segments: Vec::new(),
            full: false,
        };
        Ok(Standby { settled: Settled::default(), built, populated: Populated::default() })
    }

    /// The engine over the arena of this index, and what was found there.
    pub fn engine(
        self,
        sums: SumKey,
        options: EngineOptions,
    ) -> Result<(Engine<M>, Recovered), CreateEngineError> {
        let Standby { settled, built, .. } = self;
        let budget = built.budget.clone();
        let mut store = store_of(built.arena.memory.clone(), budget.clone(), sums, &options, false)?;
        store.presume(&settled, |segment| built.live(segment));
        Ok((Engine::over(built.index, store, budget, options), built.found))
    }
}

impl<M: OwnedWords + Clone> Standby<M> {
    /// Looks a little further; see [`Settled::look`], also for what is returned. First the index takes its
    /// memory, which is to be in huge pages.
    pub fn look(&mut self, sums: &SumKey, term: Term, floors: &[u64], bytes: u64) -> bool {
        if self.built.index.populate_some() {
            return false;
        }
        let memory = self.built.arena.memory.clone();
        self.settled.look(ArenaView { memory: &memory, sums }, term, floors, bytes, &mut self.built)
    }

    /// Has one more block of the arena stand in a huge page. `true` if that took some time.
    pub fn populate_arena(&mut self, sums: &SumKey) -> bool {
        self.populated.advance(&self.built.arena.memory, sums)
    }

    /// Forgets the outcomes of versions up to this one, for which nobody asks any more. What entries said of
    /// younger ones stays, also when the entries are gone: it is true.
    pub fn forget_aged(&mut self, aged: Csn) {
        self.built.found.sessions.forget_aged(aged);
    }

    /// If the index must be begun anew with more room: for how many items. The leader has `told` items: an
    /// index that is too small for them would be made larger by who restores the rest, while no client is
    /// served.
    pub fn outgrown(&self, told: u64) -> Option<u64> {
        let Built { index, full, .. } = &self.built;
        let table = index.newest();
        let small = told > table.pairs * table.shape.base_slots() as u64;
        (*full || small).then(|| 2 * index.items().max(if small { told } else { 0 }))
    }

    /// Takes out entries whose use is over, when no leader writes to this memory any more. `None` if the
    /// start set over `base`, cut there, does not begin like this index. `None`, too, if that is so much that
    /// all cores build another index sooner: a follower that could look at little while much was written has
    /// mostly what is over by now.
    pub fn finish(mut self, sums: &SumKey, base: Term, cuts: &[u64]) -> Option<Standby<M>> {
        if self.built.full || self.settled.term() != base || self.settled.is_beyond(base, cuts) {
            return None;
        }
        let memory = self.built.arena.memory.clone();
        let (over, standing) = self.settled.over_and_standing(ArenaView { memory: &memory, sums });
        if over > TAKEN_OUT.max(standing / 2) {
            return None;
        }
        self.settle(sums);
        Some(self)
    }

    /// Takes out entries whose use is over, while no leader writes to this memory. A leader that writes next
    /// may give the follower a segment once more that it had let go of, in the same use and with other
    /// superseded bits.
    pub fn settle(&mut self, sums: &SumKey) {
        let memory = self.built.arena.memory.clone();
        let arena = ArenaView { memory: &memory, sums };
        self.settled.settle(arena, &mut self.built);
        if WATCHED && !self.built.full {
            self.check_live(arena);
        }
    }

    /// Checks that the count of each segment is what the superseded bits of its settled entries say: nothing
    /// else than this index has written them since it looked.
    fn check_live(&self, arena: ArenaView<'_>) {
        let mut found = vec![0; self.built.segments.len()];
        self.settled
            .visit(arena, &mut |segment, entry| found[segment as usize] += u64::from(!entry.superseded));
        for (segment, (found, known)) in found.iter().zip(&self.built.segments).enumerate() {
            let counted = known.live.0;
            assert!(
                *found == counted,
                "segment {segment}: {found} settled entries count, {counted} by account"
            );
        }
    }
}

impl<M: OwnedWords> Built<M> {
    /// Entries of a segment that count, and their cache lines.
    pub fn live(&self, segment: u32) -> (u64, u64) {
        self.segments.get(segment as usize).map_or((0, 0), |segment| segment.live)
    }

    /// Marks the entry as superseded, if it is still there.
    fn supersede(&mut self, place: EntryRef) {
        let segment = &mut self.segments[segment_of(place.offset) as usize];
        if set_superseded(&self.arena.memory, place.offset, &segment.line, true) {
            segment.live.0 -= 1;
            segment.live.1 -= u64::from(place.units());
        }
    }

    /// Whether the item at `place` is an older copy of the entry's version, or gone.
    fn is_older_copy(&self, place: EntryRef, entry: &Entry<'_>) -> bool {
        let age = self.arena.age(place);
        let segment = segment_of(place.offset);
        // After the age: a line lands before the entries that are written under it.
        age < entry.age() || !self.segments[segment as usize].line.stands(&self.arena.memory, segment)
    }

    /// Puts the entry into the index; `false` if there is no room.
    fn put(&mut self, place: EntryRef, entry: &Entry<'_>, hash: Hash) -> bool {
        if self.found.is_deleted(entry, hash) {
            self.supersede(place);
            return true;
        }
        let record = record_of(self.slots, place, &entry.into(), hash);
        let index = self.index.read();
        let mut pair = index.lock(hash);
        let Some(found) = pair.find(entry.key) else {
            return match pair.insert(&record) {
                Ok(()) => true,
                Err(NoRoom::Table) => false,
                // More room for all keys would probably not help these.
                Err(NoRoom::Pair) => {
                    pair.spill(entry.key, &record);
                    true
                }
            };
        };
        let there = found.entry().expect("in a group every item stands in the arena");
        let (csn, there) = (found.record().csn(), self.arena.with_len(there));
        let newer = csn < entry.csn || (csn == entry.csn && self.is_older_copy(there, entry));
        if newer {
            let switched = pair.replace(&found, &record);
            assert!(switched.is_ok(), "a record that is replaced in place needs no room");
        }
        drop(pair);
        drop(index);
        self.supersede(if newer { there } else { place });
        true
    }

    /// Removes the key's item, unless it is newer than the delete.
    fn delete(&mut self, entry: &Entry<'_>, hash: Hash) {
        let index = self.index.read();
        let mut pair = index.lock(hash);
        let Some(found) = pair.find(entry.key).filter(|found| found.record().csn() < entry.csn) else {
            return;
        };
        let there = found.entry().map(|there| self.arena.with_len(there));
        pair.remove(&found);
        drop(pair);
        drop(index);
        there.into_iter().for_each(|there| self.supersede(there));
    }

    /// Takes out the slots of keys with these hashes that name the segment.
    fn take_out(&mut self, at: u32, hashes: &[Hash]) {
        for some in hashes.chunks(TOGETHER) {
            self.prefetch.fetch(&self.index, some);
            for &hash in some {
                self.index.read().lock(hash).remove_gone(|entry| segment_of(entry.offset) == at);
            }
        }
    }

    /// Checks that no slot of the index names the segment any more.
    fn check_over(&self, at: u32) {
        let geometry = self.index.geometry();
        let tables = geometry.live().enumerate();
        let pairs = tables.flat_map(|(table, is)| (0..is.pairs).map(move |pair| (table, pair)));
        for (table, pair) in pairs {
            let index = self.index.read();
            let Some(pair) = index.lock_nth(table, pair) else { continue };
            let stays = |found: &Found| found.entry().is_some_and(|entry| segment_of(entry.offset) == at);
            assert!(
                !pair.all().iter().any(stays),
                "the index names what segment {at} held before it was over"
            );
        }
    }
}

impl<M: OwnedWords> SettledWatcher for Built<M> {
    fn ahead(&mut self, entry: &Entry<'_>) {
        self.prefetch.announce(&self.index, entry.key);
    }

    fn entry(&mut self, at: u32, line: &Line, place: EntryRef, entry: &Entry<'_>) -> bool {
        if self.segments.len() <= at as usize {
            self.segments.resize_with(at as usize + 1, || StandbySegment::NONE);
        }
        let segment = &mut self.segments[at as usize];
        segment.line = *line;
        if entry.superseded {
            // Only the leader that set the bit knows why; here it is determined anew.
            set_superseded(&self.arena.memory, place.offset, line, false);
        }
        segment.live.0 += 1;
        segment.live.1 += u64::from(place.units());
        let hash = self.prefetch.next(&self.index, Some(&self.arena.memory));
        if entry.kind.is_value() && !self.put(place, entry, hash) {
            self.full = true;
            return false;
        }
        let segment = &mut self.segments[at as usize];
        segment.hashes.push(hash);
        segment.deletes |= entry.kind == EntryKind::Tombstone;
        segment.saved |= entry.kind == EntryKind::Noop;
        let spare = self.found.see(place, entry, hash);
        if entry.kind == EntryKind::Tombstone {
            self.delete(entry, hash);
        }
        spare.into_iter().for_each(|EntryCopy { place, .. }| self.supersede(place));
        true
    }

    fn over(&mut self, at: u32) {
        let mut segment = std::mem::replace(&mut self.segments[at as usize], StandbySegment::NONE);
        // A slot that names an entry counts it: where none counts, no slot is to be looked for.
        if segment.live.0 > 0 && !Mutant::KeepGone.is_on() {
            self.take_out(at, &segment.hashes);
        }
        let is_gone = |place: EntryRef| segment_of(place.offset) == at;
        if segment.deletes {
            self.found.forget_deletes(&mut segment.hashes, is_gone);
        }
        if segment.saved {
            self.found.forget_saved(is_gone);
        }
        if WATCHED {
            self.check_over(at);
        }
    }
}
