//! Listening: a door thread greets peers, and each has its handshake on a thread of its own, bounded in time
//! and number, so that one who dawdles holds up nobody else.
//!
//! While all handshakes allowed are in progress and another peer knocks, the oldest is sent away: dawdlers
//! cannot keep the door shut. Both kinds of thread end with the listener, handshakes at the latest at their
//! bound.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{self, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustls::{Connection, ServerConnection};

use super::codec::Codec;
use super::link::Link;
use super::nic::{Hold, Nic};
use super::session::Session;
use super::tls::{self, Tls};
use super::{Tcp, TcpQp, offer, socket};
use crate::deadline::Deadline;
use crate::handshake::{self, Offer};
use crate::{Address, Channel, Grant, Incoming, ListenOptions, Listener, Login, PeerInfo, SetupError};

/// Lines of failed handshakes that are kept until asked for.
const FAILURES_MAX: usize = 100;
/// Time for the last message of a handshake, and for a reason to leave.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Pause before a peer is greeted again where the system refused one (no descriptors, no threads).
const PAUSE: Duration = Duration::from_millis(50);

/// The listening side of [`Tcp`].
#[derive(Debug)]
pub struct TcpListener {
    address: SocketAddr,
    admitted: Receiver<Box<TcpIncoming>>,
    failures: Arc<Failures>,
    bell: Channel,
    door: Option<JoinHandle<()>>,
    closed: Arc<AtomicBool>,
}

/// A peer that has logged in and waits to be let in.
#[derive(Debug)]
pub struct TcpIncoming {
    socket: Arc<TcpStream>,
    tls: Option<Connection>,
    hello: Offer,
    peer: SocketAddr,
    hold: Hold,
    tcp: Tcp,
}

#[derive(Debug, Default)]
struct Failures(Mutex<Vec<String>>);

impl Failures {
    fn add(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < FAILURES_MAX {
            lines.push(line);
        }
    }
}

/// The transport's `listen`.
pub fn listen(tcp: &Tcp, address: &Address, options: ListenOptions) -> Result<TcpListener, SetupError> {
    let Address::Tcp(host) = address else {
        return Err(SetupError::Unsupported(format!("{address} is not an address of tcp")));
    };
    if let Some(tls) = &tcp.tls {
        tls.server_config()?;
    }
    let os = |step| move |e| SetupError::Os(step, e);
    let listener = net::TcpListener::bind(host.as_str()).map_err(os("listen on the address"))?;
    listener.set_nonblocking(true).map_err(os("listen on the address"))?;
    let address = listener.local_addr().map_err(os("listen on the address"))?;
    let closed = Arc::new(AtomicBool::new(false));
    let (failures, bell) = (Arc::default(), Channel::new().map_err(os("make an event counter"))?);
    let (admits, admitted) = sync_channel(options.pending.max(1));
    let door = Door {
        listener,
        tcp: tcp.clone(),
        options,
        hold: Nic::start(tcp.spin).map_err(os("start the NIC thread"))?,
        pending: VecDeque::new(),
        admits,
        failures: Arc::clone(&failures),
        bell: bell.clone(),
        closed: Arc::clone(&closed),
    };
    let thread = std::thread::Builder::new().name("longarm-door".into());
    let door = Some(thread.spawn(move || door.run()).map_err(os("start the door thread"))?);
    Ok(TcpListener { address, admitted, failures, bell, door, closed })
}

/// Lives as long as the handshake over this socket, which lives on as the connection's.
struct InProgress(Arc<TcpStream>);

/// What the door thread owns.
struct Door {
    listener: net::TcpListener,
    tcp: Tcp,
    options: ListenOptions,
    hold: Hold,
    /// Handshakes in progress, oldest first.
    pending: VecDeque<Weak<InProgress>>,
    admits: SyncSender<Box<TcpIncoming>>,
    failures: Arc<Failures>,
    /// Notified when a handshake ends, and when the listener is dropped.
    bell: Channel,
    closed: Arc<AtomicBool>,
}

