//! The map of the standard library: what a structure costs that nobody but its owner reads.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

use crate::ordered::{Entry, Item, Ordered};

/// A map of keys that are kept as `K`: a box of bytes for keys of any length, or an array.
pub struct Map<K>(BTreeMap<K, Item>);

impl<K> Map<K> {
    pub fn new() -> Map<K> {
        Map(BTreeMap::new())
    }
}

impl<K: Ord + Borrow<[u8]> + for<'a> TryFrom<&'a [u8]>> Ordered for Map<K> {
    fn step(&mut self, entries: &[Entry<'_>]) {
        for entry in entries {
            match self.0.get_mut(entry.key) {
                Some(item) => *item = entry.item,
                None => {
                    let Ok(key) = K::try_from(entry.key) else { panic!("a key of another length") };
                    self.0.insert(key, entry.item);
                }
            }
        }
    }

    fn get(&mut self, key: &[u8]) -> Option<Item> {
        self.0.get(key).copied()
    }

    fn scan(&mut self, from: &[u8], count: usize, each: &mut dyn FnMut(Entry<'_>)) {
        let range = self.0.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        range.take(count).for_each(|(key, item)| each(Entry { key: key.borrow(), item: *item }));
    }

    fn accesses(&mut self, _: &[u8]) -> Option<u64> {
        None
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}
