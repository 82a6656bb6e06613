//! The one-sided walk over an ordered tree, and the check of one, in memory that is not what it should be.
//!
//! Two kinds of input. Arbitrary memory under an arbitrary header: every READ lies in the region, a walk
//! ends, and it shows only leaves that stand under a checksum that the target put there itself, each
//! adjoining the one before. And a sound tree with words changed: a walk shows its items in order without a
//! gap, up to where it says that it cannot go on.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use longarm_base::{Csn, EntryRef, Term, UnixMillis};
use longarm_index::tree::layout::{NODES_AT, STEP_MAX, node, seed};
use longarm_index::tree::{
    Ages, EntryKind, Header, Mark, NodeView, Owner, Pointer, Sight, Standing, TreeEntry, TreeOptions,
    TreeRange, TreeStep, TreeWalk, Unit, newest_header, verify,
};
use longarm_memory::{OwnedWords, SumKey, Words};

use crate::{Flat, Input};

const REGION: u64 = NODES_AT + (16 << 10);
/// The same for the sound tree.
const BED: u64 = NODES_AT + (64 << 10);
const SUMS: u64 = 99;
/// READs of a walk in memory that stands still: leaves, the way down to each, steps to the right.
const READS_MAX: u32 = 64 * 16 * 66;

/// One input.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let how = input.u8();
    if how & 1 == 0 {
        arbitrary(input);
    } else {
        BED_OF.with_borrow(|bed| changed(bed, input));
    }
}

/// How a walk ended.
#[derive(PartialEq, Eq, Debug)]
enum Ending {
    Whole,
    Broken,
}

