//! The keys that were deleted, for as long as their tombstones are stored. Such a delete explains an older
//! entry of its key that no slot names (`account.rs`).

use std::collections::HashMap;

use longarm_base::Csn;
use longarm_host::Mutex;
use longarm_memory::Hash;

use crate::recover::recovered::FoundDeletes;

/// Deletes found at a restore that are noted in one step.
const NOTED: usize = 1024;

/// Keys whose tombstones are stored, as far as they may be asked for.
#[derive(Debug, Default)]
pub struct Deletes(Mutex<KnownDeletes>);

#[derive(Debug, Default)]
struct KnownDeletes {
    /// By hash of the key. Two keys with one hash explain each other's entries, which makes the check laxer.
    newest: HashMap<u64, Csn>,
    /// Deletes found at the restore that are not noted yet, so that the restore need not wait for that.
    found: FoundDeletes,
}

impl KnownDeletes {
    fn note(&mut self, hash: Hash, csn: Csn) {
        let newest = self.newest.entry(hash.0).or_insert(csn);
        *newest = (*newest).max(csn);
    }
}

impl Deletes {
    /// Takes the deletes that a restore found.
    pub fn found(&self, deleted: FoundDeletes) {
        self.0.lock().found = deleted;
    }

    /// Notes that the key was deleted.
    pub fn note(&self, hash: Hash, csn: Csn) {
        self.0.lock().note(hash, csn);
    }

    /// Forgets a delete whose tombstone is dropped: no older entry of the key is stored.
    pub fn forget(&self, key: &[u8], hash: Hash, csn: Csn) {
        let KnownDeletes { newest, found } = &mut *self.0.lock();
        if newest.get(&hash.0) == Some(&csn) {
            newest.remove(&hash.0);
        }
        if found.of(hash, key).is_some_and(|delete| delete.csn == csn) {
            found.remove(hash, key);
        }
    }

    /// Notes some of the deletes found.
    pub fn note_some(&self) {
        let mut known = self.0.lock();
        for _ in 0..NOTED {
            let Some((key, delete)) = known.found.entries.pop_first() else { return };
            known.note(key.hash(), delete.csn);
        }
    }

    /// The newest known delete of a key.
    pub(crate) fn newest(&self, key: &[u8], hash: Hash) -> Option<Csn> {
        let known = self.0.lock();
        known.newest.get(&hash.0).copied().max(known.found.of(hash, key).map(|delete| delete.csn))
    }
}
