//! Clients and the clock: clients that rest longer than their timeout, or lose their core behind a send, and
//! servers that are away for a moment. A client's wait is counted from its own operation, not from the one
//! before. Its trust is counted from before it asked.

use std::time::Instant;

use longarm_base::Nanos;
use longarm_host::sleep;
use longarm_index::control::Heartbeat;

use super::stalls::Stalls;
use super::*;
use crate::deadline::Deadline;
use crate::{ClusterClient, Error, GroupAt, IN_FLIGHT_MAX, Reply, Topology, Write};

const TIMEOUT: Duration = Duration::from_millis(300);
/// Longer than the timeout and the lease.
const REST: Duration = Duration::from_millis(450);
const LEASE: Duration = Duration::from_millis(20);

fn options() -> Options {
    Options { timeout: TIMEOUT, hint_every: 0, ..Options::default() }
}

fn brief(options: &mut ServerOptions) {
    options.lease = LEASE;
}

/// Every operation after a rest, with an operation before the rest that leaves a reading of the clock behind.
#[test]
fn an_operation_after_a_long_rest_has_its_whole_time() {
    let (server, shm, tcp) = serve(brief);
    let at = |address: &Address| GroupAt { id: 0, addresses: vec![address.clone()] };
    for address in [&shm, &tcp] {
        let mut client = Client::connect_over(transports(), address, options()).expect("connects");
        let two = Topology::new(3, vec![at(address), at(address)]);
        let mut cluster = ClusterClient::over(transports(), two, options());
        client.put(b"k", b"v").expect("put");
        for (i, key) in [b"a", b"b", b"c", b"d"].into_iter().enumerate() {
            cluster.put(key, &[i as u8]).expect("put");
        }
        for next in 0..7 {
            assert_eq!(client.get(b"k").expect("get"), Some(b"v".to_vec()));
            assert_eq!(client.get(b"absent").expect("get"), None);
            cluster.multi_get(&[b"a", b"b", b"c", b"d"], |_, _| ()).expect("multi-get");
            sleep(REST);
            let what = format!("{next} over {address}");
            match next {
                0 => {
                    let ticket = client.submit(&Write::put(b"w", b"1")).expect(&what);
                    client.wait(ticket).expect(&what);
                }
                1 => drop(client.get(b"k").expect(&what)),
                2 => assert!(client.exists(b"k").expect(&what)),
                3 => client.multi_get(&[b"k", b"x"], |_, _| ()).expect(&what),
                4 => drop(client.put(b"k", b"v").expect(&what)),
                5 => client.walk(|_| true).expect(&what),
                _ => client.ping().expect(&what),
            }
            let mut shown = 0;
            match next % 2 {
                0 => cluster.multi_get(&[b"a", b"b", b"c", b"d"], |_, _| shown += 1).expect(&what),
                _ => shown = 4 * usize::from(cluster.exists(b"a").expect(&what)),
            }
            assert_eq!(shown, 4, "{what}");
        }
    }
    stop(server);
}

/// A client waits for a server that is away for less than its timeout, however long the client had rested.
#[test]
fn a_server_that_is_away_for_a_moment_is_waited_for_after_a_rest() {
    let (server, shm, tcp) = serve(brief);
    for address in [&shm, &tcp] {
        let stalls = Stalls::default();
        // Far longer than the server is away: a busy machine may let either of them wait, too.
        let mut client = stalls.connect(address, Options { timeout: 4 * TIMEOUT, ..options() });
        client.put(b"k", b"v").expect("put");
        for served in [false, true] {
            assert_eq!(client.get(b"k").expect("get"), Some(b"v".to_vec()));
            sleep(4 * REST);
            stalls.begin();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    sleep(TIMEOUT / 3);
                    stalls.end();
                });
                let begin = Instant::now();
                match served {
                    false => assert_eq!(client.get(b"k").expect("waited for"), Some(b"v".to_vec())),
                    true => drop(client.put(b"k", b"v").expect("waited for")),
                }
                assert!(begin.elapsed() >= TIMEOUT / 4, "it was there all the time over {address}");
            });
        }
    }
    stop(server);
}

