//! A skiplist (Pugh: Skip lists: a probabilistic alternative to balanced trees, CACM 1990) in partitions: the
//! ordered index of HiStore (HiStore 4.1).
//!
//! A node is bytes of one array, and names others by where they begin: as compact as pointers of four bytes
//! make it, with the key and the next nodes beside each other. A key's partition is decided by its hash, so a
//! scan merges all partitions. The paper does not say how many there are. Its servers have four worker
//! threads, which search them at once; here one thread does it all.
//!
//! The implementation that the paper names (github.com/begeekmyfriend/skiplist) has 32 levels, and a node has
//! one more with the chance of a quarter; so it is here.
//! ```text
//!  0 csn | 8 offset | 16 key length 16 | 18 height 8 | 20 next nodes, 4 bytes each | key, up to 8 bytes
//! ```

use longarm_base::random::{SplitMix64, mix64};

use crate::ordered::{Entry, Item, Ordered};

/// Levels at most.
pub const LEVELS: usize = 32;
/// A node begins at a multiple of it, and is named by how many of them are before it.
const UNIT: usize = 8;
/// Where in a node its next nodes begin.
const NEXT: usize = 20;
/// No node: the array begins with a unit that is none.
const END: u32 = 0;

/// A skiplist in partitions.
pub struct Skiplist {
    partitions: Vec<List>,
    draw: SplitMix64,
}

impl Skiplist {
    pub fn new(partitions: usize) -> Skiplist {
        let partitions = (0..partitions).map(|_| List::new()).collect();
        Skiplist { partitions, draw: SplitMix64::new(1) }
    }

    fn partition_of(&self, key: &[u8]) -> usize {
        let parts = self.partitions.len() as u64;
        if parts == 1 {
            return 0;
        }
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let hash = key.chunks(8).fold(key.len() as u64, |hash, bytes| mix64(hash ^ word(bytes)));
        (hash % parts) as usize
    }

    fn list_of(&self, key: &[u8]) -> &List {
        &self.partitions[self.partition_of(key)]
    }
}

impl Ordered for Skiplist {
    fn step(&mut self, entries: &[Entry<'_>]) {
        for entry in entries {
            let height = height_of(self.draw.draw());
            let at = self.partition_of(entry.key);
            self.partitions[at].put(entry, height);
        }
    }

    fn get(&mut self, key: &[u8]) -> Option<Item> {
        let list = self.list_of(key);
        let node = list.find(key, |_, _| {}).node;
        (node != END && list.key(node) == key).then(|| list.item(node))
    }

    fn scan(&mut self, from: &[u8], count: usize, each: &mut dyn FnMut(Entry<'_>)) {
        let first = |list: &List| list.find(from, |_, _| {}).node;
        let mut heads: Vec<u32> = self.partitions.iter().map(first).collect();
        for _ in 0..count {
            let lists = self.partitions.iter().zip(&mut heads).filter(|(_, head)| **head != END);
            let Some((list, head)) = lists.min_by_key(|(list, head)| list.key(**head)) else { return };
            each(Entry { key: list.key(*head), item: list.item(*head) });
            *head = list.next(*head, 0);
        }
    }

    fn accesses(&mut self, key: &[u8]) -> Option<u64> {
        Some(self.list_of(key).find(key, |_, _| {}).compared)
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.partitions.iter().map(|list| list.bytes.len() as u64).sum())
    }
}

/// Levels of a node, of a random number: one more with the chance of a quarter.
pub fn height_of(random: u64) -> usize {
    (1 + random.trailing_zeros() as usize / 2).min(LEVELS)
}

/// One partition.
struct List {
    bytes: Vec<u8>,
    /// A node without a key, before all others, on all levels.
    head: u32,
    /// Levels that have a node.
    height: usize,
}

/// Where a key is, or belongs.
struct Found {
    /// The first node whose key is not below it, or the end.
    node: u32,
    /// Nodes whose keys were looked at.
    compared: u64,
}

impl List {
    fn new() -> List {
        let mut list = List { bytes: vec![0; UNIT], head: END, height: 1 };
        list.head = list.append(&Entry { key: &[], item: Item { csn: 0, offset: 0 } }, LEVELS);
        list
    }

    /// Goes to a key, and calls `turn` with each level and the last node before the key on it.
    fn find(&self, key: &[u8], mut turn: impl FnMut(usize, u32)) -> Found {
        let (mut before, mut bound, mut compared) = (self.head, END, 0);
        for level in (0..self.height).rev() {
            let mut next = self.next(before, level);
            // What ended the level above is known not to be below the key.
            while next != bound {
                compared += 1;
                if self.key(next) >= key {
                    break;
                }
                (before, next) = (next, self.next(next, level));
            }
            bound = next;
            turn(level, before);
        }
        Found { node: bound, compared }
    }

    fn put(&mut self, entry: &Entry<'_>, height: usize) {
        let mut path = [self.head; LEVELS];
        let node = self.find(entry.key, |level, before| path[level] = before).node;
        if node != END && self.key(node) == entry.key {
            return self.set_item(node, entry.item);
        }
        self.height = self.height.max(height);
        let new = self.append(entry, height);
        for (level, before) in path.into_iter().enumerate().take(height) {
            let next = self.next(before, level);
            self.set_next(new, level, next);
            self.set_next(before, level, new);
        }
    }

    /// A node that nobody names yet.
    fn append(&mut self, entry: &Entry<'_>, height: usize) -> u32 {
        let node = u32::try_from(self.bytes.len() / UNIT).expect("32 GiB are enough");
        let len = u16::try_from(entry.key.len()).expect("a short key");
        self.bytes.extend_from_slice(&[0; 16]);
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(&(height as u16).to_le_bytes());
        self.bytes.resize(self.bytes.len() + 4 * height, 0);
        self.bytes.extend_from_slice(entry.key);
        self.bytes.resize(self.bytes.len().next_multiple_of(UNIT), 0);
        self.set_item(node, entry.item);
        node
    }

    fn word<const N: usize>(&self, node: u32, at: usize) -> [u8; N] {
        let at = node as usize * UNIT + at;
        self.bytes[at..at + N].try_into().expect("so many bytes")
    }

    fn set(&mut self, node: u32, at: usize, word: &[u8]) {
        let at = node as usize * UNIT + at;
        self.bytes[at..at + word.len()].copy_from_slice(word);
    }

    fn item(&self, node: u32) -> Item {
        let (csn, offset) = (self.word(node, 0), self.word(node, 8));
        Item { csn: u64::from_le_bytes(csn), offset: u64::from_le_bytes(offset) }
    }

    fn set_item(&mut self, node: u32, item: Item) {
        self.set(node, 0, &item.csn.to_le_bytes());
        self.set(node, 8, &item.offset.to_le_bytes());
    }

    fn key(&self, node: u32) -> &[u8] {
        let [low, high, height, _] = self.word(node, 16);
        let at = node as usize * UNIT + NEXT + 4 * usize::from(height);
        &self.bytes[at..at + usize::from(u16::from_le_bytes([low, high]))]
    }

    fn next(&self, node: u32, level: usize) -> u32 {
        u32::from_le_bytes(self.word(node, NEXT + 4 * level))
    }

    fn set_next(&mut self, node: u32, level: usize, next: u32) {
        self.set(node, NEXT + 4 * level, &next.to_le_bytes());
    }
}
