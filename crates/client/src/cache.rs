//! Location cache: the place where a key was last found, so that a repeat GET is one READ (NoSQL landscape
//! 3.1, of HydraDB; DrTM).
//!
//! It is direct-mapped by hash, and a newer place replaces an older one. It begins small and grows while
//! newer places replace those of other keys, up to its limit: so it takes as much memory as the keys that its
//! client asks for. A remembered slot answers by itself: a record that verifies there and has the key is the
//! current one. A remembered entry answers if its csn and key match and
//! it is not superseded. The cache dies with the connection.

use longarm_base::{Csn, EntryRef, Place};
use longarm_memory::Hash;

/// The remembered place of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Located {
    /// Inline in a slot of this table.
    Slot { table: u32, place: Place },
    /// In an entry of this version.
    Entry { entry: EntryRef, csn: Csn },
}

/// Places at first.
const FIRST: usize = 64;
/// How many times as many after it has grown.
const GROWTH: usize = 4;

#[derive(Default)]
pub(crate) struct Cache {
    lines: Vec<Option<(Hash, Located)>>,
    most: usize,
    /// Places of other keys that were replaced since it grew.
    replaced: usize,
}

impl Cache {
    /// For at most so many places.
    pub(crate) fn new(most: usize) -> Cache {
        Cache { lines: vec![None; most.min(FIRST)], most, replaced: 0 }
    }

    /// Whether the cache has room for any place.
    #[inline(always)]
    pub(crate) fn remembers(&self) -> bool {
        self.most > 0
    }

    #[inline]
    pub(crate) fn find(&self, hash: Hash) -> Option<Located> {
        if self.lines.is_empty() {
            return None;
        }
        self.lines[self.at(hash)].filter(|(h, _)| *h == hash).map(|(_, located)| located)
    }

    #[inline]
    fn at(&self, hash: Hash) -> usize {
        hash.below(self.lines.len() as u64) as usize
    }

    #[inline]
    pub(crate) fn remember(&mut self, hash: Hash, located: Located) {
        if self.lines.is_empty() {
            return;
        }
        let at = self.at(hash);
        let before = self.lines[at].replace((hash, located));
        if before.is_some_and(|(other, _)| other != hash) && self.lines.len() < self.most {
            self.replaced += 1;
            if self.replaced > self.lines.len() / 2 {
                self.grow();
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let len = (GROWTH * self.lines.len()).min(self.most);
        let old = std::mem::replace(&mut self.lines, vec![None; len]);
        for (hash, located) in old.into_iter().flatten() {
            let at = self.at(hash);
            self.lines[at] = Some((hash, located));
        }
        self.replaced = 0;
    }

    pub(crate) fn forget(&mut self, hash: Hash) {
        if !self.lines.is_empty() {
            let at = self.at(hash);
            self.lines[at] = None;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.lines.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::RegionId;
    use longarm_memory::HashKey;

    use super::*;

    fn place(key: u64) -> Located {
        Located::Slot { table: 0, place: Place::new(RegionId(1), key * 64, 64) }
    }

    /// Remembers each of `keys` twice, in turn.
    fn filled(most: usize, keys: u64) -> Cache {
        let (mut cache, hasher) = (Cache::new(most), HashKey::new(7));
        for key in (0..keys).chain(0..keys) {
            cache.remember(hasher.hash(&key.to_le_bytes()), place(key));
        }
        for key in 0..keys {
            let found = cache.find(hasher.hash(&key.to_le_bytes()));
            assert!(found.is_none_or(|found| found == place(key)), "the place of another key");
        }
        cache
    }

    #[test]
    fn it_is_as_large_as_what_is_asked_for() {
        assert_eq!(filled(65_536, 20).lines.len(), FIRST);
        let some = filled(65_536, 1000);
        assert!((1024..=16_384).contains(&some.lines.len()), "{}", some.lines.len());
        let found = some.lines.iter().flatten().count();
        assert!(found > 700, "{found} of 1000 are remembered");
        assert_eq!(filled(65_536, 300_000).lines.len(), 65_536, "its limit");
        assert_eq!(filled(10, 1000).lines.len(), 10);
        let none = filled(0, 1000);
        assert!(none.lines.is_empty() && !none.remembers());
    }
}
