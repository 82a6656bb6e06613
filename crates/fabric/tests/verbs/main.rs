//! The verbs transport over two RDMA devices that reach each other, named by LONGARM_VERBS_DEVICES
//! (`rxe0,rxe1`): clients are on the first, the server on the second. `cargo x vm` has such devices.

#![allow(missing_docs, reason = "tests")]

mod faults;
mod limits;
mod loopback;
mod revoke;
mod suite;
mod wire;

use std::sync::OnceLock;

use longarm_fabric::Address;
use longarm_fabric::verbs::{DeviceChoice, Verbs, survey};

/// Names of the clients' and of the server's device.
pub fn devices() -> (&'static str, &'static str) {
    static TEXT: OnceLock<String> = OnceLock::new();
    let variable = "LONGARM_VERBS_DEVICES";
    let text = TEXT.get_or_init(|| std::env::var(variable).expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE"));
    text.split_once(',').expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE")
}

pub fn on(device: &str) -> Verbs {
    Verbs::new().with_device(device.parse::<DeviceChoice>().expect("a device"))
}

/// A fresh address on the server's device.
pub fn address() -> Address {
    let (_, server) = devices();
    let survey = survey().expect("devices").into_iter().find(|survey| survey.device == server);
    let ports = survey.expect("the server's device").ports;
    let ip = ports.iter().flat_map(|(_, gids)| gids).find_map(|gid| gid.ipv4()).expect("an IPv4 GID");
    Address::Verbs(format!("{ip}:0"))
}
