//! The ordered tree of `longarm-index`, with nodes of several sizes.

use std::ops::{Bound, ControlFlow};
use std::sync::LazyLock;

use longarm_base::{Csn, EntryRef, Term, UnixMillis};
use longarm_index::tree::{
    Ages, Builder, EntryKind, LeafRecord, Owner, Standing, TreeEntry, TreeOptions, TreeRange,
};
use longarm_memory::{Backing, Mapped, Region, RegionOptions, SumKey};

use crate::ordered::{Entry, Item, Ordered};

/// Bytes of an entry that a place names.
const ENTRY_BYTES: u32 = 64;
/// What a leaf has of a key beside the key: a slot and a record.
const BESIDE_KEY: u64 = 24;

/// No entry is ever copied here.
struct NoAges;

impl Ages for NoAges {
    fn age_of(&mut self, _: EntryRef, _: Csn) -> Option<u128> {
        None
    }
}

/// What decides a tree's memory and its nodes.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub keys: u64,
    /// Bytes of a key, of those that are longest.
    pub key_bytes: u64,
    /// Bytes of a node to aim at, in KiB: 1, 2, 4 or 8. None is what a tree does by itself.
    pub node_kib: Option<u64>,
}

impl Shape {
    /// A node becomes larger if it has fewer keys than this: after a split, or when it is built full. It is
    /// three quarters of what a part of a node of the wanted size has, and so more than the same part of a
    /// smaller one.
    fn options(&self, part: u64) -> TreeOptions {
        let Some(kib) = self.node_kib else { return TreeOptions::default() };
        let keys = (kib << 10) / part / (self.key_bytes + BESIDE_KEY);
        let least_keys = if kib == 1 { 2 } else { (3 * keys).div_ceil(4).max(2) };
        TreeOptions { least_keys: least_keys as usize, ..TreeOptions::default() }
    }

    fn region(&self) -> Mapped {
        let bytes = (16 << 20) + self.keys * (512 + 3 * self.key_bytes);
        let options = RegionOptions { name: "ordered".into(), bytes, backing: Backing::SmallPages };
        Region::create(&options).expect("memory").memory().clone()
    }
}

/// The key of the checksums.
pub static SUMS: LazyLock<SumKey> = LazyLock::new(|| SumKey::new(1));

const STANDING: Standing<'_> = Standing { term: Term::ZERO, stable: Csn::NONE, applied: &[1] };

/// A tree and its owner.
pub struct Tree {
    owner: Owner<Mapped, NoAges>,
    /// Levels are nodes that a look reads.
    levels: u64,
}

impl Tree {
    /// An empty one.
    pub fn new(shape: &Shape) -> Tree {
        let owner = Owner::create(shape.region(), NoAges, SUMS.clone(), 1, shape.options(2)).expect("room");
        Tree { owner, levels: 1 }
    }

    /// One of keys that are all there, in order.
    pub fn built<'a>(shape: &Shape, entries: impl Iterator<Item = Entry<'a>>) -> Tree {
        let mut builder =
            Builder::new(shape.region(), NoAges, SUMS.clone(), 1, shape.options(1)).expect("room");
        for Entry { key, item } in entries {
            let entry = Some(EntryRef { offset: item.offset, len: ENTRY_BYTES });
            let record = LeafRecord { csn: Csn(item.csn), entry, expiry: UnixMillis::NEVER };
            builder.push(key, &record).expect("room");
        }
        let owner = builder.finish(&STANDING).expect("room");
        let levels = u64::from(owner.counts().height);
        Tree { owner, levels }
    }

    /// The memory that clients READ.
    pub fn memory(&self) -> &Mapped {
        self.owner.memory()
    }
}

impl Ordered for Tree {
    fn step(&mut self, entries: &[Entry<'_>]) {
        let puts = entries.iter().map(|Entry { key, item }| {
            let entry = EntryRef { offset: item.offset, len: ENTRY_BYTES };
            TreeEntry {
                key,
                kind: EntryKind::Put,
                csn: Csn(item.csn),
                age: 0,
                entry,
                expiry: UnixMillis::NEVER,
            }
        });
        let mut step = self.owner.begin();
        step.apply_all(puts).expect("room");
        step.publish(&STANDING);
        self.levels = u64::from(self.owner.counts().height);
    }

    fn get(&mut self, key: &[u8]) -> Option<Item> {
        let found = self.owner.get(key)?;
        Some(Item { csn: found.csn.0, offset: found.entry.offset })
    }

    fn scan(&mut self, from: &[u8], count: usize, each: &mut dyn FnMut(Entry<'_>)) {
        let mut left = count;
        let range = TreeRange { low: Bound::Included(from), ..TreeRange::ALL };
        let _ = self.owner.walk(&range, |item| {
            each(Entry { key: item.key, item: Item { csn: item.csn.0, offset: item.entry.offset } });
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }

    fn accesses(&mut self, _: &[u8]) -> Option<u64> {
        Some(self.levels)
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.owner.counts().bytes)
    }

    fn node_bytes(&self) -> Option<u64> {
        let counts = self.owner.counts();
        Some(counts.bytes / counts.nodes)
    }
}
