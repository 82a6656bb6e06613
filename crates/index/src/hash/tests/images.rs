//! A loss of power at any moment: each state that it can leave of tables out of place is reopened, and holds
//! every write that was acknowledged (Continuity hashing III.C).

use std::collections::BTreeMap;

use longarm_base::limits::LINE;

use super::super::owner::Bound;
use super::*;

/// Images of one moment that are looked at; more are drawn.
const MOST: usize = 1 << 16;

/// A bed over persistent memory, with what each key was acknowledged as, and when.
struct Persistent {
    bed: Bed<Journal>,
    /// By key: what it was from which moment on, as far as it was acknowledged.
    acknowledged: BTreeMap<Vec<u8>, Vec<(usize, Option<Csn>)>>,
    /// The geometry from which moment on, as it was published.
    geometries: Vec<(usize, Geometry)>,
}

/// What was reopened, over all images.
#[derive(Default)]
struct Seen {
    images: u64,
    reopened: Reopened,
}

fn persistent(bytes: u64) -> Persistent {
    let bed = bed(Journal::new(bytes), SlotKind::Pointer16, Discipline::OutOfPlace, 1);
    let geometry = bed.owner.geometry();
    Persistent { bed, acknowledged: BTreeMap::new(), geometries: vec![(0, geometry)] }
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
    /// write made of it, if that was under way.
    fn allowed(&self, key: &[u8], moment: usize) -> Vec<Option<Csn>> {
        let all = &self.acknowledged[key];
        let done = all.iter().filter(|(at, _)| *at <= moment).count();
        let before = done.checked_sub(1).and_then(|last| all[last].1);
        [Some(before), all.get(done).map(|next| next.1)].into_iter().flatten().collect()
    }

    /// Reopens every image of every moment since `from`.
    fn check(&self, from: usize) -> Seen {
        let mut seen = Seen::default();
        for moment in self.bed.memory.before_fences(from) {
            let of_moment = self.geometries.iter().rev().find(|(at, _)| *at <= moment);
            let geometry = of_moment.expect("the first one").1;
            self.bed.memory.images(moment, LINE).visit(MOST, 1, |bytes| {
                seen.images += 1;
                self.check_image(moment, bytes, geometry, &mut seen.reopened);
            });
        }
        seen
    }

    fn check_image(&self, moment: usize, bytes: &[u8], geometry: Geometry, all: &mut Reopened) {
        let memory = Arc::new(Journal::of(bytes));
        let reopen = || {
            let (entries, sums) = (self.bed.book.clone(), self.bed.sums.clone());
            let budget = Arc::new(Budget::new(memory.bytes()));
            let options = self.bed.owner.options;
            Owner::reopen(memory.clone(), entries, sums, budget, options, geometry, |_| ())
                .unwrap_or_else(|error| panic!("moment {moment}: {error}"))
        };
        let (owner, report) = reopen();
        let checked = verify(&*memory, &geometry, &self.bed.sums, 0, |record| self.bed.known_hash(record));
        assert_eq!(checked.problem_count, 0, "moment {moment}: {:#?}", checked.problems);
        assert_eq!((checked.items, checked.extended), (owner.items(), extended(&owner)), "moment {moment}");
        let index = owner.read();
        for key in self.acknowledged.keys() {
            let found = index.lock(self.bed.hash(key)).find(key).map(|found| found.record().csn());
            let allowed = self.allowed(key, moment);
            assert!(allowed.contains(&found), "moment {moment}: {key:?} is {found:?}, not of {allowed:?}");
        }
        drop(index);
        all.unlocked += report.unlocked;
        all.wiped += report.wiped;
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
        let csn = Csn(1 << 20);
        let entry = EntryRef { offset: csn.0 * 64, len: 64 };
        self.bed.book.entries.lock().expect("book").insert(entry.offset, (csn, key.clone()));
        let hash = owner.hasher().hash(&key);
        let record = Record::Entry { csn, entry, hash, expiry: UnixMillis::NEVER };
        let index = owner.read();
        let stored = index.lock(hash).insert(&record);
        assert!(stored == Ok(()) || geometry.live().count() > 1 || owner.is_tight(hash), "{stored:?}");
        if stored.is_ok() {
            assert!(index.lock(hash).find(&key).is_some());
        }
    }
}

