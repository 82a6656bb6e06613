use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::btreemap::Map;
use crate::keys::{Keys, Kind};
use crate::measure::{Structure, measure};
use crate::ordered::{Entry, Item, Ordered};
use crate::reads::row;
use crate::skiplist::{LEVELS, Skiplist, height_of};
use crate::tree::{Shape, Tree};

/// What is asked of a structure.
#[derive(Clone, Debug)]
enum Ask {
    Put(Vec<Vec<u8>>),
    Get(Vec<u8>),
    Scan(Vec<u8>, usize),
}

/// Short keys of few letters, so that many are equal or begin alike, and longer ones.
fn any_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0..3_u8, 1..6),
        prop::collection::vec(prop_oneof![Just(0), Just(255), any::<u8>()], 1..40),
    ]
}

fn any_ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        2 => prop::collection::vec(any_key(), 1..20).prop_map(Ask::Put),
        1 => any_key().prop_map(Ask::Get),
        1 => (any_key(), 1..50_usize).prop_map(|(from, count)| Ask::Scan(from, count)),
    ]
}

fn scanned(ordered: &mut dyn Ordered, from: &[u8], count: usize) -> Vec<(Vec<u8>, Item)> {
    let mut shown = Vec::new();
    ordered.scan(from, count, &mut |entry| shown.push((entry.key.to_vec(), entry.item)));
    shown
}

/// Asks a structure, and a model.
fn agrees(ordered: &mut dyn Ordered, asks: &[Ask]) -> Result<(), TestCaseError> {
    let mut model: BTreeMap<&[u8], Item> = BTreeMap::new();
    let mut csn = 0;
    for ask in asks {
        match ask {
            Ask::Put(keys) => {
                let mut step = Vec::new();
                for key in keys {
                    csn += 1;
                    step.push(Entry { key, item: Item { csn, offset: csn * 64 } });
                }
                model.extend(step.iter().map(|entry| (entry.key, entry.item)));
                // Equal keys stay in the order of their csns.
                step.sort_by_key(|entry| entry.key);
                ordered.step(&step);
            }
            Ask::Get(key) => prop_assert_eq!(ordered.get(key), model.get(&key[..]).copied()),
            Ask::Scan(from, count) => {
                let range = model.range(&from[..]..).take(*count);
                let wanted: Vec<(Vec<u8>, Item)> = range.map(|(key, item)| (key.to_vec(), *item)).collect();
                prop_assert_eq!(scanned(ordered, from, *count), wanted);
            }
        }
    }
    let all: Vec<(Vec<u8>, Item)> = model.iter().map(|(key, item)| (key.to_vec(), *item)).collect();
    prop_assert_eq!(scanned(ordered, &[], usize::MAX), all);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_structures_say_what_a_map_says(asks in prop::collection::vec(any_ask(), 1..60)) {
        agrees(&mut Skiplist::new(1), &asks)?;
        agrees(&mut Skiplist::new(4), &asks)?;
        agrees(&mut Map::<Box<[u8]>>::new(), &asks)?;
        let shape = Shape { keys: 10_000, key_bytes: 40, node_kib: Some(1) };
        agrees(&mut Tree::new(&shape), &asks)?;
    }
}

