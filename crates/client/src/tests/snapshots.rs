//! Snapshots of a group of three whose followers keep an ordered index, in real time: what a scan shows is of
//! one instant, however much is written while its pages are fetched.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use longarm_fabric::Any;

use super::group::Three;
use super::scans::connect;
use crate::{Client, Error, Scan, ScanItem};

/// Keys, which a client writes in their order, round by round.
const KEYS: u32 = 80;

fn name(key: u32) -> Vec<u8> {
    format!("key{key:03}").into_bytes()
}

/// Whether the key is deleted in this round, instead of written.
fn is_deleted(key: u32, round: u32) -> bool {
    key % 5 == 2 && round % 2 == 1
}

/// The value names its round; that of some keys is so long that clients READ it at its place.
fn write(client: &mut Client<Any>, key: u32, round: u32) {
    if is_deleted(key, round) {
        client.delete(&name(key)).expect("delete");
        return;
    }
    let mut value = round.to_le_bytes().to_vec();
    value.resize(if key % 16 == 7 { 6_000 } else { 20 + key as usize }, key as u8);
    client.put(&name(key), &value).expect("put");
}

/// Checks that these are the items of one instant: some keys have been written in a round, and the others in
/// the round before.
fn are_of_one_instant(items: &[ScanItem]) {
    let find = |key: u32| items.iter().find(|item| item.key == name(key));
    let of = |item: &ScanItem| u32::from_le_bytes(*item.value.first_chunk().expect("a round"));
    let newest = items.iter().map(of).max().expect("most keys are there");
    let rounds: Vec<u32> = (0..KEYS)
        .map(|key| match find(key) {
            Some(item) => of(item),
            None if is_deleted(key, newest) => newest,
            None => newest - 1,
        })
        .collect();
    let written = rounds.iter().take_while(|round| **round == newest).count();
    assert!(rounds[written..].iter().all(|round| *round == newest - 1), "of several instants: {rounds:?}");
    for (key, round) in (0..).zip(rounds) {
        assert_eq!(find(key).is_none(), is_deleted(key, round), "key {key} in round {round}");
    }
}

#[test]
fn a_snapshot_is_of_one_instant_however_much_is_written_meanwhile() {
    let three = Three::ordered("snapshot");
    let mut writer = connect(&three);
    (0..2).for_each(|round| (0..KEYS).for_each(|key| write(&mut writer, key, round)));
    let done = AtomicBool::new(false);
    let (mut whole, mut gone, mut changed) = (0, 0, 0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            // Relaxed: a hint to stop.
            let rounds = (2..).take_while(|_| !done.load(Ordering::Relaxed));
            rounds.for_each(|round| (0..KEYS).for_each(|key| write(&mut writer, key, round)));
        });
        let mut reader = connect(&three);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            let scan = Scan::all().page(1 + whole % 9);
            let scan = if whole % 2 == 1 { scan.reverse() } else { scan };
            let shown = reader.scan_snapshot(&scan).expect("a snapshot");
            let slowly = shown.inspect(|_| longarm_host::sleep(Duration::from_micros(100)));
            match slowly.collect::<Result<Vec<_>, _>>() {
                Ok(mut items) => {
                    items.sort_by(|a, b| a.key.cmp(&b.key));
                    are_of_one_instant(&items);
                    let now: Result<Vec<_>, _> = reader.scan(&Scan::all()).collect();
                    changed += u32::from(now.expect("a scan") != items);
                    whole += 1;
                }
                Err(Error::SnapshotGone(_)) => gone += 1,
                Err(error) => panic!("{error}"),
            }
        }
        // Relaxed: as above.
        done.store(true, Ordering::Relaxed);
    });
    assert!(whole > 3 && changed > whole / 2, "{whole} snapshots, {gone} gone, {changed} of the past");
}

#[test]
fn a_snapshot_ends_with_what_keeps_it_and_says_so() {
    let mut three = Three::ordered("snapshot-end");
    let mut client = connect(&three);
    (0..KEYS).for_each(|key| write(&mut client, key, 2));
    let nothing = client.scan_snapshot(&Scan::range("x".."y")).expect("a snapshot");
    assert_eq!(nothing.count(), 0);
    let items = client.scan_snapshot(&Scan::all().page(7).keys_only()).expect("a snapshot");
    let items: Vec<ScanItem> = items.collect::<Result<_, _>>().expect("all of it");
    assert!(items.len() == KEYS as usize && items.iter().all(|item| item.value.is_empty()));
    let leader = three.leader();
    let mut shown = client.scan_snapshot(&Scan::all().page(7)).expect("a snapshot");
    assert_eq!(shown.next().expect("an item").expect("an item").key, name(0));
    three.servers[leader] = None;
    let begun = Instant::now();
    let end = loop {
        match shown.next() {
            Some(Ok(_)) => longarm_host::sleep(Duration::from_millis(20)),
            Some(Err(error)) => break error,
            None => panic!("pages of a snapshot though its term is over"),
        }
    };
    assert!(matches!(end, Error::SnapshotGone(_)) && begun.elapsed() < Duration::from_secs(10), "{end}");
    assert!(shown.next().is_none(), "an error ends it");
    drop(shown);
    let again = client.scan_snapshot(&Scan::all()).expect("another one");
    assert_eq!(again.collect::<Result<Vec<_>, _>>().expect("all of it").len(), KEYS as usize);
}
