//! Examines RDMA: the library, devices, ports and GIDs, and whether a READ works.

use longarm_fabric::verbs::{Gid, GidKind, Port};

use super::probe::{Device, Probe, Route, verbs_addresses};
use super::{Finding, Machine};
use crate::config::Config;

const SOFTWARE: &str = "`rdma link add rxe0 type rxe netdev eth0` (as root) makes a software device where \
                        the kernel has rdma_rxe, and developers have `cargo x vm`";

pub fn all(machine: &Machine, config: &Config) -> Vec<Finding> {
    let wanted = verbs_addresses(config).next().is_some();
    let seen = machine.list("sys/class/infiniband");
    let lacks = files(machine, &seen);
    match &machine.probe {
        Probe::NoLibrary(text) => vec![no_library(text, &seen, wanted)],
        Probe::Failed(text) => vec![failed(text, lacks, &seen, wanted)],
        Probe::Known(devices, _) if devices.is_empty() => vec![none(lacks, &seen, wanted)],
        Probe::Known(found, routes) => {
            let mut findings = vec![devices(found, lacks, config), ports(found), gids(found), reads(found)];
            if wanted {
                findings.push(addresses(found, routes, config));
            }
            findings
        }
    }
}

/// Judges a fault that keeps a verbs server from its start. It is bad if the settings want RDMA, and only a
/// warning otherwise.
fn severe(wanted: bool, found: String, advice: &str) -> Finding {
    if wanted {
        Finding::bad("rdma", found, format!("{advice}; or use tcp:// or shm: addresses"))
    } else {
        Finding::warn("rdma", found, advice)
    }
}

fn no_library(text: &str, seen: &[String], wanted: bool) -> Finding {
    let install = "install libibverbs and the providers (ibverbs-providers, rdma-core)";
    if !seen.is_empty() {
        return severe(wanted, format!("{} cannot be used: {text}", seen.join(", ")), install);
    }
    if wanted {
        return severe(wanted, format!("verbs addresses are configured, but {text}"), install);
    }
    Finding::ok("rdma", format!("verbs is not available here, shm and tcp serve: {text}"))
}

fn failed(text: &str, lacks: Vec<String>, seen: &[String], wanted: bool) -> Finding {
    let names = if seen.is_empty() { "the devices".to_string() } else { seen.join(", ") };
    let found = format!("cannot examine {names}: {text}");
    match lacks.is_empty() {
        true => severe(wanted, found, "see dmesg; in a container, hand the devices of /dev/infiniband over"),
        false => severe(wanted, found, &lacks.join("; ")),
    }
}

fn none(mut lacks: Vec<String>, seen: &[String], wanted: bool) -> Finding {
    if !seen.is_empty() {
        let found = format!("the kernel has {}, but libibverbs finds no device", seen.join(", "));
        if lacks.is_empty() {
            lacks.push("install its provider (ibverbs-providers, rdma-core)".into());
        }
        return severe(wanted, found, &lacks.join("; "));
    }
    if wanted {
        return severe(wanted, "verbs addresses are configured, but there is no device".into(), SOFTWARE);
    }
    Finding::ok("rdma", format!("no device, shm and tcp serve; {SOFTWARE}"))
}

/// Finds the faults of the files through which the library reaches the devices.
fn files(machine: &Machine, seen: &[String]) -> Vec<String> {
    let dir = "sys/class/infiniband_verbs";
    let entries = machine.list(dir);
    let mut lacks = Vec::new();
    for device in seen {
        let of_device =
            |entry: &&String| machine.read(&format!("{dir}/{entry}/ibdev")).as_ref() == Some(device);
        let Some(entry) = entries.iter().find(of_device) else {
            lacks.push(format!("{device} has no uverbs device: modprobe ib_uverbs (as root)"));
            continue;
        };
        let path = format!("dev/infiniband/{entry}");
        match machine.refusal(&path) {
            None => {}
            Some(error) if error.kind() == std::io::ErrorKind::NotFound => lacks.push(format!(
                "{device} needs /{path}, which is not there: start udev, or hand it over to this container"
            )),
            Some(error) => lacks.push(format!(
                "{device}: this user may not read and write /{path} ({error}): chmod a+rw /{path} (as root)"
            )),
        }
    }
    lacks
}

fn devices(devices: &[Device], mut lacks: Vec<String>, config: &Config) -> Finding {
    let room = |device: &Device| {
        let survey = &device.survey;
        format!("{} with room for {} queue pairs", survey.device, survey.attributes.queue_pairs)
    };
    let found = devices.iter().map(room).collect::<Vec<_>>().join(", ");
    let wanted = verbs_addresses(config).next().is_some();
    for device in devices.iter().filter(|_| wanted) {
        // A client that scans has two.
        let each = if config.ordered { 2 } else { 1 };
        let room = device.survey.attributes.queue_pairs as usize / each;
        if room < config.max_clients {
            lacks.push(format!("set max_clients to at most {room} for {}", device.survey.device));
        }
    }
    verdict("rdma", found, lacks)
}

fn verdict(name: &'static str, found: String, lacks: Vec<String>) -> Finding {
    if lacks.is_empty() { Finding::ok(name, found) } else { Finding::warn(name, found, lacks.join("; ")) }
}

/// Every port with its device's name and its GIDs.
fn each(devices: &[Device]) -> impl Iterator<Item = (&Device, String, &Port, &[Gid])> {
    devices.iter().flat_map(|device| {
        let ports = device.survey.ports.iter();
        ports.map(move |(port, gids)| {
            (device, format!("{}/{}", device.survey.device, port.number), port, gids.as_slice())
        })
    })
}

