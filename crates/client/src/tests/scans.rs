//! Scans of a group of three whose followers keep an ordered index, in real time: a page shows what was just
//! acknowledged, whatever it asks for, whoever is lost, and whoever writes meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longarm_base::Csn;
use longarm_base::random::SplitMix64;
use longarm_fabric::{Address, Any};
use longarm_wire::OrderedStage;

use super::group::{BOUND, Three};
use crate::side::Side;
use crate::{Client, Error, Options, Page, Scan, ScanItem, Token, ordered_stats};

pub(super) fn connect(three: &Three) -> Client<Any> {
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    Client::connect_group(&three.addresses, options).expect("connect")
}

/// Who makes pages: whoever the client chooses, or one of the two.
const SIDES: [Option<Side>; 3] = [None, Some(Side::Server), Some(Side::Client)];

/// How far the clocks of the test and of the server may be apart about an item's end.
const UNSURE: Duration = Duration::from_millis(20);
/// How long a count may have an item whose time is over.
const COUNTED_LATE: Duration = Duration::from_secs(1);

/// When an item's time is over.
#[derive(Clone, Copy, Debug)]
struct End {
    surely_there_until: Instant,
    surely_gone_from: Instant,
}

/// What was acknowledged.
#[derive(Default)]
struct Model(BTreeMap<Vec<u8>, (Vec<u8>, Option<End>)>);

/// A page that was asked for at one moment and was there at another.
struct Seen<'a> {
    asked: Instant,
    came: Instant,
    items: &'a [ScanItem],
    /// Whether the range has no more.
    whole: bool,
}

/// Tells whether a key is in a range.
type Has = Box<dyn Fn(&[u8]) -> bool>;

/// A scan, and the keys that it is about.
struct Drawn {
    scan: Scan,
    keys_only: bool,
    has: Has,
    limit: u64,
}

impl Model {
    fn write(&mut self, client: &mut Client<Any>, draw: &mut SplitMix64) {
        let key = key_of(draw.below(300));
        let value = vec![draw.draw() as u8; 1 + draw.below(400) as usize];
        match draw.below(10) {
            0..3 => {
                let had = self.0.remove(&key);
                let deleted = client.delete(&key).expect("delete");
                // An item that ends may have ended.
                let sure = had.as_ref().is_none_or(|(_, end)| end.is_none());
                assert!(!sure || deleted == had.is_some(), "{key:?}");
                // One that had ended was not deleted: who may show what was just over may show it.
                if let Some((value, Some(end))) = had.filter(|_| !deleted) {
                    let surely_gone_from = end.surely_gone_from.min(Instant::now());
                    self.0.insert(key, (value, Some(End { surely_gone_from, ..end })));
                }
            }
            3..5 => {
                let (ttl, sent) = (Duration::from_millis(1 + draw.below(300)), Instant::now());
                client.put_for(&key, &value, ttl).expect("put");
                let end = End {
                    surely_there_until: (sent + ttl).checked_sub(UNSURE).expect("a machine that is up"),
                    surely_gone_from: Instant::now() + ttl + UNSURE,
                };
                self.0.insert(key, (value, Some(end)));
            }
            5 => {
                client.put_for(&key, &value, Duration::from_secs(3600)).expect("put");
                self.0.insert(key, (value, None));
            }
            _ => {
                client.put(&key, &value).expect("put");
                self.0.insert(key, (value, None));
            }
        }
    }

