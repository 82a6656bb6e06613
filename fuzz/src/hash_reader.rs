//! The one-sided search, and the walk over a table, in memory that is not what it should be.
//!
//! Two kinds of input. Arbitrary memory under an arbitrary geometry: every READ lies in the index, a search
//! ends, and it finds only what stands in a slot under a checksum that the target put there itself. And a
//! sound table with words changed: the search finds what was stored, or nothing, but never anything else.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use longarm_base::{Csn, EntryRef, UnixMillis};
use longarm_index::control::layout::{GEOMETRY, GEOMETRY_WORDS, MAGIC, beat};
use longarm_index::control::{HEARTBEAT_PLACE, geometry};
use longarm_index::hash::{
    Discipline, Entries, Geometry, InlineItem, Moved, Options, Owner, ReadGranularity, Record, Search,
    SearchStep, SlotKind, Table, items, verify,
};
use longarm_memory::{Budget, Hash, HashKey, OwnedWords, SumKey, Words};

use crate::{Flat, Input};

const INDEX: u64 = 16 << 10;
/// The same for the sound tables, with room to grow.
const BED: u64 = 512 << 10;
const SUMS: u64 = 99;
/// READs of a search in memory that stands still: tables, other keys, two looks, slots.
const READS_MAX: u32 = 4 * 5 * 2 * 34;

/// One input.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let how = input.u8();
    if how & 1 == 0 {
        arbitrary(how, input);
    } else {
        BEDS.with_borrow(|beds| changed(&beds[usize::from(how >> 1) % beds.len()], how, input));
    }
}

