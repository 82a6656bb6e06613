//! One client, many threads: each operation does what it does alone, threads share few connections, and what
//! befalls one of them does not befall others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use longarm_base::random::SplitMix64;
use longarm_history::{History, Invocation, Operation, OperationOutcome, Value};
use longarm_host::now;

use super::group::{Three, over_tcp};
use super::*;
use crate::{Csn, Error, GroupAt, Put, Reply, Scan, SharedClient, Topology, Write};

const BOUND: Duration = Duration::from_secs(20);

fn shared(address: &Address, connections: usize) -> SharedClient {
    let options = Options { timeout: BOUND, ..Options::default() };
    shared_with(address, connections, options)
}

fn shared_with(address: &Address, connections: usize, options: Options) -> SharedClient {
    SharedClient::over(transports(), Topology::of_one(vec![address.clone()]), options, connections)
}

#[test]
fn every_operation_does_what_it_does_alone_and_among_others() {
    let (server, shm, tcp) = serve(|_| {});
    for address in [&shm, &tcp] {
        let client = shared(address, 1);
        // So many threads at once that most find the connection taken.
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let client = client.clone();
                scope.spawn(move || {
                    for round in 0..30 {
                        one_of_each(&client, format!("{} {thread} {round}", address.transport()).as_bytes());
                    }
                });
            }
        });
        assert_eq!(client.connections(), 1);
        let counters = client.counters().expect("nobody has it");
        assert!(counters.reads > 0 && counters.requests > 0 && counters.reconnects == 0, "{counters:?}");
    }
    assert!(server.stats().clients.len() <= 2, "a connection each");
    stop(server);
}

fn one_of_each(client: &SharedClient, key: &[u8]) {
    assert_eq!(client.get(key).expect("get"), None);
    assert!(!client.exists(key).expect("exists"));
    let first = client.put(key, b"1").expect("put");
    assert_eq!(client.put_if_absent(key, b"2").expect("put"), Put::Mismatch(Some(first)));
    assert_eq!(client.get_versioned(key).expect("get"), Some((b"1".to_vec(), first)));
    let Put::Stored(second) = client.compare_and_set(key, first, b"7").expect("set") else {
        panic!("it has this version")
    };
    assert_eq!(client.get_with(key, |value, csn| (value.len(), csn)).expect("get"), Some((1, second)));
    assert_eq!(client.increment(key, 5).expect("add"), 12);
    let mut into = b"before".to_vec();
    assert!(client.get_into(key, &mut into).expect("get") && into == b"12");
    assert!(client.exists(key).expect("exists"));
    assert!(client.touch(key, Some(Duration::from_secs(900))).expect("touch"));
    let kept = client.compare_and_delete(key, first).expect("delete");
    assert!(matches!(kept, Put::Mismatch(Some(version)) if version > second));
    assert!(client.delete(key).expect("delete"));
    assert_eq!(client.delete_versioned(key).expect("delete"), None);
    let stored = client.put_if_absent_for(key, &[3; 40_000], Duration::from_secs(900)).expect("put");
    assert!(matches!(stored, Put::Stored(_)));
    let absent = [key, b"!"].concat();
    let mut seen = Vec::new();
    let look = client.multi_get(&[key, &absent], |i, found| seen.push((i, found.map(|(v, _)| v.len()))));
    look.expect("multi-get");
    seen.sort_unstable();
    assert_eq!(seen, [(0, Some(40_000)), (1, None)]);
    assert!(matches!(client.write(&Write::delete(key).if_present()), Ok(Reply::Done(_))));
    assert!(matches!(client.put(b"", b""), Err(Error::KeyLength(0))));
    assert!(matches!(client.get(&[0; 1025]), Err(Error::KeyLength(1025))));
}

/// What a thread did, to be judged: each value is written once.
struct Noted {
    client: u32,
    history: History,
    written: u64,
    chance: SplitMix64,
    seen: [Option<(Value, Csn)>; KEYS],
}

const KEYS: usize = 4;

/// Some values fit a slot, some are entries, some are too long for the queue.
fn bytes_of(value: Value) -> Vec<u8> {
    let len = [8, 8, 8, 300, 20_000][value.0 as usize % 5];
    let mut bytes = vec![value.0 as u8; len];
    bytes[..8].copy_from_slice(&value.0.to_le_bytes());
    bytes
}