fn extended(owner: &Owner<Arc<Journal>, Arc<Book>>) -> u64 {
    let state = owner.state.read().expect("state");
    // Relaxed: one thread.
    state.live.iter().map(|live| live.extended.load(Ordering::Relaxed)).sum()
}

#[test]
fn a_write_that_was_acknowledged_outlives_a_loss_of_power_and_none_is_half_there() {
    let mut persistent = persistent(8 << 10);
    for key in persistent.bed.neighbours(3) {
        persistent.put(&key);
    }
    let from = persistent.bed.memory.now();
    // Replaced slots come back (even and odd buckets).
    for _ in 0..3 {
        persistent.put(b"k");
    }
    persistent.remove(b"k");
    persistent.put(b"other");
    persistent.put(b"k");
    let Seen { images, reopened } = persistent.check(from);
    assert!(images > 100, "{images}");
    assert!(reopened.unlocked > 0 && reopened.wiped > 0 && reopened.twice == 0, "{reopened:?}");
}

#[test]
fn groups_that_come_and_go_outlive_a_loss_of_power() {
    let mut persistent = persistent(8 << 10);
    let shape = persistent.bed.owner.newest().shape;
    let keys = persistent.bed.neighbours(shape.bucket + shape.shared + 2);
    let (own, added) = keys.split_at(shape.bucket + shape.shared);
    own.iter().for_each(|key| persistent.put(key));
    let from = persistent.bed.memory.now();
    added.iter().for_each(|key| persistent.put(key));
    assert_eq!(persistent.bed.check().extended, 1);
    added.iter().for_each(|key| persistent.remove(key));
    assert_eq!(persistent.bed.check().extended, 0);
    persistent.remove(&own[0]);
    persistent.put(&own[0]);
    let Seen { images, reopened } = persistent.check(from);
    assert!(images > 50 && reopened.unlocked > 0 && reopened.given_back > 0, "{images}: {reopened:?}");
}

#[test]
fn a_move_to_a_larger_table_goes_on_after_a_loss_of_power() {
    let mut persistent = persistent(64 << 10);
    let keys = persistent.bed.neighbours(4);
    keys.iter().for_each(|key| persistent.put(key));
    let owner = &persistent.bed.owner;
    owner.add_table(32, owner.newest().id, Bound::Budget).expect("memory");
    persistent.note_geometry();
    let from = persistent.bed.memory.now();
    persistent.bed.owner.make_room(persistent.bed.hash(&keys[0])).expect("moves");
    persistent.put(&keys[1]);
    persistent.remove(&keys[2]);
    let Seen { images, reopened } = persistent.check(from);
    assert!(images > 100, "{images}");
    assert!(reopened.twice > 0 && reopened.wiped > 0, "a move under way leaves copies: {reopened:?}");
}

#[test]
fn compaction_outlives_a_loss_of_power() {
    let mut persistent = persistent(8 << 10);
    let shape = persistent.bed.owner.newest().shape;
    let keys = persistent.bed.neighbours(shape.bucket + shape.shared + 1);
    keys.iter().for_each(|key| persistent.put(key));
    persistent.remove(&keys[0]);
    let from = persistent.bed.memory.now();
    assert_eq!(persistent.bed.owner.compact_some(), 1);
    let Seen { images, reopened } = persistent.check(from);
    assert!(images > 10 && reopened.twice > 0, "{images}: {reopened:?}");
}

#[test]
fn memory_that_no_loss_of_power_leaves_is_refused_and_named() {
    let mut persistent = persistent(8 << 10);
    persistent.put(b"k");
    let (table, book) = (persistent.bed.owner.newest(), persistent.bed.book.clone());
    let (pair, _) = table.home(persistent.bed.hash(b"k"));
    let memory = persistent.bed.memory.clone();
    let reopen = |geometry: Geometry| {
        let (sums, budget) = (persistent.bed.sums.clone(), Arc::new(Budget::new(memory.bytes())));
        let options = persistent.bed.owner.options;
        let opened = Owner::reopen(memory.clone(), book.clone(), sums, budget, options, geometry, |_| ());
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
