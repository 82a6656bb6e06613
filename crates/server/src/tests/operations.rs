//! Every operation, over both transports and both kinds of slots, in place and out of place.

use longarm_base::limits::{KEY_MAX, VALUE_MAX};
use longarm_fabric::Address;
use longarm_index::hash::{Discipline, SlotKind};
use longarm_wire::{Condition, Request, RequestKind, Status};

use super::harness::{Raw, start, until};

fn everywhere(test: impl Fn(&mut Raw)) {
    let kinds = [SlotKind::Inline64, SlotKind::Pointer16];
    let disciplines = [Discipline::InPlace, Discipline::OutOfPlace];
    for (slots, discipline) in kinds.into_iter().flat_map(|slots| disciplines.map(|of| (slots, of))) {
        let (server, lines) = start(|options| (options.slots, options.discipline) = (slots, discipline));
        for address in server.addresses().to_vec() {
            test(&mut Raw::connect(&address));
        }
        assert!(server.stats().store.segments > 0);
        assert_eq!(server.stats().index_updates, discipline.name());
        assert_eq!(server.stop(std::time::Duration::from_secs(5)).panicked, 0);
        assert_eq!(*lines.lock().expect("log"), [""; 0]);
    }
}

fn put<'a>(
    raw: &mut Raw,
    key: &'a [u8],
    value: &'a [u8],
    condition: Condition,
    argument: u64,
) -> Request<'a> {
    Request { key, value, condition, argument, ..raw.next(RequestKind::Put) }
}

#[test]
fn put_get_delete_and_their_conditions() {
    everywhere(|raw| {
        for value in [&b""[..], b"v", &[7; 32], &[8; 100], &[9; 5000], &[1; 300_000]] {
            let first = raw.put(b"key", value);
            assert_eq!(first.status, Status::Ok);
            assert!(first.stamp >= raw.welcome.stamp);
            let got = raw.get(b"key");
            assert_eq!((got.status, got.csn, got.number), (Status::Ok, first.csn, 0));
            assert_eq!(got.value, value);
            let request = put(raw, b"key", b"x", Condition::Absent, 0);
            let there = raw.ask(&request);
            assert_eq!((there.status, there.csn), (Status::Mismatch, first.csn));
            let request = put(raw, b"key", b"new", Condition::Version, first.csn);
            let swapped = raw.ask(&request);
            assert!(swapped.status == Status::Ok && swapped.csn > first.csn);
            let request = put(raw, b"key", b"newer", Condition::Version, first.csn);
            assert_eq!(raw.ask(&request).status, Status::Mismatch);
            let mut delete = raw.next(RequestKind::Delete);
            (delete.key, delete.condition, delete.argument) = (b"key", Condition::Version, first.csn);
            assert_eq!(raw.ask(&delete).csn, swapped.csn, "not the version there");
            assert_eq!(raw.delete(b"key").status, Status::Ok);
            assert_eq!(raw.delete(b"key").status, Status::NotFound);
            assert_eq!(raw.get(b"key").status, Status::NotFound);
            let request = put(raw, b"key", b"x", Condition::Present, 0);
            let absent = raw.ask(&request);
            assert_eq!((absent.status, absent.csn), (Status::Mismatch, 0));
        }
    });
}

#[test]
fn increment_counts_and_refuses_what_is_no_number() {
    everywhere(|raw| {
        let add = |raw: &mut Raw, key: &'static [u8], by: i64| {
            let request = Request { key, argument: by as u64, ..raw.next(RequestKind::Increment) };
            raw.ask(&request)
        };
        assert_eq!(add(raw, b"n", 5).number, 5);
        assert_eq!(add(raw, b"n", -7).number, -2);
        assert_eq!(raw.get(b"n").value, b"-2");
        raw.put(b"n", i64::MAX.to_string().as_bytes());
        assert_eq!(add(raw, b"n", 1).status, Status::Overflow);
        for text in [&b"007"[..], b"x", &[b'1'; 21], &[b'1'; 5000]] {
            raw.put(b"n", text);
            assert_eq!(add(raw, b"n", 1).status, Status::NotANumber);
        }
        let long: &[u8] = &[b'k'; KEY_MAX];
        let request = Request { key: long, argument: 3, ..raw.next(RequestKind::Increment) };
        assert_eq!(raw.ask(&request).number, 3);
        let request = Request { key: long, argument: 3, ..raw.next(RequestKind::Increment) };
        assert_eq!(raw.ask(&request).number, 6);
        raw.delete(long);
        raw.delete(b"n");
    });
}

