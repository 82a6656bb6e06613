//! A simulated network: verbs as `contract.rs` has them, with everything it allows that a NIC of today
//! rarely does.
//!
//! In a simulated world ([`longarm_host::World`]) its time and its chance are the world's, and one seed gives
//! one run. On threads it runs in real time, which is how it passes the conformance suite of all transports.
//!
//! `net` says how things are between machines, `registry` who listens where and which connections there are,
//! `connect` and `listen` make a connection at a `door`, `pair` is one with its wire, `end` what each side of
//! it knows, `land` how it meets memory, `races` which WRITEs may not, `qp` the queue pair.

mod connect;
mod door;
mod end;
mod land;
mod listen;
mod net;
mod pair;
mod qp;
mod races;
mod registry;
#[cfg(test)]
mod tests;
mod ticker;

use std::sync::Arc;

use longarm_base::Nanos;

use crate::{Address, ConnectRequest, Connected, ListenOptions, SetupError, Transport};
pub use listen::{SimIncoming, SimListener};
use net::Net;
pub use net::{Landing, Weather};
pub use qp::SimQp;
use registry::Registry;

/// A simulated network, as a transport. Cloning gives the same one.
#[derive(Clone, Debug)]
pub struct Sim {
    net: Arc<Net>,
    registry: Arc<Registry>,
}

impl Sim {
    /// A network with such weather.
    pub fn new(weather: Weather) -> Sim {
        Sim { net: Arc::new(Net::new(weather)), registry: Arc::default() }
    }

    /// From now on the weather is this.
    pub fn set_weather(&self, weather: Weather) {
        self.net.set_weather(weather);
    }

    /// Nothing comes through from one machine to the other any more (or does again). What is on its way waits
    /// and is sent again, until its queue pair breaks.
    pub fn cut(&self, from: u32, to: u32, cut: bool) {
        self.net.cut(from, to, cut);
    }

    /// What goes from one machine to the other takes so much longer from now on; zero: as long as ever.
    pub fn slow(&self, from: u32, to: u32, by: Nanos) {
        self.net.slow(from, to, by);
    }

    /// A machine goes down, with its NIC. Peers notice some time; what it had sent may still arrive.
    pub fn machine_down(&self, machine: u32) {
        self.net.set_down(machine, true);
        for pair in self.registry.pairs() {
            pair.machine_down(machine);
        }
    }

    /// It is there again; its old connections are not.
    pub fn machine_up(&self, machine: u32) {
        self.net.set_down(machine, false);
    }
}

impl Transport for Sim {
    type Qp = SimQp;
    type Listener = SimListener;

    fn listen(&self, address: &Address, options: ListenOptions) -> Result<SimListener, SetupError> {
        listen::listen(&self.net, &self.registry, address, options)
    }

    fn connect(
        &self,
        address: &Address,
        request: ConnectRequest<'_>,
    ) -> Result<Connected<SimQp>, SetupError> {
        connect::connect(&self.net, &self.registry, address, request)
    }
}
