//! Scans where a leader answers them, in real time: of a group while no follower has an ordered index that is
//! ready.

use std::time::{Duration, Instant};

use longarm_fabric::Any;

use super::group::{BOUND, Three};
use super::scans::{connect, shows};
use crate::{Client, Scan};

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
    let asked = |client: &Client<Any>| client.scans.links.last().map(|link| link.address.clone());
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
