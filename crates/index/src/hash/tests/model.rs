//! The table against a map, under random operations with growth in between.

use std::collections::BTreeMap;

use longarm_base::Nanos;
use longarm_memory::Words;
use proptest::prelude::*;

use super::crowd::crowd;
use super::cuts::twin;
use super::*;

#[derive(Clone, Debug)]
enum Action {
    Put(u16, u8),
    Remove(u16),
    Get(u16),
    Grow,
    Move(u8),
    Reclaim,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let key = 0u16..400;
    let action = prop_oneof![
        8 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Action::Put(k, v)),
        3 => key.clone().prop_map(Action::Remove),
        3 => key.prop_map(Action::Get),
        1 => Just(Action::Grow),
        2 => any::<u8>().prop_map(Action::Move),
        1 => Just(Action::Reclaim),
    ];
    proptest::collection::vec(action, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn behaves_as_a_map(actions in actions(), kind in 0..KINDS.len()) {
        let (slots, discipline) = KINDS[kind];
        let bed = bed(Journal::new(4 << 20), slots, discipline, 1);
        let mut model: BTreeMap<Vec<u8>, Csn> = BTreeMap::new();
        // A sixth of the keys belong to one pair.
        let crowd = crowd(&bed, 10, 400 / 6 + 1);
        let name = |k: u16| match k % 6 {
            0 => crowd[usize::from(k / 6)].clone(),
            _ => format!("key{k}").into_bytes(),
        };
        for (at, action) in actions.into_iter().enumerate() {
            let now = Nanos(at as u64);
            match action {
                Action::Put(k, v) => {
                    let csn = bed.put(&name(k), &vec![v; v as usize % 45]);
                    model.insert(name(k), csn);
                }
                Action::Remove(k) => prop_assert_eq!(bed.remove(&name(k)), model.remove(&name(k)).is_some()),
                Action::Get(k) => {
                    let want = model.get(&name(k)).copied();
                    prop_assert_eq!(bed.get(&name(k), ReadGranularity::Window).0, want);
                    prop_assert_eq!(bed.get(&name(k), ReadGranularity::Lines).0, want);
                }
                // Fails only when too many tables are live: then there is something to move first.
                Action::Grow => _ = bed.owner.grow(),
                Action::Move(pairs) => _ = bed.owner.move_some(u64::from(pairs)),
                Action::Reclaim => _ = bed.owner.reclaim(now, Nanos(5)),
            }
        }
        for (key, csn) in &model {
            prop_assert_eq!(bed.get(key, ReadGranularity::Window).0, Some(*csn));
        }
        bed.check();
        prop_assert_eq!(bed.owner.items(), model.len() as u64);
    }

    /// Whatever stands in memory, a search ends with a step and does not panic (X2).
    #[test]
    fn garbage_is_never_trusted(lines in proptest::collection::vec(any::<[u8; 32]>(), 1..60),
        seed in any::<u64>()) {
        for (slots, discipline) in KINDS {
            let bed = bed(Journal::new(256 << 10), slots, discipline, 1);
            let table = *bed.owner.geometry().live().next().expect("table");
            for pair in 0..table.pairs {
                for at in (0..table.shape.pair_bytes()).step_by(8) {
                    let line = lines[((pair * 7 + at / 64) % lines.len() as u64) as usize];
                    let bytes = &line[(at % 32 / 8 * 8) as usize..][..8];
                    let word = u64::from_le_bytes(bytes.try_into().expect("word"));
                    bed.memory.store(table.pair_at(pair) + at, word);
                }
                let id = u64::from(table.id) << 32;
                bed.memory.store(table.header_at(pair) + 8, id);
            }
            let geometry = bed.owner.geometry();
            for granularity in [ReadGranularity::Window, ReadGranularity::Lines] {
                let key = seed.to_le_bytes();
                let (mut search, mut step) = Search::start(bed.hash(&key), &geometry, granularity);
                for _ in 0..40 {
                    step = match step {
                        SearchStep::Read => {
                            let place = search.place();
                            prop_assert!(place.end().is_some_and(|end| end <= bed.memory.bytes()),
                                "{:?}", place);
                            search.feed(&key, &bed.read(place), &geometry, &bed.sums)
                        }
                        SearchStep::Entry { csn, .. } => search.not_it(csn, &geometry),
                        SearchStep::Found => return Err(TestCaseError::fail("garbage verified")),
                        SearchStep::Absent | SearchStep::Ask | SearchStep::Torn | SearchStep::Stale => break,
                    };
                }
            }
        }
    }
}

#[test]
fn reads_per_get() {
    for (slots, discipline) in KINDS {
        let bed = journal_bed(slots, discipline);
        bed.put(b"k", b"v");
        assert_eq!(bed.get(b"k", ReadGranularity::Window).1, 1, "one READ of the window finds the slot");
        assert_eq!(bed.get(b"k", ReadGranularity::Lines).1, 2, "header line, slot line");
        let missing = bed.neighbours(20).into_iter().filter(|key| key != b"k");
        for key in missing.chain([twin(&bed, b"k")]) {
            assert_eq!(bed.get(&key, ReadGranularity::Window).1, 2, "a miss looks twice");
        }
    }
}

#[test]
fn fingerprint_match_is_exact() {
    use super::super::layout::Header;
    let mut line = [0u8; 64];
    for i in 0..32 {
        line[32 + i] = if i % 3 == 0 { 0x80 } else { i as u8 };
    }
    let header = Header::parse(&line);
    for byte in 0..=255u8 {
        let want = (0..32).filter(|&i| line[32 + i] == byte).fold(0u32, |bits, i| bits | 1 << i);
        assert_eq!(header.matching(byte), want, "{byte:#x}");
    }
}
