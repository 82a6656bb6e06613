//! Connections that break, servers that go, and readers among writers.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use longarm_fabric::hook::{Faults, Faulty};

use super::*;
use crate::{Error, Reply, Write};

/// Every increment is acknowledged and counted once, however often the connection breaks (L17, I14).
#[test]
fn increments_are_executed_once_over_broken_connections() {
    let (server, shm, tcp) = serve(|_| {});
    for (address, seeds) in [(&shm, 0..12u64), (&tcp, 12..24)] {
        for seed in seeds {
            let next = AtomicU64::new(0);
            let transport = Wrapping(move |qp| {
                // Relaxed: a number that no other thread draws. Every connection breaks at another request.
                let n = next.fetch_add(1, Ordering::Relaxed);
                Faulty::new(
                    qp,
                    Faults {
                        seed: seed ^ n,
                        cut_at: Some(3 + (seed * 7 + n * 13) % 40),
                        ..Faults::default()
                    },
                )
            });
            let options = Options { timeout: Duration::from_secs(20), hint_every: 0, ..Options::default() };
            let mut client = Client::connect_over(transport, address, options).expect("connects");
            let key = format!("counter {seed}").into_bytes();
            for i in 1..=150i64 {
                assert_eq!(client.increment(&key, 1).expect("acknowledged"), i, "seed {seed}");
            }
            assert!(client.counters().reconnects > 1, "the fault fired: {:?}", client.counters());
            let mut sound = super::client(address);
            assert_eq!(sound.get(&key).expect("get"), Some(b"150".to_vec()));
        }
    }
    stop(server);
}

/// An answer that cannot be read ends its connection and has no other effect. The client revoked the server,
/// which over shared memory kills a server of another process.
#[test]
fn an_answer_that_cannot_be_read_ends_its_connection_and_nothing_else() {
    let (server, shm, tcp) = serve(|_| {});
    for address in [&shm, &tcp] {
        let (next, counts) = (AtomicU64::new(0), Arc::new(QueuePairCounts::default()));
        let shared = counts.clone();
        let transport = Wrapping(move |qp| {
            // Relaxed: a number that no other thread draws.
            let garble_at = Some(5 * next.fetch_add(1, Ordering::Relaxed));
            Counted::new(Faulty::new(qp, Faults { garble_at, ..Faults::default() }), shared.clone())
        });
        let options = Options { timeout: Duration::from_secs(20), hint_every: 0, ..Options::default() };
        let mut client = Client::connect_over(transport, address, options).expect("connects");
        let key = format!("counter over {}", address.transport()).into_bytes();
        for i in 1..=100i64 {
            assert_eq!(client.increment(&key, 1).expect("acknowledged"), i);
        }
        assert!(client.counters().reconnects > 3, "the fault fired: {:?}", client.counters());
        assert_eq!(counts.see().revocations, 0, "over {}", address.transport());
    }
    stop(server);
}

/// The server is stopped: the kernel takes connections for it, and nobody answers. The client waited for as
/// long as it may take to connect, whatever the bound on the operation was.
#[test]
fn a_server_that_says_nothing_is_an_error_in_time() {
    let (server, _, tcp) = serve(|_| {});
    let options = Options { timeout: Duration::from_millis(300), ..Options::default() };
    let mut client = Client::connect(&tcp, options).expect("connects");
    client.put(b"k", b"v").expect("put");
    stop(server);
    let Address::Tcp(at) = &tcp else { unreachable!("the second address is tcp") };
    let _mute = std::net::TcpListener::bind(at).expect("the port is free again");
    let start = Instant::now();
    let lost = client.put(b"k", b"w").expect_err("nobody answers");
    assert!(matches!(lost, Error::Lost { .. } | Error::InDoubt(_)), "{lost:?}");
    assert!(start.elapsed() < Duration::from_secs(3), "after {:?}", start.elapsed());
}

