//! The suite over shared memory, and what only shared memory can get wrong.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use longarm_base::limits::READ_MAX;
use longarm_base::{Place, RegionId};
use longarm_memory::{OwnedWords, RegionOptions};
use rustix::fs::{MemfdFlags, SealFlags};

use super::{Shm, fds};
use crate::conformance::Setup;
use crate::conformance::harness::{
    ALL, LOOK, SOON, TestServer, connect, everything, listen, pattern, post, read, run, take, until_broken,
};
use crate::deadline::DeadlineSocket;
use crate::handshake::{self, Offer};
use crate::{
    Address, Broken, Channel, Completion, Completions, Grant, Granted, Incoming, ListenOptions, Listener,
    Login, Op, PEER_DEATH, QueuePair, Rights, SetupError, Ticket, Transport, WRITE_MAX, conformance,
};

/// Sockets in the directory of temporary files, named after this process.
pub(crate) fn fresh_address() -> Address {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only unique.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Address::Shm(std::env::temp_dir().join(format!("longarm-test-{}-{number}.sock", std::process::id())))
}

pub(crate) struct OverShm;

impl Setup for OverShm {
    type Transport = Shm;
    const SUITE: &'static str = module_path!();

    fn transport() -> Shm {
        Shm
    }
    fn address() -> Address {
        fresh_address()
    }
}

conformance!(OverShm);

fn path(address: &Address) -> PathBuf {
    match address {
        Address::Shm(path) => path.clone(),
        other => panic!("{other}"),
    }
}

#[test]
fn the_socket_has_the_mode_and_is_removed() {
    for mode in [0o600, 0o660] {
        let (listener, address) = listen::<OverShm>(ListenOptions { mode, ..ListenOptions::default() });
        let found = std::fs::metadata(path(&address)).expect("a socket file").permissions().mode();
        assert_eq!(found & 0o777, mode);
        drop(listener);
        assert!(!path(&address).exists());
    }
}

#[test]
fn a_stale_socket_is_replaced_and_other_files_are_not() {
    let address = fresh_address();
    // A dead server's file: bound once, and nobody listens.
    drop(UnixListener::bind(path(&address)).expect("bind"));
    assert!(path(&address).exists());
    let listener = Shm.listen(&address, ListenOptions::default()).expect("replaced");
    let error = Shm.listen(&address, ListenOptions::default()).map(|_| ()).expect_err("a live one");
    assert!(error.to_string().contains("another server already listens"), "{error}");
    drop(listener);
    std::fs::write(path(&address), "precious").expect("write");
    let error = Shm.listen(&address, ListenOptions::default()).map(|_| ()).expect_err("not a socket");
    assert!(error.to_string().contains("is not a socket"), "{error}");
    assert_eq!(std::fs::read(path(&address)).expect("read"), b"precious");
    std::fs::remove_file(path(&address)).expect("clean up");
    let nowhere = Address::Shm("/nonexistent/directory/socket".into());
    assert!(Shm.listen(&nowhere, ListenOptions::default()).is_err());
}

#[test]
fn the_peer_is_known_by_process_and_user() {
    let (mut listener, address) = listen::<OverShm>(ListenOptions::default());
    std::thread::scope(|scope| {
        let client = scope.spawn(|| connect::<OverShm>(&address, Vec::new()).map(|_| ()));
        let incoming = listener.accept(SOON).expect("accept").expect("a peer");
        let peer = incoming.peer();
        assert_eq!(peer.pid, Some(std::process::id()));
        assert_eq!(peer.uid, Some(rustix::process::geteuid().as_raw()));
        incoming.reject("no".into());
        assert!(client.join().expect("the client's thread").is_err());
    });
}

/// Connects as a hostile client that lends `file` as a region of one page; how the server takes it.
fn lend(file: OwnedFd, fds: usize) -> SetupError {
    let (mut listener, address) = listen::<OverShm>(ListenOptions::default());
    let stream = UnixStream::connect(path(&address)).expect("connect");
    let mut stream = DeadlineSocket::new(OwnedFd::from(stream), SOON);
    let granted = Granted { id: RegionId(16), bytes: 4096, rights: everything() };
    let offer = Offer { grants: vec![granted], bytes: Vec::new() };
    let result = handshake::connect_with(&mut stream, "server", &Login::None, &offer, |stream| {
        fds::send(stream, &vec![file.as_fd(); fds])
    });
    let started = std::time::Instant::now();
    // It is told to the peer first, and remembered then.
    while listener.failures().is_empty() {
        assert!(listener.accept(Duration::from_millis(1)).expect("accept").is_none());
        assert!(started.elapsed() < SOON, "the failure is told");
    }
    result.map(|_| ()).expect_err("refused")
}

