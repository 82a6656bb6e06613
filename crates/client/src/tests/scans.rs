//! Scans of a group of three whose followers keep an ordered index, in real time: a page shows what was just
//! acknowledged, whatever it asks for, whoever is lost, and whoever writes meanwhile.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longarm_base::Csn;
use longarm_base::random::SplitMix64;
use longarm_fabric::{Address, Any};
use longarm_wire::OrderedStage;

use super::group::{BOUND, Three};
use super::scan_model::{SIDES, shows};
use crate::{Client, Error, Options, Page, Scan, ScanItem, ordered_stats};

pub(super) fn connect(three: &Three) -> Client<Any> {
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    Client::connect_group(&three.addresses, options).expect("connect")
}

#[test]
fn a_page_shows_what_was_just_acknowledged() {
    let three = Three::ordered("scans");
    shows(&mut connect(&three), 31, Duration::from_secs(6));
}

/// Bytes that show where each of them belongs.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut draw = SplitMix64::new(seed);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| draw.draw().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

#[test]
fn values_of_every_size_come_back_byte_for_byte() {
    let three = Three::ordered("scan-sizes");
    all_sizes_come_back(&mut connect(&three));
}

pub(super) fn all_sizes_come_back(client: &mut Client<Any>) {
    let (mut sizes, mut stored) = (vec![0, 1, 2, 15, 16, 17, 63, 64, 65, 300 << 10], BTreeMap::new());
    for power in 8..=18 {
        sizes.extend([-100, -64, -33, -1, 0, 1, 40].map(|more| (1usize << power).strict_add_signed(more)));
    }
    for round in 0..2 {
        for (number, &size) in sizes.iter().enumerate() {
            let (key, value) =
                (format!("size {size:07}").into_bytes(), bytes(round * 1000 + number as u64, size));
            client.put(&key, &value).expect("put");
            let page = client.scan_page(&Scan::range(&key[..]..=&key[..]), None).expect("a page");
            assert!(page.items.len() == 1 && page.items[0].value == value, "{size} bytes");
            stored.insert(key, value);
        }
        let scans = [Scan::all(), Scan::all().reverse(), Scan::all().page(7), Scan::prefix("size 0")];
        for (scan, side) in scans.iter().flat_map(|scan| SIDES.map(|side| (scan, side))) {
            client.options.scan_side = side;
            let items: Result<Vec<_>, _> = client.scan(scan).collect();
            let mut items = items.expect("scan");
            if scan.is_reverse() {
                items.reverse();
            }
            assert!(items.iter().map(|item| &item.key).eq(stored.keys()), "{scan:?}");
            for item in items {
                assert!(item.value == stored[&item.key], "{} bytes", stored[&item.key].len());
            }
        }
        assert_eq!(client.count(&Scan::all()).expect("count"), stored.len() as u64);
    }
}

/// Which replica is lost while an iterator is under way.
#[derive(Clone, Copy, Debug)]
enum Lost {
    Leader,
    /// The iterator goes on only when there is another leader.
    ReplacedLeader,
    /// The follower that answers the scan.
    Asked,
    OtherFollower,
}

const FIXED: u32 = 3_000;

pub(super) fn fixed(number: u32) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

/// A key that another client writes meanwhile.
fn moving(number: u32) -> Vec<u8> {
    format!("key {number:05} moves").into_bytes()
}

/// Walks all keys, loses a replica in the middle, and finds each key that was acknowledged before once.
fn is_whole(three: &mut Three, client: &mut Client<Any>, scan: &Scan, lost: Lost) {
    three.whole();
    client.scan_page(&Scan::all().limit(1), None).expect("a page");
    let leader = three.leader();
    let link = client.scans.links.last().expect("a replica was just asked");
    let asked = three.addresses.iter().position(|address| *address == *link.address).expect("one of three");
    let node = match lost {
        Lost::Leader | Lost::ReplacedLeader => leader,
        Lost::Asked => asked,
        Lost::OtherFollower => (0..3).find(|&node| node != leader && node != asked).expect("another one"),
    };
    let (counters, mut found, mut before) = (client.counters(), Vec::new(), None::<Vec<u8>>);
    for item in client.scan(scan) {
        let item = item.unwrap_or_else(|error| panic!("{lost:?}: {error}"));
        let ascends = before.as_ref().is_none_or(|before| (*before < item.key) != scan.is_reverse());
        assert!(ascends && before.as_ref() != Some(&item.key), "{lost:?}: {:?} again", item.key);
        if !item.key.ends_with(b"moves") {
            assert_eq!(item.value, item.key.repeat(3), "{lost:?}");
            found.push(item.key.clone());
            if found.len() == FIXED as usize / 2 {
                drop(three.servers[node].take().expect("it runs"));
                if matches!(lost, Lost::ReplacedLeader) {
                    assert_ne!(three.leader(), leader);
                }
            }
        }
        before = Some(item.key);
    }
    if scan.is_reverse() {
        found.reverse();
    }
    let wanted: Vec<_> = (0..FIXED).map(fixed).collect();
    let missing = wanted.iter().filter(|key| found.binary_search(key).is_err()).count();
    assert!(found == wanted, "{lost:?}: {missing} of {FIXED} are missing");
    let now_asked = client.scans.links.last().map(|link| &*link.address);
    match lost {
        Lost::Leader => {}
        Lost::ReplacedLeader => {
            let times = client.counters().reconnects - counters.reconnects;
            assert!(times > 0, "pages of the new term count on a lease of the new leader");
        }
        Lost::Asked => assert_ne!(now_asked, Some(&three.addresses[asked]), "it went on at another replica"),
        Lost::OtherFollower => assert_eq!(now_asked, Some(&three.addresses[asked]), "nothing was lost"),
    }
    three.start_one(node);
}

