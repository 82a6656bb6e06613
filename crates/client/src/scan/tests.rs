//! The values of a scan, against one sorted map that answers as a replica would.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use longarm_base::{Csn, EntryRef, Nanos, Term, UnixMillis};
use longarm_fabric::Address;
use longarm_wire::{
    COUNT_MAX, ScanAnswer, ScanAnswerWriter, ScanHead, ScanItem as WireItem, ScanRequest, ScanStatus,
    ScanValue,
};
use proptest::prelude::*;

use super::items::Items;
use super::page::{Came, Counted, FarValue};
use super::replicas::Replicas;
use super::*;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn keys() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(u8::MAX)], 1..6)
}

fn maps() -> impl Strategy<Value = Map> {
    proptest::collection::btree_map(keys(), proptest::collection::vec(any::<u8>(), 0..9), 0..60)
}

/// The keys that a scan is about.
#[derive(Clone, Debug)]
enum About {
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>),
    Prefix(Vec<u8>),
}

impl About {
    fn has(&self, key: &[u8]) -> bool {
        match self {
            About::Prefix(prefix) => key.starts_with(prefix),
            About::Range(low, high) => {
                is_within(key, low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))
            }
        }
    }
}

fn is_within(key: &[u8], low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    let above = match low {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    };
    let below = match high {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    };
    above && below
}

/// A scan, and what was wanted of it.
#[derive(Clone, Debug)]
struct Drawn {
    about: About,
    scan: Scan,
}

fn scans() -> impl Strategy<Value = Drawn> {
    let bound = || {
        prop_oneof![
            Just(Bound::Unbounded),
            keys().prop_map(Bound::Included),
            keys().prop_map(Bound::Excluded),
            Just(Bound::Included(Vec::new())),
        ]
    };
    let about = prop_oneof![
        (bound(), bound()).prop_map(|(low, high)| About::Range(low, high)),
        keys().prop_map(About::Prefix),
        Just(About::Prefix(Vec::new())),
    ];
    (about, any::<(bool, bool)>(), proptest::option::of(0u64..70), 1u32..20).prop_map(
        |(about, (reverse, keys_only), limit, page)| {
            let scan = match about.clone() {
                About::Range(low, high) => Scan::range::<Vec<u8>>((low, high)),
                About::Prefix(prefix) => Scan::prefix(prefix),
            };
            let scan = if reverse { scan.reverse() } else { scan };
            let scan = if keys_only { scan.keys_only() } else { scan };
            let scan = limit.map_or(scan.clone(), |limit| scan.limit(limit)).page(page);
            Drawn { about, scan }
        },
    )
}

/// What a scan shows.
fn shown(map: &Map, Drawn { about, scan }: &Drawn) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = map.keys().filter(|key| about.has(key)).cloned().collect();
    if scan.is_reverse() {
        keys.reverse();
    }
    keys.truncate(scan.most().map_or(usize::MAX, |most| most as usize));
    keys
}

/// A replica's answer to a request.
fn answer(map: &Map, message: &[u8]) -> Vec<u8> {
    let request = ScanRequest::decode(message).expect("a request that makes sense");
    let mut all: Vec<_> = map.iter().filter(|(key, _)| is_within(key, request.low, request.high)).collect();
    if request.reverse {
        all.reverse();
    }
    let head = ScanHead::new(ScanStatus::Ok, request.operation, request.term);
    let most = all.len().min(request.limit as usize);
    if request.count {
        let last = all[..most].last().filter(|_| most < all.len());
        return ScanAnswerWriter::counted(Vec::new(), head, most as u32, last.map(|(key, _)| key.as_slice()));
    }
    let mut writer = ScanAnswerWriter::new(Vec::new(), request.bytes, request.keys_only);
    for (key, value) in &all[..most] {
        let value = ScanValue::Inline(value);
        writer.push(&WireItem { key, csn: Csn(1), expiry: UnixMillis::NEVER, value });
    }
    let more = (writer.count() as usize) < all.len() && writer.count() > 0;
    writer.finish(ScanHead { more, ..head })
}

