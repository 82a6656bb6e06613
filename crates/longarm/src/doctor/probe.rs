//! What the verbs library tells of this machine's RDMA devices, and a READ tried on each. Drivers are asked
//! for it, so it happens on a thread of its own, which is waited for so long and no longer.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

use longarm_fabric::verbs::{self, DeviceChoice, DeviceInfo, LoopbackReport, VerbsError, Way};
use longarm_fabric::{Address, SetupError};

use crate::config::Config;

/// Most time for all of it. A device that works takes milliseconds, one that loses its packets two seconds.
const TIME: Duration = Duration::from_secs(20);

/// What was learnt.
#[derive(Clone, Debug)]
pub enum Probe {
    /// The library cannot be used: why, and what to install.
    NoLibrary(String),
    /// It can, but it does not tell: why.
    Failed(String),
    /// Its devices, and which of them each verbs address of the settings gets.
    Known(Vec<Device>, Vec<Route>),
}

/// A device.
#[derive(Clone, Debug)]
pub struct Device {
    /// What it says of itself.
    pub survey: DeviceInfo,
    /// Port and GID that the transport takes there, if one is ready.
    pub way: Option<Way>,
    /// The READ over it.
    pub read: Option<Result<LoopbackReport, String>>,
}

/// A verbs address and where its packets go.
#[derive(Clone, Debug)]
pub struct Route {
    /// The address, as it was given.
    pub address: String,
    /// Our own end; unknown for a name, which is not looked up here.
    pub local: Option<IpAddr>,
    /// What the transport takes for it, or why nothing.
    pub way: Option<Result<Way, String>>,
}

/// Asks.
pub fn probe(config: &Config) -> Probe {
    let wanted = config.verbs.device.clone();
    let addresses: Vec<Address> = verbs_addresses(config).cloned().collect();
    let (tell, told) = mpsc::channel();
    let body = move || {
        // Nobody listens any more if it took too long.
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
        // The kernel has no part for RDMA, or it is not loaded.
        Err(VerbsError::Verb { source, .. }) if source.kind() == ErrorKind::Unsupported => Vec::new(),
        Err(error) => return Probe::Failed(error.to_string()),
    };
    let routes = addresses.iter().map(|address| route(wanted, address)).collect();
    Probe::Known(surveys.into_iter().map(|survey| examine(wanted, survey)).collect(), routes)
}

fn examine(wanted: Option<&DeviceChoice>, survey: DeviceInfo) -> Device {
    // The settings may name a port and a GID; of another device the best is taken.
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

/// Our own address on the way to `to`: `to` itself, where it is ours. Nothing is sent.
fn own_end(to: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    // Port 0 is no destination; any other has the same way.
    socket.connect(match to.port() {
        0 => SocketAddr::new(to.ip(), 1),
        _ => to,
    })?;
    Ok(socket.local_addr()?.ip())
}

/// Addresses for which a NIC is needed.
pub fn verbs_addresses(config: &Config) -> impl Iterator<Item = &Address> {
    config.address.iter().filter(|address| matches!(address, Address::Verbs(_)))
}
