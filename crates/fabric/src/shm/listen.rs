//! The listening side: a Unix socket, and a thread for each handshake in progress, so that a peer that
//! dawdles holds up nobody.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use longarm_memory::{Backing, Region, RegionOptions};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::connect::{socket, socket_address};
use super::death::{Peer, timespec};
use super::fds::{self, Lent};
use super::qp::{ShmParts, ShmQp};
use super::queue::PAGE;
use crate::deadline::DeadlineSocket;
use crate::handshake::{self, Admitted, Offer};
use crate::{
    Address, Channel, Grant, Granted, Incoming, ListenOptions, Listener, PeerInfo, PeerRole, Reason,
    SetupError,
};

/// Failed handshakes remembered for [`Listener::failures`]; older ones are forgotten.
const FAILURES_MAX: usize = 64;
/// Connections the kernel may hold for us.
const BACKLOG: i32 = 128;
/// Pause when all handshakes are taken, or the system has no descriptor left.
const PAUSE: Duration = Duration::from_millis(5);
/// Tries, one pause apart, to be alone in the socket's directory while binding.
const LOCK_TRIES: u32 = 400;

/// Listens on a Unix socket.
pub struct ShmListener {
    path: PathBuf,
    file: Option<(u64, u64)>,
    ready: Receiver<ShmIncoming>,
    shared: Arc<ListenerState>,
    acceptor: Option<JoinHandle<()>>,
}

struct ListenerState {
    options: ListenOptions,
    place: String,
    sender: SyncSender<ShmIncoming>,
    busy: AtomicUsize,
    failures: Mutex<VecDeque<String>>,
    stop: Channel,
}

impl ListenerState {
    fn failed(&self, text: String) {
        let mut failures = self.failures.lock().expect("no holder panics");
        if failures.len() == FAILURES_MAX {
            failures.pop_front();
        }
        failures.push_back(text);
    }
}

/// A place among the handshakes in progress; from the connection until the application takes the peer.
struct HandshakeSlot(Arc<ListenerState>);

impl HandshakeSlot {
    fn take(shared: &Arc<ListenerState>) -> Option<HandshakeSlot> {
        // Relaxed: a counter that publishes nothing; only the acceptor adds to it.
        if shared.busy.load(Ordering::Relaxed) >= shared.options.pending.max(1) {
            return None;
        }
        // Relaxed: as above.
        shared.busy.fetch_add(1, Ordering::Relaxed);
        Some(HandshakeSlot(shared.clone()))
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        // Relaxed: as in `take`.
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn listen(path: &Path, options: ListenOptions) -> Result<ShmListener, SetupError> {
    let path = std::path::absolute(path).map_err(|e| SetupError::Os("resolve the socket path", e))?;
    let socket = bind(&path, options.mode)?;
    let stop = Channel::new().map_err(|e| SetupError::Os("make an event counter", e))?;
    let (sender, ready) = sync_channel(options.pending.max(1));
    let place = path.display().to_string();
    let (busy, failures) = (AtomicUsize::new(0), Mutex::default());
    let shared = Arc::new(ListenerState { options, place, sender, busy, failures, stop });
    let mut listener = ShmListener { file: identity(&path), path, ready, shared, acceptor: None };
    let shared = listener.shared.clone();
    let acceptor =
        std::thread::Builder::new().name("longarm-accept".into()).spawn(move || accept_loop(socket, &shared));
    listener.acceptor = Some(acceptor.map_err(|e| SetupError::Os("start the accepting thread", e))?);
    Ok(listener)
}

/// Device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    rustix::fs::lstat(path).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

/// Binds and listens. A socket file that nobody listens on is what a dead server left, and is replaced.
fn bind(path: &Path, mode: u32) -> Result<OwnedFd, SetupError> {
    let os = |step| move |e: Errno| SetupError::Os(step, e.into());
    let address = socket_address(path)?;
    // Two servers that start at once must not both find a stale file, and one remove the other's fresh one.
    let _alone = lock_directory(path)?;
    if let Ok(stat) = rustix::fs::lstat(path) {
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            let text =
                format!("{} exists and is not a socket: remove it or listen elsewhere", path.display());
            return Err(SetupError::Os(
                "listen",
                std::io::Error::new(std::io::ErrorKind::AlreadyExists, text),
            ));
        }
        match rustix::net::connect(&socket()?, &address) {
            Err(Errno::CONNREFUSED) => rustix::fs::unlink(path).map_err(os("remove a stale socket file"))?,
            Err(Errno::NOENT) => {}
            _ => {
                let text = format!("another server already listens on {}: stop it first", path.display());
                return Err(SetupError::Os(
                    "listen",
                    std::io::Error::new(std::io::ErrorKind::AddrInUse, text),
                ));
            }
        }
    }
    let socket = socket()?;
    rustix::net::bind(&socket, &address).map_err(os("bind the socket"))?;
    // Nobody can connect before `listen`, so not before the mode is set.
    let ready = rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o777))
        .map_err(os("set the mode of the socket file"))
        .and_then(|()| rustix::net::listen(&socket, BACKLOG).map_err(os("listen")));
    if ready.is_err() {
        let _ = rustix::fs::unlink(path);
    }
    ready.map(|()| socket)
}

