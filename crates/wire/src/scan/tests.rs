//! Messages of a scan come back as they were sent; any other bytes are refused and never panic.

use std::cmp::Ordering;
use std::ops::Bound;

use longarm_base::limits::KEY_MAX;
use longarm_base::{Csn, EntryRef, ReplicaId, Term, UnixMillis};
use proptest::prelude::*;

use super::*;
use crate::{Hello, PeerHello, VERSIONS, Versions};

fn terms() -> impl Strategy<Value = Term> {
    (any::<u32>(), 0..=ReplicaId::MAX.0).prop_map(|(counter, replica)| Term::new(counter, ReplicaId(replica)))
}

/// Keys that mostly share their beginnings.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), any::<u8>()], 1..40)
}

fn bounds() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), keys().prop_map(Bound::Included), keys().prop_map(Bound::Excluded),]
}

fn kinds() -> impl Strategy<Value = ScanKind> {
    prop_oneof![
        Just(ScanKind::Page),
        Just(ScanKind::Recheck),
        Just(ScanKind::Close),
        Just(ScanKind::Stats),
        Just(ScanKind::Snapshot),
        Just(ScanKind::SnapshotPage),
    ]
}

fn heads() -> impl Strategy<Value = ScanHead> {
    (any::<([u64; 3], u32, u32)>(), terms()).prop_map(|(([operation, tree, step], rounds, lag_us), term)| {
        ScanHead {
            status: ScanStatus::Ok,
            more: false,
            operation,
            term,
            made: TreeMoment { tree, step },
            rounds,
            lag_us,
        }
    })
}

/// What an item has beside its key.
#[derive(Clone, Debug)]
enum Stored {
    Inline(Vec<u8>),
    Far(EntryRef),
}

impl Stored {
    fn value(&self) -> ScanValue<'_> {
        match self {
            Stored::Inline(bytes) => ScanValue::Inline(bytes),
            Stored::Far(entry) => ScanValue::Far(*entry),
        }
    }
}

fn stored() -> impl Strategy<Value = Stored> {
    let far = |(line, words): (u32, u32)| {
        Stored::Far(EntryRef { offset: u64::from(line) * 64, len: 4104 + words % 1000 * 8 })
    };
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(Stored::Inline),
        any::<(u32, u32)>().prop_map(far),
    ]
}

const HEAD: ScanHead = ScanHead {
    status: ScanStatus::Ok,
    more: false,
    operation: 7,
    term: Term::ZERO,
    made: TreeMoment { tree: 3, step: 9 },
    rounds: 2,
    lag_us: 11,
};

fn item<'a>(key: &'a [u8], value: ScanValue<'a>) -> ScanItem<'a> {
    ScanItem { key, csn: Csn(5), expiry: UnixMillis::NEVER, value }
}

/// The page of these items.
fn page(items: &[ScanItem<'_>]) -> Vec<u8> {
    let mut writer = ScanAnswerWriter::new(Vec::new(), PAGE_BYTES_MAX, false);
    assert!(items.iter().all(|item| writer.push(item)));
    writer.finish(HEAD)
}

/// What is wrong with an answer, its items included.
fn wrong(bytes: &[u8]) -> Option<&'static str> {
    let mut items = match ScanAnswer::decode(bytes) {
        Ok(answer) => answer.items(),
        Err(bad) => return Some(bad.0),
    };
    loop {
        match items.next() {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(bad) => return Some(bad.0),
        }
    }
}

