//! Every operation, every size, over both transports.

use std::time::Instant;

use longarm_index::hash::layout::Header;
use longarm_index::hash::{Discipline, SlotKind};
use longarm_memory::CopiedWords;

use super::group::{crowd, others};
use super::*;
use crate::walk::records;
use crate::{Error, IN_FLIGHT_MAX, Put, Reply, Write};

/// Whether an address is tested: on a machine with devices, other transports have been tested elsewhere, and
/// time is precious.
fn counts(address: &&Address) -> bool {
    !rdma::is_there() || matches!(address, Address::Verbs(_))
}

fn over_each(change: impl Fn(&mut ServerOptions), test: impl Fn(&mut Client, &Address)) {
    let (server, ..) = serve(change);
    for address in server.addresses().iter().filter(counts) {
        test(&mut client(address), address);
    }
    stop(server);
}

/// Runs the test over each address, with a new server for each.
fn over_each_anew(change: impl Fn(&mut ServerOptions), test: impl Fn(&mut Client, &Address)) {
    for at in 0.. {
        let (server, ..) = serve(&change);
        let address = server.addresses().iter().filter(counts).nth(at).cloned();
        if let Some(address) = &address {
            test(&mut client(address), address);
        }
        stop(server);
        if address.is_none() {
            return;
        }
    }
}

#[test]
fn values_of_every_size_come_back() {
    let kinds = [SlotKind::Inline64, SlotKind::Pointer16];
    let disciplines = [Discipline::InPlace, Discipline::OutOfPlace];
    for (slots, discipline) in kinds.into_iter().flat_map(|slots| disciplines.map(|of| (slots, of))) {
        let change = |options: &mut ServerOptions| {
            (options.slots, options.discipline) = (slots, discipline);
            options.memory = 256 << 20;
        };
        over_each(change, |client, address| {
            let sizes = [0usize, 1, 31, 32, 43, 44, 48, 49, 1000, 4000, 5000, 70_000, 600_000, 3 << 20];
            // What is so large is an entry in each kind of slot, and takes its time in an emulated machine.
            let largest =
                (slots == SlotKind::Pointer16 && discipline == Discipline::InPlace).then_some(20 << 20);
            for size in sizes.into_iter().chain(largest) {
                let key = format!("size {size} over {}", address.transport());
                let value: Vec<u8> = (0..size).map(|i| (i * 7 + size) as u8).collect();
                client.put(key.as_bytes(), &value).expect("put");
                assert!(client.get(key.as_bytes()).expect("get").as_ref() == Some(&value), "{key}");
                assert!(client.delete(key.as_bytes()).expect("delete"));
                assert_eq!(client.get(key.as_bytes()).expect("get"), None);
            }
        });
    }
}

#[test]
fn a_long_value_goes_on_when_room_comes_back_in_silence() {
    // The ring has more room than a transport takes at once: the server has nothing to say meanwhile.
    let change = |options: &mut ServerOptions| options.ring_bytes = 4 << 20;
    over_each(change, |client, _| {
        let value: Vec<u8> = (0..3 << 20).map(|i| (i / 7) as u8).collect();
        client.put(b"long", &value).expect("put");
        assert!(client.get(b"long").expect("get").as_ref() == Some(&value));
    });
}

#[test]
fn limits_are_said() {
    over_each(
        |_| {},
        |client, address| {
            assert!(matches!(client.put(b"", b"v"), Err(Error::KeyLength(0))));
            assert!(matches!(client.get(&[1; 1025]), Err(Error::KeyLength(1025))));
            assert!(matches!(client.put(b"k", &vec![0; (64 << 20) + 1]), Err(Error::ValueLength(_))));
            let longest = [address.transport().as_bytes()[0]; 1024];
            assert_eq!(client.get(&longest).expect("get"), None);
            client.put(&longest, b"longest key").expect("put");
            assert_eq!(client.get(&longest).expect("get"), Some(b"longest key".to_vec()));
        },
    );
}