/// Loses replicas under an iterator, while another client writes other keys among those that are looked at.
fn loses(name: &str, all_lost: &[Lost]) {
    let mut three = Three::ordered(name);
    let (mut client, mut writer) = (connect(&three), connect(&three));
    for number in 0..FIXED {
        client.put(&fixed(number), &fixed(number).repeat(3)).expect("put");
    }
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| {
            let (mut draw, begun) = (SplitMix64::new(7), Instant::now());
            // Relaxed: a mark that publishes nothing.
            while done.load(Ordering::Relaxed) == 0 && begun.elapsed() < BOUND {
                let key = moving(draw.below(u64::from(FIXED)) as u32);
                if draw.below(4) == 0 {
                    writer.delete(&key).map(drop).expect("delete");
                } else {
                    writer.put(&key, b"moving").map(drop).expect("put");
                }
            }
        });
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for (number, &lost) in all_lost.iter().enumerate() {
                let scan = Scan::all().page(40);
                let scan = if number % 2 == 1 { scan.reverse() } else { scan };
                client.options.scan_side = SIDES[number % 3];
                is_whole(&mut three, &mut client, &scan, lost);
            }
        }));
        // Relaxed: the same.
        done.store(1, Ordering::Relaxed);
        writes.join().expect("the writer does not panic");
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn an_iterator_outlives_the_leader() {
    loses("scan-leader", &[Lost::Leader, Lost::ReplacedLeader, Lost::Leader, Lost::ReplacedLeader]);
}

#[test]
fn an_iterator_outlives_followers() {
    loses("scan-follower", &[Lost::Asked, Lost::Asked, Lost::OtherFollower]);
}