fn value_of(bytes: &[u8]) -> Value {
    let value = Value(u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")));
    assert_eq!(bytes, bytes_of(value), "whole");
    value
}

impl Noted {
    fn new(client: u32) -> Noted {
        let (history, chance) = (History::default(), SplitMix64::new(u64::from(client)));
        Noted { client, history, written: 0, chance, seen: [None; KEYS] }
    }

    /// Does a random operation; an error that may not come is a panic.
    fn act(&mut self, client: &SharedClient, allowed: impl Fn(&Error) -> bool) {
        let key = self.chance.modulo(KEYS as u64) as usize;
        self.written += 1;
        let new = Value(u64::from(self.client) << 32 | self.written);
        let action = match (self.chance.modulo(10), self.seen[key]) {
            (0..4, _) => Invocation::Get,
            (4..7, _) => Invocation::Put(new),
            (7, Some((expected, _))) => Invocation::Replace { expected, new },
            (8, _) => Invocation::Delete,
            _ => Invocation::PutIfAbsent(new),
        };
        let call = now();
        let told = self.ask(client, key, action);
        let end = now();
        let (outcome, version) = match told {
            Ok(told) => told,
            Err(error) => {
                assert!(allowed(&error), "{error}");
                // A write that has not happened, and a GET, are as if nobody had asked.
                if !error.is_in_doubt() {
                    return;
                }
                (OperationOutcome::InDoubt, None)
            }
        };
        let operation =
            Operation { client: self.client, key: key as u32, action, outcome, call, end, version };
        self.seen[key] = operation.named();
        self.history.push(operation);
    }

    fn ask(
        &mut self,
        client: &SharedClient,
        key: usize,
        action: Invocation,
    ) -> Result<(OperationOutcome, Option<Csn>), Error> {
        let name = key.to_string().into_bytes();
        let conditional = |put| match put {
            Put::Stored(version) => (OperationOutcome::Done, Some(version)),
            Put::Mismatch(_) => (OperationOutcome::Refused, None),
        };
        let found = |found: Option<(Value, Csn)>| match found {
            Some((value, version)) => (OperationOutcome::Found(value), Some(version)),
            None => (OperationOutcome::Absent, None),
        };
        match action {
            Invocation::Get if self.chance.modulo(4) == 0 => {
                let mut got = None;
                let look = client.multi_get(&[&name], |_, found| {
                    got = found.map(|(bytes, version)| (value_of(bytes), version));
                });
                look.map(|()| found(got))
            }
            Invocation::Get => client.get_with(&name, |bytes, version| (value_of(bytes), version)).map(found),
            Invocation::Put(new) => {
                client.put(&name, &bytes_of(new)).map(|version| (OperationOutcome::Done, Some(version)))
            }
            Invocation::PutIfAbsent(new) => client.put_if_absent(&name, &bytes_of(new)).map(conditional),
            Invocation::Replace { new, .. } => {
                let (_, version) = self.seen[key].expect("replaced is what was seen");
                client.compare_and_set(&name, version, &bytes_of(new)).map(conditional)
            }
            Invocation::Delete => client
                .delete(&name)
                .map(|was| (if was { OperationOutcome::Done } else { OperationOutcome::Absent }, None)),
            Invocation::Expire(_) => unreachable!("nobody asks for it"),
        }
    }
}

#[test]
fn threads_that_share_connections_see_one_order_of_each_key() {
    let (server, shm, tcp) = serve(|options| options.lease = Duration::from_millis(50));
    for address in [&shm, &tcp] {
        // The key space is empty at the beginning of a history.
        let mut sole = client(address);
        for key in 0..KEYS {
            sole.delete(key.to_string().as_bytes()).expect("delete");
        }
        let client = shared(address, 2);
        let mut history = History::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=16)
                .map(|number| {
                    let client = client.clone();
                    scope.spawn(move || {
                        let mut noted = Noted::new(number);
                        (0..200).for_each(|_| noted.act(&client, |_| false));
                        noted.history
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| history.merge(thread.join().expect("no panic")));
        });
        assert_eq!(history.len(), 16 * 200);
        history.judge(50_000).unwrap_or_else(|violation| panic!("over {address}: {violation}"));
    }
    stop(server);
}

/// A group loses its leader, twice, while threads share connections to it: one order of each key all the
/// same.
fn share_while_leaders_are_lost(addresses: Vec<Address>) {
    let mut three = Three::start(addresses);
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    let client = SharedClient::over(transports(), Topology::of_one(three.addresses.clone()), options, 2);
    client.put(b"beyond the history", b"the group serves").expect("put");
    let (over, mut history) = (AtomicBool::new(false), History::default());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=12)
            .map(|number| {
                let (client, over) = (client.clone(), &over);
                scope.spawn(move || {
                    let mut noted = Noted::new(number);
                    // Relaxed: a flag that publishes nothing else.
                    while !over.load(Ordering::Relaxed) && noted.written < 3_000 {
                        noted.act(&client, |error| matches!(error, Error::InDoubt(_) | Error::Lost { .. }));
                        longarm_host::sleep(Duration::from_micros(500));
                    }
                    noted.history
                })
            })
            .collect();
        for _ in 0..2 {
            three.whole();
            longarm_host::sleep(Duration::from_millis(100));
            let leader = three.leader();
            drop(three.servers[leader].take());
            client.put(b"beyond the history", b"another leads").expect("put");
            three.start_one(leader);
        }
        longarm_host::sleep(Duration::from_millis(100));
        // Relaxed: as above.
        over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| history.merge(thread.join().expect("no panic")));
    });
    assert!(history.len() > 1_000, "{} operations", history.len());
    history.judge(50_000).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn threads_share_connections_to_a_group_that_loses_leaders() {
    let file = |node| format!("longarm-shared-{}-{node}.sock", std::process::id());
    share_while_leaders_are_lost(
        (0..3).map(|node| Address::Shm(std::env::temp_dir().join(file(node)))).collect(),
    );
    share_while_leaders_are_lost(over_tcp(3));
}

