//! A group of three servers in this process, in real time: properties that the simulator shows for all seeds
//! hold on threads and sockets.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use longarm_base::{Nanos, ReplicaId};
use longarm_fabric::{Address, Any, Login};
use longarm_memory::{Hash, HashKey};
use longarm_server::{GroupOptions, Member, Operator, Promise, Server, ServerOptions, Timing, VoteStore};

use super::{rdma, transports};
use crate::{Client, Error, Options, Write};

/// The bound on every wait.
pub(super) const BOUND: Duration = Duration::from_secs(50);
/// Times that are slow enough for a machine on which other tests run, too.
pub(super) const TIMING: Timing = Timing {
    heartbeat: Nanos::from_millis(10),
    suspect: Nanos::from_millis(150),
    promise: Nanos::from_millis(100),
    election: Nanos::from_millis(1_000),
};

/// Keeps promises for as long as the test lasts.
#[derive(Default)]
pub(super) struct Kept(Mutex<Option<Promise>>);

impl VoteStore for Kept {
    fn load(&self) -> std::io::Result<Option<Promise>> {
        Ok(self.0.lock().expect("nobody panics with it").clone())
    }

    fn store(&self, promise: &Promise) -> std::io::Result<()> {
        *self.0.lock().expect("nobody panics with it") = Some(promise.clone());
        Ok(())
    }
}

/// Starts a node of a group that begins with so many of these addresses; a node beyond them is to be added.
pub(super) fn start(addresses: &[Address], node: usize, founders: usize, vote_store: &Arc<Kept>) -> Server {
    start_at(TIMING, false, addresses, node, founders, vote_store)
}

fn start_at(
    timing: Timing,
    ordered: bool,
    addresses: &[Address],
    node: usize,
    founders: usize,
    vote_store: &Arc<Kept>,
) -> Server {
    let group = GroupOptions {
        id: 9,
        replica: ReplicaId(node as u8),
        members: (0..founders).map(|node| member(addresses, node)).collect(),
        joins: node >= founders,
        first: None,
        timing,
        sum_key: 1,
        hash_key: 2,
        vote_store: vote_store.clone(),
        durable: None,
        memory_parts: 1,
    };
    let options = ServerOptions {
        addresses: vec![addresses[node].clone()],
        memory: 64 << 20,
        groups: vec![group],
        ordered,
        verbs: rdma::node(node),
        ..ServerOptions::default()
    };
    Server::start(options).expect("a server")
}

/// So many free addresses of this machine, outside the range from which outgoing connections take their
/// ports: a server that is away for a moment finds its own again.
pub(super) fn over_tcp(count: usize) -> Vec<Address> {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let first = 10_000 + std::process::id() % 1_500 * 12;
    // Relaxed: a counter.
    let next = || (first + TRIED.fetch_add(1, Ordering::Relaxed)) as u16;
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let address = |port| Address::Tcp(format!("127.0.0.1:{port}"));
    std::iter::repeat_with(next).filter(free).take(count).map(address).collect()
}

pub(super) fn member(addresses: &[Address], node: usize) -> Member {
    Member { replica: ReplicaId(node as u8), address: addresses[node].clone() }
}

/// Sockets of this name for three.
fn sockets(name: &str) -> Vec<Address> {
    let file = |node| format!("longarm-{name}-{}-{node}.sock", std::process::id());
    (0..3).map(|node| Address::Shm(std::env::temp_dir().join(file(node)))).collect()
}

/// A group of three.
pub(super) struct Three {
    timing: Timing,
    /// Whether those that are started from now on keep an ordered index.
    pub ordered: bool,
    pub addresses: Vec<Address>,
    pub vaults: Vec<Arc<Kept>>,
    pub servers: Vec<Option<Server>>,
}

impl Three {
    /// Over shared memory, with sockets of this name.
    pub fn over_shm(name: &str) -> Three {
        Three::start(sockets(name))
    }

    /// Over shared memory, with an ordered index at each follower.
    pub fn ordered(name: &str) -> Three {
        Three::start_at(TIMING, true, sockets(name))
    }

    pub fn start(addresses: Vec<Address>) -> Three {
        Three::start_at(TIMING, false, addresses)
    }