/// Walks to the end. `each` is shown every leaf with its pointer.
fn walk(
    memory: &Flat,
    range: &TreeRange<'_>,
    sight: &Sight<'_>,
    hint: Option<Pointer>,
    mut each: impl FnMut(Pointer, &NodeView<'_>),
) -> Ending {
    let (mut walk, mut step) = TreeWalk::start(range, hint, sight);
    let mut tries = 3;
    for _ in 0..READS_MAX {
        let pointer = match step {
            TreeStep::Read(pointer) => pointer,
            TreeStep::End => return Ending::Whole,
            TreeStep::Stale if tries > 0 => {
                tries -= 1;
                step = walk.again(sight);
                continue;
            }
            TreeStep::Stale | TreeStep::Torn | TreeStep::Later | TreeStep::Leaf(_) => return Ending::Broken,
        };
        let place = pointer.place(sight.header.unit, sight.bytes).expect("a place in the region");
        assert!(
            place.end().is_some_and(|end| end <= memory.bytes()) && place.offset >= NODES_AT,
            "{place:?}"
        );
        let bytes = memory.copy(place.offset, place.len as usize);
        step = match walk.feed(pointer, &bytes, sight) {
            TreeStep::Leaf(leaf) => {
                each(pointer, &leaf);
                walk.go_on(range, sight)
            }
            TreeStep::Read(next) => TreeStep::Read(next),
            TreeStep::Stale => TreeStep::Stale,
            TreeStep::Torn => TreeStep::Torn,
            TreeStep::Later => TreeStep::Later,
            TreeStep::End => TreeStep::End,
        };
    }
    panic!("a walk without an end");
}

fn some_pointer(input: &mut Input<'_>, unit: Unit) -> Pointer {
    let class = input.u8() & 3;
    let near = unit.first() + input.below((REGION - NODES_AT) / unit.bytes()) / (1 << class) * (1 << class);
    let unit = if input.u8() < 250 { near } else { input.u64() & ((1 << 30) - 1) };
    Pointer { unit, class, level: input.u8() % 4, generation: u32::from(input.u8() & 3) }
}

fn arbitrary(mut input: Input<'_>) {
    let (memory, sums) = (Flat::new(REGION), SumKey::new(SUMS));
    let unit = if input.u8() & 1 == 0 { Unit::Small } else { Unit::Kib };
    let header = Header {
        incarnation: 7,
        term: Term::ZERO,
        step: 5,
        unit,
        root: some_pointer(&mut input, unit),
        items: 0,
        markers: 0,
        nodes: 0,
        units: 0,
        top: 0,
        stable: Csn::NONE,
        applied: vec![3],
    };
    memory.fill(input.counted());
    let mut sealed: HashMap<u64, Vec<u8>> = HashMap::new();
    for _ in 0..16 {
        let pointer = some_pointer(&mut input, unit);
        if pointer.place(unit, REGION).is_some() {
            let bytes = some_node(&mut input, pointer, &header, &sums);
            memory.copy_in(pointer.at(unit), &bytes);
            sealed.insert(pointer.at(unit), bytes);
        }
    }
    let sight = Sight { header: &header, sums: &sums, bytes: REGION };
    let key = input.counted();
    let (low, high) = match input.u8() & 1 {
        0 => (Bound::Unbounded, Bound::Excluded(key)),
        _ => (Bound::Included(key), Bound::Unbounded),
    };
    for reverse in [false, true] {
        let range = TreeRange { low, high, reverse };
        let hint = (input.u8() & 1 == 1).then(|| some_pointer(&mut input, unit));
        let mut fence: Option<Vec<u8>> = None;
        walk(&memory, &range, &sight, hint, |pointer, leaf| {
            assert_eq!(sealed.get(&pointer.at(unit)).map(Vec::as_slice), Some(leaf.bytes()));
            assert!(leaf.level() == 0 && leaf.mark().step <= 5);
            assert_eq!(leaf.mark().generation, pointer.generation);
            let (here, next) = match reverse {
                false => (Some(leaf.low()), leaf.high()),
                true => (leaf.high(), Some(leaf.low())),
            };
            assert!(fence.is_none() || fence.as_deref() == here, "a gap");
            fence = next.map(<[u8]>::to_vec);
            for i in range.slots(leaf) {
                let _ = (leaf.record(i), leaf.key(i).len());
            }
        });
    }
    header.store(&memory, &sums);
    let report = verify(&memory, &sums, |_, _| Ok(()));
    assert!(report.problems.len() as u64 <= report.problem_count && report.problems.len() <= 100);
}

/// A node that verifies, and whose words are mostly those of a node.
fn some_node(input: &mut Input<'_>, pointer: Pointer, header: &Header, sums: &SumKey) -> Vec<u8> {
    let len = pointer.bytes(header.unit);
    let mut bytes = vec![0; len];
    let text = input.bytes(24);
    bytes[len - text.len()..].copy_from_slice(text);
    let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    let at = (len - 24) as u64;
    let count = u64::from(input.u8() % 3);
    let shape = u64::from(pointer.level) | u64::from(pointer.class) << 8 | count << 16;
    put(node::SHAPE, shape | at << 32 | u64::from(input.u8() % 3) << 48);
    let step = if input.u8() < 230 { 4 } else { input.u64() & STEP_MAX };
    put(node::MARK, Mark { generation: pointer.generation, step }.pack());
    put(node::RIGHT, if input.u8() & 1 == 0 { 0 } else { some_pointer(input, header.unit).pack() });
    // Fences of at most two bytes within the text.
    let [low, high] =
        [input.u8(), input.u8()].map(|b| (at + u64::from(b >> 2) % 22) | u64::from(b & 3) % 3 << 16);
    put(node::FENCES, low | high << 32);
    if pointer.level > 0 {
        let child = Pointer { level: pointer.level - 1, ..some_pointer(input, header.unit) };
        put(node::FIRST, child.pack());
    }
    for i in 0..count as usize {
        // Records without a suffix; or anything.
        let slot = if input.u8() < 240 { at } else { input.u64() };
        put(node::SLOTS + 8 * i, slot);
    }
    for _ in 0..input.u8() % 3 {
        put(input.below(len as u64 / 8) as usize * 8, input.u64());
    }
    let sum = sums.sum(seed(header.incarnation, pointer.at(header.unit)), &bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// A sound tree and what is in it.
struct Bed {
    memory: Arc<Flat>,
    header: Header,
    items: Vec<(Vec<u8>, u64)>,
}

/// No entry is ever copied here.
struct NoAges;

impl Ages for NoAges {
    fn age_of(&mut self, _: EntryRef, _: Csn) -> Option<u128> {
        None
    }
}

thread_local! {
    static BED_OF: std::cell::RefCell<Bed> = std::cell::RefCell::new(bed());
}

fn bed() -> Bed {
    let (memory, sums) = (Arc::new(Flat::new(BED)), SumKey::new(SUMS));
    let options = TreeOptions { unit: Unit::Small, least_keys: 2, ..TreeOptions::default() };
    let mut owner = Owner::create(memory.clone(), NoAges, sums.clone(), 7, options).expect("room");
    let mut step = owner.begin();
    for i in 1..=200u64 {
        let key = format!("key{}", i * 7919 % 1009);
        let kind = if i.is_multiple_of(5) { EntryKind::Tombstone } else { EntryKind::Put };
        let (csn, entry) = (Csn(i), EntryRef { offset: i * 64, len: 64 });
        let entry = TreeEntry { key: key.as_bytes(), kind, csn, age: 0, entry, expiry: UnixMillis::NEVER };
        step.apply(&entry).expect("room");
    }
    step.publish(&Standing { term: Term::ZERO, stable: Csn(100), applied: &[1, 2] });
    let mut items = Vec::new();
    let ended = owner.walk(&TreeRange::ALL, |item| {
        items.push((item.key.to_vec(), item.csn.0));
        ControlFlow::Continue(())
    });
    assert!(ended.is_continue());
    let header = newest_header(&*memory, &sums).expect("a header");
    Bed { memory, header, items }
}

fn changed(bed: &Bed, mut input: Input<'_>) {
    let sums = SumKey::new(SUMS);
    let mut undo = Vec::new();
    let changes = input.below(8);
    for _ in 0..changes {
        let at = match input.u8() & 3 {
            0 => input.below(BED / 8) * 8,
            _ => NODES_AT + input.below(bed.header.units * bed.header.unit.bytes() / 8) * 8,
        };
        let old = bed.memory.load(at);
        undo.push((at, old));
        let from = NODES_AT + input.below(bed.header.units * 4) * 64;
        match input.u8() % 3 {
            0 => bed.memory.store(at, old ^ 1 << input.below(64)),
            1 => bed.memory.store(at, input.u64()),
            _ => bed.memory.store(at, bed.memory.load(from)),
        }
    }
    let start = input.below(bed.items.len() as u64) as usize;
    let sight = Sight { header: &bed.header, sums: &sums, bytes: BED };
    for reverse in [false, true] {
        let bound = Bound::Included(bed.items[start].0.as_slice());
        let (low, high) = if reverse { (Bound::Unbounded, bound) } else { (bound, Bound::Unbounded) };
        let range = TreeRange { low, high, reverse };
        let mut shown = Vec::new();
        let ending = walk(&bed.memory, &range, &sight, None, |_, leaf| {
            let mut here: Vec<(Vec<u8>, u64)> = Vec::new();
            for i in range.slots(leaf) {
                let record = leaf.record(i).expect("a record that was written");
                if !record.is_marker() {
                    let key = leaf.key(i);
                    here.push(([key.prefix, key.suffix].concat(), record.csn.0));
                }
            }
            if reverse {
                here.reverse();
            }
            shown.extend(here);
        });
        let mut wanted = if reverse { bed.items[..=start].to_vec() } else { bed.items[start..].to_vec() };
        if reverse {
            wanted.reverse();
        }
        match ending {
            Ending::Whole => assert_eq!(shown, wanted),
            Ending::Broken => {
                assert!(changes > 0 && wanted.starts_with(&shown), "{shown:?} of {wanted:?}");
            }
        }
    }
    if changes == 0 {
        let report = verify(&*bed.memory, &sums, |_, _| Ok(()));
        assert_eq!(report.problem_count, 0, "{:?}", report.problems);
    }
    undo.iter().rev().for_each(|&(at, old)| bed.memory.store(at, old));
}
