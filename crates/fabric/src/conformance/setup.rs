//! Coming together: what is lent and said, and everything that can go wrong before there is a queue pair.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_base::Place;

use super::Setup;
use super::harness::*;
use crate::{
    Address, Channel, ConnectRequest, Granted, HELLO_MAX, Incoming, ListenOptions, Listener, Login, Op,
    PeerRole, QueuePair, Reason, Rights, SetupError, Transport,
};

trait RawStream: Read + Write + Send {}
impl<T: Read + Write + Send> RawStream for T {}

/// A stream to the listener, without any handshake.
fn raw(address: &Address) -> Box<dyn RawStream> {
    match address {
        Address::Shm(path) => {
            let stream = UnixStream::connect(path).expect("connect");
            stream.set_read_timeout(Some(SOON)).expect("time-out");
            Box::new(stream)
        }
        Address::Tcp(host) | Address::Verbs(host) => {
            let stream = TcpStream::connect(host).expect("connect");
            stream.set_read_timeout(Some(SOON)).expect("time-out");
            Box::new(stream)
        }
        Address::Sim(_) => unreachable!("no stranger gets into a simulated network"),
    }
}

pub fn what_is_lent_is_known_to_the_other_side<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (ours, theirs, _) = server.connection();
    let granted = |id, rights| Granted { id, bytes: BYTES, rights };
    let lent = [granted(LOOK, Rights::READ), granted(ALL, everything()), granted(DROP_BOX, Rights::WRITE)];
    assert_eq!(theirs.granted(), lent);
    assert_eq!(ours.granted(), [granted(BACK, everything())]);
}

pub fn hello_and_welcome_have_limits<S: Setup>() {
    let (mut listener, address) = listen::<S>(ListenOptions::default());
    let channel = Channel::new().expect("channel");
    let (hello, welcome) = (pattern(1, HELLO_MAX), pattern(2, HELLO_MAX));
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let request = ConnectRequest { hello: &hello, ..request(Vec::new()) };
            S::transport().connect(&address, request).expect("connect").welcome
        });
        let incoming = listener.accept(SOON).expect("accept").expect("a peer");
        assert!(incoming.hello() == hello);
        let _ours = incoming.accept(&welcome, Vec::new(), 0, &channel).expect("let in");
        assert!(client.join().expect("the client's thread") == welcome);
    });
    let long = vec![1; HELLO_MAX + 1];
    let request = ConnectRequest { hello: &long, ..request(Vec::new()) };
    let error = S::transport().connect(&address, request).map(|_| ()).expect_err("too long");
    assert!(error.to_string().contains(&HELLO_MAX.to_string()), "names the limit: {error}");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| connect::<S>(&address, Vec::new()).map(|_| ()));
        let incoming = listener.accept(SOON).expect("accept").expect("a peer");
        let error = incoming.accept(&long, Vec::new(), 0, &channel).map(|_| ()).expect_err("too long");
        assert!(error.to_string().contains(&HELLO_MAX.to_string()), "names the limit: {error}");
        assert!(client.join().expect("the client's thread").is_err());
    });
}

pub fn a_rejected_peer_learns_why<S: Setup>() {
    let (mut listener, address) = listen::<S>(ListenOptions::default());
    std::thread::scope(|scope| {
        let client = scope.spawn(|| connect::<S>(&address, Vec::new()).map(|_| ()));
        let reason = Reason { text: "the table is full: come back later".into(), bytes: vec![0, 7, 255] };
        listener.accept(SOON).expect("accept").expect("a peer").reject(reason.clone());
        let error = client.join().expect("the client's thread").expect_err("rejected");
        assert!(matches!(&error, SetupError::Refused(why) if *why == reason), "{error}");
    });
}

