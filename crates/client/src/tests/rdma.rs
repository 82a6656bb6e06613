//! The devices of LONGARM_VERBS_DEVICES, if it is set: clients on the first, the server on the second.

use std::net::Ipv4Addr;

use longarm_fabric::verbs::{Verbs, survey};

use super::*;

fn devices() -> Option<(String, String)> {
    let text = std::env::var("LONGARM_VERBS_DEVICES").ok()?;
    let (one, two) = text.split_once(',').expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE");
    Some((one.to_string(), two.to_string()))
}

/// Whether the tests run over RDMA.
pub fn is_there() -> bool {
    devices().is_some()
}

pub fn clients() -> Verbs {
    devices()
        .map_or_else(Verbs::default, |(near, _)| Verbs::new().with_device(near.parse().expect("a device")))
}

/// The address to listen on: one of the second device, by which the server chooses that device.
pub fn address() -> Option<Address> {
    let (_, name) = devices()?;
    Some(Address::Verbs(format!("{}:0", ip(&name))))
}

/// The address of a device.
fn ip(name: &str) -> Ipv4Addr {
    let survey = survey().expect("devices").into_iter().find(|survey| survey.device == name);
    let ports = survey.expect("the server's device").ports;
    ports.iter().flat_map(|(_, gids)| gids).find_map(|gid| gid.ipv4()).expect("an IPv4 GID")
}

/// The addresses of a group on the devices of LONGARM_VERBS_NODES, from this port on: one a node.
pub fn node_addresses(port: u16) -> Vec<Address> {
    let address = |(node, device): (u16, &String)| Address::Verbs(format!("{}:{}", ip(device), port + node));
    (0..).zip(&nodes()).map(address).collect()
}

/// The transport of a node of such a group.
pub fn node(node: usize) -> Verbs {
    match nodes().get(node) {
        Some(device) => Verbs::new().with_device(device.parse().expect("a device")),
        None => Verbs::default(),
    }
}

fn nodes() -> Vec<String> {
    let text = std::env::var("LONGARM_VERBS_NODES").unwrap_or_default();
    text.split(',').filter(|device| !device.is_empty()).map(str::to_string).collect()
}

/// Packets that all devices of the machine have sent, acknowledgements included.
pub fn packets_sent() -> u64 {
    let devices = std::fs::read_dir("/sys/class/infiniband").expect("devices");
    let counter = |device: std::io::Result<std::fs::DirEntry>| {
        let file = device.expect("a device").path().join("ports/1/hw_counters/sent_pkts");
        std::fs::read_to_string(file).expect("a counter").trim().parse::<u64>().expect("a number")
    };
    devices.map(counter).sum()
}
