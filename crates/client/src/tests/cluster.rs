//! Several groups: keys find their group, batches go to all groups at once, and no group waits for another
//! one's trouble.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use longarm_base::ReplicaId;
use longarm_fabric::Address;
use longarm_server::{GroupOptions, Member, Server, ServerOptions};

use super::group::{Kept, TIMING};
use super::{serve, stop};
use crate::{Client, ClusterClient, Error, GroupAt, Options, Reply, Scan, Topology, Write};

/// A lease that is long enough for a machine on which other tests run, too.
const LEASE: Duration = Duration::from_secs(2);

/// Servers without replicas serve as groups: each has items of its own.
fn cluster(count: usize, over_tcp: bool, lease: Duration) -> (Vec<Server>, ClusterClient) {
    let (mut servers, mut groups) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (server, shm, tcp) = serve(|options| options.lease = lease);
        servers.push(server);
        groups.push(GroupAt { id: 0, addresses: vec![if over_tcp { tcp } else { shm }] });
    }
    let timeout = Duration::from_secs(20);
    let options = Options { timeout, connect_timeout: timeout, ..Options::default() };
    (servers, ClusterClient::new(Topology::new(5, groups), options))
}

fn key(i: usize) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

/// Some values fit a slot, some are entries, some are fetched in pieces.
fn value(i: usize) -> Vec<u8> {
    let len = match i % 50 {
        0 => 20_000,
        n if n % 3 == 0 => 300,
        _ => 5,
    };
    vec![i as u8; len]
}

#[test]
fn every_key_is_in_one_group_and_is_found_there() {
    for over_tcp in [false, true] {
        let (servers, mut client) = cluster(3, over_tcp, LEASE);
        for i in 0..200 {
            client.put(&key(i), &value(i)).expect("put");
        }
        let items: Vec<_> = servers.iter().map(|server| server.stats().items).collect();
        assert_eq!(items.iter().sum::<u64>(), 200);
        assert!(items.iter().all(|&items| items > 40), "{items:?}");
        for i in 0..200 {
            assert_eq!(client.get(&key(i)).expect("get"), Some(value(i)), "{i}");
            assert_eq!(client.topology().group_of(&key(i)), client.topology().clone().group_of(&key(i)));
        }
        assert_eq!(client.increment(b"counter", 4).expect("increment"), 4);
        assert!(client.delete(&key(7)).expect("delete"));
        assert!(!client.exists(&key(7)).expect("exists"));
        servers.into_iter().for_each(stop);
    }
}

#[test]
fn a_multi_get_over_groups_shows_every_key_once() {
    for over_tcp in [false, true] {
        let (servers, mut client) = cluster(3, over_tcp, LEASE);
        let keys: Vec<_> = (0..700).map(key).collect();
        for (i, key) in keys.iter().enumerate().filter(|(i, _)| i % 7 != 0) {
            client.put(key, &value(i)).expect("put");
        }
        let mut shown = BTreeMap::new();
        let look = client.multi_get(&keys, |i, found| {
            let again = shown.insert(i, found.map(|(value, _)| value.to_vec()));
            assert!(again.is_none(), "{i} is shown twice");
        });
        look.expect("multi-get");
        assert_eq!(shown.len(), keys.len());
        for (i, found) in shown {
            assert_eq!(found, (i % 7 != 0).then(|| value(i)), "{i}");
        }
        servers.into_iter().for_each(stop);
    }
}

#[test]
fn requests_to_all_groups_are_in_flight_together() {
    let (servers, mut client) = cluster(3, true, LEASE);
    let mut open = BTreeMap::new();
    for i in 0..120 {
        let ticket = client.submit(&Write::put(&key(i), &value(i))).expect("submit");
        assert!(open.insert(ticket, i).is_none(), "a ticket names one request");
    }
    assert!(client.in_flight() > 0);
    // One request is waited for, the others are polled for.
    let (&ticket, _) = open.iter().nth(60).expect("there are 120");
    open.remove(&ticket);
    assert!(matches!(client.wait(ticket).expect("wait"), Reply::Done(_)));
    let begun = Instant::now();
    while !open.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} are not answered", open.len());
        if let Some((ticket, outcome)) = client.poll() {
            assert!(open.remove(&ticket).is_some() && outcome.is_ok(), "{outcome:?}");
        }
    }
    assert_eq!(client.in_flight(), 0);
    assert!(matches!(client.wait(ticket), Err(Error::Invalid(_))), "it was answered already");
    servers.into_iter().for_each(stop);
}

