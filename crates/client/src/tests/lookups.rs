//! Lookups by the order of keys that the client makes alone, counted by the hook.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use longarm_base::random::SplitMix64;
use longarm_fabric::hook::{Counted, QueuePairCounts};

use super::Wrapping;
use super::group::{BOUND, Three};
use super::scans::{connect, fixed};
use crate::side::Side;
use crate::{Client, Options};

/// What one lookup by the order of keys costs, once inner nodes are remembered: two copies of the header, the
/// leaf, the value, and the leader's words (Cell 2.4: inner nodes come from a cache).
#[test]
fn an_ordered_lookup_is_five_reads_however_large_the_tree_is() {
    let three = Three::ordered("scan-reads");
    let (mut client, mut total) = (connect(&three), 0);
    let mut costs = BTreeMap::new();
    for items in [10u32, 1_000, 20_000] {
        for number in total..items {
            client.put(&fixed(number), b"value").expect("put");
        }
        total = items;
        let counts = Arc::new(QueuePairCounts::default());
        let shared = counts.clone();
        let options = Options { timeout: BOUND, connect_timeout: BOUND, hint_every: 0, ..Options::default() };
        let options = Options { scan_side: Some(Side::Client), ..options };
        let mut reader = Client::connect_group_over(
            Wrapping(move |qp| Counted::new(qp, shared.clone())),
            &three.addresses,
            options,
        )
        .expect("connect");
        let mut draw = SplitMix64::new(u64::from(items));
        let begun = Instant::now();
        // The orderer may not have the last writes yet, and a lease is renewed now and then.
        while begun.elapsed() < BOUND && costs.get(&items).is_none_or(|times| *times < 20) {
            let number = draw.below(u64::from(items)) as u32;
            let (before, walks) = (counts.see().reads, reader.counters().walks);
            let found = reader.floor(&[&fixed(number)[..], b"+"].concat()).expect("floor").expect("an item");
            assert_eq!(found.key, fixed(number));
            let (reads, walked) = (counts.see().reads - before, reader.counters().walks > walks);
            assert!(!walked || reads >= 5, "{reads} READs say too little");
            if walked && reads == 5 {
                *costs.entry(items).or_insert(0) += 1;
            }
        }
    }
    assert!(costs.len() == 3 && costs.values().all(|times| *times == 20), "{costs:?}");
}