fn ports(devices: &[Device]) -> Finding {
    let (mut shown, mut lacks) = (Vec::new(), Vec::new());
    for (_, name, port, _) in each(devices) {
        let state = if port.active { "active" } else { "not active" };
        let network = if port.ethernet { "Ethernet" } else { "InfiniBand" };
        shown.push(format!("{name} {state}, {network}, MTU {}", port.mtu));
        match (port.active, port.ethernet) {
            (true, _) => {}
            (false, true) => lacks
                .push(format!("{name}: bring its network interface up (`rdma link` names it), plug it in")),
            (false, false) => lacks.push(format!("{name}: plug it in, and run a subnet manager (opensm)")),
        }
    }
    if shown.is_empty() {
        return Finding::warn("rdma-ports", "none", "the devices have no port: see their driver's manual");
    }
    verdict("rdma-ports", shown.join("; "), lacks)
}

fn gids(devices: &[Device]) -> Finding {
    let (mut shown, mut lacks) = (Vec::new(), Vec::new());
    for (device, name, port, gids) in each(devices) {
        let chosen = |gid: &Gid| {
            let way = device.way.as_ref();
            way.is_some_and(|way| way.port.number == port.number && way.gid.index == gid.index)
        };
        let show = |gid: &Gid| {
            let mark = if chosen(gid) { " (chosen)" } else { "" };
            format!("{} {gid} {}{mark}", gid.index, kind(gid, port))
        };
        let all: Vec<String> = gids.iter().map(show).collect();
        shown.push(format!("{name}: {}", if all.is_empty() { "none".into() } else { all.join(", ") }));
        let routable = gids.iter().any(|gid| gid.kind == GidKind::RoceV2);
        if port.active && port.ethernet && !routable {
            lacks.push(format!(
                "{name} has no RoCE v2 GID: give its network interface an IP address (ip addr add), and see \
                 that its driver speaks RoCE v2"
            ));
        }
    }
    verdict("rdma-gids", shown.join("; "), lacks)
}

fn kind(gid: &Gid, port: &Port) -> &'static str {
    match (gid.kind, port.ethernet) {
        (GidKind::RoceV2, _) => "RoCE v2",
        (GidKind::IbOrRoceV1, true) => "RoCE v1",
        (GidKind::IbOrRoceV1, false) => "InfiniBand",
    }
}

fn reads(devices: &[Device]) -> Finding {
    let (mut shown, mut failed) = (Vec::new(), Vec::new());
    for device in devices {
        let name = device.survey.device.as_str();
        match &device.read {
            Some(Ok(report)) => {
                let micros = report.nanos as f64 / 1000.0;
                let (gid, bytes) = (report.gid, report.bytes);
                shown.push(format!("{name} to itself at {gid}: {bytes} bytes in {micros:.1} us"));
            }
            Some(Err(error)) => {
                shown.push(format!("{name} failed: {error}"));
                failed.push(name);
            }
            None => shown.push(format!("{name} not tried: no active port with a GID")),
        }
    }
    let mut lacks = Vec::new();
    if !failed.is_empty() {
        lacks.push(format!(
            "{}: see that its network interface is up and has its address (ip addr), that memory may be \
             locked (memlock above), that no firewall drops UDP port 4791, and what dmesg says",
            failed.join(", ")
        ));
    }
    if devices.iter().all(|device| device.read.is_none()) {
        lacks.push("get a port active first".into());
    }
    verdict("rdma-read", shown.join("; "), lacks)
}

/// Examines which device each verbs address gets.
fn addresses(devices: &[Device], routes: &[Route], config: &Config) -> Finding {
    let (mut shown, mut lacks, mut bad) = (Vec::new(), Vec::new(), false);
    for route in routes {
        let address = &route.address;
        match &route.way {
            None => shown.push(format!("{address} depends on what its name means")),
            Some(Err(error)) => {
                bad = true;
                shown.push(format!("{address} gets no device: {error}"));
                if route.local.is_none() {
                    lacks.push(format!("is {address} right, and its network interface up?"));
                } else {
                    let names = devices.iter().map(|device| device.survey.device.as_str());
                    let names = names.collect::<Vec<_>>().join(", ");
                    lacks.push(format!(
                        "get a port active that has a GID, or name another of {names} (verbs.device)"
                    ));
                }
            }
            Some(Ok(way)) => {
                let gid = &way.gid;
                let kind = kind(gid, &way.port);
                shown.push(format!(
                    "{address} takes {}/{}, GID {} {gid} {kind}",
                    way.device, way.port.number, gid.index
                ));
                if config.verbs.device.is_none() && is_elsewhere(route, gid) {
                    lacks.push(format!(
                        "{address} is no address of an active RDMA port: peers must reach {gid}; use \
                         that one, or name the device (verbs.device)"
                    ));
                }
            }
        }
    }
    let found = shown.join("; ");
    if bad {
        Finding::bad("rdma-address", found, lacks.join("; "))
    } else {
        verdict("rdma-address", found, lacks)
    }
}

/// Whether the way uses another address than this machine's end of the route. A loopback address takes any
/// device, and a GID of InfiniBand is no IP address, so neither is elsewhere.
fn is_elsewhere(route: &Route, gid: &Gid) -> bool {
    let Some(local) = route.local else { return false };
    let same = gid.to_string() == local.to_canonical().to_string();
    gid.kind == GidKind::RoceV2 && !local.is_loopback() && !local.is_unspecified() && !same
}