fn memfd(seals: SealFlags, bytes: u64) -> OwnedFd {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create("hostile", flags).expect("memfd");
    rustix::fs::ftruncate(&file, bytes).expect("size");
    rustix::fs::fcntl_add_seals(&file, seals).expect("seal");
    file
}

#[test]
fn memory_that_could_be_taken_away_is_refused() {
    for (file, fds, what) in [
        (memfd(SealFlags::empty(), 4096), 1, "sealed"),
        (memfd(SealFlags::GROW, 4096), 1, "sealed"),
        (memfd(SealFlags::SHRINK, 0), 1, "0 bytes"),
        (std::fs::File::open("/proc/self/exe").expect("a file").into(), 1, "sealed"),
        (memfd(SealFlags::SHRINK, 4096), 2, "2 memory files, expected 1"),
    ] {
        let error = lend(file, fds);
        assert!(matches!(&error, SetupError::Refused(why) if why.text.contains(what)), "{what}: {error}");
    }
}

#[test]
fn a_reader_gets_no_writable_mapping() {
    let options = RegionOptions { name: "r".into(), bytes: 4096, backing: longarm_memory::Backing::Memory };
    let region = std::sync::Arc::new(longarm_memory::Region::create(&options).expect("memfd"));
    let grant = |rights| Grant { id: LOOK, region: region.clone(), rights };
    for (rights, writable) in [(Rights::READ, false), (Rights::WRITE, true), (Rights::ATOMIC, true)] {
        let file = fds::files(&[grant(rights)]).expect("files").remove(0);
        let granted = Granted { id: LOOK, bytes: 4096, rights: everything() };
        assert_eq!(fds::map(file, &granted, true).is_ok(), writable, "{rights:?}");
    }
}

/// A client that scribbles over the whole queue page breaks its own connection, and nothing else.
#[test]
fn scribbling_over_the_queue_page_breaks_only_the_scribbler() {
    let mut server = TestServer::<OverShm>::new();
    let (mut bystander, mut other, _) = server.connection();
    for seed in 0..200u64 {
        let (mut ours, theirs, _) = server.connection();
        let garbage = pattern(seed + 1, super::queue::PAGE as usize);
        theirs.page_for_tests().copy_in(0, &garbage);
        let mut completions = Completions::new(4096);
        for i in 0..50 {
            // Any answer will do, as long as there is one.
            let op = Op::WriteImm { region: RegionId(16), offset: 0, bytes: &[0; 8], imm: i };
            let _ = ours.post(op, Ticket(1));
            let _ = ours.post(Op::Send { bytes: &[1; 100] }, Ticket(2));
            ours.ring();
            ours.poll(&mut completions);
            for completion in completions.drain() {
                if let Completion::Message { buffer, len } = completion {
                    assert!(ours.message(buffer, len).len() <= crate::SEND_MAX);
                    ours.release(buffer);
                }
                if let Completion::Arrived { len, .. } = completion {
                    assert!(len as usize <= WRITE_MAX);
                }
            }
            let _ = ours.arm();
        }
    }
    run(&mut other, Op::WriteImm { region: ALL, offset: 0, bytes: &[1; 8], imm: 4 }).expect("others go on");
    assert_eq!(take(&mut bystander, 1), [Completion::Arrived { imm: 4, len: 8 }]);
}

#[test]
fn what_was_announced_before_a_close_still_arrives() {
    let mut server = TestServer::<OverShm>::new();
    let (mut ours, mut theirs, _) = server.connection();
    for imm in 0..5 {
        let op = Op::WriteImm { region: ALL, offset: 0, bytes: &[1; 8], imm };
        post(&mut theirs, op, Ticket::SILENT).expect("post");
    }
    drop(theirs);
    let (completions, broken) = until_broken(&mut ours, PEER_DEATH);
    let arrivals: Vec<_> = (0..5).map(|imm| Completion::Arrived { imm, len: 8 }).collect();
    assert_eq!((completions, broken), (arrivals, Broken::Closed));
}

