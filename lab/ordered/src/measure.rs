//! One row of the table: one structure with keys of one kind.

use std::fmt;

use longarm_base::random::SplitMix64;

use crate::btreemap::Map;
use crate::keys::{Keys, Kind};
use crate::ordered::{Entry, Item, Ordered};
use crate::process::{Moment, resident};
use crate::skiplist::Skiplist;
use crate::tree::{Shape, Tree};

/// Entries of one step.
const STEP: usize = 1000;
/// Looks that are timed at most, and items that scans show.
const LOOKS: usize = 20_000;
const SHOWN: usize = 500_000;
/// Items of the scans that are timed. A scan of one is a seek.
const SCANS: [usize; 4] = [1, 10, 100, 1000];

/// A structure of the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Structure {
    /// The tree, with nodes of so many KiB, or as it likes.
    Tree(Option<u64>),
    /// The same, made of sorted keys.
    Built(Option<u64>),
    /// A skiplist of so many partitions.
    Skiplist(usize),
    /// `BTreeMap` of keys of any length.
    Map,
    /// `BTreeMap` of keys of 16 bytes.
    Map16,
}

impl Structure {
    /// All that the table has.
    pub const ALL: [Structure; 14] = [
        Structure::Tree(None),
        Structure::Tree(Some(1)),
        Structure::Tree(Some(2)),
        Structure::Tree(Some(4)),
        Structure::Tree(Some(8)),
        Structure::Built(None),
        Structure::Built(Some(1)),
        Structure::Built(Some(2)),
        Structure::Built(Some(4)),
        Structure::Built(Some(8)),
        Structure::Skiplist(1),
        Structure::Skiplist(4),
        Structure::Map,
        Structure::Map16,
    ];

    /// The structure of this name.
    pub fn named(name: &str) -> Option<Structure> {
        Structure::ALL.into_iter().find(|structure| structure.name() == name)
    }

    pub fn name(self) -> String {
        match self {
            Structure::Tree(None) => "tree".into(),
            Structure::Tree(Some(kib)) => format!("tree-{kib}"),
            Structure::Built(None) => "built".into(),
            Structure::Built(Some(kib)) => format!("built-{kib}"),
            Structure::Skiplist(partitions) => format!("skiplist-{partitions}"),
            Structure::Map => "btreemap".into(),
            Structure::Map16 => "btreemap-16".into(),
        }
    }

    /// Whether it can have such keys.
    pub fn takes(self, kind: Kind) -> bool {
        self != Structure::Map16 || kind.len() == 16
    }
}

/// What was measured: nanoseconds, and bytes of a key. What cannot be told is none.
#[derive(Clone, Debug)]
pub struct Row {
    pub keys: usize,
    /// Of a new key, and of one that is there.
    pub insert: f64,
    pub again: Option<f64>,
    pub bytes: Option<f64>,
    pub resident: Option<f64>,
    pub node_bytes: Option<u64>,
    pub look: f64,
    pub accesses: Option<f64>,
    /// Of a whole scan.
    pub scans: [f64; SCANS.len()],
}

/// What stands above rows.
pub const HEAD: &str =
    "   keys insert  again  bytes resident  node  look reads   seek scan 10    100    1000";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let node = or_none(self.node_bytes.map(|bytes| bytes as f64), 0);
        let (again, bytes) = (or_none(self.again, 0), or_none(self.bytes, 1));
        let (resident, accesses) = (or_none(self.resident, 1), or_none(self.accesses, 1));
        let [seek, ten, hundred, thousand] = self.scans;
        write!(f, "{:7} {:6.0} {again:>6} {bytes:>6} {resident:>8} {node:>5} ", self.keys, self.insert)?;
        write!(f, "{:5.0} {accesses:>5} {seek:6.0} {ten:7.0} {hundred:6.0} {thousand:7.0}", self.look)
    }
}

