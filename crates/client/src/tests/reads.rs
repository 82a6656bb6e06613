//! The number of READs of an operation, counted by the hook (`docs/paths.md`: one, two, cached one).

use longarm_index::hash::Discipline;

use super::*;
use crate::side::Side;

fn no_cache() -> Options {
    Options { cache: Some(0), hint_every: 0, ..Options::default() }
}

#[test]
fn a_get_of_an_inline_item_is_one_read_of_a_larger_one_two_and_a_miss_two() {
    let (server, ..) = serve(|_| {});
    for address in posted(&server) {
        costs_of_gets(address);
    }
    stop(server);
}

fn costs_of_gets(address: &Address) {
    let (mut client, counts) = counted(address, no_cache());
    client.put(b"small", b"value").expect("put");
    client.put(b"large", &[7; 1000]).expect("put");
    let mut cost = |key: &[u8]| {
        let before = counts.see();
        let found = client.get(key).expect("get").is_some();
        let after = counts.see();
        (
            found,
            after.reads - before.reads,
            after.read_bytes - before.read_bytes,
            after.write_imms - before.write_imms,
        )
    };
    assert_eq!(cost(b"small"), (true, 1, 704, 0));
    assert_eq!(cost(b"large"), (true, 2, 704 + 1048, 0));
    assert_eq!(cost(b"absent"), (false, 2, 704 + 64, 0));
}

/// The same where the index replaces records out of place. Where a slot has the fingerprint of a missing key,
/// the second READ is that of the whole window.
#[test]
fn out_of_place_a_get_takes_as_many_reads() {
    let (server, ..) = serve(|options| options.discipline = Discipline::OutOfPlace);
    for address in posted(&server) {
        let (mut client, counts) = counted(address, no_cache());
        client.put(b"small", b"value").expect("put");
        client.put(b"large", &[7; 1000]).expect("put");
        let (none, one) = missing(&mut client);
        let mut cost = |key: &[u8]| {
            let before = counts.see();
            let found = client.get(key).expect("get").is_some();
            let after = counts.see();
            (found, after.reads - before.reads, after.read_bytes - before.read_bytes)
        };
        for _ in 0..3 {
            assert_eq!(cost(b"small"), (true, 1, 704));
            assert_eq!(cost(b"large"), (true, 2, 704 + 1048));
            assert_eq!(cost(&none), (false, 2, 704 + 64));
            assert_eq!(cost(&one), (false, 2, 2 * 704));
        }
    }
    for address in posted(&server) {
        costs_of_repeats(address);
    }
    stop(server);
}

/// Two keys that are missing in the bucket of `small`: one of another fingerprint, and one of the same.
fn missing<T: Transport>(client: &mut Client<T>) -> (Vec<u8>, Vec<u8>) {
    let link = client.link.as_ref().expect("it is connected");
    let table = link.view().geometry.tables[0].expect("a table");
    let hash = link.hasher.hash(b"small");
    let key = |is_like: bool| {
        let keys = (0u64..).map(u64::to_le_bytes);
        let mut missing = keys.map(|key| (key, link.hasher.hash(&key))).filter(|(_, other)| {
            table.home(*other) == table.home(hash) && (other.fingerprint() == hash.fingerprint()) == is_like
        });
        missing.next().expect("there are enough").0.to_vec()
    };
    (key(false), key(true))
}

#[test]
fn a_get_can_be_asked_of_the_server() {
    let (server, ..) = serve(|_| {});
    for address in posted(&server) {
        for get_side in [Some(Side::Server), None] {
            asks_the_server(address, Options { get_side, ..no_cache() });
        }
    }
    stop(server);
}

fn asks_the_server(address: &Address, options: Options) {
    let always = options.get_side.is_some();
    let (mut client, counts) = counted(address, options);
    client.put(b"large", &[7; 1000]).expect("put");
    let before = counts.see();
    for round in 0..400u32 {
        client.put(b"small", &round.to_le_bytes()).expect("put");
        assert_eq!(client.get(b"small").expect("get"), Some(round.to_le_bytes().to_vec()));
        assert_eq!(client.get(b"large").expect("get"), Some(vec![7; 1000]));
        assert_eq!(client.get(b"absent").expect("get"), None);
    }
    let (after, served) = (counts.see(), client.counters().served);
    if always {
        assert_eq!(served, 1200);
        assert!(after.reads - before.reads < 100, "the heartbeat alone is READ");
    } else {
        assert!((1..1200).contains(&served), "the selector tries both sides: {served} of 1200");
    }
}

#[test]
fn a_repeat_get_is_one_read() {
    let (server, ..) = serve(|_| {});
    for address in posted(&server) {
        costs_of_repeats(address);
    }
    stop(server);
}

