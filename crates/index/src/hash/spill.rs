//! Items that stand beside the table: those whose pair has no slot left for them.
//!
//! A pair takes so many keys, and who knows the key of the hash finds more that belong there. New keys of
//! such a pair are refused, but what was accepted before must find its place: in a group, what is on its
//! way to the followers, or what an earlier leader accepted into a table of another size; and two pairs may
//! become one when the table grows. That much this process keeps for itself. The pair's indicator says so
//! from then on, and a reader that finds nothing in its slots asks the server.
//! (1) An item is put in or taken out under the lock of its pair, which has SPILLED before the first one.
//! (2) SPILLED stays as long as the pair is used: a reader may have looked for the key in a slot just before
//!     it got one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use longarm_base::{Csn, EntryRef};
use longarm_memory::Hash;

use super::found::Found;
use super::layout::{SlotKind, Table};

/// In place of a slot's number.
pub(super) const NO_SLOT: usize = usize::MAX;

/// A record as a slot of 64 bytes has it, its checksum aside, and where it stands in the arena.
#[derive(Clone, Copy)]
pub(super) struct SpilledRecord {
    pub bytes: [u8; 64],
    pub beside: Option<EntryRef>,
}

impl SpilledRecord {
    fn found(&self) -> Found {
        Found { slot: NO_SLOT, kind: SlotKind::Inline64, bytes: self.bytes, beside: self.beside }
    }
}

type ByHash = BTreeMap<(u64, Box<[u8]>), SpilledRecord>;

/// All of an index, by hash and key.
#[derive(Default)]
pub(super) struct Spilled(Mutex<ByHash>);

impl Spilled {
    fn all(&self) -> MutexGuard<'_, ByHash> {
        self.0.lock().expect("items beside the table")
    }

    pub fn put(&self, hash: Hash, key: &[u8], kept: SpilledRecord) {
        self.all().insert((hash.0, key.into()), kept);
    }

    pub fn take(&self, hash: Hash, key: &[u8]) {
        self.all().remove(&(hash.0, key.into()));
    }

    /// Takes out a version, if it is here. Of whose key it is nobody need know.
    pub fn take_version(&self, hash: Hash, csn: Csn) -> bool {
        let mut all = self.all();
        version(&all, hash, csn).and_then(|key| all.remove(&key)).is_some()
    }

    /// Puts another version of its key in place of one, if it is here.
    pub fn replace_version(&self, hash: Hash, csn: Csn, kept: SpilledRecord) -> bool {
        let mut all = self.all();
        version(&all, hash, csn).and_then(|key| all.insert(key, kept)).is_some()
    }

    pub fn find(&self, hash: Hash, key: &[u8]) -> Option<Found> {
        self.all().get(&(hash.0, key.into())).map(SpilledRecord::found)
    }

    /// Those of one hash.
    pub fn of_hash(&self, hash: Hash) -> Vec<Found> {
        let all = self.all();
        let from = all.range((hash.0, Box::default())..);
        from.take_while(|((of, _), _)| *of == hash.0).map(|(_, kept)| kept.found()).collect()
    }

    /// Those that belong to a pair, with hash and key.
    pub fn of_pair(&self, table: &Table, pair: u64) -> Vec<(Hash, Box<[u8]>, Found)> {
        let first = (u128::from(pair) << 64).div_ceil(u128::from(table.pairs)) as u64;
        let all = self.all();
        let from = all.range((first, Box::default())..);
        let here = from.take_while(|((hash, _), _)| table.home(Hash(*hash)).0 == pair);
        here.map(|((hash, key), kept)| (Hash(*hash), key.clone(), kept.found())).collect()
    }

    /// Keys that come after `last`, from the beginning if it is empty, at most so many bytes of them.
    pub fn keys(&self, after: Option<(Hash, &[u8])>, bytes: usize) -> Vec<Box<[u8]>> {
        let all = self.all();
        let from = after.map_or((0, Box::default()), |(hash, key)| (hash.0, key.into()));
        let mut left = bytes;
        let later = all.range(from.clone()..).map(|(at, _)| at).filter(|at| after.is_none() || **at != from);
        let fits = later.take_while(|(_, key)| {
            let fits = key.len() <= left;
            left = left.saturating_sub(key.len());
            fits
        });
        fits.map(|(_, key)| key.clone()).collect()
    }

    pub fn count(&self) -> usize {
        self.all().len()
    }
}

/// Where a version stands.
fn version(all: &ByHash, hash: Hash, csn: Csn) -> Option<(u64, Box<[u8]>)> {
    let here = all.range((hash.0, Box::default())..).take_while(|((of, _), _)| *of == hash.0);
    let mut ours = here.filter(|(_, kept)| kept.found().record().csn() == csn);
    ours.next().map(|(at, _)| at.clone())
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Discipline, PairShape};
    use super::*;

    #[test]
    fn a_pair_has_exactly_the_hashes_that_belong_to_it() {
        let table = |pairs| Table {
            id: 1,
            shape: PairShape::INLINE,
            discipline: Discipline::InPlace,
            base: 0,
            pairs,
            groups: Table::groups_for(pairs),
        };
        let spilled = Spilled::default();
        let mut hashes = vec![0, 1, u64::MAX, u64::MAX - 1];
        for pairs in [1u64, 3, 16, 21] {
            hashes.extend((1..pairs).flat_map(|pair| {
                let edge = (u128::from(pair) << 64).div_ceil(u128::from(pairs)) as u64;
                [edge - 1, edge, edge + 1]
            }));
        }
        hashes.sort_unstable();
        hashes.dedup();
        for (i, hash) in hashes.iter().enumerate() {
            let kept = SpilledRecord { bytes: [i as u8; 64], beside: None };
            spilled.put(Hash(*hash), b"k", kept);
        }
        for pairs in [1u64, 3, 16, 21] {
            let table = table(pairs);
            for pair in 0..pairs {
                let wanted: Vec<_> =
                    hashes.iter().filter(|hash| table.home(Hash(**hash)).0 == pair).collect();
                let found = spilled.of_pair(&table, pair);
                assert_eq!(found.iter().map(|(hash, ..)| &hash.0).collect::<Vec<_>>(), wanted, "{pairs}");
            }
        }
    }

    #[test]
    fn keys_come_in_pieces_and_each_once() {
        let spilled = Spilled::default();
        let kept = SpilledRecord { bytes: [0; 64], beside: None };
        for i in 0..100u64 {
            spilled.put(Hash(i / 10), &i.to_le_bytes(), kept);
        }
        let mut seen = Vec::new();
        let mut last: Option<Box<[u8]>> = None;
        loop {
            let hash = |key: &[u8]| Hash(u64::from_le_bytes(key.try_into().expect("eight")) / 10);
            let keys = spilled.keys(last.as_deref().map(|key| (hash(key), key)), 50);
            assert!(keys.len() <= 6);
            let Some(end) = keys.last() else { break };
            last = Some(end.clone());
            seen.extend(keys);
        }
        assert_eq!(seen.len(), 100);
        seen.sort();
        seen.dedup();
        assert_eq!((seen.len(), spilled.count()), (100, 100));
    }
}