#[test]
fn conditions_numbers_and_versions() {
    over_each(
        |_| {},
        |client, address| {
            let key = address.transport().as_bytes();
            let Put::Stored(one) = client.put_if_absent(key, b"1").expect("put") else { panic!("absent") };
            assert_eq!(client.put_if_absent(key, b"2").expect("put"), Put::Mismatch(Some(one)));
            let Put::Stored(two) = client.compare_and_set(key, one, b"41").expect("cas") else {
                panic!("same")
            };
            assert!(two > one);
            assert_eq!(client.compare_and_set(key, one, b"3").expect("cas"), Put::Mismatch(Some(two)));
            assert_eq!(client.increment(key, 1).expect("increment"), 42);
            assert_eq!(client.get(key).expect("get"), Some(b"42".to_vec()));
            assert!(matches!(client.increment(key, i64::MAX), Err(Error::Overflow)));
            client.put(b"text", b"4x").expect("put");
            assert!(matches!(client.increment(b"text", 1), Err(Error::NotANumber)));
            let (value, version) = client.get_versioned(key).expect("get").expect("there");
            assert_eq!(value, b"42");
            let mismatch = client.compare_and_delete(key, two).expect("delete");
            assert_eq!(mismatch, Put::Mismatch(Some(version)));
            let Put::Stored(gone) = client.compare_and_delete(key, version).expect("delete") else {
                panic!("same")
            };
            assert!(gone > version);
            assert_eq!(client.delete_versioned(key).expect("delete"), None);
            let minute = Duration::from_secs(60);
            let Put::Stored(three) = client.put_if_absent_for(key, b"7", minute).expect("put") else {
                panic!("absent")
            };
            let there = client.put_if_absent_for(key, b"8", minute).expect("put");
            assert_eq!(there, Put::Mismatch(Some(three)));
            let (sum, four) = client.increment_versioned(key, 1).expect("increment");
            assert_eq!(client.get_versioned(key).expect("get"), Some((b"8".to_vec(), four)));
            assert!(sum == 8 && four > three && client.delete_versioned(key).expect("delete") > Some(four));
            assert!(!client.delete(key).expect("delete") && !client.exists(key).expect("exists"));
        },
    );
}

#[test]
fn items_expire_for_one_sided_readers_too() {
    over_each(
        |options| options.lease = Duration::from_millis(20),
        |client, _| {
            for (key, value) in [(&b"inline"[..], vec![1; 4]), (b"entry", vec![1; 500])] {
                client.put_for(key, &value, Duration::from_millis(150)).expect("put");
                assert!(client.exists(key).expect("exists"));
            }
            client.put_for(b"kept", b"v", Duration::from_millis(150)).expect("put");
            assert!(client.touch(b"kept", None).expect("touch"));
            let start = Instant::now();
            while client.exists(b"inline").expect("exists") || client.exists(b"entry").expect("exists") {
                assert!(start.elapsed() < Duration::from_secs(5), "it never expires");
            }
            assert!(start.elapsed() > Duration::from_millis(50));
            assert!(client.exists(b"kept").expect("exists"));
        },
    );
}

/// Clients see heartbeats of different ages, and no client shows an item that another client saw gone.
#[test]
fn an_item_that_was_gone_is_gone_for_everybody() {
    over_each(
        |options| options.lease = Duration::from_millis(100),
        |client, address| {
            let mut other = super::client(address);
            for i in 0..24u32 {
                let key = i.to_le_bytes();
                let ttl = Duration::from_millis(u64::from(20 + i));
                let start = Instant::now();
                client.put_for(&key, b"value", ttl).expect("put");
                let mut gone = false;
                while !gone || start.elapsed() < ttl + Duration::from_millis(60) {
                    assert!(start.elapsed() < Duration::from_secs(5), "it never expires");
                    let mut seen = [client.get(&key).expect("get").is_some(), false, false];
                    seen[1] = other.exists(&key).expect("exists");
                    other.multi_get(&[&key], |_, value| seen[2] = value.is_some()).expect("multi-get");
                    for there in seen {
                        assert!(!(there && gone), "{i} is there again after {:?}: {seen:?}", start.elapsed());
                        assert!(
                            there || start.elapsed() + Duration::from_millis(1) > ttl,
                            "{i} is gone too soon"
                        );
                        gone |= !there;
                    }
                }
            }
        },
    );
}

