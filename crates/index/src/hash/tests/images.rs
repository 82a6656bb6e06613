//! A loss of power at any moment: each state that it can leave of tables out of place is reopened, and holds
//! every write that was acknowledged, or that a reader saw (Continuity hashing III.C).

use std::collections::BTreeMap;

use longarm_base::limits::LINE;

use super::super::layout::{GROUP_SLOTS, GROUPS_MAX};
use super::super::owner::Bound;
use super::cuts::{Answer, atomic};
use super::*;

/// Kinds of slots, with the bytes of memory that the first table takes.
const KINDS: [(SlotKind, u64); 2] = [(SlotKind::Inline64, 20 << 10), (SlotKind::Pointer16, 8 << 10)];

/// All images of one moment are looked at if they are no more than this; else so many are drawn.
const ALL: usize = 1 << 16;
const DRAWN: usize = 1 << 12;

type Index = Owner<Arc<Journal>, Arc<Book>>;

/// A bed over persistent memory, with what each key was acknowledged as, and when.
struct Persistent {
    bed: Bed<Journal>,
    /// By key: what it was from which moment on, as far as it was acknowledged.
    acknowledged: BTreeMap<Vec<u8>, Vec<(usize, Option<Csn>)>>,
    /// A key that may be missing where it is said to stand beside the table.
    beside: Option<Vec<u8>>,
    /// The geometry from which moment on, as it was published.
    geometries: Vec<(usize, Geometry)>,
}

/// What a loss of power left.
struct Image<'a> {
    moment: usize,
    bytes: &'a [u8],
    geometry: Geometry,
    /// By key: what it may be.
    allowed: &'a [(&'a [u8], Vec<Option<Csn>>)],
}

/// What was reopened, over all images.
#[derive(Default)]
struct Seen {
    images: u64,
    reopened: Reopened,
}

fn persistent(bytes: u64, slots: SlotKind) -> Persistent {
    let bed = bed(Journal::new(bytes), slots, Discipline::OutOfPlace, 1);
    let geometry = bed.owner.geometry();
    Persistent { bed, acknowledged: BTreeMap::new(), beside: None, geometries: vec![(0, geometry)] }
}

impl Persistent {
    fn put(&mut self, key: &[u8]) {
        let csn = self.bed.put(key, b"v");
        self.note(key, Some(csn));
    }

    fn remove(&mut self, key: &[u8]) {
        assert!(self.bed.remove(key));
        self.note(key, None);
    }

    /// The present moment, with all that stands there written back: what is in the cache for long gets out.
    fn settled(&self) -> usize {
        let memory = &self.bed.memory;
        memory.flush(0, memory.bytes());
        memory.fence();
        memory.now()
    }

    fn note(&mut self, key: &[u8], now: Option<Csn>) {
        let moment = self.bed.memory.now();
        self.acknowledged.entry(key.to_vec()).or_default().push((moment, now));
        self.note_geometry();
    }

    /// A change of the geometry is persistent before the next change of a pair begins.
    fn note_geometry(&mut self) {
        let geometry = self.bed.owner.geometry();
        if self.geometries.last().is_none_or(|(_, last)| *last != geometry) {
            self.geometries.push((self.bed.memory.now(), geometry));
        }
    }

    /// What a key may be after a loss of power at this moment: what was acknowledged last, or what the next
    /// write made of it, if that was under way; and nothing but that, if a reader saw it.
    fn allowed(&self, key: &[u8], moment: usize) -> Vec<Option<Csn>> {
        let all = &self.acknowledged[key];
        let done = all.iter().filter(|(at, _)| *at <= moment).count();
        let (since, before) = done.checked_sub(1).map_or((0, None), |last| all[last]);
        let Some(&(_, next)) = all.get(done) else { return vec![before] };
        let seen = next.map_or(Answer::Absent, Answer::Version);
        let sees = |at| atomic(&self.bed, key, ReadGranularity::Window, at).answer == seen;
        if (since..=moment).any(sees) { vec![next] } else { vec![before, next] }
    }

