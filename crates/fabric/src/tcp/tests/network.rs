//! Peers that speak the handshake and then do what no queue pair of ours would do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_base::{Place, RegionId};
use longarm_memory::{Backing, Region, RegionOptions, Words};

use super::super::frame::{self, Frame};
use super::*;
use crate::deadline::DeadlineSocket;
use crate::handshake::{self, Offer};
use crate::{
    Broken, Channel, Completion, Completions, Grant, Incoming, Listener, Login, Op, QueuePair, Rights, Ticket,
};

const TIME: Duration = Duration::from_secs(20);
const LENT: RegionId = RegionId(1);

struct Server {
    listener: TcpListener,
    region: Arc<Region>,
    channel: Channel,
}

impl Server {
    fn new(tcp: &Tcp) -> Server {
        let options = RegionOptions { name: "lent".into(), bytes: 1 << 20, backing: Backing::Memory };
        Server {
            listener: tcp.listen(&loopback(), ListenOptions::default()).expect("listen"),
            region: Arc::new(Region::create(&options).expect("memfd")),
            channel: Channel::new().expect("channel"),
        }
    }

    fn accept(&mut self) -> TcpQp {
        let rights = Rights::READ.and(Rights::WRITE);
        let grant = Grant { id: LENT, region: self.region.clone(), rights };
        let incoming = self.listener.accept(TIME).expect("accept").expect("a peer");
        incoming.accept(b"", vec![grant], 4096, &self.channel).expect("let in")
    }

    fn socket(&self) -> TcpStream {
        let Address::Tcp(host) = self.listener.address() else { panic!("an address of tcp") };
        TcpStream::connect(host).expect("connect")
    }

    /// A peer that is past the handshake and has nothing but its socket.
    fn raw(&mut self) -> (TcpQp, TcpStream) {
        let mut stream = DeadlineSocket::new(self.socket(), TIME);
        std::thread::scope(|scope| {
            let ours = scope.spawn(|| self.accept());
            handshake::connect(&mut stream, "server", &Login::None, &Offer::default()).expect("handshake");
            (ours.join().expect("the server's thread"), stream.into_inner())
        })
    }

    fn connected(&mut self, tcp: &Tcp) -> (TcpQp, TcpQp) {
        let address = self.listener.address();
        std::thread::scope(|scope| {
            let ours = scope.spawn(|| self.accept());
            let request = ConnectRequest {
                hello: b"",
                grants: vec![],
                landing: 1 << 20,
                login: Login::None,
                timeout: TIME,
            };
            let theirs = tcp.connect(&address, request).expect("connect").qp;
            (ours.join().expect("the server's thread"), theirs)
        })
    }
}

/// Waits until the queue pair is broken, and says why.
fn broken(qp: &mut TcpQp) -> Broken {
    let until = Instant::now() + TIME;
    loop {
        if let Err(broken) = qp.state() {
            return broken;
        }
        assert!(Instant::now() < until, "not broken in time");
        qp.wait(Duration::from_millis(10));
        qp.poll(&mut Completions::new(64));
    }
}

fn works(qp: &mut TcpQp) {
    qp.post(Op::Read { from: Place::new(LENT, 0, 64), into: 0 }, Ticket(1)).expect("post");
    qp.ring();
    let mut done = Completions::new(1);
    let until = Instant::now() + TIME;
    while qp.poll(&mut done) == 0 {
        assert!(Instant::now() < until, "no answer; state {:?}", qp.state());
        qp.wait(Duration::from_millis(100));
    }
    assert_eq!(done.as_slice(), [Completion::Done(Ticket(1), Ok(0))]);
}

fn bytes_of(frame: Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0; frame.size()];
    frame.encode(&mut bytes);
    bytes
}