proptest! {
    #[test]
    fn greetings_come_back(words: [u64; 3], replica in 0..=ReplicaId::MAX.0, name in "[a-z]{0,64}") {
        let hello = ScanHello { group: words[0], ring_bytes: words[1], name };
        let bytes = hello.encode();
        prop_assert!(ScanHello::is(&bytes) && !PeerHello::is(&bytes));
        prop_assert!(Hello::decode(&bytes).is_err() && PeerHello::decode(&bytes).is_err());
        prop_assert_eq!(Versions::of_hello(&bytes), Ok(VERSIONS));
        prop_assert_eq!(ScanHello::decode(&bytes), Ok(hello));
        let agreed = VERSIONS.meet(VERSIONS).expect("one side");
        let welcome = ScanWelcome { agreed, sum_key: words[0], ring_bytes: words[1], group: words[2],
            replica: ReplicaId(replica) };
        prop_assert_eq!(ScanWelcome::decode(&welcome.encode()), Ok(welcome));
        for cut in 0..bytes.len() {
            prop_assert!(ScanHello::decode(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn requests_come_back(
        show in 0u8..3, reverse: bool, low in bounds(), high in bounds(), limit in 1..=PAGE_ITEMS_MAX,
        bytes in 1..=PAGE_BYTES_MAX, operation: u64, term in terms(), unix: u64,
        kind in kinds(), moment: [u64; 2],
    ) {
        let (low, high) = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
        let request = ScanRequest { reverse, keys_only: show == 1, count: show == 2, low, high, limit, bytes,
            kind, ..ScanRequest::new(operation, term, UnixMillis(unix)) };
        let [tree, step] = moment;
        let request = match kind.has_moment() {
            true => request.about(kind, TreeMoment { tree, step }),
            false => request,
        };
        let message = request.encode();
        prop_assert_eq!(ScanRequest::decode(&message), Ok(request));
        for cut in 0..message.len() {
            prop_assert!(ScanRequest::decode(&message[..cut]).is_err());
        }
        prop_assert!(ScanRequest::decode(&[&message[..], &[0]].concat()).is_err());
    }

    #[test]
    fn pages_come_back(
        head in heads(), more: bool, keys_only: bool, room in 1u32..3000,
        items in proptest::collection::btree_map(keys(), (stored(), 1u64..1 << 51, 0u64..3), 0..40),
    ) {
        let items: Vec<_> = items.iter().map(|(key, (stored, csn, expiry))| {
            ScanItem { key, csn: Csn(*csn), expiry: UnixMillis(*expiry), value: stored.value() }
        }).collect();
        let mut writer = ScanAnswerWriter::new(vec![1; 9], room, keys_only);
        let written = items.iter().take_while(|item| writer.push(item)).count();
        prop_assert!(written == writer.count() as usize && (written > 0 || items.is_empty()));
        let head = ScanHead { more: more && written > 0, ..head };
        let message = writer.finish(head);
        prop_assert!(message.len() <= 48 + room as usize || written == 1);
        let answer = ScanAnswer::decode(&message).expect("it decodes");
        prop_assert_eq!((answer.head, answer.count as usize, answer.last), (head, written, None));
        prop_assert_eq!(answer.keys_only, keys_only);
        let mut read = answer.items();
        for item in &items[..written] {
            let value = if keys_only { ScanValue::None } else { item.value };
            prop_assert_eq!(read.next(), Ok(Some(ScanItem { value, ..*item })));
        }
        prop_assert_eq!(read.next(), Ok(None));
        for order in [Ordering::Less, Ordering::Greater] {
            let mut read = answer.items().in_order(order);
            let pairs = items[..written].windows(2);
            let good = pairs.take_while(|pair| pair[1].key.cmp(pair[0].key) == order).count();
            for item in &items[..written.min(1 + good)] {
                prop_assert_eq!(read.next().map(|read| read.map(|read| read.key)), Ok(Some(item.key)));
            }
            prop_assert_eq!(read.next().is_err(), written > 1 + good);
            prop_assert_eq!(read.next(), Ok(None), "nothing comes after an error, nor behind the last");
        }
        for cut in 0..message.len() {
            prop_assert!(wrong(&message[..cut]).is_some(), "{} bytes", cut);
        }
        prop_assert!(wrong(&[&message[..], &[0]].concat()).is_some());
    }

    #[test]
    fn counts_come_back(head in heads(), count in 1..=COUNT_MAX, last in proptest::option::of(keys())) {
        let message = ScanAnswerWriter::counted(Vec::new(), head, count, last.as_deref());
        let answer = ScanAnswer::decode(&message).expect("it decodes");
        prop_assert!(answer.is_count() && answer.count == count && answer.head.more == last.is_some());
        let mut none = answer.items();
        prop_assert_eq!((answer.last, none.next()), (last.as_deref(), Ok(None)));
        for cut in 0..message.len() {
            prop_assert!(ScanAnswer::decode(&message[..cut]).is_err());
        }
        prop_assert!(ScanAnswer::decode(&[&message[..], &[0]].concat()).is_err());
    }

    #[test]
    fn statistics_come_back(head in heads(), words in any::<[u64; 11]>(), stage in 0..4u8,
        percent in 0..=100u8, height in any::<u8>(), term in terms()) {
        let stage = [OrderedStage::Resting, OrderedStage::Building(percent), OrderedStage::Ready,
            OrderedStage::Full][usize::from(stage)];
        let [items, markers, bytes, lag, steps, entries, builds, gaps, pages, again, contended] = words;
        let stats = OrderedStats { stage, term, items, markers, bytes, height, lag, steps, entries, builds,
            gaps, pages, again, contended };
        let message = head.with_stats(&stats);
        let answer = ScanAnswer::decode(&message).expect("our own answer");
        prop_assert!(answer.head == head && answer.stats == Some(stats) && !answer.is_count());
        let mut items = answer.items();
        prop_assert_eq!(items.next(), Ok(None));
        for cut in 0..message.len() {
            prop_assert!(ScanAnswer::decode(&message[..cut]).is_err());
        }
        prop_assert!(ScanAnswer::decode(&[&message[..], &[0]].concat()).is_err());
        let request = ScanRequest::stats(head.operation);
        let message = request.encode();
        prop_assert_eq!(ScanRequest::decode(&message), Ok(request));
    }

    #[test]
    fn garbage_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..120),
        at in 0usize..200, bits: u8) {
        let _ = (ScanHello::decode(&bytes), ScanWelcome::decode(&bytes), wrong(&bytes));
        if let Ok(request) = ScanRequest::decode(&bytes) {
            prop_assert_eq!(request.encode(), bytes);
        }
        let values = [ScanValue::Inline(b"value"), ScanValue::Far(EntryRef { offset: 64, len: 5000 })];
        let mut message = page(&[item(b"user:1", values[0]), item(b"user:20", values[1])]);
        let at = at % message.len();
        message[at] ^= bits;
        let _ = wrong(&message);
    }
}

#[test]
fn a_name_is_cut_between_letters() {
    let hello = ScanHello { group: 1, ring_bytes: 2, name: format!("{}\u{e4}", "a".repeat(63)) };
    let back = ScanHello::decode(&hello.encode()).expect("it decodes");
    assert_eq!(back.name, "a".repeat(63));
}

#[test]
fn what_is_wrong_with_a_greeting_is_named() {
    let bytes = ScanHello { group: 1, ring_bytes: 2, name: "n".into() }.encode();
    let with = |at: usize, byte| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        ScanHello::decode(&bytes).expect_err("refused").0
    };
    assert!(with(0, b'S').contains("not the hello"));
    assert!(with(6, 1).contains("range") && with(28, 65).contains("name") && with(32, 1).contains("bits"));
    let mut old = bytes.clone();
    old[4..8].copy_from_slice(&[3, 0, 3, 0]);
    assert!(ScanHello::decode(&old).expect_err("refused").0.contains("versions"));
    let agreed = VERSIONS.meet(VERSIONS).expect("one side");
    let welcome = ScanWelcome { agreed, sum_key: 1, ring_bytes: 2, group: 3, replica: ReplicaId(4) }.encode();
    let with = |at: usize, byte| {
        let mut bytes = welcome.clone();
        bytes[at] = byte;
        ScanWelcome::decode(&bytes).expect_err("refused").0
    };
    assert!(with(0, 99).contains("not offered") && with(4, 2).contains("not offered"));
    assert!(with(32, 128).contains("replica") && with(36, 1).contains("bits"));
}

#[test]
fn what_is_wrong_with_a_request_is_named() {
    let (low, high) = (Bound::Included(&b"a"[..]), Bound::Excluded(&b"b"[..]));
    let request = ScanRequest { low, high, ..ScanRequest::new(1, Term::ZERO, UnixMillis(2)) };
    let refused = |at: usize, with: &[u8]| {
        let mut bytes = request.encode();
        bytes[at..at + with.len()].copy_from_slice(with);
        ScanRequest::decode(&bytes).expect_err("refused").0
    };
    assert!([0, 7, 255].iter().all(|&kind| refused(0, &[kind]).contains("kind")));
    assert!(refused(1, &[32]).contains("flags") && refused(1, &[2 | 4]).contains("count"));
    assert!(refused(1, &[8, 0, 0, 2]).contains("names none"));
    assert!(refused(2, &[0xff, 4]).contains("longer than allowed"));
    assert!(refused(6, &[1]).contains("bits"));
    let limit = |limit: u32| refused(8, &limit.to_le_bytes());
    assert!(limit(0).contains("no items") && limit(PAGE_ITEMS_MAX + 1).contains("more than allowed"));
    let most = |bytes: u32| refused(12, &bytes.to_le_bytes());
    assert!(most(0).contains("no bytes") && most(PAGE_BYTES_MAX + 1).contains("more than allowed"));
    assert!(refused(24, &(1u64 << Term::BITS).to_le_bytes()).contains("term"));
    let count = ScanRequest { count: true, limit: COUNT_MAX, ..request };
    assert_eq!(ScanRequest::decode(&count.encode()), Ok(count));
    let more = ScanRequest { limit: COUNT_MAX + 1, ..count };
    assert!(ScanRequest::decode(&more.encode()).is_err());
}

#[test]
fn what_is_wrong_with_an_answer_is_named() {
    let far = EntryRef { offset: 128, len: 4104 };
    let bytes = page(&[item(b"ab", ScanValue::Inline(b"v")), item(b"ac", ScanValue::Far(far))]);
    let with = |at: usize, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        wrong(&bytes).expect("refused")
    };
    assert_eq!(wrong(&bytes), None);
    assert!(with(0, &[10]).contains("status") && with(0, &[1]).contains("none"));
    assert!(
        with(1, &[16]).contains("flags") && with(1, &[6]).contains("flags") && with(2, &[1]).contains("bits")
    );
    assert!(with(4, &[1, 4]).contains("more items") && with(4, &[1]).contains("longer than"));
    assert!(with(4, &[3]).contains("shorter than") && with(4, &[0]).contains("longer than"));
    assert!(with(1, &[2]).contains("nobody asked"));
    // The first item begins at 48, the second one at 67.
    assert!(with(48, &[1]).contains("impossible length") && with(50, &[0]).contains("impossible length"));
    assert!(with(50, &[1, 4]).contains("impossible length"));
    assert!(with(53, &[0x10]).contains("should be far"));
    assert!(with(56, &[0]).contains("no version") && with(62, &[8]).contains("no version"));
    assert!(with(83, b"b").contains("shares more"));
    for place in [(71, 1), (72, 0x0f), (84, 1), (89, 1)] {
        assert!(with(place.0, &[place.1]).contains("a place where none"), "{place:?}");
    }
    let empty = page(&[]);
    let more = [&empty[..1], &[1], &empty[2..]].concat();
    assert!(wrong(&more).expect("refused").contains("there are more"));
    let expiring = page(&[ScanItem { expiry: UnixMillis(1), ..item(b"a", ScanValue::None) }]);
    let never = [&expiring[..64], &[0], &expiring[65..]].concat();
    assert!(wrong(&never).expect("refused").contains("expiry"));
    let counted = ScanAnswerWriter::counted(Vec::new(), HEAD, 3, Some(b"k"));
    let with = |at: usize, byte| {
        let mut bytes = counted.clone();
        bytes[at] = byte;
        ScanAnswer::decode(&bytes).expect_err("refused").0
    };
    assert!(with(48, 0).contains("impossible length") && with(52, 1).contains("bits"));
    assert!(with(6, 2).contains("more items") && with(1, 4).contains("longer than"));
}

