//! Listening: the door of `door`, behind it a NIC thread for all who come in.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{Connection, ServerConnection};

use super::codec::Codec;
use super::link::{DrivenLink, TcpLink};
use super::nic::{Hold, Nic};
use super::session::TcpSession;
use super::tls::{self, Tls};
use super::{Tcp, TcpQp};
use crate::deadline::DeadlineSocket;
use crate::door::{Greeter, HandshakeListener};
use crate::handshake::{self, Admitted, Offer};
use crate::{
    Address, Channel, Grant, Incoming, ListenOptions, Listener, PeerInfo, PeerRole, Reason, SetupError,
    stream,
};

/// Time for the last message of a handshake, and for a reason to leave.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The listening side of [`Tcp`].
#[derive(Debug)]
pub struct TcpListener(HandshakeListener<TcpIncoming>);

/// A peer that has logged in and waits to be let in.
#[derive(Debug)]
pub struct TcpIncoming {
    socket: Arc<TcpStream>,
    tls: Option<Connection>,
    hello: Offer,
    role: PeerRole,
    peer: SocketAddr,
    hold: Hold,
}

/// The transport's `listen`.
pub fn listen(tcp: &Tcp, address: &Address, options: ListenOptions) -> Result<TcpListener, SetupError> {
    let Address::Tcp(host) = address else {
        return Err(SetupError::Unsupported(format!("{address} is not an address of tcp")));
    };
    if let Some(tls) = &tcp.tls {
        tls.server_config()?;
    }
    let hold = Nic::start(tcp.spin).map_err(|e| SetupError::Os("start the NIC thread", e))?;
    Ok(TcpListener(HandshakeListener::open(host, options, TcpGreeter { tcp: tcp.clone(), hold })?))
}

/// What every handshake needs.
struct TcpGreeter {
    tcp: Tcp,
    hold: Hold,
}

impl Greeter for TcpGreeter {
    type Incoming = TcpIncoming;

    fn greet(
        &self,
        socket: Arc<TcpStream>,
        peer: SocketAddr,
        options: &ListenOptions,
    ) -> Result<TcpIncoming, SetupError> {
        let TcpGreeter { tcp, hold } = self;
        stream::prepare(&socket, tcp.stall)?;
        let name = peer.to_string();
        let mut stream = DeadlineSocket::new(socket, options.handshake);
        let mut tls = tcp.tls.as_ref().map(tls_connection).transpose()?;
        let admitted = match &mut tls {
            None => handshake::admit(&mut stream, &name, options),
            Some(connection) => {
                tls::over(connection, &mut stream, &name, |stream| handshake::admit(stream, &name, options))
            }
        };
        if admitted.is_err() {
            stream::leave(stream.get());
        }
        let Admitted { hello, role } = admitted?;
        Ok(TcpIncoming { hello, role, socket: stream.into_inner(), tls, peer, hold: hold.clone() })
    }
}

fn tls_connection(tls: &Tls) -> Result<Connection, SetupError> {
    let connection = ServerConnection::new(tls.server_config()?.clone())
        .map_err(|e| SetupError::Protocol(format!("TLS cannot start: {e}")))?;
    Ok(Connection::Server(connection))
}

impl Listener for TcpListener {
    type Qp = TcpQp;
    type Incoming = TcpIncoming;

    fn accept(&mut self, timeout: Duration) -> Result<Option<TcpIncoming>, SetupError> {
        self.0.accept(timeout)
    }

    fn address(&self) -> Address {
        Address::Tcp(self.0.address().to_string())
    }

    fn failures(&mut self) -> Vec<String> {
        self.0.failures()
    }
}

impl TcpIncoming {
    /// Says the last message of the handshake.
    fn say(
        &mut self,
        say: impl Fn(&mut dyn std::io::Write, &str) -> Result<(), SetupError>,
    ) -> Result<(), SetupError> {
        let peer = self.peer.to_string();
        let mut stream = DeadlineSocket::new(self.socket.clone(), LAST_WORD);
        match &mut self.tls {
            None => say(&mut stream, &peer),
            Some(connection) => tls::over(connection, &mut stream, &peer, |stream| say(stream, &peer)),
        }
    }
}

impl Incoming for TcpIncoming {
    type Qp = TcpQp;

    fn hello(&self) -> &[u8] {
        &self.hello.bytes
    }

    fn peer(&self) -> PeerInfo {
        PeerInfo { role: self.role, name: self.peer.to_string(), pid: None, uid: None }
    }

    fn needs_files(&self) -> bool {
        false
    }

    fn accept(
        mut self,
        welcome: &[u8],
        grants: Vec<Grant>,
        landing: u32,
        channel: &Channel,
    ) -> Result<TcpQp, SetupError> {
        let offer = Offer::of(&grants, welcome);
        self.say(|mut stream, peer| handshake::welcome(&mut stream, peer, &offer))?;
        let name = format!("{} {}", if self.tls.is_some() { "tls" } else { "tcp" }, self.peer);
        let codec = self.tls.map_or(Codec::Plain, Codec::tls);
        let session = TcpSession::new(grants);
        let closing = || SetupError::Refused("the server is closing".into());
        let (own, nic) = (channel.poller(), self.hold.channel());
        let driver = if own.is_some() { channel } else { nic };
        let poller = driver.poller().ok_or_else(closing)?;
        let link = TcpLink::new(poller, self.socket, codec, session, channel, own.is_some());
        let token = link.token();
        if !driver.enter(token, Arc::new(DrivenLink::new(link.clone()))) {
            return Err(closing());
        }
        if let Err(error) = link.take_in() {
            driver.leave(token);
            return Err(SetupError::Os("wait for a connection", error));
        }
        Ok(TcpQp::linked(link, landing, self.hello.grants, name))
    }

    fn reject(mut self, reason: Reason) {
        // A peer that does not listen to the reason is away as well.
        let _ = self.say(|mut stream, peer| handshake::refuse(&mut stream, peer, &reason));
        stream::leave(&self.socket);
    }
}