    /// Reopens every image of every moment since `from`.
    fn check(&self, from: usize) -> Seen {
        let mut seen = Seen::default();
        for moment in self.bed.memory.before_fences(from) {
            let of_moment = self.geometries.iter().rev().find(|(at, _)| *at <= moment);
            let geometry = of_moment.expect("the first one").1;
            let keys = self.acknowledged.keys();
            let allowed: Vec<_> = keys.map(|key| (key.as_slice(), self.allowed(key, moment))).collect();
            self.bed.memory.images(moment, LINE).visit(ALL, DRAWN, 1, |bytes| {
                seen.images += 1;
                let image = Image { moment, bytes, geometry, allowed: &allowed };
                self.check_image(&image, &mut seen.reopened);
            });
        }
        seen
    }

    /// The index over memory that was left so.
    fn reopen(&self, memory: &Arc<Journal>, geometry: Geometry) -> Result<(Index, Reopened), ReopenError> {
        let (entries, sums) = (self.bed.book.clone(), self.bed.sums.clone());
        let budget = Arc::new(Budget::new(memory.bytes()));
        let (options, used) = (self.bed.owner.options, memory.bytes());
        Owner::reopen(memory.clone(), entries, sums, budget, options, geometry, used, |_| ())
    }

    /// Puts a key that was not there into a reopened index.
    fn insert(&self, owner: &Index, key: &[u8], csn: Csn) -> Result<(), NoRoom> {
        let entry = EntryRef { offset: csn.0 * 64, len: 64 };
        self.bed.book.entries.lock().expect("book").insert(entry.offset, (csn, key.to_vec()));
        let hash = owner.hasher().hash(key);
        let record = Record::Entry { csn, entry, hash, expiry: UnixMillis::NEVER };
        owner.read().lock(hash).insert(&record)
    }

    /// Another pair gets a group that went back as the index was reopened, and keeps what it has there when
    /// power is lost again.
    fn takes_what_went_back(&self, bytes: &[u8], geometry: Geometry, keys: &[Vec<u8>]) {
        let memory = Arc::new(Journal::of(bytes));
        let reopen = |memory: &Arc<Journal>| self.reopen(memory, geometry).expect("no damage").0;
        let owner = reopen(&memory);
        for (i, key) in (0..).zip(keys) {
            self.insert(&owner, key, Csn((1 << 21) + i)).expect("a group for the pair");
        }
        memory.images(memory.now(), LINE).visit(ALL, DRAWN, 1, |bytes| {
            let again = reopen(&Arc::new(Journal::of(bytes)));
            for key in keys {
                assert!(
                    again.read().lock(self.bed.hash(key)).find(key).is_some(),
                    "{key:?} was acknowledged"
                );
            }
        });
    }

    fn check_image(&self, image: &Image<'_>, all: &mut Reopened) {
        let Image { moment, bytes, geometry, allowed } = *image;
        let memory = Arc::new(Journal::of(bytes));
        let reopen = || {
            let opened = self.reopen(&memory, geometry);
            opened.unwrap_or_else(|error| panic!("moment {moment}: {error}"))
        };
        let (owner, report) = reopen();
        let checked = verify(&*memory, &geometry, &self.bed.sums, 0, |record| self.bed.known_hash(record));
        assert_eq!(checked.problem_count, 0, "moment {moment}: {:#?}", checked.problems);
        assert_eq!((checked.items, checked.extended), (owner.items(), extended(&owner)), "moment {moment}");
        let index = owner.read();
        for (key, allowed) in allowed {
            let found = index.lock(self.bed.hash(key)).find(key).map(|found| found.record().csn());
            let at = geometry.live().map(|table| (table.id, table.home(self.bed.hash(key)).0));
            let is_beside = at.into_iter().any(|at| report.beside.contains(&at));
            if found.is_none() && is_beside && self.beside.as_deref() == Some(key) {
                continue;
            }
            assert!(allowed.contains(&found), "moment {moment}: {key:?} is {found:?}, not of {allowed:?}");
        }
        drop(index);
        all.unlocked += report.unlocked;
        all.wiped += report.wiped;
        all.shown += report.shown;
        all.twice += report.twice;
        all.given_back += report.given_back;
        // What was put right once needs nothing more.
        let (_, again) = reopen();
        assert_eq!(
            again,
            Reopened { items: owner.items(), beside: again.beside.clone(), ..Reopened::default() }
        );
        // It is an index like any other.
        let key = b"after".to_vec();
        let hash = owner.hasher().hash(&key);
        let stored = self.insert(&owner, &key, Csn(1 << 20));
        let index = owner.read();
        assert!(stored == Ok(()) || geometry.live().count() > 1 || owner.is_tight(hash), "{stored:?}");
        if stored.is_ok() {
            assert!(index.lock(hash).find(&key).is_some());
        }
    }
}

