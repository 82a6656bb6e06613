//! Listening: the door of `door`; each peer's queue pair is connected on the thread of its handshake.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::adapter::Adapter;
use super::endpoint::Endpoint;
use super::lifeline::Lifeline;
use super::open::Opened;
use super::qp::{VerbsParts, VerbsQp};
use super::register::{Ready, Registered};
use super::settings::{STALL, Verbs};
use super::slot::QueuePairSlot;
use crate::deadline::DeadlineSocket;
use crate::door::{Greeter, HandshakeListener};
use crate::handshake::{self, Admitted, Offer};
use crate::{
    Address, Channel, Grant, Incoming, ListenOptions, Listener, PeerInfo, PeerRole, Reason, Rights,
    SetupError, stream,
};

/// Time for the last message of a handshake, and for a reason to leave.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The listening side of [`Verbs`].
#[derive(Debug)]
pub struct VerbsListener {
    door: HandshakeListener<VerbsIncoming>,
    adapter: Arc<Adapter>,
    /// Registered as long as the listener, also while no client is there.
    prepared: Vec<Arc<Registered>>,
    /// What peers may write: ready to be lent under keys that none of them knows.
    ready: Vec<Ready>,
}

/// A peer that has logged in, is connected, and waits to be let in.
#[derive(Debug)]
pub struct VerbsIncoming {
    socket: Arc<TcpStream>,
    hello: Offer,
    role: PeerRole,
    theirs: Endpoint,
    opened: Opened,
    peer: SocketAddr,
    slot: QueuePairSlot,
    yields: bool,
}

impl VerbsListener {
    /// The device, its port and its address, for people: `rxe0 port 1 10.9.0.1`.
    pub fn device(&self) -> String {
        let choice = &self.adapter.choice;
        format!("{} port {} {}", choice.device, choice.port.number, choice.gid)
    }
}

/// The transport's `listen`.
pub(super) fn listen(
    verbs: &Verbs,
    address: &Address,
    options: ListenOptions,
) -> Result<VerbsListener, SetupError> {
    let Address::Verbs(host) = address else {
        return Err(SetupError::Unsupported(format!("{address} is not an address of verbs")));
    };
    let local = stream::resolve(host)?;
    let adapter = verbs.adapter(local.ip())?;
    let doorstep =
        VerbsGreeter { verbs: verbs.clone(), adapter: adapter.clone(), slots: QueuePairSlot::default() };
    let door = HandshakeListener::open(host, options, doorstep)?;
    Ok(VerbsListener { door, adapter, prepared: Vec::new(), ready: Vec::new() })
}

/// What every handshake needs.
struct VerbsGreeter {
    verbs: Verbs,
    adapter: Arc<Adapter>,
    slots: QueuePairSlot,
}

impl VerbsGreeter {
    /// After the login: the peer's end, and ours connected to it.
    fn open(
        &self,
        stream: &mut DeadlineSocket<Arc<TcpStream>>,
        name: &str,
        hello: &Offer,
    ) -> Result<(Endpoint, Opened, QueuePairSlot), SetupError> {
        let theirs = Endpoint::hear(stream, name, hello.grants.len())?;
        let slot = self.slots.clone();
        // This one and the doorstep's own are not peers that stand already.
        if Arc::strong_count(&slot.0) - 2 >= self.verbs.connections {
            let text = format!(
                "this server has all {} queue pairs it may have in use: close a client, or raise its limit",
                self.verbs.connections
            );
            return Err(SetupError::Refused(text.into()));
        }
        let opened = Opened::new(&self.verbs, self.adapter.clone())?;
        opened.connect(&self.verbs, &theirs)?;
        Ok((theirs, opened, slot))
    }
}

impl Greeter for VerbsGreeter {
    type Incoming = VerbsIncoming;

    fn greet(
        &self,
        socket: Arc<TcpStream>,
        peer: SocketAddr,
        options: &ListenOptions,
    ) -> Result<VerbsIncoming, SetupError> {
        stream::prepare(&socket, STALL)?;
        let name = peer.to_string();
        let mut stream = DeadlineSocket::new(socket, options.handshake);
        let opened = handshake::admit(&mut stream, &name, options).and_then(|admitted| {
            let opened = self.open(&mut stream, &name, &admitted.hello);
            if let Err(error) = &opened {
                let _ = handshake::refuse(&mut stream, &name, &error.to_string().into());
            }
            opened.map(|opened| (admitted, opened))
        });
        if opened.is_err() {
            stream::leave(stream.get());
        }
        let (Admitted { hello, role }, (theirs, opened, slot)) = opened?;
        let socket = stream.into_inner();
        let Verbs { yields, .. } = self.verbs;
        Ok(VerbsIncoming { socket, hello, role, theirs, opened, peer, slot, yields })
    }
}

impl Listener for VerbsListener {
    type Qp = VerbsQp;
    type Incoming = VerbsIncoming;

    fn accept(&mut self, timeout: Duration) -> Result<Option<VerbsIncoming>, SetupError> {
        self.door.accept(timeout)
    }

    fn address(&self) -> Address {
        Address::Verbs(self.door.address().to_string())
    }

    fn prepare(&mut self, grants: &[Grant]) -> Result<(), SetupError> {
        let Adapter { registrations, domain, .. } = &*self.adapter;
        for grant in grants {
            if grant.rights.allow(Rights::WRITE) {
                self.ready.push(registrations.make_ready(domain, grant)?);
            } else {
                self.prepared.push(registrations.get(domain, grant)?);
            }
        }
        Ok(())
    }

    fn failures(&mut self) -> Vec<String> {
        self.door.failures()
    }
}

impl Incoming for VerbsIncoming {
    type Qp = VerbsQp;

    fn hello(&self) -> &[u8] {
        &self.hello.bytes
    }

    fn peer(&self) -> PeerInfo {
        PeerInfo { role: self.role, name: self.peer.to_string(), pid: None, uid: None }
    }

    fn accept(
        self,
        welcome: &[u8],
        grants: Vec<Grant>,
        landing: u32,
        channel: &Channel,
    ) -> Result<VerbsQp, SetupError> {
        let VerbsIncoming { socket, hello, theirs, opened, peer, slot, yields, .. } = self;
        let name = peer.to_string();
        let mut stream = DeadlineSocket::new(socket.clone(), LAST_WORD);
        let prepared = opened.register(&grants).and_then(|lent| Ok((lent, opened.landing(landing)?)));
        let (lent, landing) = prepared.inspect_err(|error| {
            let _ = handshake::refuse(&mut stream, &name, &error.to_string().into());
            stream::leave(&socket);
        })?;
        handshake::welcome(&mut stream, &name, &Offer::of(&grants, welcome))?;
        opened.endpoint(&lent).tell(&mut stream, &name)?;
        let name = format!("verbs {} ({peer})", opened.describe(&theirs));
        VerbsQp::new(VerbsParts {
            opened,
            lifeline: Lifeline(socket),
            landing,
            lent,
            granted: hello.grants,
            theirs,
            channel: Some(channel.clone()),
            yields,
            slot: Some(slot),
            name,
        })
    }

    fn reject(self, reason: Reason) {
        let mut stream = DeadlineSocket::new(self.socket.clone(), LAST_WORD);
        // A peer that does not listen to the reason is away as well.
        let _ = handshake::refuse(&mut stream, &self.peer.to_string(), &reason);
        stream::leave(&self.socket);
    }
}