fn record(words: &[u64; GEOMETRY_WORDS], sums: &SumKey) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let sum = sums.sum(GEOMETRY, &bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Tables that may overlap, and have any id.
fn some_geometry(input: &mut Input<'_>, sums: &SumKey) -> Option<Geometry> {
    let mut words = [0; GEOMETRY_WORDS];
    (words[1], words[2]) = (1, u64::from(input.u8()));
    let tables = input.below(4) as usize + 1;
    for table in words[3..].chunks_exact_mut(5).take(tables) {
        let kind = input.u8();
        let pairs = input.below(12) + 1;
        table[0] = input.near(3).wrapping_add(1) & 0xFFFF_FFFF
            | u64::from(kind & 1) << 32
            | u64::from(kind >> 1 & 1) << 40;
        table[1] = input.below(INDEX / 64) * 64;
        (table[2], table[3]) = (pairs, Table::groups_for(pairs));
    }
    let found = geometry(&record(&words, sums), sums, INDEX)?;
    crate::control_page::sound(&found, INDEX);
    Some(found)
}

/// Slots whose checksum the target made: by place and table, the bytes.
type Sealed = HashMap<(u64, u32), [u8; 64]>;

fn arbitrary(how: u8, mut input: Input<'_>) {
    let sums = SumKey::new(SUMS);
    let Some(geometry) = some_geometry(&mut input, &sums) else { return };
    let memory = Flat::new(INDEX);
    memory.fill(input.counted());
    let mut sealed = Sealed::new();
    let key = [1, 2, 3];
    let hash = HashKey::new(geometry.hash_key).hash(&key);
    for _ in 0..16 {
        let Some(table) = geometry.live().nth(input.below(4) as usize) else { continue };
        change(&mut input, table, &memory, hash, &mut sealed, &sums);
    }
    for granularity in [ReadGranularity::Window, ReadGranularity::Lines] {
        search(&mut input, &memory, &geometry, granularity, &key, |at, table, csn, bytes| {
            let known = sealed.get(&(at, table)).expect("found in a slot that nobody sealed");
            assert!(known == bytes && Csn(Input(&bytes[8..]).u64() & ((1 << 51) - 1)) == csn);
        });
    }
    // A pair that does not verify is looked at a thousand times: once in a while is enough.
    if how & 0xC0 == 0xC0 {
        let report = verify(&memory, &geometry, &sums, 0, |_| Err("no entry".into()));
        assert!(report.problems.len() as u64 <= report.problem_count && report.problems.len() <= 100);
        for table in geometry.live() {
            for pair in 0..table.pairs.min(2) {
                let _ = items(&memory, table, pair, &sums, |record| assert!(record.csn().0 != 0));
            }
        }
    }
}

/// One thing in a table that looks like a table's: a header, its bits, a slot under a checksum.
fn change(
    input: &mut Input<'_>,
    table: &Table,
    memory: &Flat,
    hash: Hash,
    sealed: &mut Sealed,
    sums: &SumKey,
) {
    let (home, _) = table.home(hash);
    let pair = if input.u8() < 200 { home } else { input.below(table.pairs) };
    let header = table.header_at(pair);
    match input.u8() % 6 {
        0 => memory.store(header + 8, u64::from(table.id) << 32),
        1 => memory.store(header, input.u64()),
        2 => memory.store(header + 16 + 8 * input.below(2), input.near(1 << 33)),
        3 => memory.copy_in(header + 32, &[hash.fingerprint(); 32]),
        4 if table.shape.kind == SlotKind::Inline64 => {
            let slot = input.below(table.shape.base_slots() as u64) as usize;
            let at = table.pair_at(pair) + table.shape.slot_at(slot);
            let mut bytes = [0; 64];
            input.bytes(56).iter().zip(&mut bytes[8..]).for_each(|(from, to)| *to = *from);
            if input.u8() & 1 == 1 {
                let (key, value) = ([1, 2, 3], [4; 10]);
                let csn = Csn(input.below(1 << 20) + 1);
                let record =
                    Record::Inline { csn, key: &key, value: &value, expiry: UnixMillis::NEVER, entry: None };
                bytes = record.pack64(sums, at ^ u64::from(table.id) << 40);
            }
            let sum = sums.sum(at ^ u64::from(table.id) << 40, &bytes[8..]);
            bytes[..8].copy_from_slice(&sum.to_le_bytes());
            memory.copy_in(at, &bytes);
            sealed.insert((at, table.id), bytes);
        }
        4 => {
            let slot = input.below(table.shape.base_slots() as u64) as usize;
            let at = table.pair_at(pair) + table.shape.slot_at(slot);
            memory.store(at, input.near(64));
            memory.store(at + 8, input.u64() >> 16 | u64::from(hash.tag()) << 48);
        }
        _ => memory.store(input.below(INDEX / 8) * 8, input.u64()),
    }
}

/// Runs a search to its end. `found` is shown where a value was found: place, table, version, slot.
fn search(
    input: &mut Input<'_>,
    memory: &Flat,
    geometry: &Geometry,
    granularity: ReadGranularity,
    key: &[u8],
    mut found: impl FnMut(u64, u32, Csn, &[u8; 64]),
) -> (SearchStep, InlineItem) {
    let hash = HashKey::new(geometry.hash_key).hash(key);
    let (mut search, mut step) = Search::start(hash, geometry, granularity);
    let mut bytes = Vec::new();
    let mut read_at = 0;
    for _ in 0..READS_MAX {
        match step {
            // The epoch, which has grown or not.
            SearchStep::Read if search.place() == HEARTBEAT_PLACE => {
                let mut line = [0; 64];
                let epoch = geometry.epoch + u64::from(input.u8() & 1);
                line[beat::MAGIC as usize..][..8].copy_from_slice(&MAGIC.to_le_bytes());
                line[beat::EPOCH as usize..][..8].copy_from_slice(&epoch.to_le_bytes());
                step = search.feed(key, &line, geometry, &SumKey::new(SUMS));
                assert_eq!(
                    step,
                    if epoch == geometry.epoch { SearchStep::Absent } else { SearchStep::Stale }
                );
            }
            SearchStep::Read => {
                let place = search.place();
                let inside = place.end().is_some_and(|end| end <= memory.bytes());
                assert!(inside && place.offset.is_multiple_of(8) && place.len.is_multiple_of(8), "{place:?}");
                assert!(place.len > 0 && place.len <= 1024, "{place:?}");
                bytes = memory.copy(place.offset, place.len as usize);
                read_at = place.offset;
                step = search.feed(key, &bytes, geometry, &SumKey::new(SUMS));
            }
            SearchStep::Entry { csn, .. } if input.u8() & 1 == 1 => {
                assert!(csn.is_valid());
                step = search.not_it(csn, geometry);
            }
            SearchStep::Found => {
                let InlineItem { csn, value_at, value_len, slot, .. } = search.item();
                let (at, len) = (value_at as usize, value_len as usize);
                assert!(csn.is_valid() && at + len <= bytes.len(), "{step:?} of {} bytes", bytes.len());
                assert!(&bytes[at - key.len()..at] == key, "{step:?} is of another key");
                assert!(slot.offset >= read_at && slot.offset - read_at + 64 <= bytes.len() as u64);
                assert_eq!(slot.offset - read_at + 16 + key.len() as u64, at as u64);
                let line = memory.copy(slot.offset, 64).try_into().expect("64 bytes");
                let table = search.table(geometry).id;
                found(slot.offset, table, csn, &line);
                let again = Search::check_slot(table, slot, key, &line, &SumKey::new(SUMS));
                let Some(InlineItem { csn: same, value_len: same_len, .. }) = again else {
                    panic!("a repeat GET sees nothing: {again:?}");
                };
                assert_eq!((same, same_len), (csn, value_len), "a repeat GET sees something else");
                return (step, search.item());
            }
            SearchStep::Entry { .. }
            | SearchStep::Absent
            | SearchStep::Ask
            | SearchStep::Torn
            | SearchStep::Stale => return (step, search.item()),
        }
    }
    panic!("a search without an end: {:?}", search.table(geometry));
}

/// A sound table and what is in it.
struct Bed {
    memory: Arc<Flat>,
    /// The memory as it was left by the owner.
    image: Vec<u8>,
    geometry: Geometry,
    items: Vec<Item>,
}

struct Item {
    key: Vec<u8>,
    /// Versions and values it had, and the entries they stood in; the last one is in force.
    states: Vec<(Csn, Vec<u8>, EntryRef)>,
    removed: bool,
    /// Where its slot stands.
    at: u64,
}

/// Entries are in no memory here: the bed itself knows them.
#[derive(Clone, Default)]
struct Book(Arc<std::sync::Mutex<HashMap<u64, Vec<u8>>>>);

impl Entries for Book {
    fn is_of(&self, _: EntryRef, csn: Csn, key: &[u8]) -> bool {
        self.0.lock().expect("book").get(&csn.0).is_some_and(|k| k == key)
    }
    fn hash_of(&self, _: EntryRef, csn: Csn, hash: &HashKey) -> Option<Hash> {
        self.0.lock().expect("book").get(&csn.0).map(|key| hash.hash(key))
    }
    fn key_of(&self, _: EntryRef, csn: Csn) -> Option<Vec<u8>> {
        self.0.lock().expect("book").get(&csn.0).cloned()
    }
}

thread_local! {
    static BEDS: RefCell<Vec<Bed>> = RefCell::new(
        [
            (SlotKind::Inline64, Discipline::InPlace),
            (SlotKind::Pointer16, Discipline::InPlace),
            (SlotKind::Inline64, Discipline::OutOfPlace),
            (SlotKind::Pointer16, Discipline::OutOfPlace),
        ]
        .map(|(kind, discipline)| bed(kind, discipline))
        .into(),
    );
}

/// Puts, replacements and removals; then a growth whose moves are half done.
fn bed(kind: SlotKind, discipline: Discipline) -> Bed {
    let (memory, book) = (Arc::new(Flat::new(BED)), Book::default());
    let (expected_items, found_items) = (1, 0);
    let options = Options {
        slots: kind,
        discipline,
        expected_items,
        found_items,
        populate: true,
        hash_key: 7,
        places: false,
    };
    let budget = Arc::new(Budget::new(BED));
    let owner = Owner::create(memory.clone(), book.clone(), SumKey::new(SUMS), budget, options, |_| {});
    let owner = owner.expect("room for the first table");
    let mut items: Vec<Item> = Vec::new();
    for csn in 1..=48u64 {
        let key = format!("key {}", csn % 40).into_bytes();
        let value = vec![csn as u8; (csn % 60) as usize];
        let inline = kind == SlotKind::Inline64 && csn % 3 != 0 && key.len() + value.len() <= 48;
        let (hash, expiry, csn) = (owner.hasher().hash(&key), UnixMillis::NEVER, Csn(csn));
        let entry = EntryRef { offset: csn.0 * 64, len: 64 };
        book.0.lock().expect("book").insert(csn.0, key.clone());
        let record = match inline {
            true => Record::Inline { csn, key: &key, value: &value, expiry, entry: None },
            false => Record::Entry { csn, entry, hash, expiry },
        };
        let index = owner.read();
        let mut pair = index.lock(hash);
        let placed = match pair.find(&key) {
            Some(found) => pair.replace(&found, &record),
            None => pair.insert(&record),
        };
        drop(pair);
        placed.expect("a table with few items has room");
        match items.iter_mut().find(|item| item.key == key) {
            Some(item) => item.states.push((csn, value, entry)),
            None => items.push(Item { key, states: vec![(csn, value, entry)], removed: false, at: 0 }),
        }
    }
    for item in items.iter_mut().step_by(7) {
        let index = owner.read();
        let mut pair = index.lock(owner.hasher().hash(&item.key));
        if let Some(found) = pair.find(&item.key) {
            pair.remove(&found);
            item.removed = true;
        }
    }
    owner.grow().expect("room for another table");
    let pairs = owner.geometry().live().next().expect("a table").pairs;
    assert_eq!(owner.move_some(pairs / 2), Moved::More);
    let image = memory.copy(0, BED as usize);
    let mut bed = Bed { memory, image, geometry: owner.geometry(), items: Vec::new() };
    items.iter_mut().for_each(|item| item.at = bed.slot_of(item));
    bed.items = items;
    bed
}

impl Bed {
    /// Finds a slot by its version; where none is, the key's home in the oldest table.
    fn slot_of(&self, item: &Item) -> u64 {
        let hash = HashKey::new(self.geometry.hash_key).hash(&item.key);
        let csn = item.states.last().expect("a state").0;
        for table in self.geometry.live() {
            let word = if table.shape.kind == SlotKind::Inline64 { 8 } else { 0 };
            let slots = (0..table.shape.base_slots()).map(|slot| table.shape.slot_at(slot));
            let mut places = slots.map(|at| table.pair_at(table.home(hash).0) + at);
            if let Some(at) = places.find(|at| self.memory.load(at + word) & ((1 << 51) - 1) == csn.0) {
                return at;
            }
        }
        let table = self.geometry.tables[0].expect("a table");
        table.pair_at(table.home(hash).0)
    }

    /// Damages the tables about an item; what was there before is put on `undo`.
    fn damage(&self, input: &mut Input<'_>, item: &Item, undo: &mut Vec<(u64, u64)>) {
        let hash = HashKey::new(self.geometry.hash_key).hash(&item.key);
        let table = self.geometry.live().nth(usize::from(input.u8() & 1)).expect("two tables");
        let pair = if input.u8() < 230 { table.home(hash).0 } else { input.below(table.pairs) };
        let header = table.header_at(pair);
        let slot = table.shape.slot_bytes();
        let mut store = |at: u64, new: u64| {
            undo.push((at, self.memory.load(at)));
            self.memory.store(at, new);
        };
        let place = match input.u8() & 1 {
            0 => item.at + input.below(slot / 8) * 8,
            _ => table.pair_at(pair) + input.below(table.shape.pair_bytes() / 8) * 8,
        };
        match input.u8() % 7 {
            0 | 1 => store(place, self.memory.load(place) ^ 1 << input.below(64)),
            2 => store(place, input.u64()),
            3 => store(place, self.memory.load(item.at + input.below(8) * 8)),
            4 => {
                let all = [hash.fingerprint(); 8];
                (32..64).step_by(8).for_each(|at| store(header + at, u64::from_le_bytes(all)));
            }
            5 => store(header, self.memory.load(header) | ((1 << table.shape.base_slots()) - 1)),
            _ => {
                // A whole slot, but not where it was written.
                let other = &self.items[input.below(self.items.len() as u64) as usize];
                let from = if input.u8() & 1 == 1 { item.at } else { other.at };
                let place = input.below(table.shape.base_slots() as u64) as usize;
                let prints = header + 32 + place as u64 / 8 * 8;
                let mut bytes = self.memory.load(prints).to_le_bytes();
                bytes[place % 8] = hash.fingerprint();
                store(prints, u64::from_le_bytes(bytes));
                store(header, self.memory.load(header) | 1 << place);
                let to = table.pair_at(pair) + table.shape.slot_at(place);
                (0..slot).step_by(8).for_each(|at| store(to + at, self.memory.load(from + at)));
            }
        }
    }
}

fn changed(bed: &Bed, how: u8, mut input: Input<'_>) {
    let changes = if how & 0x80 != 0 { 0 } else { input.below(8) };
    let item = &bed.items[input.below(bed.items.len() as u64) as usize];
    let mut undo = Vec::new();
    (0..changes).for_each(|_| bed.damage(&mut input, item, &mut undo));
    for other in [item, &bed.items[input.below(bed.items.len() as u64) as usize]] {
        look_for(bed, other, changes > 0);
    }
    undo.iter().rev().for_each(|&(at, old)| bed.memory.store(at, old));
}

fn look_for(bed: &Bed, item: &Item, damaged: bool) {
    for granularity in [ReadGranularity::Window, ReadGranularity::Lines] {
        let known = |csn| item.states.iter().find(|(c, ..)| *c == csn).expect("a version it never had");
        let whole = |at: u64, _, csn, slot: &[u8; 64]| {
            let written = &bed.image[at as usize..][..64];
            assert_eq!(&slot[..], written, "a record that nobody wrote there");
            let value = &known(csn).1;
            assert_eq!(slot[16 + item.key.len()..][..value.len()], value[..]);
        };
        let (step, inline) =
            search(&mut Input(&[]), &bed.memory, &bed.geometry, granularity, &item.key, whole);
        judge(bed, item, step, inline, damaged);
    }
}

fn judge(bed: &Bed, item: &Item, step: SearchStep, inline: InlineItem, damaged: bool) {
    if let SearchStep::Entry { entry, csn } = step {
        let inline64 = bed.geometry.live().all(|table| table.shape.kind == SlotKind::Inline64);
        // A 16-byte slot has no checksum: the entry it names must confirm it, so any place may come out.
        if inline64 || !damaged {
            let known = item.states.iter().find(|(c, ..)| *c == csn).expect("a version it never had");
            assert_eq!(known.2.offset, entry.offset);
        }
    }
    if damaged {
        return;
    }
    let last = item.states.last().expect("a state").0;
    match step {
        SearchStep::Absent => assert!(item.removed, "lost"),
        SearchStep::Found => assert!(inline.csn == last && !item.removed),
        SearchStep::Entry { csn, .. } => assert!(csn == last && !item.removed),
        _ => panic!("{step:?} with nobody writing"),
    }
}
