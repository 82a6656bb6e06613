//! Scans where a leader answers them, in real time: of a server alone that keeps an ordered index, and of a
//! group while no follower has one that is ready.

use std::time::{Duration, Instant};

use longarm_base::random::SplitMix64;
use longarm_fabric::{Address, Any};
use longarm_index::hash::SlotKind;
use longarm_server::{Server, ServerOptions};

use super::group::{BOUND, Three};
use super::scan_model::shows;
use super::scans::{all_sizes_come_back, are_instants, connect, fixed, says_that_it_is_not_ordered};
use super::{client as connect_alone, serve};
use crate::{Client, Error, Scan};

/// A server alone that keeps an ordered index. It serves no sooner than a lease after it started.
pub(super) fn alone(change: impl FnOnce(&mut ServerOptions)) -> (Server, Address, Address) {
    serve(|options| {
        (options.ordered, options.lease) = (true, Duration::from_millis(100));
        change(options);
    })
}

#[test]
fn a_page_of_a_server_alone_shows_what_was_just_acknowledged() {
    let kinds = [SlotKind::Inline64, SlotKind::Pointer16];
    for (kind, seed) in kinds.into_iter().zip(32..) {
        let (_server, shm, tcp) = alone(|options| options.slots = kind);
        let mut client = connect_alone(&shm);
        shows(&mut client, seed, Duration::from_secs(2));
        let keys: Result<Vec<_>, _> = client.scan(&Scan::all().keys_only()).collect();
        keys.expect("scan").iter().for_each(|item| _ = client.delete(&item.key).expect("delete"));
        shows(&mut connect_alone(&tcp), seed, Duration::from_secs(2));
    }
}

#[test]
fn values_of_every_size_come_back_from_a_server_alone() {
    let (_server, shm, tcp) = alone(|_| {});
    all_sizes_come_back(&mut connect_alone(&shm));
    all_sizes_come_back(&mut connect_alone(&tcp));
}

/// What a server alone keeps is gone with it: the one that starts at its address begins anew.
#[test]
fn a_server_alone_that_starts_again_shows_what_it_has_since() {
    let (server, shm, _) = alone(|_| {});
    let mut client = connect_alone(&shm);
    for number in 0..200 {
        client.put(&fixed(number), b"of before").expect("put");
    }
    assert_eq!(client.count(&Scan::all()).expect("count"), 200);
    drop(server);
    let (_server, ..) = alone(|options| options.addresses[0] = shm.clone());
    assert_eq!(client.scan_page(&Scan::all(), None).expect("a page").items, []);
    client.put(&fixed(7), b"new").expect("put");
    let page = client.scan_page(&Scan::all(), None).expect("a page");
    assert_eq!(page.items.iter().map(|item| &item.value[..]).collect::<Vec<_>>(), [b"new"]);
}

/// A group of three of which one follower is lost, and the other keeps no index: the leader shows pages until
/// the lost one is back.
#[test]
fn a_leader_stands_in_until_a_follower_is_ready() {
    let mut three = Three::ordered("scan-stand-in");
    let mut client = connect(&three);
    client.put(b"z", b"of before").expect("put");
    three.whole();
    let leader = three.leader();
    let [lost, other] = [1, 2].map(|more| (leader + more) % 3);
    drop(three.servers[other].take());
    three.ordered = false;
    three.start_one(other);
    three.whole();
    drop(three.servers[lost].take());
    assert_eq!(three.leader(), leader, "a majority is there");
    assert_eq!(client.scan_page(&Scan::all(), None).expect("a page").items.len(), 1);
    client.delete(b"z").expect("delete");
    shows(&mut client, 37, Duration::from_secs(2));
    let asked = |client: &Client<Any>| client.scans.links.last().map(|link| Address::clone(&link.address));
    assert_eq!(asked(&client).as_ref(), Some(&three.addresses[leader]));
    three.ordered = true;
    three.start_one(lost);
    let begun = Instant::now();
    while asked(&client).as_ref() != Some(&three.addresses[lost]) {
        client.scan_page(&Scan::all(), None).expect("a page");
        assert!(begun.elapsed() < BOUND, "the leader is asked for ever");
    }
    assert_eq!(three.leader(), leader);
}

#[test]
fn a_server_without_an_ordered_index_says_so() {
    let (_server, shm, _) = serve(|_| {});
    says_that_it_is_not_ordered(connect_alone(&shm));
}

#[test]
fn pages_of_a_server_alone_are_instants() {
    for pager_over_shm in [true, false] {
        let (_server, shm, tcp) = alone(|options| options.workers = 2);
        let pager = if pager_over_shm { &shm } else { &tcp };
        are_instants([connect_alone(&shm), connect_alone(&tcp)], connect_alone(pager));
    }
}

/// Long keys that share nothing take more memory in order than a server has for that.
#[test]
fn an_index_that_outgrew_its_memory_comes_back_when_items_are_gone() {
    let (server, shm, _) = alone(|options| options.memory = 32 << 20);
    let mut client = connect_alone(&shm);
    let key = |number: u64| {
        let mut draw = SplitMix64::new(number);
        Vec::from_iter((0..127).flat_map(|_| draw.draw().to_le_bytes()))
    };
    let stage = || server.stats().ordered.expect("it keeps an index").stage;
    let begun = Instant::now();
    let mut keys = 0;
    while stage() != "full" {
        client.put(&key(keys), b"").expect("put");
        keys += 1;
        assert!(begun.elapsed() < BOUND, "{keys} keys have room");
    }
    let timeout = std::mem::replace(&mut client.options.timeout, Duration::from_millis(300));
    let refused = client.scan_page(&Scan::all(), None).expect_err("there is no index");
    client.options.timeout = timeout;
    assert!(matches!(&refused, Error::NoPage(why) if why.contains("no memory")), "{refused}");
    assert!(client.get(&key(0)).expect("get").is_some(), "nothing else is concerned");
    (3..keys).for_each(|number| assert!(client.delete(&key(number)).expect("delete")));
    let begun = Instant::now();
    while stage() != "ready" {
        assert!(begun.elapsed() < BOUND, "it does not come back");
        longarm_host::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.count(&Scan::all()).expect("count"), 3);
}