fn extended(owner: &Index) -> u64 {
    let state = owner.state.read().expect("state");
    // Relaxed: one thread.
    state.live.iter().map(|live| live.extended.load(Ordering::Relaxed)).sum()
}

#[test]
fn what_was_acknowledged_or_seen_outlives_a_loss_of_power() {
    for (slots, room) in KINDS {
        let mut persistent = persistent(room, slots);
        for key in persistent.bed.neighbours(3) {
            persistent.put(&key);
        }
        let from = persistent.settled();
        // Replaced slots come back (even and odd buckets).
        for _ in 0..3 {
            persistent.put(b"k");
        }
        persistent.remove(b"k");
        persistent.put(b"other");
        persistent.put(b"k");
        let Seen { images, reopened } = persistent.check(from);
        assert!(images > 100, "{images}");
        assert!(
            reopened.unlocked.min(reopened.wiped).min(reopened.shown) > 0 && reopened.twice == 0,
            "{reopened:?}"
        );
    }
}

#[test]
fn groups_that_come_and_go_outlive_a_loss_of_power() {
    for (slots, room) in KINDS {
        let mut persistent = persistent(room, slots);
        let shape = persistent.bed.owner.newest().shape;
        let keys = persistent.bed.neighbours(shape.bucket + shape.shared + 2);
        let (own, added) = keys.split_at(shape.bucket + shape.shared);
        own.iter().for_each(|key| persistent.put(key));
        let from = persistent.settled();
        added.iter().for_each(|key| persistent.put(key));
        assert_eq!(persistent.bed.check().extended, 1);
        added.iter().for_each(|key| persistent.remove(key));
        assert_eq!(persistent.bed.check().extended, 0);
        persistent.remove(&own[0]);
        persistent.put(&own[0]);
        let Seen { images, reopened } = persistent.check(from);
        assert!(images > 50 && reopened.unlocked > 0 && reopened.given_back > 0, "{images}: {reopened:?}");
    }
}

/// A pair that has another group goes on being extended, when one without records goes back as the index is
/// reopened. Its header must say so after a loss of power, too.
#[test]
fn a_group_that_went_back_at_the_start_is_another_pair_s_for_good() {
    for (slots, room) in KINDS {
        let mut persistent = persistent(room, slots);
        let shape = persistent.bed.owner.newest().shape;
        let home = shape.bucket + shape.shared;
        let keys = persistent.bed.neighbours(home + GROUP_SLOTS + 1);
        let table = persistent.bed.owner.newest();
        let pair = table.home(persistent.bed.hash(&keys[0])).0;
        let next = ((pair + 1) % table.pairs, true);
        let others = persistent.bed.keys_at(|of| of == next, home + 1);
        let (last, before) = keys.split_last().expect("keys");
        before.iter().for_each(|key| persistent.put(key));
        let from = persistent.settled();
        persistent.put(last);
        let geometry = persistent.bed.owner.geometry();
        let mut images = 0;
        for moment in persistent.bed.memory.before_fences(from) {
            persistent.bed.memory.images(moment, LINE).visit(ALL, DRAWN, 1, |bytes| {
                images += 1;
                persistent.takes_what_went_back(bytes, geometry, &others);
            });
        }
        assert!(images > 1, "{images}");
    }
}

