//! Entries and segments from bytes that are torn, damaged, or made up.
//!
//! Oracles: a second reading of the entry layout agrees on which bytes under a right checksum are an entry
//! and what it says; a whole arena with words changed, lines made up or entries made up shows no entry but
//! those that were written (or made up), byte for byte; a sound arena is found sound.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use longarm_base::limits::{CSN_MAX, KEY_MAX, LINE, SEGMENT_BYTES, VALUE_MAX};
use longarm_base::{Csn, EntryRef, Term, UnixMillis};
use longarm_memory::{Backing, Budget, Mapped, OwnedWords, Region, RegionOptions, SumKey, Words};
use longarm_store::object::{self, layout};
use longarm_store::segment::layout::line_at;
use longarm_store::segment::{ArenaGeometry, Line, SegmentState};
use longarm_store::{
    Draft, Entry, EntryError, EntryKind, EntryMeta, OperationId, Settled, Store, StoreOptions, survey,
    verify_with,
};

use crate::Input;

const SEGMENTS: u64 = 7;
const ARENA: u64 = SEGMENTS * SEGMENT_BYTES;
const SUMS: u64 = 0x5EED;

/// One input.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.u8() % 8 {
        0..=2 => made_up(input),
        3 | 4 => line(&mut input),
        how => ARENA_BED.with_borrow(|bed| bed.changed(how, input)),
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// What the header of an entry says, read a second time; nothing where no entry says so.
struct Said {
    csn: u64,
    flags: u64,
    header: usize,
    key: usize,
    value: usize,
}

impl Said {
    fn of(bytes: &[u8]) -> Option<Said> {
        let (version, lengths) = (word(bytes, 16), word(bytes, 24));
        let (csn, kind, flags) = (version & CSN_MAX, version >> 51 & 15, version >> 55);
        let (key, value) = ((lengths & 2047) as usize, (lengths >> 11 & ((1 << 27) - 1)) as usize);
        let header = 40 + if flags & 1 != 0 { 8 } else { 0 } + if flags & 2 != 0 { 16 } else { 0 };
        let keyed = key > 0 || kind == 4;
        let fits = lengths >> 54 == 0 && key <= KEY_MAX && value <= VALUE_MAX && keyed;
        let known = (1..=4).contains(&kind) && flags < 8 && csn != 0;
        (fits && known).then_some(Said { csn, flags, header, key, value })
    }

    fn len(&self) -> usize {
        self.header + (self.key + self.value).next_multiple_of(8)
    }
}

/// The checksum of an entry that has all its bytes, computed a second time.
fn seal(bytes: &mut [u8], said: &Said, offset: u64) {
    let sums = SumKey::new(SUMS);
    let (key, rest) = bytes[said.header..].split_at(said.key);
    let value = &rest[..said.value];
    let mut value_sum = 0x7661_6C75_6573;
    value.chunks(64 << 10).for_each(|piece| value_sum = sums.sum(value_sum, piece));
    // All of the mark, generation and term, but the superseded bit.
    let mut summed = (word(bytes, 8) & !1).to_le_bytes().to_vec();
    summed.extend_from_slice(&bytes[16..said.header]);
    summed.extend_from_slice(&sums.sum(0x6B65_7973, key).to_le_bytes());
    summed.extend_from_slice(&value_sum.to_le_bytes());
    let sum = sums.sum(offset, &summed).max(1);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
}