#[test]
fn a_malformed_frame_closes_its_connection_with_a_reason_and_nothing_else() {
    let tcp = Tcp::new();
    let mut server = Server::new(&tcp);
    let (mut good, mut theirs) = server.connected(&tcp);
    let mut oversized = bytes_of(Frame::Send { seq: 0, signalled: false, bytes: &[] });
    oversized[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    for (bytes, reason) in
        [(&b"GET / HTTP/1.0\r\n\r\n"[..], "unknown kind"), (&oversized, "outside its limits")]
    {
        let (mut ours, mut socket) = server.raw();
        socket.write_all(bytes).expect("write");
        let mut said = Vec::new();
        let _ = socket.read_to_end(&mut said);
        let Ok(Some((Frame::Goodbye { text, .. }, _))) = frame::parse(&said) else { panic!("{said:?}") };
        assert!(String::from_utf8_lossy(text).contains(reason), "the peer is told");
        let Broken::Protocol(text) = broken(&mut ours) else { panic!("{:?}", ours.state()) };
        assert!(text.contains(reason), "{text}");
    }
    works(&mut theirs);
    assert!(good.state().is_ok() && good.poll(&mut Completions::new(1)) == 0);
}

#[test]
fn frames_dribbled_byte_by_byte_are_executed() {
    let mut server = Server::new(&Tcp::new());
    let (_ours, mut socket) = server.raw();
    socket.set_nodelay(true).expect("option");
    let write = Frame::Write {
        seq: 0,
        signalled: true,
        region: LENT,
        offset: 8,
        imm: None,
        bytes: &7u64.to_le_bytes(),
    };
    for byte in bytes_of(write) {
        socket.write_all(&[byte]).expect("write");
    }
    let mut answer = [0; frame::HEAD];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(frame::parse(&answer), Ok(Some((Frame::Ack { seq: 0 }, frame::HEAD))));
    assert_eq!(server.region.memory().load(8), 7);
}

#[test]
fn a_peer_that_never_reads_is_dropped_and_the_others_go_on() {
    let tcp = Tcp::new().with_stall(Duration::from_millis(800));
    let mut server = Server::new(&tcp);
    let (_good, mut theirs) = server.connected(&tcp);
    let (mut ours, mut socket) = server.raw();
    let started = Instant::now();
    // Far more answers than the kernel's buffers and ours hold: the NIC has to stop in the middle.
    for seq in 0..500 {
        let read = Frame::Read { seq, region: LENT, offset: 0, want: 256 << 10 };
        socket.write_all(&bytes_of(read)).expect("requests fit into the kernel's buffers");
    }
    works(&mut theirs);
    let Broken::PeerLost(why) = broken(&mut ours) else { panic!("{:?}", ours.state()) };
    assert!(started.elapsed() < TIME && !why.is_empty());
    works(&mut theirs);
}

#[test]
fn a_stream_cut_in_the_middle_of_a_frame_is_a_lost_peer() {
    let mut server = Server::new(&Tcp::new());
    let (mut ours, mut socket) = server.raw();
    let write = Frame::Write { seq: 0, signalled: true, region: LENT, offset: 8, imm: None, bytes: &[9; 64] };
    socket.write_all(&bytes_of(write)[..40]).expect("write");
    drop(socket);
    assert!(matches!(broken(&mut ours), Broken::PeerLost(_)));
    assert_eq!(server.region.memory().load(8), 0, "half a frame has no effect");
}

#[test]
fn without_spinning_it_works_as_well() {
    let tcp = Tcp::new().with_spin(Duration::ZERO);
    let mut server = Server::new(&tcp);
    let (_ours, mut theirs) = server.connected(&tcp);
    (0..100).for_each(|_| works(&mut theirs));
}

/// CPU time of this process's NIC threads, in clock ticks.
fn nic_ticks() -> u64 {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").expect("proc") {
        let stat = std::fs::read_to_string(task.expect("entry").path().join("stat")).unwrap_or_default();
        if let Some((_, rest)) = stat.split_once("(longarm-nic) ") {
            let fields: Vec<u64> =
                rest.split(' ').skip(11).take(2).map(|n| n.parse().expect("ticks")).collect();
            sum += fields.iter().sum::<u64>();
        }
    }
    sum
}

/// In a process of its own, as other tests' NIC threads would count.
#[test]
fn an_idle_nic_uses_no_cpu() {
    const INSIDE: &str = "LONGARM_TEST_IDLE";
    if std::env::var(INSIDE).is_ok() {
        let tcp = Tcp::new();
        let mut server = Server::new(&tcp);
        let (_ours, mut theirs) = server.connected(&tcp);
        works(&mut theirs);
        let before = nic_ticks();
        server.channel.wait(Duration::from_millis(500));
        assert!(nic_ticks() - before <= 1, "an idle NIC thread ran for {} ticks", nic_ticks() - before);
        return;
    }
    let module = module_path!().split_once("::").expect("a module of a crate").1;
    let status = std::process::Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", &format!("{module}::an_idle_nic_uses_no_cpu"), "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .expect("start a child");
    assert!(status.success());
}

#[test]
fn a_flood_of_dawdlers_does_not_keep_the_door_shut() {
    let handshake = TIME / 5;
    let options = ListenOptions { pending: 16, handshake, ..ListenOptions::default() };
    let mut server = Server::new(&Tcp::new());
    server.listener = Tcp::new().listen(&loopback(), options).expect("listen");
    let _dawdlers: Vec<_> = (0..20).map(|_| server.socket()).collect();
    let started = Instant::now();
    let (_ours, mut theirs) = server.connected(&Tcp::new());
    works(&mut theirs);
    assert!(started.elapsed() < handshake / 2, "it waited for the dawdlers");
}

/// Many clients that start together are served one after the other; nobody is sent away.
#[test]
fn more_peers_than_may_enter_at_once_all_get_in() {
    let options = ListenOptions { pending: 2, ..ListenOptions::default() };
    let mut server = Server::new(&Tcp::new());
    server.listener = Tcp::new().listen(&loopback(), options).expect("listen");
    let address = server.listener.address();
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let address = address.clone();
            let request =
                ConnectRequest { hello: b"", grants: vec![], landing: 0, login: Login::None, timeout: TIME };
            std::thread::spawn(move || Tcp::new().connect(&address, request).map(|_| ()))
        })
        .collect();
    let mut entered = Vec::new();
    while entered.len() < clients.len() {
        let incoming = server.listener.accept(TIME).expect("accept").expect("another one comes");
        // The listener's owner takes its time, which is no fault of those who wait for it.
        longarm_host::sleep(Duration::from_millis(5));
        entered.push(incoming.accept(b"", Vec::new(), 0, &server.channel).expect("let in"));
    }
    for client in clients {
        client.join().expect("no panic").expect("connected");
    }
    assert_eq!(server.listener.failures(), Vec::<String>::new());
}
