//! What all structures of the experiment can do.

/// What a structure has of a key: a version and a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    pub csn: u64,
    pub offset: u64,
}

/// A key and its item.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub key: &'a [u8],
    pub item: Item,
}

/// Keys in order. A reader may need `&mut`, for copies that it keeps.
pub trait Ordered {
    /// Puts entries in, which are in the order of their keys. A csn is greater than all before.
    fn step(&mut self, entries: &[Entry<'_>]);

    /// The item of a key.
    fn get(&mut self, key: &[u8]) -> Option<Item>;

    /// Shows so many items, in order, from the first whose key is not below `from`.
    fn scan(&mut self, from: &[u8], count: usize, each: &mut dyn FnMut(Entry<'_>));

    /// How many places in memory it looks at for a key, each of which the one before it names, where that can
    /// be told.
    fn accesses(&mut self, key: &[u8]) -> Option<u64>;

    /// Bytes that it uses, where it knows.
    fn bytes(&self) -> Option<u64>;

    /// Bytes of a node on average, where there are nodes of several keys.
    fn node_bytes(&self) -> Option<u64> {
        None
    }
}