fn ask(map: &Map, rest: &Rest) -> Came {
    let bytes = answer(map, &rest.request(1, Term::ZERO, UnixMillis(1)).encode());
    Came::take(&ScanAnswer::decode(&bytes).expect("an answer"), rest).expect("the page")
}

fn item(key: &[u8]) -> ScanItemRef<'_> {
    ScanItemRef { key, value: b"", csn: Csn(1), expiry: UnixMillis::NEVER }
}

fn items(keys: &[&[u8]]) -> Items {
    let mut items = Items::default();
    keys.iter().for_each(|key| items.push(&item(key)));
    items
}

/// The bytes of a page of these items.
fn page_of(items: &[(&[u8], ScanValue<'_>)], keys_only: bool) -> Vec<u8> {
    let mut writer = ScanAnswerWriter::new(Vec::new(), u32::MAX, keys_only);
    for (key, value) in items {
        writer.push(&WireItem { key, csn: Csn(1), expiry: UnixMillis::NEVER, value: *value });
    }
    writer.finish(ScanHead::new(ScanStatus::Ok, 1, Term::ZERO))
}

proptest! {
    /// Pages by an iterator's way, each asked for at what the one before left.
    #[test]
    fn pages_leave_nothing_out_and_repeat_nothing(map in maps(), drawn in scans(), cut in 1usize..9) {
        let scan = &drawn.scan;
        let (mut rest, mut got) = (Rest::of(scan, None).ok().filter(|rest| !rest.is_empty()), Vec::new());
        while let Some(range) = rest {
            let mut came = ask(&map, &range);
            // A page that is cut goes on where it was cut.
            if came.items.len() > cut {
                came.cut(cut);
            }
            got.extend(came.items.iter().map(|item| item.key.to_vec()));
            prop_assert!(came.items.iter().all(|item| range.wants_values() == (map[item.key] == item.value)
                || item.value.is_empty()));
            rest = came.leave(range);
        }
        prop_assert_eq!(got, shown(&map, &drawn));
    }

    /// Pages by tokens, of which each is kept as text.
    #[test]
    fn tokens_leave_nothing_out_and_repeat_nothing(map in maps(), drawn in scans()) {
        let Drawn { about, scan } = drawn;
        let scan = if scan.most() == Some(0) { scan.limit(3) } else { scan };
        let (mut token, mut got) = (None, Vec::new());
        loop {
            let rest = Rest::of(&scan, token.as_ref()).expect("its own token");
            let came = if rest.is_empty() { Came::nothing() } else { ask(&map, &rest) };
            let page = came.into_page(scan.is_reverse());
            got.extend(page.items.into_iter().map(|item| item.key));
            let Some(next) = page.next else { break };
            prop_assert_eq!(Some(&Token::from_bytes(&next.to_bytes()).expect("it comes back")), Some(&next));
            token = Some(next.to_string().parse::<Token>().expect("it comes back"));
        }
        // A limit is one of each page here.
        prop_assert_eq!(got, shown(&map, &Drawn { about, scan: scan.limit(u64::MAX) }));
    }

    #[test]
    fn counts_are_the_number_of_keys(map in maps(), drawn in scans(), page in 1u32..20) {
        let scan = &drawn.scan;
        let mut rest = Some(Rest::count(scan).paged(page));
        let mut keys = 0;
        while let Some(mut range) = rest.take().filter(|rest| !rest.is_empty()) {
            let bytes = answer(&map, &range.request(1, Term::ZERO, UnixMillis(1)).encode());
            let counted = Counted::take(&ScanAnswer::decode(&bytes).expect("an answer"), &range);
            let counted = counted.expect("a count");
            keys += counted.keys;
            if let Some(last) = counted.last {
                range.shown(counted.keys, &last);
                rest = Some(range);
            }
        }
        prop_assert_eq!(keys, shown(&map, &drawn).len() as u64);
    }

    /// Keys are anywhere among the groups, and pages end anywhere.
    #[test]
    fn a_merge_is_one_sorted_map(map in maps(), drawn in scans(), groups in 1usize..6, seed: u64) {
        let scan = &drawn.scan;
        let mut parts = vec![Map::new(); groups];
        for (number, (key, value)) in map.iter().enumerate() {
            let group = (seed >> (number % 59)) as usize % groups;
            parts[group].insert(key.clone(), value.clone());
        }
        let whole = Rest::of(scan, None).expect("there is no token");
        let mut rests: Vec<_> = parts.iter().map(|_| Some(whole.clone()).filter(|r| !r.is_empty())).collect();
        let (mut merge, mut got) = (Merge::new(groups, scan.is_reverse()), Vec::new());
        let most = scan.most().map_or(usize::MAX, |most| most as usize);
        while got.len() < most {
            match merge.step() {
                MergeStep::Item(group) => got.push(merge.show(group).key.to_vec()),
                MergeStep::End => break,
                MergeStep::Fetch(group) => {
                    let came = rests[group].take().map(|rest| (ask(&parts[group], &rest), rest));
                    let (items, rest) = came.map_or((Items::default(), None), |(came, rest)| {
                        (came.items.clone(), came.leave(rest))
                    });
                    rests[group] = rest;
                    merge.feed(group, items, rests[group].is_some());
                }
            }
        }
        prop_assert_eq!(got, shown(&map, &drawn));
    }

    #[test]
    fn text_that_is_no_token_is_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..40), text: String,
    ) {
        if let Ok(token) = Token::from_bytes(&bytes) {
            prop_assert_eq!(token.to_bytes(), bytes);
        }
        if let Ok(token) = text.parse::<Token>() {
            prop_assert_eq!(token.to_string(), text);
        }
    }
}