pub fn nobody_listening_is_said<S: Setup>() {
    let (listener, address) = listen::<S>(ListenOptions::default());
    drop(listener);
    let error = connect::<S>(&address, Vec::new()).map(|_| ()).expect_err("nobody there");
    assert!(matches!(error, SetupError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("is the server running?"));
}

pub fn an_address_taken_is_said<S: Setup>() {
    let (_listener, address) = listen::<S>(ListenOptions::default());
    let error = S::listening().listen(&address, ListenOptions::default()).map(|_| ()).expect_err("taken");
    assert!(matches!(error, SetupError::Os(..)), "{error}");
    let (ours, theirs) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| connect::<S>(&address, Vec::new()).map(|c| c.qp));
        let mut listener = _listener;
        let channel = Channel::new().expect("channel");
        let incoming = listener.accept(SOON).expect("accept").expect("the first still listens");
        (incoming.accept(b"", Vec::new(), 0, &channel).expect("let in"), theirs.join().expect("thread"))
    });
    assert!(ours.state().is_ok() && theirs.is_ok());
}

pub fn a_secret_is_demanded_from_both<S: Setup>() {
    let secret = |text: &str| Login::Secret(Arc::from(text.as_bytes()));
    let options = ListenOptions { login: secret("right"), ..ListenOptions::default() };
    let (mut listener, address) = listen::<S>(options);
    let attempt = |login: Login| {
        let request = ConnectRequest { login, ..request(Vec::new()) };
        S::transport().connect(&address, request).map(|connected| connected.qp)
    };
    for login in [secret("wrong"), secret(""), Login::None] {
        let error = attempt(login).map(|_| ()).expect_err("not the secret");
        assert!(matches!(error, SetupError::Login(_)), "{error}");
    }
    assert!(listener.accept(Duration::from_millis(20)).expect("accept").is_none(), "nobody got that far");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| attempt(secret("right")));
        let channel = Channel::new().expect("channel");
        let incoming = listener.accept(SOON).expect("accept").expect("a peer");
        let _ours = incoming.accept(b"", Vec::new(), 0, &channel).expect("let in");
        assert!(client.join().expect("the client's thread").is_ok());
    });
    let mut failures = listener.failures();
    failures.retain(|line| line.contains("secret"));
    assert!(!failures.is_empty(), "failures are told: {failures:?}");
    assert!(listener.failures().is_empty(), "once");

    let (_open, address) = listen::<S>(ListenOptions::default());
    let request = ConnectRequest { login: secret("right"), ..request(Vec::new()) };
    let error = S::transport().connect(&address, request).map(|_| ()).expect_err("it has no secret to prove");
    assert!(matches!(error, SetupError::Login(_)), "{error}");
}

pub fn whoever_connects_has_the_role_that_it_proves<S: Setup>() {
    let bytes = |text: &str| Arc::from(text.as_bytes());
    let (client, peer) = (|text| Login::Secret(bytes(text)), |text| Login::Peer(bytes(text)));
    // Of a server whose clients prove nothing, and of one whose clients do.
    for (login, most) in [(Login::None, Login::None), (client("many know"), client("many know"))] {
        let options = ListenOptions { login, peers: peer("few know"), ..ListenOptions::default() };
        let (mut listener, address) = listen::<S>(options);
        let attempt = |login: Login| {
            let request = ConnectRequest { login, ..request(Vec::new()) };
            S::transport().connect(&address, request).map(|connected| connected.qp)
        };
        for login in [peer("many know"), client("few know"), peer("")] {
            let error = attempt(login.clone()).map(|_| ()).expect_err("of another role");
            assert!(matches!(error, SetupError::Login(_)), "{login:?}: {error}");
        }
        for (login, role) in [(peer("few know"), PeerRole::Peer), (most, PeerRole::Client)] {
            std::thread::scope(|scope| {
                let theirs = scope.spawn(|| attempt(login));
                let incoming = listener.accept(SOON).expect("accept").expect("a peer");
                assert_eq!(incoming.peer().role, role);
                incoming.reject("seen".into());
                assert!(matches!(theirs.join().expect("its thread"), Err(SetupError::Refused(_))));
            });
        }
    }
    // Nobody is a replica of a server that knows no secret of theirs.
    let (_open, address) = listen::<S>(ListenOptions::default());
    let request = ConnectRequest { login: peer("few know"), ..request(Vec::new()) };
    let error = S::transport().connect(&address, request).map(|_| ()).expect_err("no secret to prove");
    assert!(matches!(error, SetupError::Login(_)), "{error}");
}