#[test]
fn a_replica_says_how_its_index_stands() {
    let three = Three::ordered("scan-stats");
    let mut client = connect(&three);
    for number in 0..50 {
        client.put(format!("key {number}").as_bytes(), b"value").expect("put");
    }
    client.delete(b"key 7").expect("deleted");
    assert_eq!(client.count(&Scan::all()).expect("a count"), 49);
    let leader = three.leader();
    let stats = |node: usize| ordered_stats(&Any::default(), &three.addresses[node], &Options::default());
    let followers = (0..3).filter(|&node| node != leader);
    let begun = Instant::now();
    let mut pages = 0;
    for node in followers {
        let found = loop {
            let found = stats(node).expect("it answers");
            if found.items == 49 && found.stage == OrderedStage::Ready && found.lag == 0 {
                break found;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{found:?}");
            longarm_host::sleep(Duration::from_millis(5));
        };
        assert!(found.bytes > 0 && found.height > 0 && found.builds > 0, "{found:?}");
        pages += found.pages;
    }
    assert!(pages > 0, "one of them counted");
    assert_eq!(stats(leader).expect("it answers").stage, OrderedStage::Resting, "its followers have one");
    let nobody = Address::Shm("/nowhere/longarm.sock".into());
    assert!(matches!(ordered_stats(&Any::default(), &nobody, &Options::default()), Err(Error::Connect(_))));
}

#[test]
fn a_group_without_an_ordered_index_says_so() {
    let three = Three::over_shm("scan-none");
    says_that_it_is_not_ordered(connect(&three));
}

pub(super) fn says_that_it_is_not_ordered(mut client: Client<Any>) {
    client.put(b"key", b"value").expect("put");
    let begun = Instant::now();
    assert!(matches!(client.scan_page(&Scan::all(), None), Err(Error::NotOrdered)));
    assert!(matches!(client.count(&Scan::all()), Err(Error::NotOrdered)));
    let mut items = client.scan(&Scan::prefix("k"));
    assert!(matches!(items.next(), Some(Err(Error::NotOrdered))));
    assert!(items.next().is_none(), "it ends after an error");
    assert!(begun.elapsed() < BOUND / 2, "it does not try until its patience is over");
    assert_eq!(client.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
}

/// Keys of the narrow range that threads write.
const NARROW: u64 = 60;

/// What a write left of a key: a value, or nothing.
type Left = Option<Vec<u8>>;

/// What two writers did, each key by its versions; and of each key the newest version acknowledged so far.
#[derive(Default)]
struct Written {
    all: Mutex<Vec<(u64, Csn, Left)>>,
    newest: Mutex<BTreeMap<u64, Csn>>,
}

impl Written {
    fn note(&self, key: u64, csn: Csn, left: Left) {
        let mut newest = self.newest.lock().expect("nobody panics with it");
        let version = newest.entry(key).or_default();
        *version = (*version).max(csn);
        self.all.lock().expect("nobody panics with it").push((key, csn, left));
    }
}

fn narrow(number: u64) -> Vec<u8> {
    format!("n{number:02}").into_bytes()
}

fn write_narrow(client: &mut Client<Any>, seed: u64, written: &Written) {
    let (mut draw, begun) = (SplitMix64::new(seed), Instant::now());
    while begun.elapsed() < Duration::from_secs(3) {
        let number = draw.below(NARROW);
        if draw.below(4) == 0 {
            if let Some(csn) = client.delete_versioned(&narrow(number)).expect("delete") {
                written.note(number, csn, None);
            }
            continue;
        }
        let len = if draw.below(20) == 0 { 20_000 } else { 8 + draw.below(200) as usize };
        let value = bytes(draw.draw(), len);
        let csn = client.put(&narrow(number), &value).expect("put");
        written.note(number, csn, Some(value));
    }
}

/// A page and what was acknowledged of each key before it was asked for.
struct Taken {
    before: BTreeMap<u64, Csn>,
    scan: Scan,
    page: Page,
}

fn is_one_instant_of(taken: &Taken, versions: &BTreeMap<u64, BTreeMap<Csn, Left>>) {
    let Taken { before, scan, page } = taken;
    let number =
        |item: &ScanItem| std::str::from_utf8(&item.key[1..]).expect("text").parse().expect("a number");
    let order =
        |pair: &[ScanItem]| (pair[0].key < pair[1].key) != scan.is_reverse() && pair[0].key != pair[1].key;
    assert!(page.items.windows(2).all(order), "a page out of order");
    let shown: BTreeMap<u64, &ScanItem> = page.items.iter().map(|item| (number(item), item)).collect();
    for (number, item) in &shown {
        let left = versions.get(number).and_then(|versions| versions.get(&item.csn));
        let left = left.unwrap_or_else(|| panic!("{number} never had version {:?}", item.csn));
        assert!(left.as_ref() == Some(&item.value), "{number} had another value at {:?}", item.csn);
        assert!(before.get(number).is_none_or(|before| *before <= item.csn), "{number} is stale");
    }
    let last = page.items.last().filter(|_| page.next.is_some()).map(number);
    let beyond =
        |key: u64| last.is_some_and(|last: u64| if scan.is_reverse() { key < last } else { key > last });
    for (&key, csn) in before.iter().filter(|(key, _)| !shown.contains_key(key) && !beyond(**key)) {
        let gone = versions[&key].range(csn..).any(|(_, left)| left.is_none());
        assert!(gone, "{key} is left out: it had version {csn:?} and was not deleted");
    }
}

#[test]
fn pages_of_keys_that_are_written_all_the_time_are_instants() {
    let three = Three::ordered("scan-narrow");
    are_instants([connect(&three), connect(&three)], connect(&three));
}

pub(super) fn are_instants(mut clients: [Client<Any>; 2], mut pager: Client<Any>) {
    let (written, mut taken) = (Written::default(), Vec::new());
    std::thread::scope(|scope| {
        let written = &written;
        let write = |(number, client)| scope.spawn(move || write_narrow(client, number as u64, written));
        let writers: Vec<_> = clients.iter_mut().enumerate().map(write).collect();
        let mut turn = 0;
        while !writers.iter().all(|writer| writer.is_finished()) {
            let scan = Scan::prefix("n").page([64, 16, 5][turn / 10 % 3]);
            let scan = if turn / 30 % 2 == 1 { scan.reverse() } else { scan };
            pager.options.scan_side = SIDES[turn % 3];
            let before = written.newest.lock().expect("nobody panics with it").clone();
            let page = pager.scan_page(&scan, None).expect("a page");
            taken.push(Taken { before, scan, page });
            turn += 1;
        }
        writers.into_iter().for_each(|writer| writer.join().expect("it does not panic"));
    });
    let mut versions = BTreeMap::<u64, BTreeMap<Csn, Left>>::new();
    for (key, csn, left) in written.all.into_inner().expect("nobody panics with it") {
        let twice = versions.entry(key).or_default().insert(csn, left);
        assert!(twice.is_none(), "{key} has version {csn:?} twice");
    }
    for taken in &taken {
        is_one_instant_of(taken, &versions);
    }
    let wanted: BTreeMap<_, _> = versions
        .iter()
        .filter_map(|(&key, versions)| Some((narrow(key), versions.values().next_back()?.clone()?)))
        .collect();
    let items: Result<Vec<_>, _> = pager.scan(&Scan::all()).collect();
    let items: BTreeMap<_, _> = items.expect("scan").into_iter().map(|item| (item.key, item.value)).collect();
    assert!(items == wanted, "{} items of {}", items.len(), wanted.len());
    let writes: usize = versions.values().map(BTreeMap::len).sum();
    assert!(taken.len() > 5 && writes > 100, "{} pages among {writes} writes", taken.len());
}
