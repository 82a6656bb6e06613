//! Replicas of a group that come back with an empty directory: a machine that was installed anew, or another
//! path.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::group::{BOUND, Three};
use crate::{Client, Options};

/// Starts a node anew with an empty directory.
fn reinstall(three: &mut Three, node: usize) {
    drop(three.servers[node].take());
    three.vaults[node] = Arc::default();
}

#[test]
fn two_that_forgot_do_not_begin_anew_what_a_third_still_has() {
    let mut three = Three::over_shm("two-forgot");
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    let mut client = Client::connect_group(&three.addresses, options).expect("connect");
    client.put(b"key", b"1").expect("put");
    three.whole();
    // The node cannot be asked, as if it were cut off.
    drop(three.servers[2].take());
    (0..2).for_each(|node| reinstall(&mut three, node));
    (0..2).for_each(|node| three.start_one(node));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let roles = [0, 1].map(|node| three.role(node));
        assert!(roles.iter().all(|role| role == "learner" || role.is_empty()), "{roles:?}");
        longarm_host::sleep(Duration::from_millis(10));
    }
    // All replicas are there, and none has the stored item: no replica may say that nothing was stored.
    three.start_one(2);
    let options = Options {
        timeout: Duration::from_secs(2),
        connect_timeout: Duration::from_secs(2),
        ..Options::default()
    };
    let found = Client::connect_group(&three.addresses, options).and_then(|mut client| client.get(b"key"));
    assert!(found.is_err(), "{found:?}");
}

#[test]
fn one_that_forgot_catches_up_and_then_counts() {
    let mut three = Three::over_shm("one-forgot");
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    let mut client = Client::connect_group(&three.addresses, options).expect("connect");
    for round in 0..3u8 {
        client.put(b"key", &[round]).expect("put");
        three.whole();
        let (leader, node) = (three.leader(), usize::from(round));
        reinstall(&mut three, node);
        if node != leader {
            client.put(b"other", &[round]).expect("the two others go on");
        }
        three.start_one(node);
        three.whole();
        let leader = three.leader();
        drop(three.servers[leader].take());
        assert_eq!(client.get(b"key").expect("get"), Some(vec![round]));
        three.start_one(leader);
    }
}
