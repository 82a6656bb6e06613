//! Items of a page, one behind the other in one buffer: a thousand short items take two allocations.

use longarm_base::{Csn, UnixMillis};

/// One item of a scan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanItem {
    /// The key.
    pub key: Vec<u8>,
    /// The value; empty in a scan of keys only.
    pub value: Vec<u8>,
    /// Its version.
    pub csn: Csn,
    /// When the item is gone, in Unix milliseconds of the server, or never.
    pub expiry: UnixMillis,
}

/// An item of a scan that lies in a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanItemRef<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value; empty in a scan of keys only.
    pub value: &'a [u8],
    /// Its version.
    pub csn: Csn,
    /// When the item is gone, in Unix milliseconds of the server, or never.
    pub expiry: UnixMillis,
}

impl ScanItemRef<'_> {
    /// A copy of its own.
    pub fn to_item(&self) -> ScanItem {
        let ScanItemRef { key, value, csn, expiry } = *self;
        ScanItem { key: key.to_vec(), value: value.to_vec(), csn, expiry }
    }
}

/// Where an item lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Listed {
    key_at: usize,
    value_at: usize,
    value_len: u32,
    key_len: u16,
    csn: Csn,
    expiry: UnixMillis,
}

/// Items in the order of a scan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Items {
    bytes: Vec<u8>,
    list: Vec<Listed>,
    /// Whether any of them may end.
    end: bool,
}

impl Items {
    /// No items yet, and room for so many of so many bytes together.
    pub(crate) fn with_capacity(items: usize, bytes: usize) -> Items {
        Items { bytes: Vec::with_capacity(bytes), list: Vec::with_capacity(items), end: false }
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The item of this number.
    pub(crate) fn get(&self, number: usize) -> Option<ScanItemRef<'_>> {
        let &Listed { key_at, key_len, value_at, value_len, csn, expiry } = self.list.get(number)?;
        let key = &self.bytes[key_at..][..usize::from(key_len)];
        let value = &self.bytes[value_at..][..value_len as usize];
        Some(ScanItemRef { key, value, csn, expiry })
    }

    /// The last item.
    pub(crate) fn last(&self) -> Option<ScanItemRef<'_>> {
        self.get(self.len().checked_sub(1)?)
    }

    /// All items.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ScanItemRef<'_>> {
        (0..self.len()).map_while(|number| self.get(number))
    }

    /// Copies of all items.
    pub(crate) fn to_vec(&self) -> Vec<ScanItem> {
        self.iter().map(|item| item.to_item()).collect()
    }

    /// The items whose time may end.
    pub(crate) fn that_end(&self) -> impl Iterator<Item = ScanItemRef<'_>> {
        let all = if self.end { self.len() } else { 0 };
        self.iter().take(all).filter(|item| item.expiry != UnixMillis::NEVER)
    }

    /// Appends an item.
    pub(crate) fn push(&mut self, item: &ScanItemRef<'_>) {
        self.push_key([item.key, &[]], item.csn, item.expiry);
        self.set_value(self.list.len() - 1, item.value);
    }

    /// Appends an item without a value yet, whose key is in two parts.
    pub(crate) fn push_key(&mut self, key: [&[u8]; 2], csn: Csn, expiry: UnixMillis) {
        let key_at = self.bytes.len();
        key.iter().for_each(|part| self.bytes.extend_from_slice(part));
        let key_len = (self.bytes.len() - key_at) as u16;
        self.end |= expiry != UnixMillis::NEVER;
        self.list.push(Listed { key_at, value_at: key_at, value_len: 0, key_len, csn, expiry });
    }

    /// Sets the value of the item of this number, which had none.
    pub(crate) fn set_value(&mut self, number: usize, value: &[u8]) {
        let listed = &mut self.list[number];
        (listed.value_at, listed.value_len) = (self.bytes.len(), value.len() as u32);
        self.bytes.extend_from_slice(value);
    }

    /// Leaves the items before this number.
    pub(crate) fn truncate(&mut self, number: usize) {
        self.list.truncate(number);
    }
}