#[test]
fn pipelined_writes_come_back_with_their_tickets() {
    over_each(
        |_| {},
        |client, _| {
            let mut open = std::collections::HashMap::new();
            for i in 0..1000u32 {
                let (key, value) = (format!("pipe{i}"), i.to_le_bytes());
                loop {
                    match client.submit(&Write::put(key.as_bytes(), &value)) {
                        Ok(ticket) => {
                            open.insert(ticket, i);
                            break;
                        }
                        Err(Error::Full) => {
                            if let Some((ticket, outcome)) = client.poll() {
                                assert!(
                                    matches!(outcome, Ok(Reply::Done(_))) && open.remove(&ticket).is_some()
                                );
                            }
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            let start = Instant::now();
            while !open.is_empty() {
                assert!(start.elapsed() < Duration::from_secs(20));
                if let Some((ticket, outcome)) = client.poll() {
                    assert!(matches!(outcome, Ok(Reply::Done(_))) && open.remove(&ticket).is_some());
                }
            }
            let keys: Vec<String> = (0..1000).map(|i| format!("pipe{i}")).collect();
            let mut seen = 0;
            let check = |i: usize, value: Option<(&[u8], crate::Csn)>| {
                assert_eq!(value.expect("there").0, (i as u32).to_le_bytes());
                seen += 1;
            };
            client.multi_get(&keys, check).expect("multi-get");
            assert_eq!(seen, 1000);
        },
    );
}

/// A caller submits, never polls, and makes blocking calls, which take the answers of the others, too.
#[test]
fn outcomes_that_nobody_fetches_have_a_limit() {
    over_each(
        |_| {},
        |client, _| {
            let mut submitted = 0;
            for _ in 0..3 * IN_FLIGHT_MAX {
                match client.submit(&Write::put(b"k", b"v")) {
                    Ok(_) => submitted += 1,
                    Err(Error::Full) => {}
                    Err(error) => panic!("{error}"),
                }
                client.put(b"other", b"v").expect("a blocking call goes on");
            }
            assert_eq!(submitted, IN_FLIGHT_MAX);
            assert!(matches!(client.poll(), Some((_, Ok(Reply::Done(_))))));
            client.submit(&Write::put(b"k", b"v")).expect("there is room for one more outcome");
        },
    );
}

/// The answer to a write came while the client waited for a READ. No arrival after it would have the client
/// look.
#[test]
fn an_answer_that_came_during_a_get_is_there() {
    over_each(
        |_| {},
        |client, _| {
            for i in 0..20u32 {
                let value = i.to_le_bytes();
                let ticket = client.submit(&Write::put(b"k", &value)).expect("submit");
                let start = Instant::now();
                while client.get(b"k").expect("get").as_deref() != Some(&value[..]) {
                    assert!(start.elapsed() < Duration::from_secs(20), "{i} is not written");
                }
                std::thread::park_timeout(Duration::from_millis(1));
                client.get(b"k").expect("get");
                assert!(matches!(client.wait(ticket), Ok(Reply::Done(_))), "{i}");
            }
        },
    );
}

/// The table grows several times during the walk, so the tables with which the walk began are given back.
#[test]
fn a_walk_sees_everything_that_is_there_throughout_while_the_table_grows() {
    over_each_anew(
        |options| options.expected_items = 100,
        |client, address| {
            let name = |i: u32| format!("item {i}").into_bytes();
            for i in 0..1000u32 {
                let value = vec![i as u8; if i.is_multiple_of(5) { 300 } else { 8 }];
                client.put(&name(i), &value).expect("put");
            }
            let tables = |client: &mut Client| {
                client.exists(b"a READ, for which the geometry must be known").expect("get");
                let live = client.link.as_ref().expect("connected").geometry;
                live.live().map(|table| table.id).collect::<Vec<_>>()
            };
            let (before, mut other) = (tables(client), Client::connect(address, Options::default()));
            let other = other.as_mut().expect("connect");
            let (mut seen, mut more) = (std::collections::BTreeSet::new(), 0u32);
            let walked = client.walk(|item| {
                seen.insert(item.key);
                for _ in 0..if more < 13_000 { 25 } else { 0 } {
                    other.put(format!("more {more}").as_bytes(), b"value").expect("put");
                    more += 1;
                }
                true
            });
            walked.expect("walk");
            let after = tables(other);
            assert!(before.iter().all(|id| !after.contains(id)), "{before:?} are given back: {after:?}");
            let missing = (0..1000).filter(|&i| !seen.contains(&name(i))).count();
            assert_eq!(missing, 0, "items that were there throughout");
        },
    );
}

/// A walk copied a pair of which a slot was just written, or whose item moved between two READs: what did not
/// verify was left out without a word.
#[test]
fn a_walk_looks_again_at_a_pair_of_which_it_has_no_whole_copy() {
    over_each(
        |_| {},
        |client, _| {
            client.put(b"there throughout", b"value").expect("put");
            let table = *client.link.as_ref().expect("connected").geometry.live().next().expect("a table");
            let (deadline, none) = (client.deadline(), Header::parse(&[0; 64]));
            let sums = client.link.as_ref().expect("connected").sums.clone();
            let found = |window: &CopiedWords, pair: u64| {
                let mut found = 0;
                records(window, &table, pair, &sums, |_| found += 1).map(|()| found)
            };
            let mut copies = (0..table.pairs).map(|pair| {
                (pair, client.whole_table_window(&table, pair, &none, &deadline).expect("it is served"))
            });
            let is_it = |(pair, window): &(u64, CopiedWords)| found(window, *pair) == Ok(1);
            let (pair, mut window) = copies.find(is_it).expect("the pair of the one item");
            let at = window.bytes.windows(16).position(|bytes| bytes == b"there throughout");
            window.bytes[at.expect("the key is in the slot")] ^= 1;
            assert!(found(&window, pair).expect_err("half of it is new").contains("do not verify"));
        },
    );
}

/// One client finds keys that belong to one pair of the index. It is refused the last of them at once, and no
/// other client is refused anything.
#[test]
fn keys_of_one_hash_are_refused_and_others_are_not() {
    let (server, address, _) = serve(|_| {});
    let mut client = Client::connect(&address, Options::default()).expect("connect");
    client.exists(b"a READ, for which the geometry must be known").expect("get");
    let link = client.link.as_ref().expect("connected");
    let table = *link.geometry.live().next().expect("a table");
    let crowd = crowd(&link.hasher, |hash| table.home(hash), 100);
    let fits = crowd.iter().take_while(|key| client.put(key, b"value").is_ok()).count();
    assert!((20..=32).contains(&fits), "{fits}");
    let began = Instant::now();
    for key in &crowd[fits..] {
        assert!(matches!(client.put(key, b"value"), Err(Error::Crowded)));
    }
    assert!(began.elapsed() < Duration::from_secs(1), "nothing is waited for");
    // The key that was refused first was asked for twice.
    assert_eq!(server.stats().crowded, 1 + crowd.len() as u64 - fits as u64);
    others(&mut client, 1_000);
    assert!(client.delete(&crowd[0]).expect("delete"));
    client.put(&crowd[fits], b"value").expect("there is room again");
}
