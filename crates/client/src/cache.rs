//! Location cache: the place where a key was last found, so that a repeat GET is one READ (NoSQL landscape
//! 3.1, of HydraDB; DrTM).
//!
//! It is direct-mapped by hash, of fixed size: there is no allocation after the start, and a newer place
//! replaces an older one. A remembered slot answers by itself: in a table that is updated in place a record
//! that verifies there and has the key is the current one. A remembered entry answers if its csn and key
//! match and it is not superseded. The cache dies with the connection.

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

#[derive(Default)]
pub(crate) struct Cache {
    lines: Vec<Option<(Hash, Located)>>,
}

impl Cache {
    pub(crate) fn new(entries: usize) -> Cache {
        Cache { lines: vec![None; entries] }
    }

    /// Whether the cache has room for any place.
    #[inline(always)]
    pub(crate) fn remembers(&self) -> bool {
        !self.lines.is_empty()
    }

    #[inline]
    pub(crate) fn find(&self, hash: Hash) -> Option<Located> {
        if self.lines.is_empty() {
            return None;
        }
        self.lines[hash.below(self.lines.len() as u64) as usize]
            .filter(|(h, _)| *h == hash)
            .map(|(_, located)| located)
    }

    #[inline]
    pub(crate) fn remember(&mut self, hash: Hash, located: Located) {
        if !self.lines.is_empty() {
            let at = hash.below(self.lines.len() as u64) as usize;
            self.lines[at] = Some((hash, located));
        }
    }

    pub(crate) fn forget(&mut self, hash: Hash) {
        if !self.lines.is_empty() {
            let at = hash.below(self.lines.len() as u64) as usize;
            self.lines[at] = None;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.lines.fill(None);
    }
}
