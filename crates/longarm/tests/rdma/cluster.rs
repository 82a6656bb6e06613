//! A group of three, each node on a device of its own.

use rustix::process::Signal;

use crate::group::{Group, TIMES, in_sync};
use crate::{address_on, devices, nodes};

/// First of the ports of groups.
pub const PORT: u16 = 7201;

/// A group whose nodes listen at a port of their own devices.
pub fn group(port: u16, times: [&str; 4]) -> Group {
    let nodes = nodes();
    let devices = std::iter::once(devices().0).chain(nodes.clone()).collect();
    Group::init(devices, &times, |node, _| address_on(&nodes[node - 1], port))
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_group_outlives_its_leader() {
    let mut group = group(PORT, TIMES);
    group.outlives_its_leader();
    group.ends_well();
}

/// The NIC of a stopped leader goes on answering READs, and goes on writing what was posted.
#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_leader_that_stops_for_longer_than_its_lease_is_replaced_and_comes_back() {
    let mut group = group(PORT + 1, TIMES);
    let first = group.start_all();
    group.client(&["put", "greeting", "hello"]);
    group.signal(first, Signal::STOP);
    let second = group.until("new leader", |status| status["leader"] != first && in_sync(status) == 2);
    // The new leader is asked for by its address: the stopped one lets clients connect and gives no answer.
    let second = address_on(&nodes()[second - 1], PORT + 1);
    let (_, err, code) = group.run(&["put", "greeting", "again", "--address", &second]);
    assert_eq!(code, 0, "{err}\n{}", group.logs());
    group.signal(first, Signal::CONT);
    assert_eq!(group.client(&["get", "greeting"]), "again");
    group.until("group in sync again", |status| in_sync(status) == 3);
    assert_eq!(group.client(&["get", "greeting"]), "again");
}
