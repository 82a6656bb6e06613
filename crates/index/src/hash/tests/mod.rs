//! Tests of the hash table: a model twin, every cut of every READ, growth, and the searches' READ counts.

mod crowd;
mod cutoff;
mod cuts;
mod grow;
mod images;
mod model;
mod persistent_writes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use longarm_base::{Csn, EntryRef, Nanos, Place, UnixMillis};
use longarm_memory::{Budget, Hash, HashKey, Journal, OwnedWords, SumKey, Words};

use super::layout::INDEX_REGION;
use super::*;
use crate::control::layout::{MAGIC, beat};

/// The entry store's stand-in: what is where. Entries are immutable, so a map is the whole truth.
#[derive(Default)]
pub struct Book {
    entries: Mutex<HashMap<u64, (Csn, Vec<u8>)>>,
    /// Who asks for the hash of this version waits twice.
    pub stop: Mutex<Option<(Csn, Arc<Barrier>)>>,
}

impl Book {
    /// Whether the entry there is of this version.
    fn is_there(&self, entry: EntryRef, csn: Csn) -> bool {
        self.entries.lock().expect("book").get(&entry.offset).is_some_and(|(have, _)| *have == csn)
    }
}

impl Entries for Arc<Book> {
    fn is_of(&self, entry: EntryRef, csn: Csn, key: &[u8]) -> bool {
        let entries = self.entries.lock().expect("book");
        entries.get(&entry.offset).is_some_and(|(have, k)| *have == csn && k == key)
    }
    fn hash_of(&self, entry: EntryRef, csn: Csn, hash: &HashKey) -> Option<Hash> {
        let stop = self.stop.lock().expect("stop").take_if(|(at, _)| *at == csn);
        if let Some((_, barrier)) = stop {
            barrier.wait();
            barrier.wait();
        }
        let entries = self.entries.lock().expect("book");
        entries.get(&entry.offset).filter(|(have, _)| *have == csn).map(|(_, key)| hash.hash(key))
    }
    fn key_of(&self, entry: EntryRef, csn: Csn) -> Option<Vec<u8>> {
        let entries = self.entries.lock().expect("book");
        entries.get(&entry.offset).filter(|(have, _)| *have == csn).map(|(_, key)| key.clone())
    }
}

/// A table over journalled or mapped memory, with helpers that speak of keys and values.
pub struct Bed<M: OwnedWords> {
    pub memory: Arc<M>,
    pub owner: Owner<Arc<M>, Arc<Book>>,
    pub book: Arc<Book>,
    pub sums: SumKey,
    pub published: Arc<Mutex<Option<Geometry>>>,
    csn: AtomicU64,
}

pub fn bed<M: OwnedWords>(memory: M, slots: SlotKind, discipline: Discipline, items: u64) -> Bed<M> {
    let options = Options {
        slots,
        discipline,
        expected_items: items,
        found_items: 0,
        populate: true,
        hash_key: 7,
        places: false,
    };
    bed_of(memory, options)
}

pub fn bed_of<M: OwnedWords>(memory: M, options: Options) -> Bed<M> {
    let memory = Arc::new(memory);
    let book = Arc::new(Book::default());
    let published = Arc::new(Mutex::new(None));
    let sums = SumKey::new(99);
    let sink = published.clone();
    let owner = Owner::create(
        memory.clone(),
        book.clone(),
        sums.clone(),
        Arc::new(Budget::new(memory.bytes())),
        options,
        move |g| *sink.lock().expect("published") = Some(*g),
    )
    .expect("room for the first table");
    Bed { memory, owner, book, sums, published, csn: AtomicU64::new(1) }
}

/// The kinds of table that exist.
pub const KINDS: [(SlotKind, Discipline); 4] = [
    (SlotKind::Inline64, Discipline::InPlace),
    (SlotKind::Pointer16, Discipline::InPlace),
    (SlotKind::Inline64, Discipline::OutOfPlace),
    (SlotKind::Pointer16, Discipline::OutOfPlace),
];

impl<M: OwnedWords> Bed<M> {
    /// What was out of use for so long is given back, as a maintenance thread does it.
    pub fn reclaim(&self, now: u64, quarantine: u64) -> usize {
        (0..3).map(|look| self.owner.reclaim(Nanos(now + look), Nanos(quarantine))).last().expect("looks")
    }

    pub fn hash(&self, key: &[u8]) -> Hash {
        self.owner.hasher().hash(key)
    }

    /// Keys whose home in the newest table is of this kind.
    pub fn keys_at(&self, is_home: impl Fn((u64, bool)) -> bool, count: usize) -> Vec<Vec<u8>> {
        let table = self.owner.newest();
        let names = (0u32..).map(|i| format!("key{i}").into_bytes());
        names.filter(|key| is_home(table.home(self.hash(key)))).take(count).collect()
    }

    /// Keys whose home is that of `k`.
    pub fn neighbours(&self, count: usize) -> Vec<Vec<u8>> {
        let home = self.owner.newest().home(self.hash(b"k"));
        self.keys_at(|of| of == home, count)
    }

    pub fn next_csn(&self) -> Csn {
        // Relaxed: one thread a bed, or a counter that publishes nothing else.
        Csn(self.csn.fetch_add(1, Ordering::Relaxed))
    }