#[test]
fn a_prefix_is_the_keys_that_begin_with_it() {
    let has = |prefix: &[u8], key: &[u8]| {
        let rest = Rest::of(&Scan::prefix(prefix), None).expect("there is no token");
        !rest.is_empty() && rest.has(key)
    };
    assert!(has(b"user:", b"user:") && has(b"user:", b"user:9") && !has(b"user:", b"user;"));
    assert!(!has(b"user:", b"user") && has(b"", b"anything"));
    assert!(has(b"a\xff", b"a\xff\xff") && !has(b"a\xff", b"b"));
    assert!(has(b"\xff\xff", b"\xff\xff\x01") && !has(b"\xff\xff", b"\xff\xfe"));
}

#[test]
fn bounds_may_be_longer_than_keys_are() {
    let long = [7; 1030];
    let longest = vec![7; 1024];
    let has = |scan: Scan, key: &[u8]| {
        let rest = Rest::of(&scan, None).expect("there is no token");
        assert!(
            rest.is_empty()
                || ScanRequest::decode(&rest.request(1, Term::ZERO, UnixMillis(1)).encode()).is_ok()
        );
        !rest.is_empty() && rest.has(key)
    };
    assert!(!has(Scan::range(&long[..]..), &longest) && has(Scan::range(&long[..]..), b"\x08"));
    assert!(has(Scan::range(..&long[..]), &longest) && !has(Scan::range(..&long[..]), b"\x08"));
    assert!(!has(Scan::prefix(long), &longest));
    assert!(!has(Scan::range(""..""), b"a") && !has(Scan::range("b".."a"), b"a"));
    assert!(has(Scan::range("a"..="a"), b"a") && !has(Scan::range("a".."a"), b"a"));
    assert!(!has(Scan::all().limit(0), b"a"));
}