/// Values in the remaining groups are shown; the lost group causes an error.
#[test]
fn a_group_that_is_gone_is_an_error_for_its_keys_alone() {
    let (mut servers, client) = cluster(2, false, Duration::from_millis(50));
    let short = Duration::from_secs(1);
    let options = Options { timeout: short, connect_timeout: short, ..Options::default() };
    let mut client = ClusterClient::new(client.topology().clone(), options.clone());
    let keys: Vec<_> = (0..300).map(key).collect();
    for (i, key) in keys.iter().enumerate() {
        client.put(key, &value(i)).expect("put");
    }
    let here = |key: &Vec<u8>, client: &ClusterClient| client.topology().group_of(key) == 0;
    stop(servers.remove(1));
    for connected in [true, false] {
        let mut shown = 0;
        let looked = client.multi_get(&keys, |i, found| {
            assert_eq!(found.map(|(value, _)| value.to_vec()), Some(value(i)), "{i}");
            shown += 1;
        });
        assert!(looked.is_err(), "{looked:?}");
        assert_eq!(shown, keys.iter().filter(|key| here(key, &client)).count());
        let theirs = keys.iter().find(|key| !here(key, &client)).expect("half of them");
        assert!(client.get(theirs).is_err(), "connected before: {connected}");
        let ours = keys.iter().find(|key| here(key, &client)).expect("half of them");
        client.put(ours, b"on").expect("put");
        client.put(ours, &value(keys.iter().position(|key| key == ours).expect("it is one"))).expect("put");
        // A client that never was connected to the lost group tries the same.
        client = ClusterClient::new(client.topology().clone(), options.clone());
    }
    servers.into_iter().for_each(stop);
}

/// A node with the only replica of each of these groups, perhaps with an ordered index of each.
fn node(name: &str, ids: &[u64], ordered: bool) -> (Server, Address) {
    let file = format!("longarm-node-{}-{name}.sock", std::process::id());
    let at = Address::Shm(std::env::temp_dir().join(file));
    let group = |&id: &u64| GroupOptions {
        id,
        replica: ReplicaId(0),
        members: vec![Member { replica: ReplicaId(0), address: at.clone() }],
        joins: false,
        first: Some(ReplicaId(0)),
        timing: TIMING,
        sum_key: id + 1,
        hash_key: id + 2,
        vote_store: std::sync::Arc::<Kept>::default(),
        durable: None,
        memory_parts: 1,
    };
    let options = ServerOptions {
        addresses: vec![at.clone()],
        memory: 64 << 20,
        workers: 3,
        groups: ids.iter().map(group).collect(),
        ordered,
        ..ServerOptions::default()
    };
    (Server::start(options).expect("a node"), at)
}

