//! What a replica holds, for checks. Replicas of one group that are in sync and at rest hold the same, and a
//! follower that has adopted a start set holds it as its leader does.

use std::collections::BTreeMap;
use std::sync::Arc;

use longarm_base::{Csn, Term};
use longarm_memory::{Region, SumKey};
use longarm_store::{Entry, entries};

/// The newest version of each key that is stored, and its value; no value if that version is a delete.
pub type Held = BTreeMap<Vec<u8>, (Csn, Option<Vec<u8>>)>;

/// The newest version of each key that is stored, and whether it has a value.
pub type Versions = BTreeMap<Vec<u8>, (Csn, bool)>;

/// A look at an arena, whether this replica or its leader writes it. While it is written, the answer mixes
/// several moments.
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

    /// The newest version of each key, and its value.
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

    /// The newest version of each key, and whether it has a value: among all entries, and among the entries
    /// of terms older than `term`.
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