#[test]
fn a_server_that_went_is_an_error_in_time_and_its_return_is_noticed() {
    let (server, shm, _) = serve(|options| options.lease = Duration::from_millis(10));
    let options = Options { timeout: Duration::from_millis(300), ..Options::default() };
    let mut client = Client::connect(&shm, options).expect("connects");
    client.put(b"k", b"v").expect("put");
    stop(server);
    let start = Instant::now();
    // Until the lease is over its memory may still be read: the server was the last to tell the truth.
    let lost = loop {
        match client.get(b"k") {
            Ok(_) => assert!(start.elapsed() < Duration::from_millis(500), "read past the lease"),
            Err(error) => break error,
        }
    };
    assert!(matches!(lost, Error::Lost { .. }), "{lost:?}");
    let outcome = client.put(b"k", b"w");
    assert!(matches!(outcome, Err(Error::Lost { .. } | Error::InDoubt(_) | Error::Closing)), "{outcome:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "within the timeouts");
    let again = ServerOptions { addresses: vec![shm.clone()], memory: 64 << 20, ..ServerOptions::default() };
    let server = Server::start(again).expect("a server again");
    assert_eq!(client.get(b"k").expect("connects again"), None, "its memory was volatile");
    stop(server);
}

#[test]
fn a_goodbye_is_noticed_by_readers_under_a_long_lease() {
    let (server, shm, tcp) = serve(|options| options.lease = Duration::from_millis(10));
    let options = Options { timeout: Duration::from_millis(200), ..Options::default() };
    let mut clients: Vec<Client> =
        [&shm, &tcp].map(|a| Client::connect(a, options.clone()).expect("connects")).into();
    for client in &mut clients {
        client.put(b"k", b"v").expect("put");
    }
    stop(server);
    // Past the lease nothing may be read from memory that is still mapped.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(30) {
        std::hint::spin_loop();
    }
    for client in &mut clients {
        assert!(client.get(b"k").is_err(), "{}", client.describe());
    }
}