/// The server goes and comes back empty, again and again. Each operation ends in time, with an error that
/// says what is so.
#[test]
fn a_server_that_is_stopped_and_started_under_load_leaves_nobody_waiting() {
    for transport in 0..2 {
        let (server, shm, tcp) = serve(|options| options.lease = Duration::from_millis(20));
        let address = [shm, tcp][transport].clone();
        let options = Options { timeout: Duration::from_millis(500), ..Options::default() };
        let client = shared_with(&address, 2, options);
        let over = AtomicBool::new(false);
        let longest = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8u32)
                .map(|thread| {
                    let (client, over) = (&client, &over);
                    scope.spawn(move || {
                        let (mut longest, mut refused, mut done) = (Duration::ZERO, 0, 0);
                        // Relaxed: a flag that publishes nothing else.
                        while !over.load(Ordering::Relaxed) {
                            let key = thread.to_le_bytes();
                            let begun = Instant::now();
                            let told = match done % 3 {
                                0 => client.get(&key).map(drop),
                                _ => client.put(&key, b"v").map(drop),
                            };
                            longest = longest.max(begun.elapsed());
                            match told {
                                Ok(()) => done += 1,
                                Err(
                                    Error::Lost { .. }
                                    | Error::InDoubt(_)
                                    | Error::Closing
                                    | Error::Busy { .. }
                                    | Error::Unresponsive { .. }
                                    | Error::Connect(_),
                                ) => refused += 1,
                                Err(other) => panic!("{other}"),
                            }
                        }
                        (longest, refused, done)
                    })
                })
                .collect();
            let mut running = Some(server);
            for _ in 0..3 {
                longarm_host::sleep(Duration::from_millis(60));
                stop(running.take().expect("it runs"));
                longarm_host::sleep(Duration::from_millis(100));
                let again = ServerOptions {
                    addresses: vec![address.clone()],
                    memory: 64 << 20,
                    ..ServerOptions::default()
                };
                running = Some(Server::start(again).expect("a server again"));
            }
            longarm_host::sleep(Duration::from_millis(100));
            client.put(b"k", b"v").expect("it is there again");
            // Relaxed: as above.
            over.store(true, Ordering::Relaxed);
            let told: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            stop(running.expect("it runs"));
            assert!(told.iter().all(|(.., done)| *done > 0), "{told:?}");
            assert!(told.iter().any(|(_, refused, _)| *refused > 0), "{told:?}");
            told.into_iter().map(|(longest, ..)| longest).max().expect("threads")
        });
        assert!(longest < Duration::from_secs(5), "over {address} one waited {longest:?}");
    }
}