pub fn strangers_are_answered_and_forgotten<S: Setup>() {
    let mut server = TestServer::<S>::new();
    for bytes in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0xff; 300], &[0; 4096]] {
        let mut stream = raw(&server.address);
        stream.write_all(bytes).expect("write");
        let mut answer = Vec::new();
        // A reset is an end, too: the listener need not read all that a stranger sends.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 1024, "a short answer");
    }
    let mut cut = raw(&server.address);
    cut.write_all(b"\x89LON").expect("write");
    drop(cut);
    let (_ours, mut theirs, _) = server.connection();
    run(&mut theirs, Op::Read { from: Place::new(LOOK, 0, 8), into: 0 }).expect("the listener goes on");
    let until = Instant::now() + SOON;
    let mut failures = server.listener.failures();
    while failures.len() < 5 && Instant::now() < until {
        assert!(server.listener.accept(Duration::from_millis(5)).expect("accept").is_none());
        failures.extend(server.listener.failures());
    }
    assert_eq!(failures.len(), 5, "{failures:?}");
}

pub fn a_dawdling_peer_holds_up_nobody<S: Setup>() {
    let time = Duration::from_millis(700);
    let (mut listener, address) = listen::<S>(ListenOptions { handshake: time, ..ListenOptions::default() });
    let mut silent = raw(&address);
    let mut slow = raw(&address);
    slow.write_all(b"\x89LONGARM").expect("the first bytes of a handshake");
    let started = Instant::now();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| connect::<S>(&address, Vec::new()).map(|_| ()));
        let channel = Channel::new().expect("channel");
        let incoming = listener.accept(SOON).expect("accept").expect("a peer");
        let _ours = incoming.accept(b"", Vec::new(), 0, &channel).expect("let in");
        client.join().expect("the client's thread").expect("connect");
    });
    assert!(started.elapsed() < time, "it waited for the dawdlers: {:?}", started.elapsed());
    for stream in [&mut silent, &mut slow] {
        let mut answer = Vec::new();
        // An end or a reset: dropped either way, not only timed out by us.
        let _ = stream.read_to_end(&mut answer);
    }
    assert!(started.elapsed() < SOON, "they are dropped in time");
}

pub fn an_unanswered_connect_ends_in_time<S: Setup>() {
    let (_listener, address) = listen::<S>(ListenOptions::default());
    let time = Duration::from_millis(150);
    let started = Instant::now();
    let request = ConnectRequest { timeout: time, ..request(Vec::new()) };
    let error = S::transport().connect(&address, request).map(|_| ()).expect_err("nobody accepts");
    assert!(matches!(error, SetupError::Timeout(_)), "{error}");
    assert!(started.elapsed() >= time && started.elapsed() < SOON);
}

pub fn accept_ends_in_time<S: Setup>() {
    let (mut listener, _) = listen::<S>(ListenOptions::default());
    let time = Duration::from_millis(30);
    let started = Instant::now();
    assert!(listener.accept(time).expect("accept").is_none());
    assert!(started.elapsed() >= time && started.elapsed() < SOON);
}

pub fn two_hundred_connections_to_one_listener<S: Setup>() {
    const COUNT: usize = 200;
    let mut server = TestServer::<S>::new();
    let address = server.address.clone();
    let (mut ours, mut theirs) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let address = address.clone();
                scope.spawn(move || {
                    let one = || connect::<S>(&address, Vec::new()).expect("connect").qp;
                    (0..COUNT / 4).map(|_| one()).collect::<Vec<_>>()
                })
            })
            .collect();
        let ours: Vec<_> = (0..COUNT).map(|_| server.accept()).collect();
        let theirs: Vec<_> = clients.into_iter().flat_map(|c| c.join().expect("a client's thread")).collect();
        (ours, theirs)
    });
    for (i, qp) in theirs.iter_mut().enumerate() {
        let before = run(qp, Op::FetchAdd { region: ALL, offset: 0, add: 1 });
        assert_eq!(before, Ok(i as u64));
    }
    assert!(ours.iter_mut().all(|qp| qp.state().is_ok()));
}

pub fn connections_outlive_their_listener<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, _) = server.connection();
    drop(server.listener);
    run(&mut theirs, Op::WriteImm { region: ALL, offset: 0, bytes: &[3; 8], imm: 1 }).expect("it stands");
    assert_eq!(take(&mut ours, 1).len(), 1);
}