    /// Over RDMA, with an ordered index at each follower, at times that an emulated machine can keep.
    pub fn ordered_over_rdma(port: u16) -> Three {
        let timing = Timing {
            heartbeat: Nanos::from_millis(100),
            suspect: Nanos::from_millis(2_500),
            promise: Nanos::from_millis(1_500),
            election: Nanos::from_millis(10_000),
        };
        Three::start_at(timing, true, rdma::node_addresses(port))
    }

    fn start_at(timing: Timing, ordered: bool, addresses: Vec<Address>) -> Three {
        let vaults = addresses.iter().map(|_| Arc::default()).collect();
        let mut three = Three { timing, ordered, addresses, vaults, servers: vec![None, None, None] };
        (0..3).for_each(|node| three.start_one(node));
        three
    }

    pub fn start_one(&mut self, node: usize) {
        let server = start_at(self.timing, self.ordered, &self.addresses, node, 3, &self.vaults[node]);
        self.servers[node] = Some(server);
    }

    pub fn role(&self, node: usize) -> String {
        self.servers[node].as_ref().and_then(|server| server.stats().group).unwrap_or_default().role
    }

    pub fn leader(&self) -> usize {
        let begun = Instant::now();
        loop {
            if let Some(leader) = (0..3).find(|&node| self.role(node) == "leader") {
                return leader;
            }
            assert!(begun.elapsed() < BOUND, "nobody leads");
            std::thread::yield_now();
        }
    }

    /// Waits until all three are in sync.
    pub fn whole(&self) {
        let begun = Instant::now();
        let synced = |node: usize| {
            let group = self.servers[node].as_ref().and_then(|server| server.stats().group);
            group.is_some_and(|group| group.sync.is_some() && group.sync.as_deref() == Some(&group.term))
        };
        while !(0..3).all(synced) {
            assert!(begun.elapsed() < BOUND, "not all are in sync");
            std::thread::yield_now();
        }
    }
}

/// Puts, loses the leader, finds everything, takes the lost replica back as one that remembers nothing, and
/// loses the next leader.
fn survives(addresses: Vec<Address>) {
    let mut three = Three::start(addresses);
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    let mut client = Client::connect_group(&three.addresses, options).expect("connect");
    let told = client.link.as_ref().map(|link| link.welcome.lease);
    assert_eq!(told, Some(TIMING.lease().0), "a client trusts the memory for what the group's timing gives");
    let (mut written, mut counted) = (0u32, 0);
    for _ in 0..2 {
        for _ in 0..300 {
            let value = vec![written as u8; 1 + written as usize % 3000];
            client.put(format!("key {written}").as_bytes(), &value).expect("put");
            written += 1;
        }
        client.delete(b"key 7").expect("delete");
        counted += 1;
        assert_eq!(client.increment(b"counter", 1).expect("increment"), counted);
        three.whole();
        let leader = three.leader();
        drop(three.servers[leader].take());
        for i in 0..written {
            let found = client.get(format!("key {i}").as_bytes()).expect("get");
            let wanted = (i != 7).then(|| vec![i as u8; 1 + i as usize % 3000]);
            assert_eq!(found, wanted, "key {i}");
        }
        three.start_one(leader);
    }
    assert_eq!(client.increment(b"counter", 1).expect("increment"), counted + 1);
    three.whole();
}

#[test]
fn a_group_over_tcp_loses_leaders_and_nothing_else() {
    survives(over_tcp(3));
}

#[test]
fn a_group_over_shared_memory_loses_leaders_and_nothing_else() {
    let file = |node| format!("longarm-group-{}-{node}.sock", std::process::id());
    survives((0..3).map(|node| Address::Shm(std::env::temp_dir().join(file(node)))).collect());
}

/// Found by stopping processes: a stopped leader's kernel took the client's connection. The client waited for
/// that leader until its own patience was over, although the group had another leader by then.
#[test]
fn one_that_takes_connections_and_says_nothing_holds_nobody_up() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = Address::Tcp(silent.local_addr().expect("bound").to_string());
    let three = Three::over_shm("silent");
    let addresses = [&[silent], &three.addresses[..]].concat();
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    let began = Instant::now();
    let mut client = Client::connect_group(&addresses, options).expect("connect");
    client.put(b"key", b"1").expect("put");
    assert!(began.elapsed() < BOUND, "it waited for the one that is silent");
}