#[test]
fn a_token_goes_on_within_the_range_of_the_scan() {
    let scan = Scan::range("b".."d");
    let beyond = |key: &[u8]| Rest::of(&scan, Some(&Token::behind(key, false))).expect("a token");
    assert!(beyond(b"a").has(b"b"), "it does not widen the range");
    assert!(!beyond(b"b").has(b"b") && beyond(b"b").has(b"c"));
    assert!(beyond(b"e").is_empty());
    let wrong = Rest::of(&scan, Some(&Token::behind(b"b", true))).expect_err("the other direction");
    assert!(wrong.to_string().contains("direction"), "{wrong}");
    let down = Rest::of(&scan.reverse(), Some(&Token::behind(b"c", true))).expect("a token");
    assert!(down.has(b"b") && !down.has(b"c"));
}

#[test]
fn what_is_wrong_with_a_token_is_said() {
    let token = Token::behind(b"key", true);
    assert_eq!(token.to_string(), "TAEBa2V5");
    let refused = |bytes: &[u8]| Token::from_bytes(bytes).expect_err("refused").to_string();
    assert!(refused(b"L\x01").contains("too short") && refused(b"M\x01\x00k").contains("begin"));
    assert!(refused(b"L\x02\x00k").contains("version") && refused(b"L\x01\x02k").contains("direction"));
    assert!(refused(b"L\x01\x00").contains("length"));
    assert!(refused(&[b"L\x01\x00", &[1; 1025][..]].concat()).contains("length"));
    let text = |text: &str| text.parse::<Token>().expect_err("refused").to_string();
    assert!(text("TAEBa2V5=").contains("base64") && text("hello").contains("base64"));
    assert!(text("aGVsbG8").contains("begin"), "base64 of something else");
}