/// The farewell fits even when the peer drains nothing.
#[test]
fn a_close_behind_a_full_queue_is_still_told() {
    let mut server = TestServer::<OverShm>::new();
    let (mut ours, mut theirs, _) = server.connection();
    let op = Op::WriteImm { region: ALL, offset: 0, bytes: &[1; 8], imm: 1 };
    while theirs.post(op, Ticket::SILENT).is_ok() {}
    drop(theirs);
    let (_, broken) = until_broken(&mut ours, PEER_DEATH);
    assert_eq!(broken, Broken::Closed);
}

#[test]
fn queue_pairs_that_are_gone_notify_nobody() {
    let (mut listener, address) = listen::<OverShm>(ListenOptions::default());
    let channel = Channel::new().expect("channel");
    for _ in 0..3 {
        let (ours, theirs) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| connect::<OverShm>(&address, Vec::new()).expect("connect").qp);
            let incoming = listener.accept(SOON).expect("accept").expect("a peer");
            (incoming.accept(b"", Vec::new(), 0, &channel).expect("let in"), theirs.join().expect("thread"))
        });
        drop(ours);
        drop(theirs);
    }
    assert!(!channel.wait(Duration::ZERO), "queue pairs that are gone notify nobody");
}

/// Descriptors and threads of connections go when they go.
#[test]
fn a_thousand_connections_leave_nothing_behind() {
    let mut server = TestServer::<OverShm>::new();
    let left = || {
        let files = std::fs::read_dir("/proc/self/fd").expect("descriptors").filter_map(Result::ok);
        let targets = files.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy().contains("leak-check")).count()
    };
    let options =
        RegionOptions { name: "leak-check".into(), bytes: 4096, backing: longarm_memory::Backing::Memory };
    for _ in 0..1000 {
        let region = std::sync::Arc::new(longarm_memory::Region::create(&options).expect("memfd"));
        let address = server.address.clone();
        let grant = Grant { id: RegionId(16), region, rights: everything() };
        let (mut ours, _theirs) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| connect::<OverShm>(&address, vec![grant]).expect("connect").qp);
            (server.accept(), theirs.join().expect("thread"))
        });
        let _ = ours.poll(&mut Completions::new(1));
    }
    assert_eq!(left(), 0, "every descriptor of a lent region is closed");
    let (_ours, mut theirs, _) = server.connection();
    assert_eq!(read(&mut theirs, LOOK, 0, 8), [0; 8]);
}

/// Handshakes in progress are bounded; who comes after waits for a place, and a dawdler's place comes free.
#[test]
fn dawdlers_beyond_the_bound_delay_others_by_the_handshake_time() {
    let time = Duration::from_millis(150);
    let options = ListenOptions { pending: 2, handshake: time, ..ListenOptions::default() };
    let (mut listener, address) = listen::<OverShm>(options);
    let _dawdlers: Vec<_> = (0..4).map(|_| UnixStream::connect(path(&address)).expect("connect")).collect();
    let channel = Channel::new().expect("channel");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| connect::<OverShm>(&address, Vec::new()).map(|_| ()));
        let incoming = listener.accept(SOON).expect("accept").expect("a peer, in the end");
        let _ours = incoming.accept(b"", Vec::new(), 0, &channel).expect("let in");
        client.join().expect("the client's thread").expect("connect");
    });
    assert!(listener.failures().len() >= 2, "dawdlers were dropped, and it was said");
}

#[test]
fn a_read_past_the_queue_is_one_that_may_be_posted() {
    let mut server = TestServer::<OverShm>::new();
    let (_ours, mut theirs, _) = server.connection();
    server.memory.look.memory().store(64, 5);
    let at = |region, offset, len| Place::new(region, offset, len);
    assert!(theirs.prefetch(at(LOOK, 64, 8)) && theirs.read_now(at(LOOK, 64, 8), 16));
    assert_eq!(theirs.landing(16, 8), 5u64.to_le_bytes());
    for from in
        [at(LOOK, 4, 8), at(LOOK, u64::MAX - 7, 8), at(LOOK, 0, READ_MAX + 8), at(RegionId(999), 0, 8)]
    {
        assert!(theirs.prefetch(from), "a prefetch is a hint: {from:?}");
        assert!(!theirs.read_now(from, 0), "{from:?}");
    }
    assert!(!theirs.read_now(at(LOOK, 0, 8), 4) && !theirs.read_now(at(LOOK, 0, 8), u32::MAX - 7), "landing");
    assert!(theirs.state().is_ok(), "only a posted READ is refused");
    theirs.revoke().expect("a fence");
    assert!(!theirs.read_now(at(LOOK, 64, 8), 16), "broken");
}
