//! The connecting side: socket, login, and the memory files that come after it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use longarm_memory::Region;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::death::{Peer, timespec};
use super::fds;
use super::qp::{ShmParts, ShmQp};
use super::queue::PAGE;
use crate::deadline::DeadlineSocket;
use crate::handshake::{self, Offer};
use crate::{ConnectRequest, Connected, SetupError};

/// Pause before the next try when the listener's backlog is full.
const BACKLOG_PAUSE: Duration = Duration::from_millis(2);

pub(super) fn connect(path: &Path, request: ConnectRequest<'_>) -> Result<Connected<ShmQp>, SetupError> {
    let name = format!("shm:{}", path.display());
    let mut stream = DeadlineSocket::new(socket()?, request.timeout);
    reach(&stream, path, &name)?;
    let files = fds::files(&request.grants)?;
    let offer = Offer::of(&request.grants, request.hello);
    let welcome = handshake::connect_with(&mut stream, &name, &request.login, &offer, |stream| {
        // Behind HELLO, so only after the login; nothing travels where nothing is lent.
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        if files.is_empty() { Ok(()) } else { fds::send(stream, &files) }
    })?;
    let mut passed = fds::receive(&stream, 1 + welcome.grants.len())?.into_iter();
    let page = passed.next().expect("counted by receive");
    let page = Region::open_writable(page, PAGE)?;
    let mut granted = Vec::with_capacity(welcome.grants.len());
    for (grant, file) in welcome.grants.iter().zip(passed) {
        granted.push((*grant, fds::map(file, grant, false)?));
    }
    let peer = Peer::of(stream.into_inner()).map_err(|e| SetupError::Os("ask who listens", e))?;
    let place = path.display().to_string();
    let qp = ShmQp::new(ShmParts {
        page,
        side: 1,
        peer,
        lent: request.grants,
        granted,
        landing: request.landing,
        channel: None,
        place,
    })?;
    Ok(Connected { qp, welcome: welcome.bytes })
}

pub(super) fn socket() -> Result<OwnedFd, SetupError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|e| SetupError::Os("make a Unix socket", e.into()))
}

pub(super) fn socket_address(path: &Path) -> Result<SocketAddrUnix, SetupError> {
    SocketAddrUnix::new(path).map_err(|e| SetupError::Os("a socket path has 1 to 107 bytes", e.into()))
}

fn reach(stream: &DeadlineSocket<OwnedFd>, path: &Path, name: &str) -> Result<(), SetupError> {
    let address = socket_address(path)?;
    loop {
        match rustix::net::connect(stream.get(), &address) {
            Ok(()) => return Ok(()),
            // The backlog is full. There is no event for room in it.
            Err(Errno::AGAIN) if stream.left().is_zero() => return Err(SetupError::Timeout(name.into())),
            Err(Errno::AGAIN) => {
                let pause = BACKLOG_PAUSE.min(stream.left());
                let _ = rustix::event::poll(&mut [], Some(&timespec(pause)));
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(SetupError::Unreachable { address: name.into(), source: e.into() }),
        }
    }
}