#[test]
fn a_server_that_is_gone_is_an_error_for_all_in_a_few_timeouts() {
    let (server, shm, tcp) = serve(|_| {});
    let options = Options { timeout: Duration::from_millis(300), ..Options::default() };
    let clients = [&shm, &tcp].map(|address| shared_with(address, 1, options.clone()));
    for client in &clients {
        client.put(b"k", b"v").expect("put");
    }
    stop(server);
    // READs of shared memory count until the lease is over.
    for client in &clients {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..32u32 {
                scope.spawn(move || {
                    let told = client.put(&thread.to_le_bytes(), b"w").expect_err("nobody is there");
                    let known = matches!(
                        told,
                        Error::Lost { .. } | Error::InDoubt(_) | Error::Connect(_) | Error::Busy { .. }
                    );
                    assert!(known || matches!(told, Error::Closing), "{told}");
                });
            }
        });
        assert!(begun.elapsed() < Duration::from_secs(6), "after {:?}", begun.elapsed());
    }
}

#[test]
fn a_closure_that_panics_harms_nobody_else() {
    let (server, shm, tcp) = serve(|_| {});
    for address in [&shm, &tcp] {
        let client = shared(address, 1);
        client.put(b"k", b"v").expect("put");
        let count = || {
            for _ in 0..100 {
                client.increment(b"count", 1).expect("others go on");
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            for _ in 0..10 {
                let shown = || client.get_with(b"k", |_, _| panic!("on purpose"));
                assert!(catch_unwind(AssertUnwindSafe(shown)).is_err());
                let used = || client.with(|_| panic!("on purpose"));
                assert!(catch_unwind(AssertUnwindSafe(used)).is_err());
            }
            others.into_iter().for_each(|other| other.join().expect("no panic"));
        });
        assert_eq!(client.get(b"count").expect("get"), Some(b"400".to_vec()));
        assert!(client.delete(b"count").expect("delete"));
        assert!(client.counters().expect("free").requests >= 400, "those of earlier connections count, too");
    }
    stop(server);
}

#[test]
fn what_is_shown_was_left_and_may_use_the_client() {
    let (server, shm, _) = serve(|_| {});
    let client = shared(&shm, 1);
    client.put(b"a", b"1").expect("put");
    let inner = client.get_with(b"a", |outer, _| {
        client.put(b"b", outer).expect("put within");
        client.get_with(b"b", |inner, _| (outer.to_vec(), inner.to_vec())).expect("get within")
    });
    let same = b"1".to_vec();
    assert_eq!(inner.expect("get"), Some(Some((same.clone(), same))));
    client.multi_get(&[b"a", b"b"], |_, _| drop(client.get(b"a").expect("get within"))).expect("multi-get");
    stop(server);
}

#[test]
fn what_waits_in_vain_for_a_connection_was_not_executed() {
    let (server, shm, tcp) = serve(|_| {});
    for address in [&shm, &tcp] {
        let options = Options { timeout: Duration::from_millis(100), ..Options::default() };
        let client = shared_with(address, 1, options);
        client.put(b"k", b"v").expect("connects");
        client
            .with(|mine| {
                let (begun, long) = (Instant::now(), vec![0; 100_000]);
                let all: [&(dyn Fn() -> Option<Error> + Sync); 5] = [
                    &|| client.put(b"late", b"v").err(),
                    &|| client.put(b"late", &long).err(),
                    &|| client.get(b"k").err(),
                    &|| client.with(|_| ()).err(),
                    &|| client.multi_get(&[b"k"], |_, _| ()).err(),
                ];
                std::thread::scope(|scope| {
                    let asked = all.map(|ask| scope.spawn(ask));
                    for told in asked.map(|thread| thread.join().expect("no panic")) {
                        let told = told.expect("the connection is taken");
                        assert!(matches!(told, Error::Busy { .. }) && !told.is_in_doubt(), "{told}");
                    }
                });
                assert!(begun.elapsed() >= Duration::from_millis(100) && begun.elapsed() < BOUND);
                assert_eq!(mine.get(b"late").expect("get"), None);
            })
            .expect("nobody has it");
        assert_eq!(client.get(b"late").expect("get"), None, "nor later");
        assert_eq!(client.get(b"k").expect("get"), Some(b"v".to_vec()));
    }
    stop(server);
}

