//! One sorted map of what was acknowledged, with the ends of items: what pages, counts and snapshots of a
//! client that is alone may show.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use longarm_base::random::SplitMix64;
use longarm_fabric::Any;

use crate::side::Side;
use crate::{Client, Page, Scan, ScanItem, Token};

/// Who makes pages: whoever the client chooses, or one of the two.
pub(super) const SIDES: [Option<Side>; 3] = [None, Some(Side::Server), Some(Side::Client)];

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
