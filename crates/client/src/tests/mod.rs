//! The client against a real server in the same process, over shared memory and over TCP; where
//! LONGARM_VERBS_DEVICES names two devices also over RDMA, from the first to the second.

mod cluster;
mod deletes;
mod faults;
mod forgetful;
mod group;
mod idle;
mod lookups;
mod members;
mod operations;
mod packets;
mod rdma;
mod reads;
mod resend;
mod scan_model;
mod scans;
mod scans_of_leaders;
mod shared;
mod snapshots;
mod stalls;
mod trees_lent;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longarm_fabric::hook::{Counted, QueuePairCounts};
use longarm_fabric::{
    Address, Any, AnyQp, Channel, ConnectRequest, Connected, Grant, Incoming, ListenOptions, Listener,
    PeerInfo, QueuePair, Reason, SetupError, Transport,
};
use longarm_server::{Server, ServerOptions};

use crate::{Client, Options};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A server on shared memory and on TCP. Its lease is long, so that READs of the heartbeat do not mix with
/// the counted ones.
pub fn serve(change: impl FnOnce(&mut ServerOptions)) -> (Server, Address, Address) {
    // Relaxed: a number that no other test draws.
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("longarm-client-{}-{n}.sock", std::process::id()));
    let mut addresses = vec![Address::Shm(path), "tcp://127.0.0.1:0".parse().expect("an address")];
    addresses.extend(rdma::address());
    let lease = Duration::from_secs(20);
    let mut options = ServerOptions { addresses, memory: 64 << 20, lease, ..ServerOptions::default() };
    change(&mut options);
    let server = Server::start(options).expect("a server");
    let addresses = server.addresses().to_vec();
    (server, addresses[0].clone(), addresses[1].clone())
}

/// The transports of tests.
fn transports() -> Any {
    Any { verbs: rdma::clients(), ..Any::default() }
}

/// The addresses of a server on which every READ is posted, and so counted.
pub fn posted(server: &Server) -> impl Iterator<Item = &Address> {
    server.addresses().iter().filter(|address| !matches!(address, Address::Shm(_)))
}

pub fn client(address: &Address) -> Client {
    // A generous timeout: an emulated machine needs seconds for the largest values.
    let options = Options { timeout: Duration::from_secs(20), ..Options::default() };
    Client::connect_over(transports(), address, options).expect("connects")
}

pub fn stop(server: Server) {
    server.stop(Duration::from_secs(5));
}

/// Wraps every queue pair that connects.
pub struct Wrapping<W>(pub W);

impl<Q, W> Transport for Wrapping<W>
where
    Q: QueuePair + 'static,
    W: Fn(AnyQp) -> Q + Send + Sync + 'static,
{
    type Qp = Q;
    type Listener = Nobody<Q>;

    fn listen(&self, _: &Address, _: ListenOptions) -> Result<Nobody<Q>, SetupError> {
        Err(SetupError::Unsupported("this side only connects".into()))
    }
    fn connect(&self, address: &Address, request: ConnectRequest<'_>) -> Result<Connected<Q>, SetupError> {
        let Connected { qp, welcome } = transports().connect(address, request)?;
        Ok(Connected { qp: (self.0)(qp), welcome })
    }
}

/// A listener that cannot exist.
pub struct Nobody<Q>(Infallible, std::marker::PhantomData<fn() -> Q>);

impl<Q: QueuePair + 'static> Listener for Nobody<Q> {
    type Qp = Q;
    type Incoming = Nobody<Q>;
    fn accept(&mut self, _: Duration) -> Result<Option<Nobody<Q>>, SetupError> {
        match self.0 {}
    }
    fn address(&self) -> Address {
        match self.0 {}
    }
    fn failures(&mut self) -> Vec<String> {
        match self.0 {}
    }
}

impl<Q: QueuePair + 'static> Incoming for Nobody<Q> {
    type Qp = Q;
    fn hello(&self) -> &[u8] {
        match self.0 {}
    }
    fn peer(&self) -> PeerInfo {
        match self.0 {}
    }
    fn accept(self, _: &[u8], _: Vec<Grant>, _: u32, _: &Channel) -> Result<Q, SetupError> {
        match self.0 {}
    }
    fn reject(self, _: Reason) {
        match self.0 {}
    }
}

/// A client whose READs are counted by the hook.
#[allow(clippy::type_complexity, reason = "the closure type is what a Transport of closures has")]
pub fn counted(
    address: &Address,
    options: Options,
) -> (Client<Wrapping<impl Fn(AnyQp) -> Counted<AnyQp> + Send + Sync + 'static>>, Arc<QueuePairCounts>) {
    let counts = Arc::new(QueuePairCounts::default());
    let shared = counts.clone();
    let transport = Wrapping(move |qp| Counted::new(qp, shared.clone()));
    (Client::connect_over(transport, address, options).expect("connects"), counts)
}