fn costs_of_repeats(address: &Address) {
    let (mut client, counts) = counted(address, Options { hint_every: 0, ..Options::default() });
    client.put(b"small", b"value").expect("put");
    client.put(b"large", &[7; 1000]).expect("put");
    for key in [&b"small"[..], b"large"] {
        client.get(key).expect("get");
        let before = counts.see();
        assert!(client.get(key).expect("get").is_some());
        assert_eq!(counts.see().reads - before.reads, 1, "a remembered place is read alone");
    }
    // A newer value is seen at once, whatever place was remembered.
    client.put(b"large", &[8; 1000]).expect("put");
    client.put(b"small", b"other").expect("put");
    assert_eq!(client.get(b"large").expect("get"), Some(vec![8; 1000]));
    assert_eq!(client.get(b"small").expect("get"), Some(b"other".to_vec()));
    client.delete(b"small").expect("delete");
    client.delete(b"large").expect("delete");
    assert_eq!(client.get(b"small").expect("get"), None);
    assert_eq!(client.get(b"large").expect("get"), None);
}

#[test]
fn a_lease_is_renewed_beside_the_item() {
    let lease = Duration::from_millis(100);
    let (server, ..) = serve(|options| options.lease = lease);
    for address in posted(&server) {
        let (mut client, counts) = counted(address, no_cache());
        client.put(b"small", b"value").expect("put");
        let mut costs = Vec::new();
        for _ in 0..1_000 {
            let (before, renewals) = (counts.see(), client.counters().renewals);
            assert!(client.get(b"small").expect("get").is_some());
            let after = counts.see();
            if client.counters().renewals > renewals {
                costs.push((after.reads - before.reads, after.rings - before.rings));
            }
            longarm_host::sleep(lease / 100);
        }
        // A machine that is busy otherwise may be late now and then.
        let once = costs.iter().filter(|cost| **cost == (2, 1)).count();
        assert!(costs.len() >= 5 && 2 * once > costs.len(), "one round trip: {costs:?}");
    }
    stop(server);
}

#[test]
fn a_batch_is_one_doorbell() {
    let (server, ..) = serve(|_| {});
    for address in posted(&server) {
        doorbells_of_a_batch(address);
    }
    stop(server);
}

fn doorbells_of_a_batch(address: &Address) {
    let (mut client, counts) = counted(address, no_cache());
    let keys: Vec<Vec<u8>> = (0..32).map(|i| format!("key{i}").into_bytes()).collect();
    for key in &keys {
        client.put(key, b"v").expect("put");
    }
    let before = counts.see();
    let mut found = 0;
    client.multi_get(&keys, |_, value| found += usize::from(value.is_some())).expect("multi-get");
    let after = counts.see();
    assert_eq!((found, after.reads - before.reads, after.rings - before.rings), (32, 32, 1));
}

/// Slots, entries of one line, of several and of more than a landing area, and keys that are not there, side
/// by side and in more than one batch: each lands where no other does.
#[test]
fn a_batch_of_items_of_every_kind_comes_back() {
    const LENGTHS: [usize; 8] = [0, 8, 30, 40, 64, 200, 3_000, 6_000];
    for slots in [longarm_index::hash::SlotKind::Inline64, longarm_index::hash::SlotKind::Pointer16] {
        let (server, shm, tcp) = serve(|options| options.slots = slots);
        for address in [&shm, &tcp] {
            let mut client = client(address);
            let keys: Vec<Vec<u8>> = (0..150).map(|i| format!("kind {i}").into_bytes()).collect();
            let value = |i: usize| (i % 9 != 8).then(|| vec![i as u8; LENGTHS[i % 9]]);
            for (i, key) in keys.iter().enumerate() {
                if let Some(value) = value(i) {
                    client.put(key, &value).expect("put");
                }
            }
            let mut seen = vec![0; keys.len()];
            let shown = client.multi_get(&keys, |i, found| {
                assert_eq!(found.map(|(bytes, _)| bytes.to_vec()), value(i), "key {i} over {address}");
                seen[i] += 1;
            });
            shown.expect("multi-GET");
            assert!(seen.iter().all(|times| *times == 1), "each key once: {seen:?}");
        }
        stop(server);
    }
}

#[test]
fn slots_of_sixteen_bytes_cost_two_reads_of_less() {
    let (server, _, tcp) = serve(|options| options.slots = longarm_index::hash::SlotKind::Pointer16);
    let (mut client, counts) = counted(&tcp, no_cache());
    client.put(b"small", b"value").expect("put");
    let before = counts.see();
    assert_eq!(client.get(b"small").expect("get"), Some(b"value".to_vec()));
    let after = counts.see();
    assert_eq!((after.reads - before.reads, after.read_bytes - before.read_bytes), (2, 256 + 64));
    drop(client);
    stop(server);
}