#[test]
fn one_node_serves_its_groups_at_one_address() {
    let (server, at) = node("several", &[9, 10, 11], false);
    let groups = [9, 10, 11].map(|id| GroupAt { id, addresses: vec![at.clone(), at.clone()] });
    let mut client = ClusterClient::new(Topology::new(5, groups.to_vec()), Options::default());
    for i in 0..200 {
        client.put(&key(i), &value(i)).expect("put");
    }
    for i in 0..200 {
        assert_eq!(client.get(&key(i)).expect("get"), Some(value(i)), "{i}");
    }
    let stats = server.all_stats();
    assert_eq!(stats.iter().map(|group| group.items).sum::<u64>(), 200);
    for (number, group) in stats.iter().enumerate() {
        assert!(group.items > 40 && group.memory_limit == (64 << 20) / 3, "{group:?}");
        let told = group.group.as_ref().map(|group| group.id.as_str());
        assert_eq!(told, Some(["0000000000000009", "000000000000000a", "000000000000000b"][number]));
        assert_eq!(client.group(number).expect("connected").group(), 9 + number as u64);
    }
    let options =
        |group| Options { group, connect_timeout: Duration::from_millis(300), ..Options::default() };
    for (group, part) in [
        (0, "this node has replicas of 3 groups"),
        (77, "this node has no replica of group 000000000000004d"),
    ] {
        let error = Client::connect(&at, options(group)).err().expect(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    stop(server);
}

#[test]
fn a_scan_of_several_groups_is_one_sorted_map() {
    let (server, at) = node("sorted", &[9, 10, 11], true);
    let groups = [9, 10, 11].map(|id| GroupAt { id, addresses: vec![at.clone()] });
    let mut client = ClusterClient::new(Topology::new(5, groups.to_vec()), Options::default());
    let mut map = BTreeMap::new();
    for i in 0..2_500 {
        client.put(&key(i), &value(i)).expect("put");
        map.insert(key(i), value(i));
    }
    for i in (0..2_500).step_by(9) {
        assert!(client.delete(&key(i)).expect("delete"));
        map.remove(&key(i));
    }
    let all: Vec<_> = map.into_iter().collect();
    let (down, some): (Vec<_>, Vec<_>) = (all.iter().rev().cloned().collect(), all[..700].to_vec());
    let (all_keys, end) = (Scan::all(), &all[700].0[..]);
    for (scan, wanted) in [
        (all_keys.clone(), &all),
        (all_keys.clone().page(13), &all),
        (all_keys.clone().reverse(), &down),
        (all_keys.clone().limit(700), &some),
        (Scan::range(..end), &some),
    ] {
        let items: Result<Vec<_>, _> = client.scan(&scan).collect();
        let items: Vec<_> = items.expect("scan").into_iter().map(|item| (item.key, item.value)).collect();
        assert!(items == *wanted, "{scan:?}: {} items of {}", items.len(), wanted.len());
        assert_eq!(client.count(&scan).expect("count"), wanted.len() as u64, "{scan:?}");
        let items = client.scan_together(&scan).expect("a scan of one instant").into_iter();
        let items: Vec<_> = items.map(|item| (item.key, item.value)).collect();
        assert!(items == *wanted, "{scan:?}: {} items of {} at one instant", items.len(), wanted.len());
    }
    let (mut token, mut paged) = (None, Vec::new());
    loop {
        let page = client.scan_page(&all_keys.clone().page(50), token.as_ref()).expect("a page");
        paged.extend(page.items.into_iter().map(|item| (item.key, item.value)));
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert!(paged == all, "{} items of {} by pages", paged.len(), all.len());
    stop(server);
}

/// A client counts up in a key of one group, and then in a key of another: at any instant the first is equal,
/// or one ahead.
#[test]
fn a_scan_of_one_instant_is_of_one_instant_in_all_groups() {
    let (server, at) = node("instant", &[9, 10, 11], true);
    let groups = [9, 10, 11].map(|id| GroupAt { id, addresses: vec![at.clone()] });
    let topology = Topology::new(5, groups.to_vec());
    let client = || ClusterClient::new(topology.clone(), Options::default());
    let first = key(0);
    let second = (1..).map(key).find(|key| topology.group_of(key) != topology.group_of(&first));
    let second = second.expect("keys are spread");
    let (done, begun) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = client();
            // Relaxed: a hint to stop.
            while !done.load(Ordering::Relaxed) {
                writer.increment(&first, 1).expect("increment");
                writer.increment(&second, 1).expect("increment");
                longarm_host::sleep(Duration::from_micros(300));
            }
        });
        let mut reader = client();
        let (mut shown, mut last) = (0, 0);
        while begun.elapsed() < Duration::from_secs(2) {
            let items = reader.scan_together(&Scan::all()).expect("a scan of one instant");
            let number = |key: &[u8]| {
                let item = items.iter().find(|item| item.key == key);
                item.map_or(0, |item| {
                    std::str::from_utf8(&item.value).expect("digits").parse().expect("a number")
                })
            };
            let (one, other): (u64, u64) = (number(&first), number(&second));
            assert!(one == other || one == other + 1, "{one} and {other} were never there at once");
            shown += u32::from(one > last);
            last = one;
        }
        // Relaxed: as above.
        done.store(true, Ordering::Relaxed);
        assert!(shown > 20, "only {shown} different moments");
    });
    stop(server);
}

#[test]
fn a_server_of_its_own_is_in_no_group() {
    let (server, shm, _) = serve(|_| {});
    let options = Options { connect_timeout: Duration::from_millis(300), ..Options::default() };
    let topology = Topology::new(0, vec![GroupAt { id: 9, addresses: vec![shm] }]);
    let error = ClusterClient::new(topology, options).get(b"key").expect_err("it is in no group");
    assert!(error.to_string().contains("this server is in no group"), "{error}");
    stop(server);
}
