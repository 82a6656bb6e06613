//! What a replica holds, for checks: replicas of one group that are in sync and at rest hold the same, and
//! one that takes over a start set holds it as its leader does.

use std::collections::BTreeMap;
use std::sync::Arc;

use longarm_base::{Csn, Term};
use longarm_memory::{Region, SumKey};
use longarm_store::{Entry, entries};

/// The newest version of each key that is stored, and its value; none where that is a delete.
pub type Held = BTreeMap<Vec<u8>, (Csn, Option<Vec<u8>>)>;

/// The newest version of each key that is stored, and whether it has a value.
pub type Versions = BTreeMap<Vec<u8>, (Csn, bool)>;

/// A look at an arena, whoever writes it. Of one that is being written the answer is of no one moment.
#[derive(Clone)]
pub struct Contents {
    arena: Arc<Region>,
    sums: SumKey,
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").field("arena", &self.arena).finish_non_exhaustive()
    }
}

impl Contents {
    pub(crate) fn of(arena: Arc<Region>, sums: SumKey) -> Contents {
        Contents { arena, sums }
    }

    /// The newest of each key.
    pub fn newest(&self) -> Held {
        let mut held = Held::new();
        self.visit(|entry| {
            let newest = held.entry(entry.key.to_vec()).or_default();
            if entry.csn > newest.0 {
                *newest = (entry.csn, entry.kind.is_value().then(|| entry.value.to_vec()));
            }
        });
        held
    }

    /// The newest version of each key, and whether it has a value: of all, and of entries of older terms than
    /// this one alone.
    pub fn versions(&self, term: Term) -> (Versions, Versions) {
        let (mut all, mut older) = (Versions::new(), Versions::new());
        self.visit(|entry| {
            let version = (entry.csn, entry.kind.is_value());
            let raise = |of: &mut Versions| match of.get_mut(entry.key) {
                Some(newest) => *newest = version.max(*newest),
                None => _ = of.insert(entry.key.to_vec(), version),
            };
            raise(&mut all);
            if entry.term < term {
                raise(&mut older);
            }
        });
        (all, older)
    }

    /// Shows all entries that have a key.
    fn visit(&self, mut see: impl FnMut(&Entry<'_>)) {
        let looked = entries(self.arena.memory(), &self.sums, &mut |_, entry| {
            if !entry.key.is_empty() {
                see(entry);
            }
        });
        looked.expect(super::OWN_HEADER);
    }
}