/// Readers among writers while the index grows: values are whole, and versions of a key never run backwards
/// (I10, I11).
#[test]
fn readers_never_see_a_torn_or_an_older_value() {
    let (server, shm, tcp) = serve(|options| {
        options.expected_items = 200;
        options.lease = Duration::from_millis(10);
        options.memory = 128 << 20;
    });
    let done = AtomicBool::new(false);
    let value = |key: u32, n: u32| {
        let len = if key.is_multiple_of(3) { 8 + (n % 700) as usize } else { 8 + (n % 24) as usize };
        let mut bytes = vec![(key ^ n) as u8; len];
        bytes[..4].copy_from_slice(&key.to_le_bytes());
        bytes[4..8].copy_from_slice(&n.to_le_bytes());
        bytes
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = [(0u32, &shm), (1, &tcp)]
            .into_iter()
            .map(|(w, address)| {
                scope.spawn(move || {
                    let mut client = client(address);
                    for n in 0..12_000u32 {
                        let key = (n * 2 + w) % 4000;
                        if n.is_multiple_of(17) {
                            client.delete(&key.to_le_bytes()).expect("delete");
                        }
                        client.put(&key.to_le_bytes(), &value(key, n)).expect("put");
                    }
                })
            })
            .collect();
        for (seed, address) in [(1u32, &shm), (2, &tcp)] {
            let done = &done;
            scope.spawn(move || {
                let mut client = client(address);
                let mut newest: HashMap<u32, crate::Csn> = HashMap::new();
                let mut state = seed;
                // Relaxed: a flag that publishes nothing else.
                while !done.load(Ordering::Relaxed) {
                    let keys: Vec<[u8; 4]> = (0..16)
                        .map(|_| {
                            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                            (state >> 8 & 4095).to_le_bytes()
                        })
                        .collect();
                    let mut seen = |i: usize, found: Option<(&[u8], crate::Csn)>| {
                        let Some((bytes, csn)) = found else { return };
                        let key = u32::from_le_bytes(keys[i]);
                        let n = u32::from_le_bytes(bytes[4..8].try_into().expect("n"));
                        assert_eq!(bytes, value(key, n), "whole, and of this key");
                        let before = newest.insert(key, csn).unwrap_or(csn);
                        assert!(before <= csn, "key {key} went back from {before:?} to {csn:?}");
                    };
                    client.multi_get(&keys, &mut seen).expect("multi-get");
                    let single = client.get_versioned(&keys[0]).expect("get");
                    seen(0, single.as_ref().map(|(bytes, csn)| (&bytes[..], *csn)));
                }
            });
        }
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Relaxed: as above.
        done.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    assert!(server.stats().geometry_epoch > 3, "the index grew under way");
    stop(server);
}

#[test]
fn what_is_in_flight_when_a_server_loses_its_memory_is_in_doubt() {
    let (server, shm, _) = serve(|_| {});
    let options = Options { timeout: Duration::from_secs(5), ..Options::default() };
    let mut client = Client::connect(&shm, options).expect("connects");
    let answered = client.submit(&Write::put(b"a", b"1")).expect("submit");
    assert!(matches!(client.wait(answered), Ok(Reply::Done(_))));
    stop(server);
    let pending = client.submit(&Write::put(b"b", b"2"));
    let again = ServerOptions { addresses: vec![shm.clone()], memory: 64 << 20, ..ServerOptions::default() };
    let server = Server::start(again).expect("a server again");
    if let Ok(ticket) = pending {
        // The request was sent to the old server's ring, or sent again to the new one: it is never reported
        // as failed.
        assert!(matches!(client.wait(ticket), Ok(Reply::Done(_)) | Err(Error::InDoubt(_))));
    }
    client.put(b"c", b"3").expect("goes on");
    stop(server);
}

/// A client with an increment under way is cut off, and its session is forgotten before it is back.
#[test]
fn what_a_forgotten_session_ran_is_in_doubt_and_does_not_run_again() {
    // With this limit four sessions are remembered.
    let (server, shm, tcp) = serve(|options| options.max_clients = 2);
    for (address, key) in [(&shm, b"over shm"), (&tcp, b"over tcp")] {
        // Connections that other clients left keep their places until the server notices.
        let connect = || {
            let start = Instant::now();
            loop {
                match Client::connect(address, Options::default()) {
                    Ok(client) => break client,
                    Err(error) => assert!(start.elapsed() < Duration::from_secs(20), "{error}"),
                }
            }
        };
        let mut client = connect();
        let ticket = client.submit(&Write::increment(key, 1)).expect("submit");
        client.link().expect("connected").qp.ring();
        let mut other = connect();
        while other.get(key).expect("get").is_none() {}
        // The answer is never looked at.
        client.link = None;
        drop(other);
        for _ in 0..6 {
            connect().put(b"other", b"").expect("put");
        }
        let outcome = client.wait(ticket);
        assert!(matches!(outcome, Err(Error::InDoubt(_))), "{outcome:?}");
        assert_eq!(client.increment(key, 1).expect("what is new runs"), 2, "it ran once");
    }
    stop(server);
}

#[test]
fn a_timeout_that_is_longer_than_the_server_remembers_is_refused() {
    let (server, shm, tcp) = serve(|options| options.keep_sessions = Duration::from_secs(10));
    for address in [&shm, &tcp] {
        let connect = |timeout| Client::connect(address, Options { timeout, ..Options::default() });
        let refused = connect(Duration::from_secs(10)).err().expect("one clock may be slow").to_string();
        assert!(
            refused.contains("a timeout of 10s") && refused.contains("choose a shorter one"),
            "{refused}"
        );
        connect(Duration::from_millis(9700)).expect("connects").put(b"k", b"v").expect("put");
    }
    stop(server);
}

/// If no READ completes within a lease, the server answers: slower, and as true.
#[test]
fn gets_that_cannot_be_read_within_a_lease_are_served() {
    let (server, _, tcp) = serve(|options| options.lease = Duration::from_millis(1));
    let slow = |qp| {
        // Every completion is held back for so many polls that a READ takes some milliseconds.
        Faulty::new(qp, Faults { seed: 1, delay: u16::MAX - 15, delay_polls: 8, ..Faults::default() })
    };
    let options = Options { hint_every: 0, ..Options::default() };
    let mut client = Client::connect_over(Wrapping(slow), &tcp, options).expect("connects");
    client.put(b"inline", b"1").expect("put");
    client.put(b"entry", &[2; 5000]).expect("put");
    assert_eq!(client.get(b"inline").expect("get"), Some(b"1".to_vec()));
    assert_eq!(client.get(b"entry").expect("get"), Some(vec![2; 5000]));
    assert_eq!(client.get(b"absent").expect("get"), None);
    let mut seen = Vec::new();
    let keys = [&b"inline"[..], b"absent", b"entry"];
    client.multi_get(&keys, |i, value| seen.push((i, value.map(|(v, _)| v.len())))).expect("multi-get");
    seen.sort_unstable();
    assert_eq!(seen, [(0, Some(1)), (1, None), (2, Some(5000))]);
    assert!(client.counters().served >= 3, "{:?}", client.counters());
    drop(client);
    stop(server);
}

/// Where the READs of a full batch take longer than a lease, those of fewer keys may not. To try the whole
/// batch again and again would be in vain each time.
#[test]
fn a_batch_that_takes_longer_than_a_lease_is_looked_up_in_parts() {
    const KEYS: u64 = 64;
    let (server, _, tcp) = serve(|options| options.lease = Duration::from_millis(1));
    let counts = Arc::new(QueuePairCounts::default());
    let shared = counts.clone();
    let slow = move |qp| {
        let faults = Faults { seed: 1, delay: u16::MAX - 15, delay_polls: 8, ..Faults::default() };
        Counted::new(Faulty::new(qp, faults), shared.clone())
    };
    let options = Options { cache: Some(0), hint_every: 0, ..Options::default() };
    let mut client = Client::connect_over(Wrapping(slow), &tcp, options).expect("connects");
    let keys: Vec<_> = (0..KEYS).map(u64::to_le_bytes).collect();
    keys.iter().for_each(|key| _ = client.put(key, key).expect("put"));
    for _ in 0..3 {
        let (mut seen, before) = (0, counts.see().reads);
        let found = |_, value: Option<(&[u8], _)>| seen += usize::from(value.is_some());
        client.multi_get(&keys, found).expect("multi-get");
        let reads = counts.see().reads - before;
        assert_eq!(seen, keys.len());
        assert!(reads < 10 * KEYS, "{reads} READs");
    }
    drop(client);
    stop(server);
}
