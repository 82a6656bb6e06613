//! The transport chosen at run time, by the address.
//!
//! An enum and not a `dyn`: a branch that is always taken the same way costs nothing next to the work.

use std::time::Duration;

use longarm_base::Place;

use crate::shm::{Shm, ShmIncoming, ShmListener, ShmQp};
use crate::tcp::{Tcp, TcpIncoming, TcpListener, TcpQp};
use crate::verbs::{Verbs, VerbsIncoming, VerbsListener, VerbsQp};
use crate::{
    Address, Broken, Channel, Completions, ConnectRequest, Connected, Grant, Granted, Incoming,
    ListenOptions, Listener, Op, PeerInfo, PostError, QueuePair, Reason, SetupError, Ticket, Told, Transport,
};

/// The transport that an address names, with the settings of each that has any.
#[derive(Clone, Debug, Default)]
pub struct Any {
    /// Settings of TCP.
    pub tcp: Tcp,
    /// Settings of RDMA.
    pub verbs: Verbs,
}

/// A queue pair of any transport.
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "made once and kept; a box would be one more load for each request"
)]
pub enum AnyQp {
    /// Shared memory.
    Shm(ShmQp),
    /// TCP.
    Tcp(TcpQp),
    /// RDMA.
    Verbs(VerbsQp),
}

/// A listener of any transport.
#[non_exhaustive]
pub enum AnyListener {
    /// Shared memory.
    Shm(ShmListener),
    /// TCP.
    Tcp(TcpListener),
    /// RDMA.
    Verbs(VerbsListener),
}

/// A peer of any transport that waits to be let in.
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "one is alive at a time, for a moment")]
pub enum AnyIncoming {
    /// Shared memory.
    Shm(ShmIncoming),
    /// TCP.
    Tcp(TcpIncoming),
    /// RDMA.
    Verbs(VerbsIncoming),
}

/// Connects over the transport that the address names, with the usual settings.
pub fn connect(address: &Address, request: ConnectRequest<'_>) -> Result<Connected<AnyQp>, SetupError> {
    Any::default().connect(address, request)
}

/// Listens on the transport that the address names, with the usual settings.
pub fn listen(address: &Address, options: ListenOptions) -> Result<AnyListener, SetupError> {
    Any::default().listen(address, options)
}

fn simulated(address: &Address) -> SetupError {
    SetupError::Unsupported(format!("{address} is of a simulated network, which only the simulator has"))
}

impl Transport for Any {
    type Qp = AnyQp;
    type Listener = AnyListener;

    fn listen(&self, address: &Address, options: ListenOptions) -> Result<AnyListener, SetupError> {
        match address {
            Address::Shm(_) => Shm.listen(address, options).map(AnyListener::Shm),
            Address::Tcp(_) => self.tcp.listen(address, options).map(AnyListener::Tcp),
            Address::Verbs(_) => self.verbs.listen(address, options).map(AnyListener::Verbs),
            Address::Sim(_) => Err(simulated(address)),
        }
    }

    fn connect(
        &self,
        address: &Address,
        request: ConnectRequest<'_>,
    ) -> Result<Connected<AnyQp>, SetupError> {
        match address {
            Address::Shm(_) => {
                let Connected { qp, welcome } = Shm.connect(address, request)?;
                Ok(Connected { qp: AnyQp::Shm(qp), welcome })
            }
            Address::Tcp(_) => {
                let Connected { qp, welcome } = self.tcp.connect(address, request)?;
                Ok(Connected { qp: AnyQp::Tcp(qp), welcome })
            }
            Address::Verbs(_) => {
                let Connected { qp, welcome } = self.verbs.connect(address, request)?;
                Ok(Connected { qp: AnyQp::Verbs(qp), welcome })
            }
            Address::Sim(_) => Err(simulated(address)),
        }
    }
}

/// The same expression for whichever it is.
macro_rules! either {
    ($enum:ident, $self:expr, $it:ident => $do:expr) => {
        match $self {
            $enum::Shm($it) => $do,
            $enum::Tcp($it) => $do,
            $enum::Verbs($it) => $do,
        }
    };
}