/// Gives orders to a group of which all of these are members.
pub(super) fn operator(addresses: &[Address]) -> Operator<Any> {
    Operator {
        transport: Arc::new(transports()),
        group: 9,
        members: (0..addresses.len()).map(|node| member(addresses, node)).collect(),
        login: Login::None,
        connect: BOUND,
    }
}

/// Leaders hand over in turn while a client writes; it finds everything.
fn hands_over(addresses: Vec<Address>) {
    let three = Three::start(addresses);
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    let mut client = Client::connect_group(&three.addresses, options).expect("connect");
    let operator = operator(&three.addresses);
    let mut counted = 0;
    for round in 1..=4 {
        three.whole();
        let to = (three.leader() + 1) % 3;
        let moved = std::thread::scope(|scope| {
            let order = scope.spawn(|| operator.move_leader(ReplicaId(to as u8), BOUND));
            while !order.is_finished() {
                counted += 1;
                assert_eq!(client.increment(b"counter", 1).expect("increment"), counted, "each once");
            }
            order.join().expect("it does not panic")
        });
        assert_eq!(moved.expect("handed over").leader, ReplicaId(to as u8));
        client.put(b"round", &[round]).expect("put");
        assert_eq!(client.get(b"round").expect("get"), Some(vec![round]));
    }
    three.whole();
    let items = others(&mut client, 500);
    let (to, mut walked) = ((three.leader() + 1) % 3, std::collections::BTreeSet::new());
    let walk = |item: crate::Item| {
        // The memory of the leader that hands over is soon used for something else.
        if walked.insert(item.key) && walked.len() == 10 {
            operator.move_leader(ReplicaId(to as u8), BOUND).expect("handed over");
            three.whole();
        }
        true
    };
    client.walk(walk).expect("walk");
    let missing = items.iter().filter(|item| !walked.contains(&item.to_le_bytes()[..])).count();
    assert_eq!(missing, 0, "of {} items", items.len());
    let stranger = Operator { group: 8, ..operator };
    let refused = stranger.move_leader(ReplicaId(0), Duration::from_millis(1)).expect_err("a stranger");
    assert!(refused.to_string().contains("has no replica of group"), "{refused}");
}

#[test]
fn a_leader_hands_over_on_tcp() {
    hands_over(over_tcp(3));
}

#[test]
fn a_leader_hands_over_on_shared_memory() {
    let file = |node| format!("longarm-hand-over-{}-{node}.sock", std::process::id());
    hands_over((0..3).map(|node| Address::Shm(std::env::temp_dir().join(file(node)))).collect());
}

/// A leader that is told to end hands over, so no replica waits until it is suspected, and nothing is lost. A
/// leader that no replica can follow ends all the same.
#[test]
fn a_leader_that_is_told_to_end_hands_over() {
    let file = |node| format!("longarm-ends-{}-{node}.sock", std::process::id());
    let addresses = (0..3).map(|node| Address::Shm(std::env::temp_dir().join(file(node)))).collect();
    let suspect = Duration::from_secs(4);
    let (suspicion, election) = (Nanos::from_millis(4_000), Nanos::from_millis(5_000));
    let mut three = Three::start_at(Timing { suspect: suspicion, election, ..TIMING }, false, addresses);
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    let mut client = Client::connect_group(&three.addresses, options).expect("connect");
    let (mut counted, mut longest) = (0, Duration::ZERO);
    let mut count = |client: &mut Client<Any>| {
        let asked = Instant::now();
        counted += 1;
        assert_eq!(client.increment(b"counter", 1).expect("increment"), counted, "each once");
        longest = longest.max(asked.elapsed());
    };
    count(&mut client);
    for _ in 0..2 {
        three.whole();
        let leader = three.leader();
        let server = three.servers[leader].take().expect("it runs");
        std::thread::scope(|scope| {
            let stopped = scope.spawn(|| server.stop(BOUND));
            while !stopped.is_finished() {
                count(&mut client);
            }
            assert_eq!(stopped.join().expect("it does not panic").panicked, 0);
        });
        count(&mut client);
        assert_ne!(three.leader(), leader);
        three.start_one(leader);
    }
    three.whole();
    let leader = three.leader();
    (0..3).filter(|&node| node != leader).for_each(|node| drop(three.servers[node].take()));
    let (server, began) = (three.servers[leader].take().expect("it runs"), Instant::now());
    server.stop(BOUND);
    assert!(began.elapsed() < BOUND, "it waits for nobody");
    assert!(longest < suspect, "an increment took {longest:?}");
}

