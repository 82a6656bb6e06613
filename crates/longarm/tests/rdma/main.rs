//! The program over RDMA, as a user would run it: clients on the first of the devices in
//! LONGARM_VERBS_DEVICES, a server on the second, the nodes of a group on those in LONGARM_VERBS_NODES.

#![allow(missing_docs, reason = "tests")]

mod cluster;
#[path = "../cli/group.rs"]
mod group;
#[path = "../cli/harness.rs"]
#[allow(dead_code, reason = "its servers are on shared memory")]
mod harness;
mod packets;
mod server;

use longarm_fabric::verbs::survey;

const LONGARM: &str = env!("CARGO_BIN_EXE_longarm");

fn devices() -> (String, String) {
    let text = std::env::var("LONGARM_VERBS_DEVICES").expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE");
    let (one, two) = text.split_once(',').expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE");
    (one.to_string(), two.to_string())
}

/// Devices of the nodes of a group.
fn nodes() -> [String; 3] {
    let text = std::env::var("LONGARM_VERBS_NODES").expect("LONGARM_VERBS_NODES=DEVICE,DEVICE,DEVICE");
    let nodes: Vec<_> = text.split(',').map(str::to_string).collect();
    nodes.try_into().expect("LONGARM_VERBS_NODES=DEVICE,DEVICE,DEVICE")
}

/// An address of a device.
fn address_on(device: &str, port: u16) -> String {
    let survey = survey().expect("devices").into_iter().find(|survey| survey.device == device);
    let ports = survey.expect("the server's device").ports;
    let ip = ports.iter().flat_map(|(_, gids)| gids).find_map(|gid| gid.ipv4()).expect("an IPv4 GID");
    format!("verbs://{ip}:{port}")
}

/// An address of the second device.
fn address(port: u16) -> String {
    address_on(&devices().1, port)
}
