//! Keys in the order of their hashes, found without a copy of the key.

use std::borrow::Borrow;

use longarm_memory::Hash;

/// A key with its hash. Keys are in the order of their hashes, which are at hand: a million keys that lie
/// scattered in memory are found in a tenth of the time. Keys of one hash are in the order of their bytes, so
/// many of them do no harm.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HashedKey {
    hash: u64,
    key: Box<[u8]>,
}

/// A [`HashedKey`], or its parts.
pub trait Keyed {
    /// The hash and the key.
    fn parts(&self) -> (u64, &[u8]);
}

impl HashedKey {
    /// A key, which has this hash.
    pub fn of(hash: Hash, key: &[u8]) -> HashedKey {
        HashedKey { hash: hash.0, key: key.into() }
    }

    /// The hash of the key.
    pub fn hash(&self) -> Hash {
        Hash(self.hash)
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Keyed for HashedKey {
    fn parts(&self) -> (u64, &[u8]) {
        (self.hash, &self.key)
    }
}

impl Keyed for (Hash, &[u8]) {
    fn parts(&self) -> (u64, &[u8]) {
        (self.0.0, self.1)
    }
}

impl<'a> Borrow<dyn Keyed + 'a> for HashedKey {
    fn borrow(&self) -> &(dyn Keyed + 'a) {
        self
    }
}

impl PartialEq for dyn Keyed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Keyed + '_ {}

impl PartialOrd for dyn Keyed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Keyed + '_ {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}