impl Door {
    fn run(mut self) {
        let mut refused = false;
        // Acquire: pairs with the Release of the listener's drop.
        while !self.closed.load(Ordering::Acquire) {
            self.pending.retain(|handshake| handshake.strong_count() > 0);
            let bell = PollFd::from_borrowed_fd(self.bell.fd(), PollFlags::IN);
            let knock = PollFd::new(&self.listener, PollFlags::IN);
            let mut fds = [bell, knock];
            let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE.subsec_nanos() as i64 };
            // While the system refuses, a peer that knocks would wake us without end: wait for the bell
            // alone.
            let polled = match refused {
                true => rustix::event::poll(&mut fds[..1], Some(&pause)),
                false => rustix::event::poll(&mut fds, None),
            };
            let (rung, knocked) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
            refused = false;
            if polled.is_err() {
                continue;
            }
            if rung {
                self.bell.wait(Duration::ZERO);
            }
            if knocked && self.makes_room() {
                refused = !self.greet();
            }
        }
    }

    /// Whether another handshake may start; if not, the oldest ends, and the bell tells when it has.
    fn makes_room(&mut self) -> bool {
        if self.pending.len() < self.options.pending.max(1) {
            return true;
        }
        if let Some(oldest) = self.pending.front().and_then(Weak::upgrade) {
            let _ = oldest.0.shutdown(Shutdown::Both);
        }
        self.bell.wait(PAUSE);
        false
    }

    /// Starts the next peer's handshake. `false`: the system refused.
    fn greet(&mut self) -> bool {
        let (socket, peer) = match self.listener.accept() {
            Ok((socket, peer)) => (Arc::new(socket), peer),
            Err(e) => {
                let passing = matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted);
                if !passing {
                    self.failures.add(format!("cannot accept a connection: {e}"));
                }
                return passing;
            }
        };
        let in_progress = Arc::new(InProgress(socket.clone()));
        self.pending.push_back(Arc::downgrade(&in_progress));
        let (tcp, hold, login) = (self.tcp.clone(), self.hold.clone(), self.options.login.clone());
        let (time, admits, bell) = (self.options.handshake, self.admits.clone(), self.bell.clone());
        let failures = Arc::clone(&self.failures);
        let body = move || {
            match shake(socket, peer, tcp, hold, &login, time) {
                Ok(incoming) => {
                    if let Err(TrySendError::Full(incoming)) = admits.try_send(Box::new(incoming)) {
                        failures.add(format!("{peer}: too many peers wait to be let in"));
                        incoming.reject("too many clients are waiting to be let in: try again later");
                    }
                }
                Err(error) => failures.add(format!("{peer}: {error}")),
            }
            drop(in_progress);
            bell.notify();
        };
        let started = std::thread::Builder::new().name("longarm-shake".into()).spawn(body);
        if let Err(e) = &started {
            self.failures.add(format!("{peer}: no thread for its handshake: {e}"));
        }
        started.is_ok()
    }
}

/// One handshake, on its own thread.
fn shake(
    socket: Arc<TcpStream>,
    peer: SocketAddr,
    tcp: Tcp,
    hold: Hold,
    login: &Login,
    time: Duration,
) -> Result<TcpIncoming, SetupError> {
    socket::prepare(&socket, tcp.stall).map_err(|e| SetupError::Os("prepare the socket", e))?;
    let name = peer.to_string();
    let mut stream = Deadline::new(socket, time);
    let mut tls = tcp.tls.as_ref().map(tls_connection).transpose()?;
    let hello = match &mut tls {
        None => handshake::admit(&mut stream, &name, login),
        Some(connection) => {
            tls::over(connection, &mut stream, &name, |stream| handshake::admit(stream, &name, login))
        }
    };
    if hello.is_err() {
        // Unread bytes would turn the close into a reset, which could overtake the reason.
        let _ = stream.get().shutdown(Shutdown::Write);
        socket::drain(stream.get());
    }
    Ok(TcpIncoming { hello: hello?, socket: stream.into_inner(), tls, peer, hold, tcp })
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
        match self.admitted.recv_timeout(timeout) {
            Ok(incoming) => Ok(Some(*incoming)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(SetupError::Os("accept", std::io::Error::other("the door thread ended: see its panic")))
            }
        }
    }

    fn address(&self) -> Address {
        Address::Tcp(self.address.to_string())
    }

    fn failures(&mut self) -> Vec<String> {
        std::mem::take(&mut *self.failures.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the door thread.
        self.closed.store(true, Ordering::Release);
        self.bell.notify();
        // It ends at once; after this nobody listens at the address.
        if let Some(door) = self.door.take() {
            let _ = door.join();
        }
    }
}

impl TcpIncoming {
    /// Says the last message of the handshake.
    fn say(
        &mut self,
        say: impl Fn(&mut dyn std::io::Write, &str) -> Result<(), SetupError>,
    ) -> Result<(), SetupError> {
        let peer = self.peer.to_string();
        let mut stream = Deadline::new(self.socket.clone(), LAST_WORD);
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
        PeerInfo { name: self.peer.to_string(), pid: None, uid: None }
    }

    fn accept(
        mut self,
        welcome: &[u8],
        grants: Vec<Grant>,
        landing: u32,
        channel: &Channel,
    ) -> Result<TcpQp, SetupError> {
        let offer = offer(&grants, welcome);
        self.say(|mut stream, peer| handshake::welcome(&mut stream, peer, &offer))?;
        let name = format!("{} {}", if self.tls.is_some() { "tls" } else { "tcp" }, self.peer);
        let codec = self.tls.map_or(Codec::Plain, Codec::tls);
        let nic = self.hold.nic();
        let link = Link::new(nic, self.socket, codec, Session::new(grants), channel);
        nic.enter(link.clone());
        Ok(TcpQp::linked(link, landing, self.tcp.spin, self.hello.grants, name))
    }

    fn reject(mut self, reason: &str) {
        // A peer that does not listen to the reason is away as well.
        let _ = self.say(|mut stream, peer| handshake::refuse(&mut stream, peer, reason));
        let _ = self.socket.shutdown(Shutdown::Write);
        socket::drain(&self.socket);
    }
}