#[test]
fn what_is_wrong_with_statistics_is_named() {
    let good = HEAD.with_stats(&OrderedStats { stage: OrderedStage::Building(7), ..OrderedStats::default() });
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        ScanAnswer::decode(&bytes).expect_err("refused").0
    };
    assert_eq!(with(48, 4), "unknown stage of an ordered index");
    assert_eq!(with(49, 101), "unknown stage of an ordered index");
    assert_eq!(with(51, 1), "bits set that mean nothing");
    assert_eq!(with(1, 8 | 4), "unknown flags");
    assert_eq!(with(4, 1), "statistics with items");
    assert_eq!(with(1, 8 | 1), "a page without items that says there are more");
}

#[test]
fn answers_without_a_page_come_back() {
    use ScanStatus::*;
    for (number, status) in
        [Ok, Elsewhere, Behind, Contended, Closing, Invalid, Full, Changed].into_iter().enumerate()
    {
        let head = ScanHead::new(status, 3, Term::ZERO);
        let bytes = head.encode();
        let answer = ScanAnswer::decode(&bytes).expect("it decodes");
        assert_eq!((answer.head, answer.count, bytes[0]), (head, 0, number as u8), "numbers are fixed");
    }
}

#[test]
fn a_page_has_a_limit_of_items_and_bytes() {
    let value = vec![1; FAR_FROM];
    let longest: Vec<Vec<u8>> = (0..200u8).map(|i| vec![i; KEY_MAX]).collect();
    let mut writer = ScanAnswerWriter::new(Vec::new(), u32::MAX, false);
    let fit = longest.iter().take_while(|key| writer.push(&item(key, ScanValue::Inline(&value)))).count();
    assert_eq!(fit, PAGE_BYTES_MAX as usize / (16 + KEY_MAX + FAR_FROM));
    assert!(writer.finish(HEAD).len() <= SCAN_MESSAGE_MAX);
    let mut writer = ScanAnswerWriter::new(Vec::new(), 1, true);
    assert!(writer.push(&item(&longest[0], ScanValue::None)), "the first item always fits");
    assert!(!writer.push(&item(&longest[1], ScanValue::None)));
    let mut writer = ScanAnswerWriter::new(Vec::new(), PAGE_BYTES_MAX, true);
    let keys = (0..2000u32).map(u32::to_be_bytes);
    assert_eq!(keys.take_while(|key| writer.push(&item(key, ScanValue::None))).count(), 1024);
}
