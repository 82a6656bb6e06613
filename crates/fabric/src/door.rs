//! The door of a transport that is reached over TCP: a thread greets peers, and each has a thread for its
//! handshake, bounded in time and number, so that one who dawdles holds up nobody else.
//!
//! Peers beyond those who may be on their way in at a time wait outside, in the system's queue: many clients
//! that start together all get in, one after the other. While some wait, a handshake that takes long is
//! ended: dawdlers cannot keep the door shut. Both kinds of thread end with the door, handshakes at the
//! latest at their bound.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{self, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::failures::Failures;
use crate::spares::Spares;
use crate::{Channel, Incoming, ListenOptions, SetupError};

/// Pause before a peer is greeted again where the system refused one (no descriptors, no threads).
const PAUSE: Duration = Duration::from_millis(50);
/// Peers that the system lets wait outside.
const OUTSIDE: i32 = 4096;
/// The part of its bound after which a handshake is ended if others wait: one in so many.
const DAWDLE_SHARE: u32 = 5;

/// What a transport does with a peer who knocked.
pub trait Greeter: Send + Sync + 'static {
    /// A peer who has logged in and said hello.
    type Incoming: Incoming + 'static;

    /// The whole handshake up to the hello, on a thread of its own, in the time that the options allow. The
    /// peer was told of a failure.
    fn greet(
        &self,
        socket: Arc<TcpStream>,
        peer: SocketAddr,
        options: &ListenOptions,
    ) -> Result<Self::Incoming, SetupError>;
}

/// An open door.
#[derive(Debug)]
pub struct HandshakeListener<I> {
    address: SocketAddr,
    admitted: Receiver<(Box<I>, Arc<Entering>)>,
    failures: Arc<Failures>,
    bell: Channel,
    porter: Option<JoinHandle<()>>,
    closed: Arc<AtomicBool>,
}

impl<I: Incoming + 'static> HandshakeListener<I> {
    /// Listens on `host:port` and greets whoever comes.
    pub fn open(
        host: &str,
        options: ListenOptions,
        greeter: impl Greeter<Incoming = I>,
    ) -> Result<HandshakeListener<I>, SetupError> {
        let os = |step| move |e| SetupError::Os(step, e);
        let listener = net::TcpListener::bind(host).map_err(os("listen on the address"))?;
        listener.set_nonblocking(true).map_err(os("listen on the address"))?;
        rustix::net::listen(&listener, OUTSIDE).map_err(|e| os("listen on the address")(e.into()))?;
        let address = listener.local_addr().map_err(os("listen on the address"))?;
        let closed = Arc::new(AtomicBool::new(false));
        let (failures, bell) = (Arc::default(), Channel::new().map_err(os("make an event counter"))?);
        let (admits, admitted) = sync_channel(options.pending.max(1));
        let porter = Porter {
            listener,
            greeter: Arc::new(greeter),
            options,
            pending: VecDeque::new(),
            admits,
            shakers: Spares::new("longarm-shake"),
            failures: Arc::clone(&failures),
            bell: bell.clone(),
            closed: Arc::clone(&closed),
        };
        let thread = std::thread::Builder::new().name("longarm-door".into());
        let porter = Some(thread.spawn(move || porter.run()).map_err(os("start the door thread"))?);
        Ok(HandshakeListener { address, admitted, failures, bell, porter, closed })
    }

    /// Where it really is (a port of 0 is resolved).
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next peer, or `None` when the time is over.
    pub fn accept(&mut self, timeout: Duration) -> Result<Option<I>, SetupError> {
        match self.admitted.recv_timeout(timeout) {
            Ok((incoming, _)) => Ok(Some(*incoming)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(SetupError::Os("accept", std::io::Error::other("the door thread ended: see its panic")))
            }
        }
    }

    /// Handshakes that failed since the last call.
    pub fn failures(&mut self) -> Vec<String> {
        self.failures.take()
    }
}

impl<I> Drop for HandshakeListener<I> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the door thread.
        self.closed.store(true, Ordering::Release);
        self.bell.notify();
        // It ends at once; after this nobody listens at the address.
        if let Some(porter) = self.porter.take() {
            let _ = porter.join();
        }
    }
}

/// A peer's place among those on their way in, until the door's owner has it or the handshake failed.
#[derive(Debug)]
struct Entering {
    socket: Arc<TcpStream>,
    since: Instant,
    /// It waits for the door's owner, which is no fault of its own.
    admitted: AtomicBool,
    bell: Channel,
}

impl Drop for Entering {
    fn drop(&mut self) {
        self.bell.notify();
    }
}

/// What the door thread owns.
struct Porter<G: Greeter> {
    listener: net::TcpListener,
    greeter: Arc<G>,
    options: ListenOptions,
    /// Those on their way in, oldest first.
    pending: VecDeque<Weak<Entering>>,
    admits: SyncSender<(Box<G::Incoming>, Arc<Entering>)>,
    /// The threads of handshakes.
    shakers: Arc<Spares>,
    failures: Arc<Failures>,
    /// Notified when one of them is in or gone, and when the door is dropped.
    bell: Channel,
    closed: Arc<AtomicBool>,
}

impl<G: Greeter> Porter<G> {
    fn run(mut self) {
        let mut refused = false;
        // Acquire: pairs with the Release of the door's drop.
        while !self.closed.load(Ordering::Acquire) {
            self.pending.retain(|peer| peer.strong_count() > 0);
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
        self.shakers.close();
    }

    /// Whether another handshake may start. If not, those that take long end, and the bell tells when there
    /// is a place.
    fn makes_room(&mut self) -> bool {
        if self.pending.len() < self.options.pending.max(1) {
            return true;
        }
        let patience = self.options.handshake / DAWDLE_SHARE;
        for peer in self.pending.iter().filter_map(Weak::upgrade) {
            // Relaxed: a peer that is admitted this very moment is dealt with as a dawdler, which it was.
            if peer.since.elapsed() > patience && !peer.admitted.load(Ordering::Relaxed) {
                let _ = peer.socket.shutdown(Shutdown::Both);
            }
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
        let (since, admitted, bell) = (Instant::now(), AtomicBool::new(false), self.bell.clone());
        let entering = Arc::new(Entering { socket: socket.clone(), since, admitted, bell });
        self.pending.push_back(Arc::downgrade(&entering));
        let (greeter, options) = (Arc::clone(&self.greeter), self.options.clone());
        let (admits, failures) = (self.admits.clone(), Arc::clone(&self.failures));
        let body = move || match greeter.greet(socket, peer, &options) {
            Ok(incoming) => {
                // Relaxed: see `makes_room`.
                entering.admitted.store(true, Ordering::Relaxed);
                // There is room for all that have a place; without a door, nobody takes it.
                let _ = admits.try_send((Box::new(incoming), entering));
            }
            Err(error) => failures.add(format!("{peer}: {error}")),
        };
        let started = self.shakers.start(body);
        if let Err(e) = &started {
            self.failures.add(format!("{peer}: no thread for its handshake: {e}"));
        }
        started.is_ok()
    }
}
