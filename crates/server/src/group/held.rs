//! What a replica holds, for checks: replicas of one group that are in sync and at rest hold the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use longarm_base::Csn;
use longarm_memory::{Region, SumKey};
use longarm_store::entries;

/// The newest version of each key that is stored, and its value; none where that is a delete.
pub type Held = BTreeMap<Vec<u8>, (Csn, Option<Vec<u8>>)>;

/// Looks at an arena, whoever writes it. Of one that is being written the answer is of no one moment.
pub(crate) fn held(arena: &Arc<Region>, sums: &SumKey) -> Held {
    let mut held = Held::new();
    let looked = entries(arena.memory(), sums, &mut |_, entry| {
        let newest = held.entry(entry.key.to_vec()).or_default();
        if entry.csn > newest.0 && !entry.key.is_empty() {
            *newest = (entry.csn, entry.kind.is_value().then(|| entry.value.to_vec()));
        }
    });
    looked.expect(super::OWN_HEADER);
    held.retain(|key, _| !key.is_empty());
    held
}