/// Header words as fuzz has them, or near to what an entry has.
fn some_entry(input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let near = input.u8() < 220;
    let (csn, kind, flags) = (input.near(9), input.near(5), input.near(8));
    let version = if near { csn & CSN_MAX | kind << 51 | flags << 55 } else { input.u64() };
    let (key, value, stream) = (input.near(40), input.near(300), input.below(3));
    let lengths =
        if near { key & 2047 | (value & ((1 << 27) - 1)) << 11 | stream << 38 } else { input.u64() };
    let mark = u64::from(input.u32()) << 32 | input.below(2);
    let mark = if input.u8() < 240 { mark } else { input.u64() };
    for (at, word) in [(8, mark), (16, version), (24, lengths), (32, input.u64())] {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(40);
    bytes.extend_from_slice(input.bytes(1000));
    let whole = Said::of(&bytes).map_or(64, |said| said.len().min(4096));
    let missing = usize::from(input.u8()).saturating_sub(240);
    bytes.resize(whole.max(bytes.len()).saturating_sub(missing), 0xA5);
    bytes
}

/// Bytes as they come, and the same under a checksum that holds.
fn made_up(mut input: Input<'_>) {
    let sums = SumKey::new(SUMS);
    let offset = input.near(ARENA / LINE).wrapping_mul(LINE);
    assert!(object::read(input.0, offset, &sums).is_err(), "a checksum held by chance");
    if let Ok(len) = object::total_len(input.0) {
        assert!(len as usize <= layout::ENTRY_MAX && len.is_multiple_of(8));
    }
    let mut bytes = some_entry(&mut input);
    if bytes.len() < 40 {
        assert!(matches!(object::read(&bytes, offset, &sums), Err(EntryError::Short { .. })));
        return;
    }
    let said = Said::of(&bytes);
    let whole = said.as_ref().filter(|said| said.len() <= bytes.len());
    match whole {
        Some(said) => seal(&mut bytes, said, offset),
        None => bytes[0] |= 1,
    }
    let used = word(&bytes, 8) >> 40 != 0;
    let got = object::read(&bytes, offset, &sums);
    assert_eq!(got.is_ok(), whole.is_some() && used, "{got:?}");
    assert_eq!(object::total_len(&bytes).ok().map(|len| len as usize), said.as_ref().map(Said::len));
    let (Ok(entry), Some(said)) = (got, whole) else { return };
    let payload = &bytes[said.header..];
    assert_eq!((entry.key, entry.value), (&payload[..said.key], &payload[said.key..][..said.value]));
    assert_eq!((entry.csn.0, entry.position, entry.moved), (said.csn, word(&bytes, 32), said.flags & 4 != 0));
    let mark = word(&bytes, 8);
    assert_eq!(entry.superseded, mark & 1 != 0);
    assert_eq!((u64::from(entry.generation), entry.term.bits()), (mark >> 40, mark << 24 >> 25));
    let expiry = if said.flags & 1 != 0 { word(&bytes, 40) } else { 0 };
    assert_eq!(entry.expiry, UnixMillis(expiry));
    assert_eq!(entry.session.is_some(), said.flags & 2 != 0);
    let used = said.header + said.key + said.value;
    let bit = input.below(used as u64 * 8) as usize;
    // Bit 0 of the mark is the superseded bit, which no checksum covers.
    if bit != 64 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(object::read(&bytes, offset, &sums).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(object::read(&bytes, offset ^ LINE, &sums), Err(EntryError::Torn));
}

/// A line of the segment table; its checksum holds.
fn some_line(input: &mut Input<'_>, segment: u32) -> [u64; 8] {
    let mut words = [0; 8];
    if input.u8() < 200 {
        let run = input.near(SEGMENTS);
        // Strides are cache lines; the target need not know which of them are classes.
        let odd = u64::from(input.u8() > 250) * 8;
        let stride = if input.u8() & 1 == 1 { input.below(40) * LINE + odd } else { 0 };
        words[1] = input.near(3) << 32 | input.below(2) << 16 | input.below(2) << 8 | input.near(7) & 0xFF;
        words[2] = run << 32 | stride;
        (words[3], words[4]) = (input.below(9), input.below(9));
        words[5] = words[3] + 1;
        words[6] = input.near(40).wrapping_mul(stride.max(1));
    } else {
        words[1..].iter_mut().for_each(|word| *word = input.u64());
    }
    sign(&mut words, segment);
    words
}

fn sign(words: &mut [u64; 8], segment: u32) {
    let summed: Vec<u8> = words[1..6].iter().flat_map(|word| word.to_le_bytes()).collect();
    words[0] = SumKey::new(SUMS).sum(line_at(segment), &summed).max(1);
}

fn line(input: &mut Input<'_>) {
    let sums = SumKey::new(SUMS);
    let segment = input.below(SEGMENTS) as u32;
    let mut words = some_line(input, segment);
    if let Ok(line) = Line::parse(&words, &sums, segment) {
        let shared = line.stride != 0;
        assert!(line.run > 0 && u64::from(line.tail) <= SEGMENT_BYTES && line.generation > 0);
        assert!(line.generation >> 24 == 0 && line.term.bits() == words[5], "{line:?}");
        assert!(!shared || (line.run == 1 && line.tail.is_multiple_of(line.stride)), "{line:?}");
        assert!(
            u64::from(line.stride) <= SEGMENT_BYTES / 2 && u64::from(line.stride) % LINE == 0,
            "{line:?}"
        );
        match line.state {
            SegmentState::Active | SegmentState::Sealed => assert!(shared, "{line:?}"),
            SegmentState::RunHead | SegmentState::RunBody => assert!(!shared, "{line:?}"),
            SegmentState::Free | SegmentState::Quarantined => {}
        }
    }
    let at = 1 + input.below(5) as usize;
    words[at] ^= 1 << input.below(64);
    assert!(Line::parse(&words, &sums, segment).is_err(), "word {at}");
    for other in words.iter_mut() {
        *other = input.u64();
    }
    assert!(words == [0; 8] || Line::parse(&words, &sums, segment).is_err(), "a checksum held by chance");
}

/// An entry that was written.
struct Known {
    place: EntryRef,
    csn: Csn,
    kind: EntryKind,
    key: Vec<u8>,
    value: Vec<u8>,
    expiry: UnixMillis,
    session: Option<OperationId>,
}

impl Known {
    fn is(&self, entry: &Entry<'_>) -> bool {
        (entry.csn, entry.kind, entry.key, entry.value)
            == (self.csn, self.kind, &self.key[..], &self.value[..])
            && (entry.expiry, entry.session) == (self.expiry, self.session)
    }
}

/// A sound arena, and what is in it.
struct Arena {
    store: Arc<Store<Mapped>>,
    known: HashMap<u64, Known>,
    _unfinished: Draft,
}

thread_local! {
    static ARENA_BED: RefCell<Arena> = RefCell::new(arena());
}

/// Two classes of small entries, some of them dead, a draft that nobody finished, and a run of two segments.
fn arena() -> Arena {
    // Mapped memory checks each access as well, and copies a large entry at once.
    let options = RegionOptions { name: "arena".into(), bytes: ARENA, backing: Backing::Memory };
    let memory = Region::create(&options).expect("a memory file").memory().clone();
    let options = StoreOptions { reserve: 1, ..StoreOptions::default() };
    let budget = Arc::new(Budget::new(u64::MAX));
    let store = Arc::new(Store::create(memory, budget, options, SumKey::new(SUMS)).expect("fits"));
    let (mut known, mut writer) = (HashMap::new(), store.writer(0));
    for csn in 1..=40u64 {
        let key = format!("key {csn}").into_bytes();
        let value = vec![csn as u8; if csn == 20 { 1_100_000 } else { (csn % 5 * 30) as usize }];
        let kind = if csn % 9 == 0 { EntryKind::Tombstone } else { EntryKind::Put };
        let mut meta = EntryMeta::of(kind);
        if csn % 2 == 0 {
            meta = meta.expiring(UnixMillis(csn * 1000));
        }
        if csn % 3 == 0 {
            meta = meta.by(OperationId { id: 7, operation: csn });
        }
        let draft = writer.draft(&key, &value, meta).expect("room");
        let (place, csn) = (writer.finish(draft, Csn(csn)), Csn(csn));
        if csn.0 % 4 == 0 {
            assert!(store.supersede(place, csn));
        }
        let (expiry, session) = (meta.expiry, meta.session);
        known.insert(place.offset, Known { place, csn, kind, key, value, expiry, session });
    }
    let unfinished = writer.draft(b"draft", b"never finished", EntryMeta::PUT).expect("room");
    drop(writer);
    let arena = Arena { store, known, _unfinished: unfinished };
    let mut seen = 0;
    let report = verify_with(arena.store.memory(), arena.store.sums(), &mut |place, entry| {
        assert!(arena.known[&place.offset].is(entry));
        seen += 1;
    });
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(seen, arena.known.len());
    arena
}

impl Arena {
    fn changed(&self, how: u8, mut input: Input<'_>) {
        let memory = self.store.memory();
        let places: Vec<EntryRef> = {
            let mut places: Vec<EntryRef> = self.known.values().map(|known| known.place).collect();
            places.sort_unstable();
            places
        };
        let mut undo = Vec::new();
        let mut made = Vec::new();
        for _ in 0..=input.below(6) {
            let place = places[input.below(places.len() as u64) as usize];
            self.change(&mut input, place, &mut made, &mut |at, new| {
                undo.push((at, memory.load(at)));
                memory.store(at, new);
            });
        }
        for _ in 0..4 {
            self.read(&mut input, &places, &made);
        }
        // The walk looks at every room: now and then is enough.
        if how == 7 && input.u8() & 3 == 0 {
            let mut visit = |place: EntryRef, entry: &Entry<'_>| self.check(place.offset, entry, &made);
            let report = verify_with(memory, self.store.sums(), &mut visit);
            assert!(report.problems.len() as u64 <= report.problem_count && report.problems.len() <= 100);
            let _ = ArenaGeometry::read(memory, self.store.sums());
            // A survey names places of whole entries only.
            if let Ok(found) = survey(memory, self.store.sums(), Term::ZERO, &[0, 3], &Settled::default()) {
                for stream in &found.streams {
                    let places = stream
                        .tail
                        .iter()
                        .map(|(_, place)| place)
                        .chain(stream.beyond.iter().map(|(_, place)| place));
                    for EntryRef { offset, .. } in places {
                        assert!(self.known.contains_key(offset) || made.contains(offset), "{offset:#x}");
                    }
                }
            }
        }
        undo.iter().rev().for_each(|&(at, old)| memory.store(at, old));
    }

    /// One change; whole entries that are made up are noted in `made`.
    fn change(
        &self,
        input: &mut Input<'_>,
        place: EntryRef,
        made: &mut Vec<u64>,
        store: &mut dyn FnMut(u64, u64),
    ) {
        let memory = self.store.memory();
        let inside = place.offset + input.below(u64::from(place.len).min(256) / 8) * 8;
        match input.u8() % 8 {
            0 | 1 => store(inside, memory.load(inside) ^ 1 << input.below(64)),
            2 => store(inside, input.u64()),
            3 => {
                // A whole entry, but not where it was written.
                let to = place.offset + LINE * (1 + input.below(4));
                for at in (0..u64::from(place.len.min(512))).step_by(8) {
                    store(to + at, memory.load(place.offset + at));
                }
            }
            4 | 5 => {
                let segment = input.below(SEGMENTS) as u32;
                let mut words = some_line(input, segment);
                if segment == 0 {
                    // The arena's own line: its shape.
                    words[1] = 0x006D_7261_676E_6F6C;
                    words[2] = 2;
                    (words[3], words[4], words[5]) = (input.near(SEGMENTS + 2), input.near(3), SEGMENT_BYTES);
                    sign(&mut words, 0);
                }
                words.iter().enumerate().for_each(|(i, &word)| store(line_at(segment) + 8 * i as u64, word));
            }
            6 => {
                let mut bytes = some_entry(input);
                bytes.resize(bytes.len().next_multiple_of(8).max(64), 0);
                let offset = place.offset;
                if let Some(said) = Said::of(&bytes).filter(|said| said.len() <= bytes.len()) {
                    seal(&mut bytes, &said, offset);
                    made.push(offset);
                }
                for (i, word) in bytes.chunks_exact(8).enumerate().take(512) {
                    let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                    store(offset + 8 * i as u64, word);
                }
            }
            _ => {
                let line = line_at(input.below(SEGMENTS) as u32) + 8 * input.below(8);
                store(line, memory.load(line) ^ 1 << input.below(64));
            }
        }
    }

    /// A worker's read of a place that may be none.
    fn read(&self, input: &mut Input<'_>, places: &[EntryRef], made: &[u64]) {
        let mut place = places[input.below(places.len() as u64) as usize];
        let mut csn = self.known[&place.offset].csn;
        match input.u8() % 4 {
            0 => {
                let Some(any) = EntryRef::from_units(input.near(ARENA / LINE), input.near(64) as u32) else {
                    return;
                };
                place = any;
            }
            1 => {
                // Often about the end.
                let at = if input.u8() & 1 == 1 { ARENA - input.below(80) * LINE } else { input.near(ARENA) };
                (place.offset, place.len) = (at, input.near(4096) as u32);
            }
            2 => csn = Csn(input.near(60)),
            _ => {}
        }
        let mut bytes = Vec::new();
        match self.store.read(place, csn, &mut bytes) {
            Ok(entry) => {
                assert_eq!(entry.csn, csn);
                self.check(place.offset, &entry, made);
            }
            Err(EntryError::Outside { .. }) => assert!(bytes.is_empty()),
            Err(_) => assert!(place.offset < ARENA && bytes.len() as u64 <= ARENA),
        }
    }

    fn check(&self, offset: u64, entry: &Entry<'_>, made: &[u64]) {
        if made.contains(&offset) {
            return;
        }
        let known = self.known.get(&offset).unwrap_or_else(|| panic!("an entry at {offset:#x} from nowhere"));
        assert!(known.is(entry), "an entry that nobody wrote: {:?}", entry.csn);
    }
}