    /// Checks that a page, which begins behind `from`, is what the model has at a moment between those two.
    fn check(&self, drawn: &Drawn, from: Option<&[u8]>, seen: &Seen<'_>) {
        let reverse = drawn.scan.is_reverse();
        let behind = |key: &[u8], than: &[u8]| if reverse { key < than } else { key > than };
        assert!(seen.items.len() as u64 <= drawn.limit);
        let mut before = from;
        for item in seen.items {
            assert!(before.is_none_or(|before| behind(&item.key, before)), "{:?} is out of order", item.key);
            assert!((drawn.has)(&item.key), "{:?} is out of range", item.key);
            let known = self.0.get(&item.key);
            let (value, end) = known.unwrap_or_else(|| panic!("{item:?} was never there, or is deleted"));
            assert!(end.is_none_or(|end| seen.asked < end.surely_gone_from), "{:?} was gone", item.key);
            let wanted = if drawn.keys_only { &[][..] } else { value };
            assert!(item.value == wanted, "{:?} has another value", item.key);
            before = Some(&item.key);
        }
        let shown: BTreeSet<_> = seen.items.iter().map(|item| &item.key).collect();
        let last = seen.items.last().map(|item| item.key.as_slice());
        for (key, (_, end)) in &self.0 {
            let begun = from.is_none_or(|from| behind(key, from));
            let ended = !seen.whole && last.is_none_or(|last| behind(key, last));
            let sure = end.is_none_or(|end| seen.came < end.surely_there_until);
            if (drawn.has)(key) && begun && !ended && sure {
                assert!(shown.contains(key), "{key:?} is left out");
            }
        }
    }

    /// Checks one page, or all by tokens, an iterator, all at one instant, a snapshot, or a count.
    fn look(&self, client: &mut Client<Any>, draw: &mut SplitMix64) {
        let drawn = drawn(draw);
        match draw.below(9) {
            0 => self.look_at_all_pages(client, &drawn),
            1 => {
                let asked = Instant::now();
                let items: Result<Vec<_>, _> = client.scan(&drawn.scan).collect();
                let (items, came) = (items.expect("scan"), Instant::now());
                let whole = (items.len() as u64) < drawn.limit;
                self.check(&drawn, None, &Seen { asked, came, items: &items, whole });
            }
            2 => self.look_at_a_count(client, &drawn),
            3 => self.look_for_one(client, draw),
            4 => {
                let asked = Instant::now();
                let items = client.scan_together(&drawn.scan).expect("a scan of one instant");
                let whole = (items.len() as u64) < drawn.limit;
                self.check(&drawn, None, &Seen { asked, came: Instant::now(), items: &items, whole });
            }
            5 => {
                // It may have what was just over.
                let asked = Instant::now().checked_sub(COUNTED_LATE).expect("a machine that is up");
                let scan = drawn.scan.clone().page(1 + draw.below(40) as u32);
                let items: Result<Vec<_>, _> = client.scan_snapshot(&scan).expect("a snapshot").collect();
                let (items, came) = (items.expect("all of it"), Instant::now());
                let whole = (items.len() as u64) < drawn.limit;
                self.check(&drawn, None, &Seen { asked, came, items: &items, whole });
            }
            _ => drop(self.look_at_a_page(client, &drawn, None)),
        }
    }

    fn look_at_a_page(&self, client: &mut Client<Any>, drawn: &Drawn, token: Option<&Token>) -> Page {
        let asked = Instant::now();
        let page = client.scan_page(&drawn.scan, token).expect("a page");
        let (came, whole) = (Instant::now(), page.next.is_none() && drawn.limit > 0);
        self.check(drawn, token.map(Token::key), &Seen { asked, came, items: &page.items, whole });
        page
    }

    fn look_at_all_pages(&self, client: &mut Client<Any>, drawn: &Drawn) {
        let (mut token, mut keys) = (None, BTreeSet::new());
        loop {
            let page = self.look_at_a_page(client, drawn, token.as_ref());
            for item in page.items {
                assert!(keys.insert(item.key), "a key is shown twice");
            }
            match page.next {
                Some(next) => token = Some(next.to_string().parse().expect("a token")),
                None => break,
            }
        }
        let left = self.0.iter().find(|(key, (_, end))| {
            drawn.limit > 0 && (drawn.has)(key) && end.is_none() && !keys.contains(*key)
        });
        assert!(left.is_none(), "{left:?} is on no page");
    }