/// Measures one structure. What is resident is right in a process that did nothing else before.
pub fn measure(structure: Structure, kind: Kind, count: u64) -> Row {
    let keys = Keys::new(kind, count);
    let before = resident();
    let shape = |node_kib| Shape { keys: keys.count() as u64, key_bytes: kind.len() as u64, node_kib };
    let (mut ordered, insert): (Box<dyn Ordered>, f64) = match structure {
        Structure::Built(kib) => built(&shape(kib), &keys),
        Structure::Tree(kib) => filled(Tree::new(&shape(kib)), &keys),
        Structure::Skiplist(partitions) => filled(Skiplist::new(partitions), &keys),
        Structure::Map => filled(Map::<Box<[u8]>>::new(), &keys),
        Structure::Map16 => filled(Map::<[u8; 16]>::new(), &keys),
    };
    let of_each = |bytes: u64| bytes as f64 / keys.count() as f64;
    let bytes = ordered.bytes().map(of_each);
    let resident = before.zip(resident()).map(|(before, after)| of_each(after.saturating_sub(before)));
    let node_bytes = ordered.node_bytes();
    let (look, accesses) = looks(&mut *ordered, &keys);
    let scans = SCANS.map(|items| scan(&mut *ordered, &keys, items));
    let is_built = matches!(structure, Structure::Built(_));
    let again = (!is_built).then(|| fill(&mut *ordered, &keys, keys.count() as u64));
    Row { keys: keys.count(), insert, again, bytes, resident, node_bytes, look, accesses, scans }
}

/// A key with an item that is of its csn.
fn entry(key: &[u8], csn: u64) -> Entry<'_> {
    Entry { key, item: Item { csn, offset: csn * 64 } }
}

fn built(shape: &Shape, keys: &Keys) -> (Box<dyn Ordered>, f64) {
    let mut sorted: Vec<&[u8]> = keys.iter().collect();
    sorted.sort_unstable();
    let begun = Moment::now();
    let tree = Tree::built(shape, (1..).zip(sorted).map(|(csn, key)| entry(key, csn)));
    (Box::new(tree), begun.spent() as f64 / keys.count() as f64)
}

fn filled(mut ordered: impl Ordered + 'static, keys: &Keys) -> (Box<dyn Ordered>, f64) {
    let insert = fill(&mut ordered, keys, 0);
    (Box::new(ordered), insert)
}

/// Puts all keys in, with csns above this one; nanoseconds of each. To sort a step is part of it.
fn fill(ordered: &mut dyn Ordered, keys: &Keys, above: u64) -> f64 {
    let mut step = Vec::with_capacity(STEP);
    let begun = Moment::now();
    for (csn, key) in (above + 1..).zip(keys.iter()) {
        step.push(entry(key, csn));
        if step.len() == STEP || csn == above + keys.count() as u64 {
            step.sort_unstable_by_key(|entry: &Entry<'_>| entry.key);
            ordered.step(&step);
            step.clear();
        }
    }
    begun.spent() as f64 / keys.count() as f64
}

/// Nanoseconds of a look for a key, and places that it looks at, on average.
fn looks(ordered: &mut dyn Ordered, keys: &Keys) -> (f64, Option<f64>) {
    let count = LOOKS.min(keys.count());
    let mut draw = SplitMix64::new(3);
    let begun = Moment::now();
    for _ in 0..count {
        let key = keys.get(draw.below(keys.count() as u64) as usize);
        assert!(ordered.get(key).is_some(), "a key that was put in");
    }
    let look = begun.spent() as f64 / count as f64;
    let mut draw = SplitMix64::new(3);
    let mut accesses = || ordered.accesses(keys.get(draw.below(keys.count() as u64) as usize));
    let sum: Option<u64> = (0..count).map(|_| accesses()).sum();
    (look, sum.map(|sum| sum as f64 / count as f64))
}

/// Nanoseconds of a scan of so many items.
fn scan(ordered: &mut dyn Ordered, keys: &Keys, items: usize) -> f64 {
    let count = LOOKS.min(keys.count()).min(SHOWN / items);
    let mut draw = SplitMix64::new(4);
    let mut sum = 0_u64;
    let begun = Moment::now();
    for _ in 0..count {
        let from = keys.get(draw.below(keys.count() as u64) as usize);
        ordered.scan(from, items, &mut |entry| sum += entry.item.csn + entry.key.len() as u64);
    }
    let spent = begun.spent();
    assert!(sum > 0, "items were shown");
    spent as f64 / count as f64
}
