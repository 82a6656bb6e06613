//! Which device, port and GID; and a device that is open.
//!
//! RoCE version 2 with an IPv4 address comes first, then version 2 with another, then InfiniBand or version
//! 1.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use longarm_ibverbs as ib;

use super::failed::failed;
use super::register::Registrations;
use crate::SetupError;

/// A device by name, and, where it matters, a port and a GID of it: `mlx5_0`, `mlx5_0:1`, `mlx5_0:1:3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceChoice {
    /// As `ibv_devices` and `rdma link` name it.
    pub name: String,
    /// From 1; the first active one if not given.
    pub port: Option<u8>,
    /// Place in the port's GID table; the best one if not given.
    pub gid_index: Option<u8>,
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        match (self.port, self.gid_index) {
            (Some(port), Some(gid)) => write!(f, ":{port}:{gid}"),
            (Some(port), None) => write!(f, ":{port}"),
            (None, _) => Ok(()),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<DeviceChoice, String> {
        let wrong = || format!("device {text:?}: expected NAME, NAME:PORT or NAME:PORT:GID-INDEX");
        let mut parts = text.split(':');
        let name = parts.next().filter(|name| !name.is_empty()).ok_or_else(wrong)?.to_string();
        let mut number = || parts.next().map(|part| part.parse::<u8>().map_err(|_| wrong())).transpose();
        let (port, gid_index) = (number()?, number()?);
        if parts.next().is_some() || port == Some(0) {
            return Err(wrong());
        }
        Ok(DeviceChoice { name, port, gid_index })
    }
}

/// The way into the network that a connection takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub device: String,
    pub port: ib::Port,
    pub gid: ib::Gid,
}

/// A device as people want to see it (doctor).
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name.
    pub device: String,
    /// What it can do.
    pub attributes: ib::Attributes,
    /// Its ports, each with its addresses.
    pub ports: Vec<(ib::Port, Vec<ib::Gid>)>,
}

/// The RDMA devices of this machine; an error says what is missing.
pub fn survey() -> Result<Vec<DeviceInfo>, ib::Error> {
    ib::devices()?.into_iter().map(|name| look(&name)).collect()
}

fn look(name: &str) -> Result<DeviceInfo, ib::Error> {
    let Device { context, attributes, .. } = &*Device::open(name)?;
    let with_gids = |number| {
        let port = context.port(number)?;
        let gids = context.gids(&port)?;
        Ok::<_, ib::Error>((port, gids))
    };
    let ports = (1..=attributes.ports).map(with_gids).collect::<Result<_, _>>()?;
    Ok(DeviceInfo { device: name.into(), attributes: *attributes, ports })
}

/// Chooses: what was asked for, else the device that has the address `local`, else the first that is ready.
pub(super) fn choose(wanted: Option<&DeviceChoice>, local: IpAddr) -> Result<Chosen, SetupError> {
    let surveys = match wanted {
        Some(wanted) => vec![look(&wanted.name).map_err(failed)?],
        None => {
            // A device that cannot be opened hides no other; the first such fault counts where there is no
            // other.
            let looks: Vec<_> = ib::devices().map_err(failed)?.iter().map(|name| look(name)).collect();
            let (good, bad): (Vec<_>, Vec<_>) = looks.into_iter().partition(Result::is_ok);
            if let (true, Some(Err(error))) = (good.is_empty(), bad.into_iter().next()) {
                return Err(failed(error));
            }
            good.into_iter().flatten().collect()
        }
    };
    pick(&surveys, wanted, local).ok_or_else(|| {
        SetupError::Unsupported(match (wanted, surveys.is_empty()) {
            (Some(wanted), _) => format!(
                "RDMA device {} has no such port or GID, or its port is not active: see longarm doctor",
                wanted.name
            ),
            (None, true) => "this machine has no RDMA device (see longarm doctor); \
                             use tcp:// or shm:, or cargo x vm for Soft-RoCE"
                .into(),
            (None, false) => {
                "no RDMA device of this machine has an active port with a GID: see longarm doctor".into()
            }
        })
    })
}

fn pick(surveys: &[DeviceInfo], wanted: Option<&DeviceChoice>, local: IpAddr) -> Option<Chosen> {
    let port_wanted = wanted.and_then(|wanted| wanted.port);
    let gid_wanted = wanted.and_then(|wanted| wanted.gid_index);
    let mut best: Option<(u8, Chosen)> = None;
    for survey in surveys {
        for (port, gids) in &survey.ports {
            if !port.active || port_wanted.is_some_and(|wanted| wanted != port.number) {
                continue;
            }
            for gid in gids.iter().filter(|gid| gid_wanted.is_none_or(|wanted| wanted == gid.index)) {
                let rank = rank(gid, local);
                if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                    best = Some((rank, Chosen { device: survey.device.clone(), port: *port, gid: *gid }));
                }
            }
        }
    }
    best.map(|(_, chosen)| chosen)
}