fn lock_directory(path: &Path) -> Result<OwnedFd, SetupError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(directory, flags, Mode::empty())
        .map_err(|e| SetupError::Os("open the directory of the socket", e.into()))?;
    for _ in 0..LOCK_TRIES {
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(fd),
            Err(Errno::AGAIN | Errno::INTR) => pause(),
            Err(e) => return Err(SetupError::Os("lock the directory of the socket", e.into())),
        }
    }
    Err(SetupError::Timeout(format!("whoever holds a lock on {}", directory.display())))
}

fn pause() {
    let _ = rustix::event::poll(&mut [], Some(&timespec(PAUSE)));
}

fn accept_loop(socket: OwnedFd, shared: &Arc<ListenerState>) {
    loop {
        let mut fds =
            [PollFd::from_borrowed_fd(shared.stop.fd(), PollFlags::IN), PollFd::new(&socket, PollFlags::IN)];
        // Without a limit: the listener's drop notifies `stop`.
        let _ = rustix::event::poll(&mut fds, None);
        if !fds[0].revents().is_empty() {
            return;
        }
        let Some(slot) = HandshakeSlot::take(shared) else {
            pause();
            continue;
        };
        match rustix::net::accept_with(&socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(stream) => {
                let worker = std::thread::Builder::new().name("longarm-hello".into());
                if let Err(e) = worker.spawn(move || handshake(stream, slot)) {
                    shared.failed(format!("no thread for a handshake: {e}"));
                }
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(e) => {
                shared.failed(format!("accept: {e}"));
                pause();
            }
        }
    }
}

/// One peer's handshake, up to its hello.
fn handshake(stream: OwnedFd, slot: HandshakeSlot) {
    let shared = slot.0.clone();
    let dup = stream.try_clone().and_then(Peer::of);
    let name = match &dup {
        Ok(peer) => peer.pid().map_or(format!("uid {}", peer.uid()), |pid| format!("pid {pid}")),
        Err(_) => "unknown".into(),
    };
    let admitted = dup.map_err(|e| SetupError::Os("ask who connects", e)).and_then(|peer| {
        let mut stream = DeadlineSocket::new(stream, shared.options.handshake);
        if let Err(error) = check_user(peer.uid(), shared.options.mode) {
            let _ = handshake::turn_away(&mut stream, &name, &error.to_string().into());
            return Err(error);
        }
        let Admitted { hello, role } = handshake::admit(&mut stream, &name, &shared.options)?;
        match lent(&stream, &hello.grants) {
            Ok(lent) => Ok((stream.into_inner(), peer, (hello.bytes, role), lent)),
            Err(error) => {
                let _ = handshake::refuse(&mut stream, &name, &error.to_string().into());
                Err(error)
            }
        }
    });
    match admitted {
        Err(error) => shared.failed(format!("{name}: {error}")),
        Ok((stream, peer, (hello, role), lent)) => {
            let incoming = ShmIncoming {
                stream,
                peer,
                name,
                hello,
                role,
                lent,
                shared: shared.clone(),
                _slot: Some(slot),
            };
            // There is room for every slot; a failure means that the listener is gone, and the peer sees its
            // end.
            let _ = shared.sender.try_send(incoming);
        }
    }
}

/// Same user or root, unless the mode of the socket lets others in.
fn check_user(uid: u32, mode: u32) -> Result<(), SetupError> {
    let ours = rustix::process::geteuid().as_raw();
    if uid == ours || uid == 0 || mode & 0o022 != 0 {
        return Ok(());
    }
    Err(SetupError::Login(format!(
        "user {uid} may not connect to a server of user {ours}: let the socket's mode admit others"
    )))
}

fn lent(stream: &DeadlineSocket<OwnedFd>, grants: &[Granted]) -> Result<Vec<(Granted, Lent)>, SetupError> {
    if grants.is_empty() {
        return Ok(Vec::new());
    }
    let files = fds::receive(stream, grants.len())?;
    grants.iter().zip(files).map(|(grant, file)| Ok((*grant, fds::map(file, grant, true)?))).collect()
}

impl Listener for ShmListener {
    type Qp = ShmQp;
    type Incoming = ShmIncoming;

    fn accept(&mut self, timeout: Duration) -> Result<Option<ShmIncoming>, SetupError> {
        match self.ready.recv_timeout(timeout) {
            Ok(mut incoming) => {
                incoming._slot = None;
                Ok(Some(incoming))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => unreachable!("`shared` holds a sender"),
        }
    }

    fn address(&self) -> Address {
        Address::Shm(self.path.clone())
    }

    fn failures(&mut self) -> Vec<String> {
        self.shared.failures.lock().expect("no holder panics").drain(..).collect()
    }
}

impl Drop for ShmListener {
    fn drop(&mut self) {
        // Only our own file: somebody may have removed it and put another in its place.
        if self.file.is_some() && identity(&self.path) == self.file {
            let _ = rustix::fs::unlink(&self.path);
        }
        self.shared.stop.notify();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// A peer that has said hello over the Unix socket and passed its memory files.
pub struct ShmIncoming {
    stream: OwnedFd,
    peer: Peer,
    name: String,
    hello: Vec<u8>,
    role: PeerRole,
    lent: Vec<(Granted, Lent)>,
    shared: Arc<ListenerState>,
    _slot: Option<HandshakeSlot>,
}

impl Incoming for ShmIncoming {
    type Qp = ShmQp;

    fn hello(&self) -> &[u8] {
        &self.hello
    }

    fn peer(&self) -> PeerInfo {
        let (pid, uid) = (self.peer.pid(), Some(self.peer.uid()));
        PeerInfo { role: self.role, name: self.name.clone(), pid, uid }
    }

    fn accept(
        self,
        welcome: &[u8],
        grants: Vec<Grant>,
        landing: u32,
        channel: &Channel,
    ) -> Result<ShmQp, SetupError> {
        let mut stream = DeadlineSocket::new(self.stream, self.shared.options.handshake);
        let options = RegionOptions { name: "longarm-queue".into(), bytes: PAGE, backing: Backing::Memory };
        let page = Region::create(&options)?;
        let files = fds::files(&grants)?;
        let offer = Offer::of(&grants, welcome);
        handshake::welcome(&mut stream, &self.name, &offer)?;
        let qp = ShmQp::new(ShmParts {
            page: page.memory().clone(),
            side: 0,
            peer: self.peer,
            lent: grants,
            granted: self.lent,
            landing,
            channel: Some(channel.clone()),
            place: self.shared.place.clone(),
        })?;
        // Last: nothing may fail once the peer can map the memory. Nobody could fence a peer without a queue
        // pair (L7).
        let mut passed = vec![page.file()?];
        passed.extend(files.iter().map(AsFd::as_fd));
        fds::send(&stream, &passed)?;
        Ok(qp)
    }

    fn reject(self, reason: Reason) {
        let mut stream = DeadlineSocket::new(self.stream, self.shared.options.handshake);
        let _ = handshake::refuse(&mut stream, &self.name, &reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_need_a_mode_that_admits_them() {
        let ours = rustix::process::geteuid().as_raw();
        let other = ours + 1000;
        assert!(check_user(ours, 0o600).is_ok());
        assert!(check_user(0, 0o600).is_ok(), "root may do anything anyway");
        let error = check_user(other, 0o600).expect_err("another user");
        assert!(error.to_string().contains(&format!("user {other}")), "{error}");
        assert!(check_user(other, 0o660).is_ok());
        assert!(check_user(other, 0o606).is_ok());
        assert!(check_user(other, 0o644).is_err(), "connecting takes the right to write");
    }
}
