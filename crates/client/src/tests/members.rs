//! A group whose replicas are replaced one after the other, until none of its first replicas is left.

use std::sync::Arc;
use std::time::Instant;

use longarm_base::ReplicaId;
use longarm_fabric::{Address, Any, Login};
use longarm_server::{Deny, Operator, OrderError, Server, VoteStore};

use super::group::{BOUND, Kept, member, over_tcp, start};
use crate::{Client, Options};

const FOUNDERS: usize = 3;

/// Repeats an operator's order until it is done: it may be early, or reach a leader that just gave up
/// leading.
fn at_last<R>(mut order: impl FnMut() -> Result<R, OrderError>) -> R {
    let begun = Instant::now();
    loop {
        match order() {
            Ok(done) => return done,
            Err(error) => assert!(begun.elapsed() < BOUND, "{error}"),
        }
        std::thread::yield_now();
    }
}

fn is_replaced(addresses: Vec<Address>) {
    let vaults: Vec<Arc<Kept>> = addresses.iter().map(|_| Arc::default()).collect();
    let mut servers: Vec<_> =
        (0..FOUNDERS).map(|node| Some(start(&addresses, node, FOUNDERS, &vaults[node]))).collect();
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    let mut client = Client::connect_group(&addresses[..FOUNDERS], options).expect("connect");
    let operator = Operator {
        transport: Arc::new(Any::default()),
        group: 9,
        members: (0..addresses.len()).map(|node| member(&addresses, node)).collect(),
        login: Login::None,
        connect: BOUND,
    };
    let twice = at_last(|| match operator.add(&member(&addresses, 1), BOUND) {
        Err(OrderError::Denied(_, why)) => Ok(why),
        other => panic!("{other:?}"),
    });
    assert_eq!(twice, Deny::Member);
    let mut counted = 0;
    for old in 0..FOUNDERS {
        let new = old + FOUNDERS;
        client.put(format!("key {old}").as_bytes(), &[old as u8; 100]).expect("put");
        servers.push(Some(start(&addresses, new, FOUNDERS, &vaults[new])));
        std::thread::scope(|scope| {
            let orders = scope.spawn(|| {
                let more = at_last(|| operator.add(&member(&addresses, new), BOUND));
                assert_eq!(more.members.len(), FOUNDERS + 1);
                let less = at_last(|| operator.remove(ReplicaId(old as u8), BOUND));
                assert!(less.members.len() == FOUNDERS && less.leader.0 != old as u8, "{less:?}");
            });
            while !orders.is_finished() {
                counted += 1;
                assert_eq!(client.increment(b"counter", 1).expect("increment"), counted, "each once");
            }
            orders.join().expect("it does not panic");
        });
        let told = vaults[new].load().expect("kept").expect("something").members;
        assert!(told.has(ReplicaId(new as u8)), "{told:?}");
        // The replica that goes tells the client where to go.
        client.put(b"last", b"of a round").expect("put");
        drop(servers[old].take());
    }
    for old in 0..FOUNDERS {
        let found = client.get(format!("key {old}").as_bytes()).expect("get");
        assert_eq!(found, Some(vec![old as u8; 100]));
    }
    // A node uses the replicas that it was told, not those with which it was started.
    servers[FOUNDERS] = None;
    servers[FOUNDERS] = Some(start(&addresses, FOUNDERS, FOUNDERS, &vaults[FOUNDERS]));
    assert_eq!(client.increment(b"counter", 1).expect("increment"), counted + 1);
    let begun = Instant::now();
    let in_sync = |server: &Server| server.stats().group.is_some_and(|group| group.sync == Some(group.term));
    while !servers.iter().flatten().all(in_sync) {
        assert!(begun.elapsed() < BOUND, "not all are in sync");
        std::thread::yield_now();
    }
}

#[test]
fn all_replicas_are_replaced_on_tcp() {
    is_replaced(over_tcp(2 * FOUNDERS));
}

#[test]
fn all_replicas_are_replaced_on_shared_memory() {
    let file = |node| format!("longarm-replaced-{}-{node}.sock", std::process::id());
    is_replaced((0..2 * FOUNDERS).map(|n| Address::Shm(std::env::temp_dir().join(file(n)))).collect());
}