#[test]
fn one_replica_alone_answers_no_write() {
    let file = |node| format!("longarm-lonely-{}-{node}.sock", std::process::id());
    let mut three = Three::start((0..3).map(|n| Address::Shm(std::env::temp_dir().join(file(n)))).collect());
    let options = Options { timeout: Duration::from_secs(2), connect_timeout: BOUND, ..Options::default() };
    let mut client = Client::connect_group(&three.addresses, options).expect("connect");
    client.put(b"key", b"1").expect("put");
    let leader = three.leader();
    (0..3).filter(|&node| node != leader).for_each(|node| drop(three.servers[node].take()));
    match client.put(b"key", b"2") {
        Err(Error::InDoubt(_)) => {}
        other => panic!("a write that no majority has was answered {other:?}"),
    }
}

/// One client finds many keys that belong to one pair of the index, and harms only itself.
#[test]
fn keys_of_one_hash_do_no_harm_to_others() {
    let file = |node| format!("longarm-crowd-{}-{node}.sock", std::process::id());
    let mut three = Three::start((0..3).map(|n| Address::Shm(std::env::temp_dir().join(file(n)))).collect());
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    let mut client = Client::connect_group(&three.addresses, options).expect("connect");
    let crowd = crowd(&HashKey::new(2), |hash| hash.0 >> 50, 90);
    // Many requests are under way before any is applied, so more are accepted than the pair has slots for.
    let tickets: Vec<_> = crowd[..60]
        .iter()
        .map(|key| client.submit(&Write::put(key, b"value")).expect("room in the pipeline"))
        .collect();
    let mut stored: Vec<_> = crowd[..60].iter().zip(tickets).collect();
    stored.retain(|(_, ticket)| match client.wait(*ticket) {
        Ok(_) => true,
        Err(Error::Crowded) => false,
        Err(error) => panic!("{error}"),
    });
    for key in &crowd[60..] {
        assert!(matches!(client.put(key, b"value"), Err(Error::Crowded)), "there is no slot for it");
    }
    assert!(stored.len() >= 26, "{}", stored.len());
    let others = others(&mut client, 2_000);
    three.whole();
    let leader = three.leader();
    drop(three.servers[leader].take());
    for i in &others {
        assert!(client.get(&i.to_le_bytes()).expect("get").is_some(), "item {i}");
    }
    let mut walked = std::collections::BTreeSet::new();
    for (key, _) in &stored {
        assert_eq!(client.get(key).expect("get").as_deref(), Some(&b"value"[..]));
    }
    client.put(stored[0].0, b"again").expect("it has its place");
    client.multi_get(&crowd[..60], |at, found| walked.extend(found.map(|_| crowd[at].clone()))).expect("get");
    assert_eq!(walked.len(), stored.len());
    walked.clear();
    let walk = |item: crate::Item| {
        walked.insert(item.key);
        true
    };
    client.walk(walk).expect("walk");
    assert_eq!(walked.len(), others.len() + stored.len());
    for (key, _) in stored {
        assert!(client.delete(key).expect("delete"));
    }
    client.put(&crowd[0], b"value").expect("there is room again");
}

/// So many keys with the same `what`.
pub(super) fn crowd<T: PartialEq>(hash: &HashKey, what: impl Fn(Hash) -> T, keys: usize) -> Vec<Vec<u8>> {
    let wanted = what(hash.hash(b"crowd"));
    let all = (0u64..).map(u64::to_le_bytes).filter(|key| what(hash.hash(key)) == wanted);
    all.take(keys).map(|key| key.to_vec()).collect()
}

/// Stores so many other keys: there is room for all except the few that belong to that very pair.
pub(super) fn others(client: &mut Client, count: u32) -> Vec<u32> {
    let stored = (0..count).filter(|i| match client.put(&i.to_le_bytes(), b"other") {
        Ok(_) => true,
        Err(Error::Crowded) => false,
        Err(error) => panic!("other key {i}: {error}"),
    });
    let stored: Vec<_> = stored.collect();
    assert!(stored.len() as u32 > count - count / 50, "{} of {count}", stored.len());
    stored
}