    /// Looks for one item by the order of keys.
    fn look_for_one(&self, client: &mut Client<Any>, draw: &mut SplitMix64) {
        let (key, which, asked) = (key_of(draw.below(400)), draw.below(4), Instant::now());
        let found = match which {
            0 => client.first(),
            1 => client.last(),
            2 => client.floor(&key),
            _ => client.ceiling(&key),
        };
        let (items, came) = (Vec::from_iter(found.expect("a lookup")), Instant::now());
        let (scan, has): (Scan, Has) = match which {
            0 => (Scan::all(), Box::new(|_| true)),
            1 => (Scan::all().reverse(), Box::new(|_| true)),
            2 => (Scan::all().reverse(), Box::new(move |it| *it <= key[..])),
            _ => (Scan::all(), Box::new(move |it| *it >= key[..])),
        };
        let whole = items.is_empty();
        let drawn = Drawn { scan, keys_only: false, has, limit: 1 };
        self.check(&drawn, None, &Seen { asked, came, items: &items, whole });
    }

    fn look_at_a_count(&self, client: &mut Client<Any>, drawn: &Drawn) {
        let asked = Instant::now();
        let counted = client.count(&drawn.scan).expect("count");
        let came = Instant::now();
        let number = |counts: &dyn Fn(&End) -> bool| {
            let ends = self.0.iter().filter(|(key, _)| (drawn.has)(key)).map(|(_, (_, end))| end);
            (ends.filter(|end| end.as_ref().is_none_or(counts)).count() as u64).min(drawn.limit)
        };
        let least = number(&|end| came < end.surely_there_until);
        let most = number(&|end| asked < end.surely_gone_from + COUNTED_LATE);
        assert!((least..=most).contains(&counted), "{counted} of {least} to {most} keys");
    }
}

fn key_of(number: u64) -> Vec<u8> {
    // Some keys are prefixes of others, and some have bytes that are no text.
    let key = [[&b"a:"[..], b"b:", b"b\xff"][number as usize % 3], number.to_string().as_bytes()].concat();
    if number.is_multiple_of(7) { [&key[..], &[0xff; 40]].concat() } else { key }
}

/// A scan of any kind.
fn drawn(draw: &mut SplitMix64) -> Drawn {
    let (a, b) = (key_of(draw.below(400)), key_of(draw.below(400)));
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    let (first, last) = (low.clone(), high.clone());
    let (mut scan, has): (Scan, Has) = match draw.below(6) {
        0 => (Scan::all(), Box::new(|_| true)),
        1 => (Scan::range(low..high), Box::new(move |key| *key >= first[..] && *key < last[..])),
        2 => (Scan::range(low..=high), Box::new(move |key| *key >= first[..] && *key <= last[..])),
        3 => (Scan::range(low..), Box::new(move |key| *key >= first[..])),
        4 => (Scan::range(..high), Box::new(move |key| *key < last[..])),
        _ => {
            let prefix = first[..1 + draw.below(4) as usize % first.len()].to_vec();
            (Scan::prefix(&prefix), Box::new(move |key| key.starts_with(&prefix)))
        }
    };
    let keys_only = draw.below(3) == 0;
    if keys_only {
        scan = scan.keys_only();
    }
    if draw.below(2) == 0 {
        scan = scan.reverse();
    }
    if draw.below(3) == 0 {
        scan = scan.page(1 + draw.below(50) as u32);
    }
    let limit = if draw.below(3) == 0 { draw.below(40) } else { u64::MAX };
    Drawn { scan: if limit < u64::MAX { scan.limit(limit) } else { scan }, keys_only, has, limit }
}

/// Writes and looks for a while, with a client that finds nothing.
pub(super) fn shows(client: &mut Client<Any>, seed: u64, time: Duration) {
    let (mut model, mut draw) = (Model::default(), SplitMix64::new(seed));
    let begun = Instant::now();
    let mut looks = 0;
    while looks < 15_000 && begun.elapsed() < time {
        for _ in 0..draw.below(4) {
            model.write(client, &mut draw);
        }
        client.options.scan_side = SIDES[draw.below(3) as usize];
        model.look(client, &mut draw);
        looks += 1;
    }
    assert!(looks > 20, "only {looks} in {:?}", begun.elapsed());
    let counters = client.counters();
    assert!(counters.walks > 0 && counters.pages > 0, "both sides made pages: {counters:?}");
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
