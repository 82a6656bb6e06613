//! Asks the verbs library about this machine's RDMA devices, and tries a READ on each. A thread of its own
//! asks, because a driver may hang, and the program waits for that thread for a bounded time.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

use longarm_fabric::verbs::{self, DeviceChoice, DeviceInfo, LoopbackReport, VerbsError, Way};
use longarm_fabric::{Address, SetupError};

use crate::config::Config;

/// The most time for all questions. A device that works takes milliseconds, a device that loses its packets
/// two seconds.
const TIME: Duration = Duration::from_secs(20);

/// The answers of the library.
#[derive(Clone, Debug)]
pub enum Probe {
    /// The reason why the library cannot be used, and what to install.
    NoLibrary(String),
    /// The reason why the library, which can be used, tells nothing.
    Failed(String),
    /// The devices, and the way that the transport takes for each verbs address of the settings.
    Known(Vec<Device>, Vec<Route>),
}

/// A device, and the outcome of a READ on it.
#[derive(Clone, Debug)]
pub struct Device {
    /// What the device says of itself.
    pub survey: DeviceInfo,
    /// The port and GID that the transport takes on it, if one is ready.
    pub way: Option<Way>,
    /// The outcome of a READ over that way; `None` without a way.
    pub read: Option<Result<LoopbackReport, String>>,
}

/// A verbs address, and the way of its packets.
#[derive(Clone, Debug)]
pub struct Route {
    /// The address, as it was given.
    pub address: String,
    /// This machine's end of the route; unknown for a name, which is not looked up here.
    pub local: Option<IpAddr>,
    /// The way that the transport takes for the address, or why there is none.
    pub way: Option<Result<Way, String>>,
}

/// Asks the library, and waits for at most `TIME`.
pub fn probe(config: &Config) -> Probe {
    let wanted = config.verbs.device.clone();
    let addresses: Vec<Address> = verbs_addresses(config).cloned().collect();
    let (tell, told) = mpsc::channel();
    let body = move || {
        // The receiver is gone if the answer took too long.
        let _ = tell.send(ask(wanted.as_ref(), &addresses));
    };
    if let Err(error) = std::thread::Builder::new().name("longarm-probe".into()).spawn(body) {
        return Probe::Failed(format!("no thread to ask the devices: {error}"));
    }
    told.recv_timeout(TIME).unwrap_or_else(|error| match error {
        mpsc::RecvTimeoutError::Timeout => {
            Probe::Failed(format!("no answer within {} s: does a driver hang (see dmesg)?", TIME.as_secs()))
        }
        mpsc::RecvTimeoutError::Disconnected => Probe::Failed("asking the devices ended in a panic".into()),
    })
}

fn ask(wanted: Option<&DeviceChoice>, addresses: &[Address]) -> Probe {
    let surveys = match verbs::survey() {
        Ok(surveys) => surveys,
        Err(error @ VerbsError::NoLibrary(_)) => return Probe::NoLibrary(error.to_string()),
        // The kernel's part for RDMA is missing, or is not loaded.
        Err(VerbsError::Verb { source, .. }) if source.kind() == ErrorKind::Unsupported => Vec::new(),
        Err(error) => return Probe::Failed(error.to_string()),
    };
    let routes = addresses.iter().map(|address| route(wanted, address)).collect();
    Probe::Known(surveys.into_iter().map(|survey| examine(wanted, survey)).collect(), routes)
}

fn examine(wanted: Option<&DeviceChoice>, survey: DeviceInfo) -> Device {
    // The settings may name a port and a GID of their device. On other devices the transport's choice is
    // examined.
    let choice = wanted.filter(|wanted| wanted.name == survey.device).cloned().unwrap_or(DeviceChoice {
        name: survey.device.clone(),
        port: None,
        gid_index: None,
    });
    let way = verbs::way(Some(&choice), IpAddr::from([0; 4])).ok();
    let read = way.as_ref().map(|_| verbs::loopback(&choice.to_string()));
    Device { survey, way, read }
}

fn route(wanted: Option<&DeviceChoice>, address: &Address) -> Route {
    let unknown = Route { address: address.to_string(), local: None, way: None };
    let Address::Verbs(host) = address else { return unknown };
    let Ok(to) = host.parse::<SocketAddr>() else { return unknown };
    let why = |error: SetupError| match error {
        SetupError::Unsupported(text) => text,
        other => other.to_string(),
    };
    match own_end(to) {
        Ok(local) => {
            Route { local: Some(local), way: Some(verbs::way(wanted, local).map_err(why)), ..unknown }
        }
        Err(error) => Route { way: Some(Err(format!("no way there: {error}"))), ..unknown },
    }
}

/// Finds this machine's address on the way to `to`, which is `to` itself if that is an address of this
/// machine. Nothing is sent.
fn own_end(to: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    // Port 0 is no destination. Every other port has the same way.
    socket.connect(match to.port() {
        0 => SocketAddr::new(to.ip(), 1),
        _ => to,
    })?;
    Ok(socket.local_addr()?.ip())
}

/// The addresses for which a NIC is needed.
pub fn verbs_addresses(config: &Config) -> impl Iterator<Item = &Address> {
    config.address.iter().filter(|address| matches!(address, Address::Verbs(_)))
}
