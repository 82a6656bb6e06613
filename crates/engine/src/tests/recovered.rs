//! The newest deletes, seen one by one or all at once, against each other and a map.

use std::collections::BTreeMap;

use longarm_base::{Csn, EntryRef};
use longarm_memory::Hash;
use longarm_store::object::Age;
use proptest::prelude::*;

use crate::recover::hashed_key::HashedKey;
use crate::recover::recovered::{EntryCopy, FoundDeletes};

/// Keys of which several have one hash, as a client can choose them.
fn key() -> impl Strategy<Value = (u64, Vec<u8>)> {
    (0..4u64, proptest::collection::vec(0..2u8, 0..3))
}

fn copy(csn: usize) -> EntryCopy {
    let place = EntryRef { offset: 64 * csn as u64, len: 64 * (1 + csn as u32 % 3) };
    EntryCopy { csn: Csn(csn as u64), age: Age::default(), place }
}

fn sum(copies: impl IntoIterator<Item = EntryCopy>) -> (usize, u64, u64) {
    copies.into_iter().fold((0, 0, 0), |(count, csns, lines), copy| {
        (count + 1, csns + copy.csn.0, lines + u64::from(copy.place.units()))
    })
}

proptest! {
    #[test]
    fn deletes_of_many_entries_are_those_that_are_seen_one_by_one(
        keys in proptest::collection::vec(key(), 0..60),
        at in proptest::collection::vec(any::<proptest::sample::Index>(), 60),
        gone in proptest::collection::vec(0..4u64, 0..4),
    ) {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        for (from, to) in at.iter().enumerate().take(keys.len()) {
            order.swap(from, to.index(keys.len()));
        }
        let mut model: BTreeMap<&(u64, Vec<u8>), usize> = BTreeMap::new();
        keys.iter().enumerate().for_each(|(csn, key)| _ = model.insert(key, csn));
        let hashed = |csn: &usize| HashedKey::of(Hash(keys[*csn].0), &keys[*csn].1);

        let mut one_by_one = FoundDeletes::default();
        let spare: Vec<_> = order.iter().filter_map(|csn| one_by_one.see(hashed(csn), copy(*csn))).collect();
        let mut spare_at_once = Vec::new();
        let all = order.iter().map(|csn| (hashed(csn), copy(*csn))).collect();
        let mut at_once = FoundDeletes::of_all(all, &mut spare_at_once);
        prop_assert_eq!(&one_by_one.entries, &at_once.entries);
        prop_assert_eq!(sum(spare), sum(spare_at_once));
        for ((hash, key), csn) in &model {
            prop_assert_eq!(at_once.of(Hash(*hash), key), Some(&copy(*csn)));
        }
        prop_assert_eq!(at_once.of(Hash(9), b""), None);

        // Those of these hashes are forgotten whose version is odd.
        let mut hashes = gone.iter().map(|hash| Hash(*hash)).collect();
        at_once.forget_of(&mut hashes, |place| place.offset % 128 == 64);
        model.retain(|(hash, _), csn| !gone.contains(hash) || *csn % 2 == 0);
        let stay = model.iter().map(|((hash, key), csn)| (HashedKey::of(Hash(*hash), key), copy(*csn)));
        prop_assert_eq!(at_once.entries.clone().into_iter().collect::<Vec<_>>(), stay.collect::<Vec<_>>());
        prop_assert_eq!(at_once.lines, sum(at_once.entries.into_values()).2);
        prop_assert_eq!(one_by_one.lines, sum(one_by_one.entries.into_values()).2);
    }
}