impl QueuePair for AnyQp {
    #[inline]
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        either!(AnyQp, self, qp => qp.post(op, ticket))
    }
    #[inline]
    fn ring(&mut self) {
        either!(AnyQp, self, qp => qp.ring())
    }
    #[inline]
    fn poll(&mut self, done: &mut Completions) -> usize {
        either!(AnyQp, self, qp => qp.poll(done))
    }
    #[inline(always)]
    fn prefetch(&self, from: Place) -> bool {
        either!(AnyQp, self, qp => qp.prefetch(from))
    }
    #[inline(always)]
    fn read_now(&mut self, from: Place, into: u32) -> bool {
        either!(AnyQp, self, qp => qp.read_now(from, into))
    }
    #[inline]
    fn landing(&self, at: u32, len: u32) -> &[u8] {
        either!(AnyQp, self, qp => qp.landing(at, len))
    }
    fn message(&self, buffer: u16, len: u32) -> &[u8] {
        either!(AnyQp, self, qp => qp.message(buffer, len))
    }
    fn release(&mut self, buffer: u16) {
        either!(AnyQp, self, qp => qp.release(buffer))
    }
    fn arm(&mut self) -> bool {
        either!(AnyQp, self, qp => qp.arm())
    }
    fn came_in_on(&mut self) -> Option<u32> {
        either!(AnyQp, self, qp => qp.came_in_on())
    }
    fn move_to(&mut self, channel: &Channel) -> bool {
        either!(AnyQp, self, qp => qp.move_to(channel))
    }
    #[inline]
    fn offers_core(&self) -> bool {
        either!(AnyQp, self, qp => qp.offers_core())
    }
    #[inline]
    fn ready(&mut self) -> bool {
        either!(AnyQp, self, qp => qp.ready())
    }
    fn wait(&mut self, timeout: Duration) {
        either!(AnyQp, self, qp => qp.wait(timeout))
    }
    fn attend(&mut self, channel: &Channel) -> Result<(), SetupError> {
        either!(AnyQp, self, qp => qp.attend(channel))
    }
    fn told(&self) -> Option<Told> {
        either!(AnyQp, self, qp => qp.told())
    }
    fn state(&self) -> Result<(), Broken> {
        either!(AnyQp, self, qp => qp.state())
    }
    fn granted(&self) -> &[Granted] {
        either!(AnyQp, self, qp => qp.granted())
    }
    fn revoke(&mut self) -> Result<(), SetupError> {
        either!(AnyQp, self, qp => qp.revoke())
    }
    fn heed_fence(&mut self) {
        either!(AnyQp, self, qp => qp.heed_fence())
    }
    fn fence(&mut self) -> Result<(), SetupError> {
        either!(AnyQp, self, qp => qp.fence())
    }
    fn held_bytes(&self) -> usize {
        either!(AnyQp, self, qp => qp.held_bytes())
    }
    fn describe(&self) -> String {
        either!(AnyQp, self, qp => qp.describe())
    }
}

impl Listener for AnyListener {
    type Qp = AnyQp;
    type Incoming = AnyIncoming;

    fn accept(&mut self, timeout: Duration) -> Result<Option<AnyIncoming>, SetupError> {
        match self {
            AnyListener::Shm(listener) => Ok(listener.accept(timeout)?.map(AnyIncoming::Shm)),
            AnyListener::Tcp(listener) => Ok(listener.accept(timeout)?.map(AnyIncoming::Tcp)),
            AnyListener::Verbs(listener) => Ok(listener.accept(timeout)?.map(AnyIncoming::Verbs)),
        }
    }
    fn address(&self) -> Address {
        either!(AnyListener, self, listener => listener.address())
    }
    fn prepare(&mut self, grants: &[Grant]) -> Result<(), SetupError> {
        either!(AnyListener, self, listener => listener.prepare(grants))
    }
    fn failures(&mut self) -> Vec<String> {
        either!(AnyListener, self, listener => listener.failures())
    }
}

impl Incoming for AnyIncoming {
    type Qp = AnyQp;

    fn hello(&self) -> &[u8] {
        either!(AnyIncoming, self, incoming => incoming.hello())
    }
    fn peer(&self) -> PeerInfo {
        either!(AnyIncoming, self, incoming => incoming.peer())
    }
    fn needs_files(&self) -> bool {
        either!(AnyIncoming, self, incoming => incoming.needs_files())
    }
    fn accept(
        self,
        welcome: &[u8],
        grants: Vec<Grant>,
        landing: u32,
        channel: &Channel,
    ) -> Result<AnyQp, SetupError> {
        match self {
            AnyIncoming::Shm(incoming) => incoming.accept(welcome, grants, landing, channel).map(AnyQp::Shm),
            AnyIncoming::Tcp(incoming) => incoming.accept(welcome, grants, landing, channel).map(AnyQp::Tcp),
            AnyIncoming::Verbs(incoming) => {
                incoming.accept(welcome, grants, landing, channel).map(AnyQp::Verbs)
            }
        }
    }
    fn reject(self, reason: Reason) {
        either!(AnyIncoming, self, incoming => incoming.reject(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use crate::conformance::Setup;

    struct OverAny;

    impl Setup for OverAny {
        type Transport = Any;
        const SUITE: &'static str = module_path!();

        fn transport() -> Any {
            Any::default()
        }
        fn address() -> Address {
            crate::shm::tests::fresh_address()
        }
    }

    conformance!(OverAny);

    #[test]
    fn the_address_chooses() {
        let tcp: Address = "tcp://127.0.0.1:0".parse().expect("an address");
        let listener = listen(&tcp, ListenOptions::default()).expect("listen");
        assert!(matches!(listener, AnyListener::Tcp(_)));
        assert!(matches!(listener.address(), Address::Tcp(host) if !host.ends_with(":0")));
        let verbs: Address = "verbs://127.0.0.1:0".parse().expect("an address");
        match listen(&verbs, ListenOptions::default()) {
            Ok(listener) => assert!(matches!(listener, AnyListener::Verbs(_))),
            // A machine without devices, or without the library, says which.
            Err(error) => {
                let text = error.to_string();
                assert!(matches!(error, SetupError::Unsupported(_)), "{text}");
                assert!(text.contains("RDMA device") || text.contains("libibverbs"), "{text}");
            }
        }
    }
}