#[test]
fn a_page_that_was_not_asked_for_is_refused() {
    let rest = Rest::of(&Scan::range("b".."d").limit(2), None).expect("there is no token");
    let take = |bytes: &[u8], rest: &Rest| {
        Came::take(&ScanAnswer::decode(bytes).expect("an answer"), rest).map_err(|bad| bad.0)
    };
    let value = ScanValue::Inline(b"v");
    let page =
        |keys: &[&'static [u8]]| page_of(&keys.iter().map(|key| (*key, value)).collect::<Vec<_>>(), false);
    assert_eq!(take(&page(&[b"b", b"c"]), &rest).map(|came| came.items.len()), Ok(2));
    for (keys, why) in [(&[b"c", b"b"][..], "order"), (&[b"a"], "range"), (&[b"d"], "range")] {
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        assert!(take(&page(&keys), &rest).expect_err("refused").contains(why), "{keys:?}");
    }
    assert!(take(&page(&[b"b", b"ba", b"c"]), &rest).expect_err("refused").contains("nobody"));
    assert!(take(&page_of(&[(b"b", value)], true), &rest).expect_err("refused").contains("nobody"));
    let down = Rest::of(&Scan::range("b".."d").reverse(), None).expect("there is no token");
    assert!(take(&page(&[b"c", b"b"]), &down).is_ok() && take(&page(&[b"b", b"c"]), &down).is_err());
    let head = ScanHead::new(ScanStatus::Ok, 1, Term::ZERO);
    let counted = |keys, last: Option<&[u8]>| ScanAnswerWriter::counted(Vec::new(), head, keys, last);
    assert!(take(&counted(1, None), &rest).is_err());
    let count = Rest::count(&Scan::range("b".."d").limit(5));
    let take = |bytes: &[u8]| Counted::take(&ScanAnswer::decode(bytes).expect("an answer"), &count);
    assert_eq!(take(&counted(5, Some(b"c"))), Ok(Counted { keys: 5, last: Some(b"c".to_vec()) }));
    assert!(take(&counted(6, None)).is_err() && take(&counted(5, Some(b"d"))).is_err());
    assert!(take(&page(&[b"b"])).is_err());
    assert_eq!(Rest::count(&Scan::all()).limit(), COUNT_MAX);
}

#[test]
fn a_page_is_cut_before_a_value_that_cannot_be_had() {
    let rest = Rest::of(&Scan::all(), None).expect("there is no token");
    let far = |offset| ScanValue::Far(EntryRef { offset, len: 8192 });
    let bytes = page_of(&[(b"a", far(64)), (b"b", ScanValue::Inline(b"v")), (b"c", far(128))], false);
    let mut came = Came::take(&ScanAnswer::decode(&bytes).expect("an answer"), &rest).expect("a page");
    let entry = |offset| EntryRef { offset, len: 8192 };
    let wanted = [(0, 64), (2, 128)].map(|(number, offset)| FarValue { number, entry: entry(offset) });
    assert_eq!((&came.far[..], came.more), (&wanted[..], false));
    came.cut(2);
    assert_eq!((&came.far[..], came.more, came.items.len()), (&wanted[..1], true, 2));
    let rest = came.leave(rest).expect("there is more");
    assert!(!rest.has(b"b") && rest.has(b"c"));
}

#[test]
fn items_keep_their_bytes_whatever_comes_behind_them() {
    let mut all = items(&[b"a", b"bb", b"c"]);
    all.set_value(1, b"a long value");
    all.set_value(0, b"");
    let pair = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    let shown = |items: &Items| Vec::from_iter(items.iter().map(|item| pair(item.key, item.value)));
    let wanted = [pair(b"a", b""), pair(b"bb", b"a long value"), pair(b"c", b"")];
    assert_eq!(shown(&all), wanted);
    all.truncate(2);
    all.push(&ScanItemRef { value: b"v", ..item(b"d") });
    assert_eq!(shown(&all), [&wanted[..2], &[pair(b"d", b"v")]].concat());
    assert_eq!((all.len(), all.last().map(|item| item.to_item())), (3, all.to_vec().pop()));
}

#[test]
fn a_merge_waits_for_each_part_that_may_have_the_next_key() {
    let mut merge = Merge::new(2, false);
    assert_eq!(merge.step(), MergeStep::Fetch(0));
    merge.feed(0, items(&[b"b"]), true);
    assert_eq!(merge.step(), MergeStep::Fetch(1));
    merge.feed(1, items(&[b"a", b"c"]), false);
    assert_eq!((merge.step(), merge.show(1)), (MergeStep::Item(1), item(b"a")));
    assert_eq!((merge.step(), merge.show(0)), (MergeStep::Item(0), item(b"b")));
    assert_eq!(merge.step(), MergeStep::Fetch(0));
    merge.feed(0, Items::default(), false);
    assert_eq!((merge.step(), merge.show(1)), (MergeStep::Item(1), item(b"c")));
    assert_eq!(merge.step(), MergeStep::End);
    assert_eq!((share(100, 4), share(1, 3), share(0, 1)), (39, 7, 4));
}

#[test]
fn followers_are_asked_before_the_leader_and_who_failed_last() {
    let all =
        ["tcp://h:1", "tcp://h:2", "tcp://h:3"].map(|text| text.parse::<Address>().expect("an address"));
    let (ms, moment) = (Nanos::from_millis, Duration::from_millis(100));
    let mut replicas = Replicas::new(1);
    let choose = |replicas: &Replicas, at| replicas.choose(&all, &all[0], ms(at));
    assert_eq!(choose(&replicas, 0), all[1]);
    replicas.shun(&all[1], ms(0), moment);
    assert_eq!(choose(&replicas, 1), all[2]);
    replicas.shun(&all[2], ms(10), moment);
    assert_eq!(choose(&replicas, 11), all[0], "the leader, if nobody else");
    replicas.shun(&all[0], ms(20), moment);
    assert_eq!(choose(&replicas, 21), all[1], "the one that is shunned for the least time");
    assert_eq!(choose(&replicas, 101), all[1], "it is not shunned any more");
    assert_eq!(Replicas::new(5).choose(&all, &all[2], ms(0)), all[0], "the first follower from the last on");
    let alone = "tcp://h:9".parse::<Address>().expect("an address");
    assert_eq!(replicas.choose(&[], &alone, ms(0)), alone);
}