#[test]
fn items_expire_and_touch_and_keep_ttl_say_when() {
    everywhere(|raw| {
        for value in [&b"small"[..], &[5; 3000]] {
            let request = Request { key: b"t", value, ttl_ms: 60_000, ..raw.next(RequestKind::Put) };
            let first = raw.ask(&request);
            let left = raw.get(b"t").number;
            assert!((50_000..=60_000).contains(&left), "{left}");
            let keep = Request { key: b"t", value, keep_ttl: true, ..raw.next(RequestKind::Put) };
            assert_eq!(raw.ask(&keep).status, Status::Ok);
            let left = raw.get(b"t").number;
            assert!((50_000..=60_000).contains(&left), "kept: {left}");
            let touch = Request { key: b"t", ttl_ms: 0, ..raw.next(RequestKind::Touch) };
            let touched = raw.ask(&touch);
            assert!(touched.status == Status::Ok && touched.csn > first.csn);
            let got = raw.get(b"t");
            assert_eq!((got.number, got.csn), (0, touched.csn));
            assert_eq!(got.value, value);
            let touch = Request { key: b"t", ttl_ms: 1, ..raw.next(RequestKind::Touch) };
            assert_eq!(raw.ask(&touch).status, Status::Ok);
            until("expiry", || raw.get(b"t").status == Status::NotFound);
            let touch = Request { key: b"t", ttl_ms: 9, ..raw.next(RequestKind::Touch) };
            assert_eq!(raw.ask(&touch).status, Status::NotFound);
            let request = put(raw, b"t", b"again", Condition::Absent, 0);
            assert_eq!(raw.ask(&request).status, Status::Ok);
            assert_eq!(raw.delete(b"t").status, Status::Ok);
        }
        let far = Request { key: b"t", ttl_ms: u64::MAX, ..raw.next(RequestKind::Put) };
        assert_eq!(raw.ask(&far).status, Status::Invalid);
    });
}

#[test]
fn what_expired_is_taken_away_in_the_background() {
    let (server, _) = start(|options| options.expected_items = 100);
    let mut raw = Raw::connect(&server.addresses()[0]);
    for i in 0..100u32 {
        let key = i.to_le_bytes();
        let request = Request { key: &key, value: &[1; 200], ttl_ms: 20, ..raw.next(RequestKind::Put) };
        assert_eq!(raw.ask(&request).status, Status::Ok);
    }
    // The sweep covers all pairs once a minute: one of these few every few seconds. It counts an item just
    // after it is gone.
    until("the sweep", || {
        let stats = server.stats();
        stats.items < 100 && stats.expired > 0
    });
}

#[test]
fn the_largest_items_fit_and_larger_ones_are_refused_by_name() {
    let (server, lines) = start(|options| options.memory = 256 << 20);
    for address in server.addresses().to_vec() {
        let mut raw = Raw::connect(&address);
        let key = vec![b'k'; KEY_MAX];
        let value: Vec<u8> = (0..VALUE_MAX).map(|i| (i / 4096 + i) as u8).collect();
        assert_eq!(raw.put(&key, &value).status, Status::Ok);
        let got = raw.get(&key);
        assert!(got.value == value, "{} bytes came back", got.value.len());
        assert_eq!(raw.delete(&key).status, Status::Ok);
        let over = vec![0; KEY_MAX + 1];
        let request = Request { key: &over, ..raw.next(RequestKind::Put) };
        assert!(raw.send(&request));
        assert_eq!(raw.answer(), None, "a message that no client makes ends the connection");
    }
    let lines = lines.lock().expect("log");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("longer than allowed")), "{lines:?}");
}

#[test]
fn ping_and_stats_answer_and_hints_do_not() {
    let (server, _) = start(|_| {});
    let Address::Shm(_) = &server.addresses()[0] else { panic!("shm comes first") };
    let mut raw = Raw::connect(&server.addresses()[0]);
    let hint = Request { value: &[1; 16], ..Request::new(RequestKind::Hints, 0) };
    assert!(raw.send(&hint));
    assert_eq!(raw.ask(&Request::new(RequestKind::Ping, 9)).status, Status::Ok);
    raw.put(b"a", b"b");
    let text = raw.ask(&Request::new(RequestKind::Stats, 0)).value;
    let stats: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(stats["items"], 1);
    assert_eq!(stats["requests"]["hints"], 1);
    assert_eq!(stats["requests"]["put"], 1);
    assert_eq!(stats["clients"][0]["name"], "raw");
    assert_eq!(stats["csn"], 1);
}
