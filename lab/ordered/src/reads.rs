//! Experiment: how many READs does a client need for a search that it does alone, and how many bytes do they
//! bring, by the size of the nodes and by the levels of the tree that it remembers (Cell 2.4, 3, 4.2)?
//!
//! `cargo run --release -p lab-ordered reads [KEYS]`. The READs are counted while a one-sided reader searches
//! a tree that is there; nothing is timed. What a look needs besides is the same in each row and not counted:
//! both copies of the header and the leader's committed words before and after it, and the value behind it.

use std::fmt;
use std::ops::Bound;

use longarm_index::tree::{Sight, TreeRange, TreeStep, TreeWalk, newest_header};
use longarm_memory::Words;

use crate::keys::{Keys, Kind};
use crate::ordered::{Entry, Item};
use crate::tree::{SUMS, Shape, Tree};

/// Bytes of a node, in KiB.
const NODES: [u64; 4] = [1, 2, 4, 8];
/// Searches that are counted.
const SEARCHES: usize = 1000;

/// What searches need that have so many of the uppermost levels at hand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Searches {
    /// Levels that the client remembers.
    pub remembered: u64,
    /// Bytes of the nodes of these levels, as far as searches came by them.
    pub cache_bytes: u64,
    /// READs of a search.
    pub reads: f64,
    /// Bytes that they bring.
    pub bytes: f64,
}

/// A tree, and what searches in it need.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// KiB of a node.
    pub node_kib: u64,
    /// Levels of the tree.
    pub levels: u64,
    /// By levels that are remembered, none at first.
    pub searches: Vec<Searches>,
}

/// Searches for some of these keys in a tree that has all of them.
pub fn row(keys: &Keys, kind: Kind, node_kib: u64) -> Row {
    let mut sorted: Vec<&[u8]> = keys.iter().collect();
    sorted.sort_unstable();
    let count = sorted.len() as u64;
    let shape = Shape { keys: count, key_bytes: kind.len() as u64, node_kib: Some(node_kib) };
    let entries = (1..).zip(&sorted).map(|(csn, key)| Entry { key, item: Item { csn, offset: csn * 64 } });
    let tree = Tree::built(&shape, entries);
    let levels = u64::from(newest_header(tree.memory(), &SUMS).expect("a header").root.level) + 1;
    let some = || keys.iter().step_by((keys.count() / SEARCHES).max(1));
    let searches = (0..levels).map(|remembered| searches(&tree, some(), remembered)).collect();
    Row { node_kib, levels, searches }
}

fn searches<'k>(tree: &Tree, keys: impl Iterator<Item = &'k [u8]>, remembered: u64) -> Searches {
    let header = newest_header(tree.memory(), &SUMS).expect("a header");
    let sight = Sight { header: &header, sums: &SUMS, bytes: tree.memory().bytes() };
    let (mut reads, mut bytes, mut count) = (0, 0, 0);
    let mut cached = std::collections::BTreeMap::new();
    for key in keys {
        count += 1;
        let at = Bound::Included(key);
        let (mut walk, mut step) =
            TreeWalk::start(&TreeRange { low: at, high: at, reverse: false }, None, &sight);
        let mut node;
        while let TreeStep::Read(pointer) = step {
            node = vec![0; pointer.bytes(header.unit)];
            tree.memory().copy_out(pointer.at(header.unit), &mut node);
            if u64::from(pointer.level) + remembered > u64::from(header.root.level) {
                cached.insert(pointer.pack(), node.len() as u64);
            } else {
                reads += 1;
                bytes += node.len();
            }
            step = match walk.feed(pointer, &node, &sight) {
                TreeStep::Read(next) => TreeStep::Read(next),
                TreeStep::Leaf(leaf) => {
                    assert!(leaf.position(key).is_ok(), "it is there");
                    TreeStep::End
                }
                other => panic!("{other:?}, with nobody writing"),
            };
        }
    }
    let (reads, bytes) = (f64::from(reads) / f64::from(count), bytes as f64 / f64::from(count));
    Searches { remembered, cache_bytes: cached.values().sum(), reads, bytes }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Searches { remembered, cache_bytes, reads, bytes } in &self.searches {
            let (node, levels, cache) = (self.node_kib, self.levels, cache_bytes >> 10);
            writeln!(f, "{node:>4} {levels:>7} {remembered:>11} {cache:>10} {reads:>6.2} {bytes:>8.0}")?;
        }
        Ok(())
    }
}

/// The table, for so many keys of 16 random bytes.
#[allow(clippy::print_stdout, reason = "the table is what an experiment is for")]
pub fn table(count: u64) {
    let kind = Kind::Random(16);
    let keys = Keys::new(kind, count);
    println!("{} keys of {} bytes", keys.count(), kind.len());
    println!("{:>4} {:>7} {:>11} {:>10} {:>6} {:>8}", "KiB", "levels", "remembered", "KiB", "READs", "bytes");
    NODES.iter().for_each(|kib| print!("{}", row(&keys, kind, *kib)));
    println!(
        "Cell, nodes of 1 KB: 5 READs where nothing is remembered and a meganode has 64 MB (4.2), 4 where"
    );
    println!("all but the lowest four levels are (3), and one more for the value (2.3).");
}