#[test]
fn a_move_to_a_larger_table_goes_on_after_a_loss_of_power() {
    for (slots, room) in KINDS {
        let mut persistent = persistent(4 * room, slots);
        let keys = persistent.bed.neighbours(3);
        keys.iter().for_each(|key| persistent.put(key));
        let owner = &persistent.bed.owner;
        owner.add_table(32, owner.newest().id, Bound::Budget).expect("memory");
        persistent.note_geometry();
        let from = persistent.settled();
        persistent.bed.owner.make_room(persistent.bed.hash(&keys[0])).expect("moves");
        persistent.put(&keys[1]);
        persistent.remove(&keys[2]);
        let Seen { images, reopened } = persistent.check(from);
        assert!(images > 100, "{images}");
        assert!(reopened.twice > 0 && reopened.wiped > 0, "a move under way leaves copies: {reopened:?}");
    }
}

#[test]
fn compaction_outlives_a_loss_of_power() {
    for (slots, room) in KINDS {
        let mut persistent = persistent(room, slots);
        let shape = persistent.bed.owner.newest().shape;
        let keys = persistent.bed.neighbours(shape.bucket + shape.shared + 1);
        keys.iter().for_each(|key| persistent.put(key));
        persistent.remove(&keys[0]);
        let from = persistent.settled();
        assert_eq!(persistent.bed.owner.compact_some(), 1);
        let Seen { images, reopened } = persistent.check(from);
        assert!(images > 10 && reopened.twice > 0, "{images}: {reopened:?}");
    }
}

/// Without a free slot the entry goes before it is there again, and its pair says so.
#[test]
fn an_entry_that_is_moved_without_a_free_slot_is_there_or_said_to_be_beside_the_table() {
    for (slots, room) in KINDS {
        let mut persistent = persistent(room, slots);
        let shape = persistent.bed.owner.newest().shape;
        let keys = persistent.bed.neighbours(shape.bucket + shape.shared + GROUPS_MAX * GROUP_SLOTS);
        let key = keys[0].clone();
        let csn = persistent.bed.put(&key, &[1; 100]);
        persistent.note(&key, Some(csn));
        keys[1..].iter().for_each(|key| persistent.put(key));
        assert!(persistent.bed.owner.is_tight(persistent.bed.hash(&key)));
        persistent.beside = Some(key.clone());
        let from = persistent.settled();
        persistent.bed.relocate(&key);
        let Seen { images, .. } = persistent.check(from);
        assert!(images > 10, "{images}");
    }
}

#[test]
fn memory_that_no_loss_of_power_leaves_is_refused_and_named() {
    for (slots, room) in KINDS {
        let mut persistent = persistent(room, slots);
        persistent.put(b"k");
        let table = persistent.bed.owner.newest();
        let (pair, _) = table.home(persistent.bed.hash(b"k"));
        let memory = persistent.bed.memory.clone();
        let reopen = |geometry: Geometry| {
            let opened = persistent.reopen(&memory, geometry);
            opened.map(|(owner, _)| owner.items()).map_err(|error| error.to_string())
        };
        let geometry = persistent.bed.owner.geometry();
        assert_eq!(reopen(geometry), Ok(1));
        let header = table.header_at(pair);
        let damaged = |at: u64, word: u64, says: &str| {
            let before = memory.load(at);
            memory.store(at, word);
            let error = reopen(geometry).expect_err("it is damaged");
            assert!(error.contains(&format!("pair {pair} of table {}", table.id)), "{error}");
            assert!(error.contains(says), "{error}");
            memory.store(at, before);
        };
        damaged(header + 8, 77 << 32, "owner word");
        damaged(header, memory.load(header) | 1 << 31, "slots that do not exist");
        damaged(header, memory.load(header) | 2, "a bit and no record");
        damaged(header + 16, 99, "names group 99");
        damaged(header, 1 << 33, "in the newest table");
        let none = Geometry { tables: [None; longarm_base::limits::TABLES_MAX], ..geometry };
        assert!(reopen(none).is_err_and(|error| error.contains("it is empty")));
        let mut beyond = geometry;
        beyond.tables[0] = Some(Table { base: 1 << 20, ..table });
        assert!(reopen(beyond).is_err_and(|error| error.contains("beyond")));
        assert_eq!(reopen(geometry), Ok(1));
    }
}
