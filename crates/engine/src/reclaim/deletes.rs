//! Which keys were deleted, for as long as their tombstones are stored: such a delete explains an older entry
//! of its key that no slot names (`account.rs`).

use std::collections::{BTreeMap, HashMap};

use longarm_base::Csn;
use longarm_host::Mutex;
use longarm_memory::Hash;

use crate::recover::recovered::EntryCopy;

/// Deletes found at a restore that are put in order in one step.
const SORTED: usize = 1024;

/// Keys whose tombstones are stored, as far as anybody may ask.
#[derive(Debug, Default)]
pub struct Deletes(Mutex<KnownDeletes>);

#[derive(Debug, Default)]
struct KnownDeletes {
    /// By hash of the key. Two keys of one hash explain each other's entries: the check is the laxer.
    newest: HashMap<u64, Csn>,
    /// What the restore found and nobody hashed yet, so that nobody waits for it.
    found: BTreeMap<Box<[u8]>, EntryCopy>,
}

impl KnownDeletes {
    fn note(&mut self, hash: Hash, csn: Csn) {
        let newest = self.newest.entry(hash.0).or_insert(csn);
        *newest = (*newest).max(csn);
    }
}

impl Deletes {
    /// What a restore found.
    pub fn found(&self, deleted: BTreeMap<Box<[u8]>, EntryCopy>) {
        self.0.lock().found = deleted;
    }

    /// The key was deleted.
    pub fn note(&self, hash: Hash, csn: Csn) {
        self.0.lock().note(hash, csn);
    }

    /// Its tombstone is dropped: no older entry of the key is stored.
    pub fn forget(&self, hash: Hash, csn: Csn) {
        let newest = &mut self.0.lock().newest;
        if newest.get(&hash.0) == Some(&csn) {
            newest.remove(&hash.0);
        }
    }

    /// Hashes some of what was found.
    pub fn sort_some(&self, hash: impl Fn(&[u8]) -> Hash) {
        let mut known = self.0.lock();
        for _ in 0..SORTED {
            let Some((key, delete)) = known.found.pop_first() else { return };
            known.note(hash(&key), delete.csn);
        }
    }

    /// The newest delete of a key that is known.
    pub(crate) fn newest(&self, key: &[u8], hash: Hash) -> Option<Csn> {
        let known = self.0.lock();
        known.newest.get(&hash.0).copied().max(known.found.get(key).map(|delete| delete.csn))
    }
}
