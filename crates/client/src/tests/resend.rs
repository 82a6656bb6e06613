//! What a new connection gets again, if it is more than the server's ring takes at once.

use std::collections::VecDeque;
use std::time::Instant;

use longarm_base::limits::OPERATIONS_AHEAD;
use longarm_base::{Csn, Nanos};
use longarm_host::now;
use longarm_wire::{Request, RequestKind};

use super::stalls::Stalls;
use super::*;
use crate::flight::InFlight;
use crate::link::Trouble;
use crate::{ClusterClient, Error, GroupAt, IN_FLIGHT_MAX, Reply, RequestId, Topology, Write};

/// The bound on every wait.
const BOUND: Duration = Duration::from_secs(20);
/// The length of the values of which the server's ring takes about thirty.
const LONG: usize = 8 << 10;

/// A PUT that has no answer yet.
struct Put {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// PUTs of so many keys, all under way, of which a ring takes a part.
fn long_puts(count: u64) -> Vec<Put> {
    (0..count).map(|key| Put { key: key.to_le_bytes().into(), value: vec![1; LONG] }).collect()
}

/// A client whose connection is lost with these PUTs under way, as from a leader that waits for followers:
/// the leader has taken the PUTs out of its ring, and answered none. Their numbers begin with 1.
fn cut_off(address: &Address, puts: &[Put]) -> Client {
    let options = Options { timeout: BOUND, hint_every: 0, ..Options::default() };
    let mut client = Client::connect_over(transports(), address, options).expect("connects");
    let deadline = now() + Nanos(BOUND.as_nanos() as u64);
    for (operation, Put { key, value }) in (1..).zip(puts) {
        let kind = RequestKind::Put;
        let request = Request { key, value, ..Request::new(kind, operation) };
        let message = [&request.header()[..], key, value].concat();
        let since = Csn::NONE;
        client.open.push_back(InFlight { operation, kind, message, deadline, since, abandoned: false });
        client.next_operation = operation + 1;
    }
    client.link = None;
    client
}

/// Polls for the outcomes of all open requests.
fn poll_all(client: &mut Client) -> Vec<(RequestId, Result<Reply, Error>)> {
    let (begun, mut all) = (Instant::now(), Vec::new());
    while client.in_flight() > 0 || !client.finished.is_empty() {
        all.extend(client.poll());
        assert!(begun.elapsed() < BOUND, "{} requests are open for good", client.in_flight());
    }
    all
}

#[test]
fn all_requests_are_sent_again_also_if_they_are_more_than_a_ring() {
    let (server, shm, tcp) = serve(|_| {});
    for address in [&shm, &tcp] {
        let mut client = cut_off(address, &long_puts(100));
        for operation in 1..=100 {
            let outcome = client.wait(RequestId(operation));
            assert!(matches!(outcome, Ok(Reply::Done(_))), "{operation} over {address}: {outcome:?}");
        }
        // A client that polls connects when it next sends.
        let mut client = cut_off(address, &long_puts(100));
        client.submit(&Write::put(b"k", b"v")).expect("submit");
        let all = poll_all(&mut client);
        assert!(all.iter().map(|(ticket, _)| ticket.0).eq(1..=101), "in order over {address}");
        assert!(all.iter().all(|(_, outcome)| matches!(outcome, Ok(Reply::Done(_)))), "over {address}");
    }
    stop(server);
}

/// The server keeps the outcomes of those.
#[test]
fn each_request_names_the_oldest_one_that_may_be_sent_again() {
    let (server, shm, _) = serve(|_| {});
    let mut client = cut_off(&shm, &long_puts(3));
    let oldest = |open: &InFlight| Request::decode(&open.message).expect("a request").oldest();
    let mut tickets = Vec::new();
    for _ in 0..100 {
        let front = client.open.front().map(|open| open.operation);
        tickets.push(client.submit(&Write::put(b"k", b"v")).expect("submit"));
        let submitted = client.open.back().expect("it is open");
        assert_eq!(oldest(submitted), front.unwrap_or(submitted.operation));
    }
    for ticket in tickets {
        client.wait(ticket).expect("an answer");
    }
    client.put(b"k", b"w").expect("a PUT");
    // One that waits for its answer, with nothing else under way.
    client.link = None;
    let alone = client.submit(&Write::put(b"k", b"x")).expect("submit");
    assert_eq!(client.open.iter().map(oldest).collect::<Vec<_>>(), [alone.0]);
    stop(server);
}

/// A caller that only polls had its requests under way for ever, once their connection was lost.
#[test]
fn what_is_polled_for_has_an_outcome_in_time_though_the_connection_is_lost() {
    let (server, shm, _) = serve(|_| {});
    let mut client = cut_off(&shm, &long_puts(100));
    let soon = now() + Nanos::from_millis(20);
    client.open.iter_mut().for_each(|open| open.deadline = soon);
    let all = poll_all(&mut client);
    assert!(all.iter().map(|(ticket, _)| ticket.0).eq(1..=100), "each once: {all:?}");
    assert!(all.iter().all(|(_, outcome)| matches!(outcome, Err(Error::InDoubt(_)))), "{all:?}");
    client.put(b"k", b"v").expect("a blocking call connects");
    stop(server);
}

/// A leader that is lost may have drawn versions for writes that no majority has, and the next leader draws
/// them again: what it executes may get a lower version than the lost leader told. The client named that one
/// as lower than all of its unanswered writes, so that a server which had forgotten the client executed them
/// again.
#[test]
fn what_is_sent_again_may_get_a_lower_version_than_an_earlier_leader_told() {
    let (server, shm, _) = serve(|_| {});
    let mut client = cut_off(&shm, &long_puts(100));
    client.open.iter_mut().for_each(|open| open.since = Csn(1_000_000));
    let deadline = client.deadline();
    client.recover(Trouble::Broken("cut off".into()), &deadline).expect("connects");
    let named: Vec<Csn> = client.open.iter().map(|open| open.since).collect();
    assert_eq!(named.len(), 100, "nobody took an answer");
    assert!(named.iter().all(|since| *since < Csn(1_000)), "{named:?}");
    assert!(poll_all(&mut client).iter().all(|(_, outcome)| outcome.is_ok()));
    stop(server);
}

/// Writes of one client are executed in the order in which the client submitted them.
#[test]
fn what_was_submitted_later_is_not_executed_before() {
    let (server, shm, tcp) = serve(|_| {});
    for address in [&shm, &tcp] {
        let mut puts = long_puts(60);
        // The ring has no room for the older value behind the others.
        puts.push(Put { key: b"k".into(), value: vec![1; LONG] });
        let older = RequestId(puts.len() as u64);
        let mut client = cut_off(address, &puts);
        client.put(b"k", b"newer").expect("acknowledged");
        // The connection is lost once more.
        client.link = None;
        let outcome = client.wait(older);
        let found = client.get(b"k").expect("get").expect("is there");
        assert!(found == b"newer", "{address}: the older value is back, and ended as {outcome:?}");
        assert!(matches!(outcome, Ok(Reply::Done(_))), "{address}: {outcome:?}");
    }
    stop(server);
}

/// A request whose timeout is over before the ring has room for it, or that nobody waits for any more, is not
/// sent again; its place among the open requests is free then.
#[test]
fn what_is_late_when_there_is_room_for_it_is_not_sent_again() {
    let (server, shm, tcp) = serve(|_| {});
    for address in [&shm, &tcp] {
        let mut client = cut_off(address, &long_puts(100));
        client.open[90].abandoned = true;
        // A GET connects, and sends what the ring takes.
        assert_eq!(client.get(b"absent").expect("get"), None);
        assert!(client.unsent.is_some_and(|number| number <= 80), "over {address}");
        let (end, late) = (now(), |open: &&mut InFlight| open.operation > 80);
        client.open.iter_mut().filter(late).for_each(|open| open.deadline = end);
        let all = poll_all(&mut client);
        let done = all.iter().filter(|(_, outcome)| matches!(outcome, Ok(Reply::Done(_)))).count();
        let late = all.iter().filter(|(_, outcome)| matches!(outcome, Err(Error::InDoubt(_)))).count();
        assert_eq!((done, late), (80, 19), "over {address}");
        for key in 80..100u64 {
            assert!(!client.exists(&key.to_le_bytes()).expect("get"), "{key} over {address}");
        }
        (0..80u64).for_each(|key| assert!(client.delete(&key.to_le_bytes()).expect("delete")));
    }
    stop(server);
}

/// A client of several groups that waits for one of them sends to the others, too.
#[test]
fn a_client_that_waits_for_one_group_sends_again_to_another() {
    let (server, shm, tcp) = serve(|_| {});
    for address in [&shm, &tcp] {
        let at = || GroupAt { id: 0, addresses: vec![address.clone()] };
        let topology = Topology::new(3, vec![at(), at()]);
        let mut cluster = ClusterClient::over(transports(), topology, Options::default());
        *cluster.group(0).expect("connects") = cut_off(address, &long_puts(100));
        assert_eq!(cluster.group(0).expect("is there").get(b"absent").expect("get"), None);
        let begun = Instant::now();
        while cluster.group(0).expect("is there").in_flight() > 0 {
            assert!(begun.elapsed() < BOUND, "over {address}");
            let key = (0..).map(u64::to_le_bytes).find(|key| cluster.topology().group_of(key) == 1);
            let ticket = cluster.submit(&Write::put(&key.expect("one"), b"v")).expect("submit");
            cluster.wait(ticket).expect("put");
        }
    }
    stop(server);
}

/// A leader keeps what came of an operation until the client's numbers are so far ahead that the client asks
/// for it no more. So a client keeps its numbers nearer, whatever becomes of its oldest request.
#[test]
fn numbers_run_no_further_ahead_than_servers_remember() {
    let (server, shm, tcp) = serve(|_| {});
    let ahead = |next: u64, open: &VecDeque<InFlight>| open.front().map_or(0, |open| next - open.operation);
    for address in [&shm, &tcp] {
        // Newer writes are acknowledged while the ring has no room for what is older.
        let mut client = cut_off(address, &long_puts(100));
        for _ in 0..2 * OPERATIONS_AHEAD {
            client.put(b"k", b"v").expect("put");
            let far = ahead(client.next_operation, &client.open);
            assert!(far <= OPERATIONS_AHEAD, "{far} over {address}");
        }
        // Questions are sent while the server does not answer.
        let stalls = Stalls::default();
        let mut client = stalls.connect(address, Options { hint_every: 0, ..Options::default() });
        client.put(b"k", b"v").expect("put");
        stalls.begin();
        let oldest = client.submit(&Write::put(b"k", b"v")).expect("submit");
        (0..2 * OPERATIONS_AHEAD).for_each(|_| client.anchor_soon());
        assert_eq!(ahead(client.next_operation, &client.open), 1, "over {address}");
        // Numbers have gaps where requests were given up.
        client.next_operation = oldest.0 + OPERATIONS_AHEAD - 1;
        let newest = client.submit(&Write::put(b"k", b"v")).expect("the last number");
        let full = client.submit(&Write::put(b"k", b"v"));
        assert!(matches!(full, Err(Error::Full)), "over {address}: {full:?}");
        stalls.end();
        assert!(matches!(client.wait(newest), Ok(Reply::Done(_))));
        let next = client.submit(&Write::put(b"k", b"v")).expect("the oldest has its answer");
        assert!(matches!(client.wait(next), Ok(Reply::Done(_))));
    }
    stop(server);
}

/// A client whose pipeline is full of requests without an answer waits for none of them: each was given up,
/// or the client only submits and polls. It connects again all the same.
#[test]
fn a_full_pipeline_is_not_full_for_good_when_its_connection_is_lost() {
    let (server, shm, tcp) = serve(|_| {});
    for (address, abandoned) in [(&shm, false), (&shm, true), (&tcp, false), (&tcp, true)] {
        let mut client = cut_off(address, &long_puts(IN_FLIGHT_MAX as u64));
        client.open.iter_mut().for_each(|open| open.abandoned = abandoned);
        let (begun, mut done) = (Instant::now(), 0);
        while let Err(error) = client.submit(&Write::put(b"k", b"v")) {
            assert!(matches!(error, Error::Full), "over {address}: {error}");
            assert!(begun.elapsed() < BOUND, "it is full for good over {address}");
            done += usize::from(client.poll().is_some());
        }
        done += poll_all(&mut client).len();
        assert_eq!(done, 1 + if abandoned { 0 } else { IN_FLIGHT_MAX }, "over {address}");
    }
    stop(server);
}