#[test]
fn values_of_every_length_come_whole_to_all_threads() {
    let (server, shm, tcp) = serve(|options| options.memory = 256 << 20);
    for address in [&shm, &tcp] {
        let client = shared(address, 1);
        let lens = [0, 1, 5_000, 70_000, 400_000, 3 << 20];
        let key = |len: usize| format!("long {len}").into_bytes();
        for len in lens {
            client.put(&key(len), &vec![len as u8; len]).expect("put");
        }
        let keys = lens.map(key);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (client, keys) = (&client, &keys);
                scope.spawn(move || {
                    for round in 0..6 {
                        let len = lens[(thread + round) % lens.len()];
                        let got = client.get(&key(len)).expect("get").expect("it is there");
                        assert!(got.len() == len && got.iter().all(|byte| *byte == len as u8));
                        let mut shown = [0; 6];
                        let look = client.multi_get(keys, |i, found| {
                            let (value, _) = found.expect("it is there");
                            assert!(
                                value.len() == lens[i] && value.iter().all(|byte| *byte == lens[i] as u8)
                            );
                            shown[i] += 1;
                        });
                        look.expect("multi-get");
                        assert_eq!(shown, [1; 6]);
                    }
                });
            }
        });
    }
    stop(server);
}

#[test]
fn a_cluster_is_shared_too_and_a_group_that_is_gone_holds_up_its_own_keys_alone() {
    let (one, shm, _) = serve(|_| {});
    let (other, _, tcp) = serve(|_| {});
    let groups = [shm, tcp].map(|address| GroupAt { id: 0, addresses: vec![address] });
    let topology = Topology::new(5, groups.to_vec());
    let options = Options { timeout: Duration::from_millis(400), ..Options::default() };
    let client = SharedClient::over(transports(), topology, options, 2);
    let key = |thread: u32, i: u32| format!("{thread} {i}").into_bytes();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let client = &client;
            scope.spawn(move || {
                for i in 0..50 {
                    client.put(&key(thread, i), &i.to_le_bytes()).expect("put");
                    let got = client.get(&key(thread, i)).expect("get");
                    assert_eq!(got, Some(i.to_le_bytes().to_vec()));
                }
                let keys: Vec<_> = (0..50).map(|i| key(thread, i)).collect();
                let mut found = 0;
                client.multi_get(&keys, |_, got| found += u32::from(got.is_some())).expect("multi-get");
                assert_eq!(found, 50);
            });
        }
    });
    assert!(one.stats().items > 100 && other.stats().items > 100);
    stop(other);
    let (mut there, mut gone) = (0, 0);
    for i in 0..20 {
        let told = client.put(&key(0, i), b"again");
        match client.topology().group_of(&key(0, i)) {
            0 => there += u32::from(told.is_ok()),
            _ => gone += u32::from(told.is_err()),
        }
        if there > 2 && gone > 1 {
            break;
        }
    }
    assert!(there > 2 && gone > 1, "{there} {gone}");
    assert!(
        client
            .with(|client| client.scan(&Scan::all()).next().is_some_and(|first| first.is_err()))
            .expect("free")
    );
    stop(one);
}

#[test]
fn a_client_is_cheap_to_clone_and_of_no_thread() {
    fn is_shared<C: Clone + Send + Sync + 'static>() {}
    is_shared::<SharedClient>();
    let nobody =
        SharedClient::new(Topology::of_one(vec!["tcp://127.0.0.1:1".parse().expect("an address")]), {
            Options { connect_timeout: Duration::from_millis(50), ..Options::default() }
        });
    assert_eq!(nobody.clone().connections(), longarm_host::cores());
    assert_eq!(nobody.counters().expect("free").reads, 0, "nothing connects before it must");
    assert!(matches!(nobody.get(b"k"), Err(Error::Connect(_))));
}