/// Keys of four bytes, in no order.
fn four_bytes(count: u32) -> Vec<[u8; 4]> {
    (0..count).map(|i| i.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect()
}

fn skiplist_of(keys: &[[u8; 4]], partitions: usize) -> Skiplist {
    let mut list = Skiplist::new(partitions);
    for (csn, key) in (1..).zip(keys) {
        list.step(&[Entry { key, item: Item { csn, offset: 0 } }]);
    }
    list
}

#[test]
fn a_node_has_another_level_once_in_four() {
    assert_eq!([0b1, 0b10, 0b100, 0b1000, 0b1_0000].map(height_of), [1, 1, 2, 2, 3]);
    assert_eq!([1 << 63, 0].map(height_of), [LEVELS, LEVELS]);
    let keys = four_bytes(20_000);
    let bytes = skiplist_of(&keys, 1).bytes().expect("it knows") as f64 / keys.len() as f64;
    // Item 16, lengths 4, a level and a third 5.33, key 4; the rest fills units of 8.
    assert!((31.0..35.0).contains(&bytes), "{bytes}");
}

/// About one comparison a level and log_4 of the keys levels, times the one and a half to four that a level
/// takes: far from a walk through all of them.
#[test]
fn a_look_compares_few_keys() {
    for partitions in [1, 4] {
        let keys = four_bytes(20_000);
        let mut list = skiplist_of(&keys, partitions);
        let all: u64 = keys.iter().filter_map(|key| list.accesses(key)).sum();
        let each = all as f64 / keys.len() as f64;
        assert!((8.0..25.0).contains(&each), "{each}");
    }
}

#[test]
fn partitions_share_the_keys() {
    let keys = four_bytes(4000);
    let whole = skiplist_of(&keys, 1);
    let mut parts = skiplist_of(&keys, 4);
    let more = parts.bytes().expect("it knows") - whole.bytes().expect("it knows");
    assert!(more < 1000, "{more} bytes more, but for three heads");
    assert_eq!(scanned(&mut parts, &[], usize::MAX).len(), keys.len());
}

#[test]
fn a_row_of_each_structure_is_measured() {
    for structure in Structure::ALL {
        assert_eq!(Structure::named(&structure.name()), Some(structure));
        let row = measure(structure, Kind::Random(16), 3000);
        assert!(row.insert > 0.0 && row.look > 0.0 && row.scans.iter().all(|time| *time > 0.0), "{row}");
        assert!(row.bytes.is_none_or(|bytes| (40.0..200.0).contains(&bytes)), "{structure:?} {row}");
        assert!(row.accesses.is_none_or(|places| (1.0..40.0).contains(&places)), "{structure:?} {row}");
    }
}

#[test]
fn nodes_are_about_as_large_as_asked_for() {
    for (kind, kib) in
        [16, 64, 256].into_iter().flat_map(|len| [1, 2, 4, 8].map(|kib| (Kind::Random(len), kib)))
    {
        for structure in [Structure::Tree(Some(kib)), Structure::Built(Some(kib))] {
            let row = measure(structure, kind, 4000);
            let bytes = row.node_bytes.expect("a tree has nodes");
            assert!(
                (kib * 1024 * 3 / 4..kib * 1024 * 5 / 4).contains(&bytes),
                "{structure:?} {kind:?}: {bytes}"
            );
        }
    }
    let row = measure(Structure::Tree(Some(8)), Kind::Random(1024), 2000);
    assert!(row.bytes.is_some_and(|bytes| (1024.0..4096.0).contains(&bytes)), "{row}");
}

/// A search READs each level that is not remembered once, and nothing else: one READ where all inner nodes
/// are remembered. Larger nodes take fewer READs and more bytes.
#[test]
fn a_search_reads_the_levels_that_are_not_remembered() {
    let kind = Kind::Random(16);
    let keys = Keys::new(kind, 60_000);
    let rows = [1, 2, 4, 8].map(|kib| row(&keys, kind, kib));
    for row in &rows {
        for searches in &row.searches {
            assert_eq!(searches.reads, (row.levels - searches.remembered) as f64, "{row}");
            let node = searches.bytes / searches.reads / 1024.0;
            assert!((0.5..2.0).contains(&(node / row.node_kib as f64)), "{row}");
        }
        let last = row.searches.last().expect("a tree has levels");
        assert!(last.reads == 1.0 && last.cache_bytes < 2 << 20, "{row}");
    }
    assert!(rows.windows(2).all(|pair| pair[0].levels >= pair[1].levels), "{rows:?}");
    assert!(rows[0].levels > rows[3].levels);
}