    /// Stores a value and returns its version; beside the table, where the pair takes no more keys.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Csn {
        self.put_or(key, value, true).expect("memory for a larger table")
    }

    /// The same, where such a key is refused.
    pub fn try_put(&self, key: &[u8], value: &[u8]) -> Result<Csn, NoRoom> {
        self.put_or(key, value, false)
    }

    /// Inline where that fits, else as an entry of its own.
    fn put_or(&self, key: &[u8], value: &[u8], spills: bool) -> Result<Csn, NoRoom> {
        let csn = self.next_csn();
        let geometry = self.owner.geometry();
        let table = geometry.live().next().expect("table");
        let inline = Record::fits_inline(table.shape.kind, key.len(), value.len(), UnixMillis::NEVER);
        let entry = EntryRef { offset: csn.0 * 64, len: 64 };
        let (hash, expiry) = (self.hash(key), UnixMillis::NEVER);
        let record = if inline {
            Record::Inline { csn, key, value, expiry, entry: None }
        } else {
            self.book.entries.lock().expect("book").insert(entry.offset, (csn, key.to_vec()));
            Record::Entry { csn, entry, hash, expiry }
        };
        for _ in 0..100 {
            let index = self.owner.read();
            let mut pair = index.lock(hash);
            let done = match pair.find(key) {
                Some(found) => pair.replace(&found, &record),
                None => pair.insert(&record),
            };
            drop(pair);
            drop(index);
            if done.is_ok() {
                return Ok(csn);
            }
            match self.owner.make_room(hash) {
                Err(NoRoom::Pair) if spills => {
                    let index = self.owner.read();
                    let mut pair = index.lock(hash);
                    // Out of place even a replacement wants a slot.
                    if let Some(found) = pair.find(key) {
                        pair.remove(&found);
                    }
                    pair.spill(key, &record);
                    return Ok(csn);
                }
                other => other?,
            }
        }
        panic!("no room after a hundred growths");
    }

    /// Has an item that is an entry stand elsewhere in the arena, as collection does.
    pub fn relocate(&self, key: &[u8]) {
        let (hash, expiry) = (self.hash(key), UnixMillis::NEVER);
        let index = self.owner.read();
        let mut pair = index.lock(hash);
        let found = pair.find(key).expect("it is there");
        let csn = found.record().csn();
        let entry = EntryRef { offset: (csn.0 + (1 << 16)) * 64, len: 64 };
        self.book.entries.lock().expect("book").insert(entry.offset, (csn, key.to_vec()));
        pair.replace_anyway(&found, &Record::Entry { csn, entry, hash, expiry });
    }

    pub fn remove(&self, key: &[u8]) -> bool {
        let index = self.owner.read();
        let mut pair = index.lock(self.hash(key));
        let found = pair.find(key);
        if let Some(found) = &found {
            pair.remove(found);
        }
        found.is_some()
    }

    /// Line 0 of the control page.
    pub fn heartbeat(&self) -> [u8; 64] {
        let mut line = [0; 64];
        let epoch = self.owner.geometry().epoch;
        for (at, word) in [(beat::MAGIC, MAGIC), (beat::EPOCH, epoch)] {
            line[at as usize..][..8].copy_from_slice(&word.to_le_bytes());
        }
        line
    }

    /// What an atomic READ gives.
    pub fn read(&self, place: Place) -> Vec<u8> {
        let mut bytes = vec![0; place.len as usize];
        match place.region {
            INDEX_REGION => self.memory.copy_out(place.offset, &mut bytes),
            _ => bytes.copy_from_slice(&self.heartbeat()),
        }
        bytes
    }

    /// A GET with atomic READs; returns the version and the number of READs.
    pub fn get(&self, key: &[u8], granularity: ReadGranularity) -> (Option<Csn>, usize) {
        let geometry = self.published.lock().expect("published").expect("a geometry was published");
        let (mut search, mut step) = Search::start(self.hash(key), &geometry, granularity);
        for reads in 0..100 {
            step = match step {
                SearchStep::Read => search.feed(key, &self.read(search.place()), &geometry, &self.sums),
                SearchStep::Found => return (Some(search.item().csn), reads),
                SearchStep::Entry { entry, csn } if self.book.clone().is_of(entry, csn, key) => {
                    return (Some(csn), reads);
                }
                SearchStep::Entry { csn, .. } => search.not_it(csn, &geometry),
                SearchStep::Absent => return (None, reads),
                SearchStep::Ask => {
                    return (
                        self.owner.read().lock(self.hash(key)).find(key).map(|found| found.record().csn()),
                        reads,
                    );
                }
                SearchStep::Torn | SearchStep::Stale => panic!("{step:?} with nobody writing"),
            };
        }
        panic!("a search that does not end");
    }

    /// How a search that knows this geometry ends, short of looking at entries.
    pub fn search(&self, key: &[u8], granularity: ReadGranularity, geometry: &Geometry) -> SearchStep {
        let (mut search, mut step) = Search::start(self.hash(key), geometry, granularity);
        while step == SearchStep::Read {
            step = search.feed(key, &self.read(search.place()), geometry, &self.sums);
        }
        step
    }

    /// The hash of a record's key, as a check of entries gives it.
    pub fn known_hash(&self, record: &Record<'_>) -> Result<Hash, String> {
        match record {
            Record::Entry { csn, entry, .. } => {
                self.book.hash_of(*entry, *csn, self.owner.hasher()).ok_or("no such entry".into())
            }
            Record::Inline { key, .. } => Ok(self.hash(key)),
        }
    }

    pub fn check(&self) -> IndexReport {
        let geometry = self.owner.geometry();
        let report = verify(&*self.memory, &geometry, &self.sums, 0, |record| self.known_hash(record));
        assert_eq!(report.problem_count, 0, "{:#?}", report.problems);
        assert_eq!(report.items + self.owner.spilled() as u64, self.owner.items());
        report
    }
}

pub fn journal_bed(slots: SlotKind, discipline: Discipline) -> Bed<Journal> {
    bed(Journal::new(1 << 20), slots, discipline, 1)
}