/// Smaller is better.
fn rank(gid: &ib::Gid, local: IpAddr) -> u8 {
    let ours = match local {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let is_ours = Ipv6Addr::from(gid.bytes) == ours;
    match (gid.kind, gid.ipv4().is_some()) {
        (ib::GidKind::RoceV2, _) if is_ours => 0,
        (ib::GidKind::RoceV2, true) => 1,
        (ib::GidKind::RoceV2, false) => 2,
        (ib::GidKind::IbOrRoceV1, _) => 3,
    }
}

/// An open device. A process opens each once.
#[derive(Debug)]
pub(super) struct Device {
    pub context: Arc<ib::Context>,
    pub attributes: ib::Attributes,
    lost: AtomicBool,
    down: AtomicBool,
}

impl Device {
    fn open(name: &str) -> Result<Arc<Device>, ib::Error> {
        static OPEN: Mutex<Vec<Weak<Device>>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|device| device.strong_count() > 0);
        let known = open.iter().filter_map(Weak::upgrade).find(|device| device.context.name() == name);
        if let Some(device) = known.filter(|device| device.is_alive()) {
            return Ok(device);
        }
        let context = ib::Context::open(name)?;
        let attributes = context.attributes()?;
        let (lost, down) = (AtomicBool::new(false), AtomicBool::new(false));
        let device = Arc::new(Device { context, attributes, lost, down });
        open.push(Arc::downgrade(&device));
        Ok(device)
    }

    /// Takes note of what happened to the device; `false` if it is lost.
    pub fn is_alive(&self) -> bool {
        while let Some(event) = self.context.event() {
            let (flag, set) = match event {
                ib::Event::DeviceLost => (&self.lost, true),
                ib::Event::PortDown(_) => (&self.down, true),
                ib::Event::PortUp(_) => (&self.down, false),
                ib::Event::Other(_) => continue,
            };
            // Relaxed: a flag that stands alone.
            flag.store(set, Ordering::Relaxed);
        }
        // Relaxed: a flag that stands alone.
        !self.lost.load(Ordering::Relaxed)
    }

    /// What ails it, to add to a text; empty if nothing is known.
    pub fn ailment(&self) -> String {
        let (alive, name) = (self.is_alive(), self.context.name());
        // Relaxed: a flag that stands alone.
        match (alive, self.down.load(Ordering::Relaxed)) {
            (false, _) => format!("; our device {name} is gone"),
            (true, true) => format!("; a port of our device {name} is down"),
            (true, false) => String::new(),
        }
    }
}

/// A way into the network, and what all connections over it share.
#[derive(Debug)]
pub(super) struct Adapter {
    pub choice: Chosen,
    pub device: Arc<Device>,
    pub domain: Arc<ib::ProtectionDomain>,
    pub registrations: Registrations,
}

impl Adapter {
    pub fn open(choice: Chosen) -> Result<Adapter, SetupError> {
        let device = Device::open(&choice.device).map_err(failed)?;
        let domain = ib::ProtectionDomain::new(&device.context).map_err(failed)?;
        Ok(Adapter { choice, device, domain, registrations: Registrations::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(index: u8, address: &str, kind: ib::GidKind) -> ib::Gid {
        let bytes = match address.parse().expect("an address") {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        ib::Gid { index, bytes, kind }
    }

    fn machine() -> Vec<DeviceInfo> {
        let attributes = ib::Attributes {
            ports: 1,
            queue_pairs: 100,
            work_requests: 100,
            completions: 100,
            reads_served: 16,
            reads_posted: 16,
            registration: 1 << 40,
            atomics: true,
        };
        let port = |number, active| ib::Port { number, active, ethernet: true, mtu: 1024, lid: 0, gids: 4 };
        let (v1, v2) = (ib::GidKind::IbOrRoceV1, ib::GidKind::RoceV2);
        let first = vec![
            gid(0, "fe80::1", v1),
            gid(1, "fe80::1", v2),
            gid(2, "10.0.0.1", v1),
            gid(3, "10.0.0.1", v2),
        ];
        let second = vec![gid(0, "fe80::2", v2), gid(1, "10.0.0.2", v2)];
        let off = vec![gid(0, "10.0.0.3", v2)];
        let survey = |device: &str, ports| DeviceInfo { device: device.into(), attributes, ports };
        vec![
            survey("off0", vec![(port(1, false), off)]),
            survey("a0", vec![(port(1, true), first)]),
            survey("b0", vec![(port(1, true), second)]),
        ]
    }

    fn picked(wanted: Option<&str>, local: &str) -> Option<(String, u8)> {
        let wanted = wanted.map(|text| text.parse::<DeviceChoice>().expect("a choice"));
        let mut machine = machine();
        if let Some(wanted) = &wanted {
            machine.retain(|survey| survey.device == wanted.name);
        }
        pick(&machine, wanted.as_ref(), local.parse().expect("an address"))
            .map(|chosen| (chosen.device, chosen.gid.index))
    }

    #[test]
    fn the_address_chooses_the_device_and_version_2_comes_first() {
        assert_eq!(picked(None, "10.0.0.2"), Some(("b0".into(), 1)));
        assert_eq!(picked(None, "10.0.0.1"), Some(("a0".into(), 3)));
        assert_eq!(picked(None, "fe80::2"), Some(("b0".into(), 0)));
        assert_eq!(picked(None, "127.0.0.1"), Some(("a0".into(), 3)), "else the first that is ready");
    }

    #[test]
    fn a_device_port_or_gid_asked_for_is_taken_or_none() {
        assert_eq!(picked(Some("b0"), "10.0.0.1"), Some(("b0".into(), 1)));
        assert_eq!(picked(Some("a0:1:0"), "10.0.0.1"), Some(("a0".into(), 0)));
        assert_eq!(picked(Some("a0:2"), "10.0.0.1"), None);
        assert_eq!(picked(Some("a0:1:9"), "10.0.0.1"), None);
        assert_eq!(picked(Some("off0"), "10.0.0.3"), None, "its port is down");
    }

    #[test]
    fn choices_that_are_none_name_the_form() {
        for text in ["", ":1", "a:x", "a:0", "a:1:2:3", "a:300"] {
            let error = text.parse::<DeviceChoice>().expect_err(text);
            assert!(error.contains("NAME:PORT:GID-INDEX"), "{error}");
        }
    }
}
