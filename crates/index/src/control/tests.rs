//! Every cut of a READ of the geometry across a change, and garbage.

use longarm_memory::{Journal, OwnedWords, SumKey, Words};
use proptest::prelude::*;

use super::layout::BYTES;
use super::*;
use crate::hash::{Discipline, Geometry, PairShape, Table};
use longarm_base::{Nanos, UnixMillis};

fn table(id: u32, base: u64, pairs: u64) -> Option<Table> {
    let groups = Table::groups_for(pairs);
    Some(Table { id, shape: PairShape::INLINE, discipline: Discipline::InPlace, base, pairs, groups })
}

#[test]
fn a_torn_geometry_is_never_accepted() {
    let sums = SumKey::new(3);
    let journal = std::sync::Arc::new(Journal::new(BYTES));
    let control = Control::create(journal.clone(), 77, sums.clone());
    let one = Geometry { epoch: 1, tables: [table(1, 0, 16), None, None, None], hash_key: 5 };
    let two = Geometry { epoch: 2, tables: [table(1, 0, 16), table(2, 65536, 64), None, None], hash_key: 5 };
    control.publish(&one);
    let from = journal.now();
    control.publish(&two);
    let cuts = journal.cuts(GEOMETRY_PLACE.offset, GEOMETRY_PLACE.len as usize, from, journal.now());
    let seen: Vec<_> = cuts.iter().filter_map(|cut| geometry(&cut.bytes, &sums, 1 << 20)).collect();
    assert!(cuts.len() > 10 && seen.contains(&one) && seen.contains(&two));
    assert!(seen.iter().all(|g| *g == one || *g == two), "a mixture verified");
    assert!(
        geometry(&journal.at(journal.now(), 64, GEOMETRY_PLACE.len as usize), &sums, 1000).is_none(),
        "bounds"
    );
}

#[test]
fn heartbeats_come_back() {
    let journal = std::sync::Arc::new(Journal::new(BYTES));
    let control = Control::create(journal.clone(), 77, SumKey::new(3));
    control.beat(Nanos(5), UnixMillis(6));
    control.set_state(ServerState::Serving);
    let mut line = [0; 64];
    journal.copy_out(0, &mut line);
    let beat = Heartbeat::parse(&line).expect("a heartbeat");
    assert_eq!(
        (beat.boot, beat.stamp, beat.state, beat.unix),
        (77, Nanos(5), ServerState::Serving, UnixMillis(6))
    );
    journal.store(0, 1);
    journal.copy_out(0, &mut line);
    assert_eq!(Heartbeat::parse(&line), None, "another layout");
}

/// A node leads, another one does, and then it leads again, in the same memory.
#[test]
fn a_page_that_is_made_anew_has_no_heartbeat_of_an_earlier_term() {
    let journal = std::sync::Arc::new(Journal::new(BYTES));
    let earlier = Control::create(journal.clone(), 77, SumKey::new(3));
    earlier.beat(Nanos(5), UnixMillis(6));
    let from = journal.now();
    let control = Control::create(journal.clone(), 78, SumKey::new(3));
    control.beat(Nanos(105), UnixMillis(206));
    let cuts = journal.cuts(0, 64, from, journal.now());
    let beats: Vec<_> = cuts.iter().filter_map(|cut| Heartbeat::parse(&cut.bytes)).collect();
    let anew: Vec<_> = beats.iter().filter(|beat| beat.boot == 78).collect();
    assert!(anew.iter().any(|beat| beat.unix == UnixMillis(0)) && anew.len() < beats.len());
    for beat in anew {
        assert!([0, 206].contains(&beat.unix.0) && [0, 105].contains(&beat.stamp.0), "{beat:?}");
    }
}

proptest! {
    #[test]
    fn garbage_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Heartbeat::parse(&bytes);
        prop_assert_eq!(geometry(&bytes, &SumKey::new(1), u64::MAX), None);
    }
}
