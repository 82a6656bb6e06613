//! Passing descriptors over the Unix socket, after the login: the keys of shared memory.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use longarm_memory::{Mapped, ReadOnly, Region};
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use super::death::timespec;
use crate::deadline::DeadlineSocket;
use crate::handshake::GRANTS_MAX;
use crate::{Grant, Granted, Rights, SetupError};

/// Descriptors of one message: the grants and the queue page.
const FDS_MAX: usize = GRANTS_MAX + 1;
/// The byte that carries them.
const MARK: u8 = b'F';
/// File system of memory files with ordinary pages.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The descriptor of each region as its rights allow: one that cannot write unless the peer may.
pub(super) fn files(grants: &[Grant]) -> Result<Vec<OwnedFd>, SetupError> {
    grants
        .iter()
        .map(|grant| match grant.rights.can_change() {
            true => {
                let duplicate = grant.region.file()?.try_clone_to_owned();
                duplicate.map_err(|e| SetupError::Os("duplicate a region's descriptor", e))
            }
            false => Ok(grant.region.read_only_file()?),
        })
        .collect()
}

/// Passes descriptors.
pub(super) fn send(stream: &DeadlineSocket<OwnedFd>, fds: &[BorrowedFd<'_>]) -> Result<(), SetupError> {
    let os = |e: Errno| SetupError::Os("pass descriptors", e.into());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "{} descriptors are too many", fds.len());
    loop {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::sendmsg(stream.get(), &[IoSlice::new(&[MARK])], &mut control, flags) {
            Ok(_) => return Ok(()),
            Err(Errno::AGAIN) => wait(stream, rustix::event::PollFlags::OUT)?,
            Err(Errno::INTR) => {}
            Err(e) => return Err(os(e)),
        }
    }
}

/// Receives exactly `count` descriptors.
pub(super) fn receive(stream: &DeadlineSocket<OwnedFd>, count: usize) -> Result<Vec<OwnedFd>, SetupError> {
    let os = |e: Errno| SetupError::Os("receive descriptors", e.into());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut mark = [0u8];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = match rustix::net::recvmsg(
            stream.get(),
            &mut [IoSliceMut::new(&mut mark)],
            &mut control,
            flags,
        ) {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN) => {
                wait(stream, rustix::event::PollFlags::IN)?;
                continue;
            }
            Err(Errno::INTR) => continue,
            Err(e) => return Err(os(e)),
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                fds.extend(passed);
            }
        }
        if got == 0 {
            return Err(SetupError::Protocol("the peer left instead of passing its memory files".into()));
        }
        if mark != [MARK] || fds.len() != count {
            let found = fds.len();
            return Err(SetupError::Protocol(format!(
                "the peer passed {found} memory files, expected {count}"
            )));
        }
        return Ok(fds);
    }
}

fn wait(stream: &DeadlineSocket<OwnedFd>, what: rustix::event::PollFlags) -> Result<(), SetupError> {
    let left = stream.left();
    if left.is_zero() {
        return Err(SetupError::Timeout("the peer, which should take or pass memory files,".into()));
    }
    let mut fds = [rustix::event::PollFd::new(stream.get(), what)];
    match rustix::event::poll(&mut fds, Some(&timespec(left))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(SetupError::Os("wait for the peer", e.into())),
    }
}

/// Memory of the peer, mapped.
pub(super) struct Lent {
    pub(super) look: ReadOnly,
    pub(super) change: Option<Mapped>,
}

/// Maps what a peer lent. A distrusted peer (a server's client) must not be able to take pages away under us,
/// which would kill this process: only memory files sealed against shrinking, with ordinary pages, will do.
pub(super) fn map(fd: OwnedFd, granted: &Granted, distrust: bool) -> Result<Lent, SetupError> {
    if distrust {
        check(&fd)?;
    }
    if granted.rights.can_change() {
        let change = Region::open_writable(fd, granted.bytes)?;
        return Ok(Lent { look: change.read_only(), change: Some(change) });
    }
    debug_assert!(!granted.rights.allow(Rights::WRITE));
    Ok(Lent { look: Region::open_read_only(fd, granted.bytes)?, change: None })
}

fn check(fd: &OwnedFd) -> Result<(), SetupError> {
    let sealed = matches!(rustix::fs::fcntl_get_seals(fd), Ok(seals) if seals.contains(SealFlags::SHRINK));
    let ordinary = matches!(rustix::fs::fstatfs(fd), Ok(fs) if fs.f_type as u64 == TMPFS_MAGIC);
    match sealed && ordinary {
        true => Ok(()),
        false => Err(SetupError::Protocol(
            "the peer lent memory it could take away: only memory files sealed against shrinking, with \
             ordinary pages, are accepted"
                .into(),
        )),
    }
}