/// A client does not wait longer than it was asked to for an answer that never comes.
#[test]
fn the_time_of_an_operation_is_over_when_it_says_so() {
    let (server, shm, tcp) = serve(brief);
    for address in [&shm, &tcp] {
        let stalls = Stalls::default();
        let mut client = stalls.connect(address, options());
        client.put(b"k", b"v").expect("put");
        assert!(client.exists(b"k").expect("get"));
        sleep(REST);
        stalls.begin();
        let begin = Instant::now();
        let outcome = client.get(b"k");
        assert!(matches!(outcome, Err(Error::Unresponsive { .. })), "{outcome:?}");
        assert!((TIMEOUT..10 * TIMEOUT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        let begin = Instant::now();
        let outcome = client.put(b"k", b"w");
        assert!(matches!(outcome, Err(Error::InDoubt(_))), "{outcome:?}");
        assert!((TIMEOUT..10 * TIMEOUT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        stalls.end();
    }
    stop(server);
}

/// Requests that were given up hold their places until the server continues, and no longer; each is executed
/// once at most.
#[test]
fn a_client_goes_on_when_its_server_does_with_any_number_of_writes_in_doubt() {
    let (server, shm, tcp) = serve(brief);
    for address in [&shm, &tcp] {
        let stalls = Stalls::default();
        let mut client = stalls.connect(address, Options { timeout: Duration::from_secs(20), ..options() });
        let key = address.transport().as_bytes();
        client.increment(key, 1).expect("increment");
        stalls.begin();
        client.options.timeout = Duration::from_millis(3);
        let (mut doubted, mut nothing) = (0, 0);
        for _ in 0..IN_FLIGHT_MAX + 20 {
            match client.increment(key, 1) {
                Err(Error::InDoubt(_)) => doubted += 1,
                Err(Error::Unresponsive { .. }) => nothing += 1,
                other => panic!("{other:?} over {address}"),
            }
        }
        assert_eq!((doubted, nothing), (IN_FLIGHT_MAX, 20), "over {address}");
        let full = client.submit(&Write::put(b"k", b"v"));
        assert!(matches!(full, Err(Error::Full)), "{full:?}");
        stalls.end();
        client.options.timeout = Duration::from_secs(20);
        let sum = client.increment(key, 1).expect("goes on");
        assert_eq!(sum, 2 + doubted as i64, "each that was sent once, and none that was not, over {address}");
        client.submit(&Write::put(b"k", b"v")).expect("there is room");
    }
    stop(server);
}

/// A client learns within a moment that the other end of its connection is gone, though it only waits: for an
/// answer, for a place among its open requests, or for room in the server's ring. Found by the simulator: who
/// waited for room posted nothing, so nothing told it, and each of its operations took its whole timeout.
#[test]
fn a_client_that_waits_learns_that_its_connection_is_gone() {
    let patient = Duration::from_secs(30);
    let (server, shm, tcp) = serve(brief);
    for address in [&shm, &tcp] {
        // Requests that the server took, and that were not answered before it let the connection go.
        for (most, bytes) in [(0, 8), (IN_FLIGHT_MAX, 8), (IN_FLIGHT_MAX, 60_000)] {
            let what = format!("behind {most} of {bytes} B over {address}");
            let stalls = Stalls::default();
            let mut client = stalls.connect(address, Options { timeout: patient, ..options() });
            let before = client.increment(b"count", 1).expect("increment");
            stalls.begin();
            client.options.timeout = Duration::from_millis(3);
            for _ in 0..most {
                let sent = client.submit(&Write::put(b"k", &vec![7; bytes]));
                assert!(matches!(sent, Ok(_) | Err(Error::Unresponsive { .. })), "{sent:?} {what}");
            }
            client.options.timeout = patient;
            let asked = (most == 0).then(|| client.submit(&Write::increment(b"count", 1)).expect("sent"));
            stalls.let_go();
            let begin = Instant::now();
            let sum = match asked {
                Some(ticket) => client.wait(ticket).map(|reply| match reply {
                    Reply::Number(sum, _) => sum,
                    other => panic!("{other:?}"),
                }),
                None => client.increment(b"count", 1),
            };
            assert_eq!(sum.expect(&what), before + 1, "{what}");
            assert!(begin.elapsed() < patient / 2, "{:?} {what}", begin.elapsed());
        }
    }
    stop(server);
}

/// An answer's stamp of the server's clock counts from before its request was sent: a client that loses its
/// core just behind the send trusts no longer for it. Both sides read one clock here, so the bound is known.
#[test]
fn a_client_that_is_slow_behind_a_send_trusts_no_longer() {
    let length = Duration::from_millis(400);
    let (server, _, tcp) = serve(|options| options.lease = length);
    let stalls = Stalls::behind_sends(Duration::from_millis(50));
    let mut client = stalls.connect(&tcp, Options { hint_every: 0, ..Options::default() });
    client.put(b"k", b"v").expect("put");
    let link = client.link.as_mut().expect("connected");
    for _ in 0..40 {
        sleep(Duration::from_millis(7));
        let within = Deadline::within(Duration::from_secs(20));
        link.look_at_heartbeat(&within).expect("a heartbeat");
        let beat = Heartbeat::parse(link.qp.landing(0, 64)).expect("a heartbeat");
        assert!(!link.has_lease(beat.stamp + Nanos(length.as_nanos() as u64)), "longer than the lease");
    }
    stop(server);
}
