//! Connections that are served by whoever waits on their channel: the suite, with a thread that does just
//! that, and what such a thread is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use longarm_base::{Place, RegionId};
use longarm_memory::{Backing, Region, RegionOptions, Words};

use super::*;
use crate::{
    Channel, Completion, Completions, Grant, Incoming, Listener, Login, Op, QueuePair, Rights, Ticket,
};

pub(super) const TIME: Duration = Duration::from_secs(20);
pub(super) const LENT: RegionId = RegionId(1);

struct Driven;

impl Setup for Driven {
    type Transport = Tcp;
    const SUITE: &'static str = module_path!();

    fn transport() -> Tcp {
        Tcp::new()
    }

    fn address() -> Address {
        loopback()
    }

    fn channel() -> Channel {
        let channel = Channel::driving().expect("channel");
        let waited = channel.clone();
        // It outlives its test, and ends a while later.
        std::thread::spawn(move || {
            let begun = Instant::now();
            while begun.elapsed() < 3 * TIME {
                waited.wait(Duration::from_millis(20));
            }
            waited.end();
        });
        channel
    }
}

conformance!(attended Driven);

/// A server, and the clients that it let in.
pub(super) struct Server {
    listener: TcpListener,
    pub region: Arc<Region>,
    pub channel: Channel,
}

impl Server {
    pub fn new() -> Server {
        let options = RegionOptions { name: "lent".into(), bytes: 1 << 20, backing: Backing::Memory };
        Server {
            listener: Tcp::new().listen(&loopback(), ListenOptions::default()).expect("listen"),
            region: Arc::new(Region::create(&options).expect("memfd")),
            channel: Channel::driving().expect("channel"),
        }
    }

    pub fn connected(&mut self) -> (TcpQp, TcpQp) {
        let address = self.listener.address();
        std::thread::scope(|scope| {
            let theirs = scope.spawn(move || connect(&address));
            let rights = Rights::READ.and(Rights::WRITE);
            let grant = Grant { id: LENT, region: self.region.clone(), rights };
            let incoming = self.listener.accept(TIME).expect("accept").expect("a peer");
            let ours = incoming.accept(b"", vec![grant], 0, &self.channel).expect("let in");
            (ours, theirs.join().expect("the client's thread"))
        })
    }

    /// Serves until `done`; the names that were told.
    pub fn serve(&self, mut done: impl FnMut() -> bool) -> Vec<u64> {
        let (begun, mut told) = (Instant::now(), Vec::new());
        while !done() {
            assert!(begun.elapsed() < TIME, "too late");
            self.channel.wait_for(Duration::from_millis(1), &mut told);
        }
        told
    }
}

fn connect(address: &Address) -> TcpQp {
    let request =
        ConnectRequest { hello: b"", grants: vec![], landing: 4096, login: Login::None, timeout: TIME };
    Tcp::new().connect(address, request).expect("connect").qp
}

pub(super) fn post(qp: &mut TcpQp, op: Op<'_>, ticket: u64) {
    qp.post(op, Ticket(ticket)).expect("post");
    qp.ring();
}

pub(super) fn polled(qp: &mut TcpQp, done: &mut Vec<Completion>) -> usize {
    let mut completions = Completions::new(64);
    qp.poll(&mut completions);
    done.extend(completions.drain());
    done.len()
}

#[test]
fn only_who_waits_executes_and_is_told_the_names_of_those_with_something_to_poll() {
    let mut server = Server::new();
    let mut pairs: Vec<_> = (0..3).map(|_| server.connected()).collect();
    let (ours, theirs) = &mut pairs[1];
    let (name, mut done) = (ours.told().expect("it has a name").name(), Vec::new());
    post(theirs, Op::Write { region: LENT, offset: 0, bytes: &[7; 8] }, 1);
    post(theirs, Op::Read { from: Place::new(LENT, 0, 8), into: 0 }, 2);
    theirs.wait(Duration::from_millis(50));
    assert_eq!(polled(theirs, &mut done), 0, "nobody waits on the channel");
    let told = server.serve(|| polled(theirs, &mut done) == 2);
    assert_eq!(told, [], "there is nothing to poll for the user of a queue pair that is read");
    assert_eq!(theirs.landing(0, 8), [7; 8]);
    post(theirs, Op::WriteImm { region: LENT, offset: 0, bytes: &[8; 8], imm: 5 }, 3);
    let told = server.serve(|| polled(theirs, &mut done) == 3);
    assert!(!told.is_empty() && told.iter().all(|told| *told == name), "{told:?} of {name}");
    assert!(ours.arm(), "there is something to poll");
    let mut arrived = Vec::new();
    polled(ours, &mut arrived);
    assert_eq!(arrived, [Completion::Arrived { imm: 5, len: 8 }]);
    // A peer that leaves is told as well.
    let (mut ours, theirs) = pairs.swap_remove(1);
    drop(theirs);
    let told = server.serve(|| ours.state().is_err());
    assert!(told.contains(&name));
    assert_eq!(polled(&mut ours, &mut Vec::new()), 0);
    assert!(pairs.iter().all(|(ours, theirs)| ours.state().is_ok() && theirs.state().is_ok()));
}

#[test]
fn nothing_of_a_revoked_peer_is_executed_while_another_thread_waits() {
    for _ in 0..20 {
        let mut server = Server::new();
        let (mut ours, mut theirs) = server.connected();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Relaxed: only ends the loops.
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    server.channel.wait(Duration::from_millis(1));
                }
            });
            scope.spawn(|| {
                for word in 1.. {
                    let op = Op::Write { region: LENT, offset: 0, bytes: &u64::to_le_bytes(word) };
                    if theirs.post(op, Ticket(word)).is_err() && theirs.state().is_err() {
                        break;
                    }
                    theirs.ring();
                    theirs.poll(&mut Completions::new(64));
                }
            });
            let memory = server.region.memory();
            let begun = Instant::now();
            while memory.load(0) < 100 {
                assert!(begun.elapsed() < TIME, "nothing is written");
            }
            ours.revoke().expect("revoked");
            let last = memory.load(0);
            // Nobody notifies this channel: time passes.
            Channel::new().expect("channel").wait(Duration::from_millis(3));
            assert_eq!(memory.load(0), last, "it was fenced");
            // Relaxed: as above.
            over.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn more_arrivals_than_wait_push_back_and_their_answers_come_together() {
    const ARRIVALS: u32 = 5_000;
    let mut server = Server::new();
    let (mut ours, mut theirs) = server.connected();
    let (mut sent, mut arrived, mut done) = (0, Vec::new(), Vec::new());
    let begun = Instant::now();
    for round in 1.. {
        if arrived.len() == ARRIVALS as usize {
            break;
        }
        assert!(begun.elapsed() < TIME, "{} arrived", arrived.len());
        while sent < ARRIVALS {
            let op = Op::WriteImm { region: LENT, offset: 0, bytes: &[0; 8], imm: sent };
            if theirs.post(op, Ticket::SILENT).is_err() {
                break;
            }
            sent += 1;
        }
        theirs.ring();
        polled(&mut theirs, &mut done);
        server.channel.wait(Duration::ZERO);
        // The user is slower than its peer.
        if round % 50 == 0 {
            polled(&mut ours, &mut arrived);
        }
    }
    let numbers = arrived.iter().map(|completion| match completion {
        Completion::Arrived { imm, .. } => *imm,
        other => panic!("{other:?}"),
    });
    assert!(numbers.eq(0..ARRIVALS), "in order, and none is lost");
    assert_eq!(done, [], "silent ones are not reported");
}

#[test]
fn a_channel_that_ends_serves_nobody_any_more() {
    let mut server = Server::new();
    let (ours, mut theirs) = server.connected();
    assert!(server.channel.drives());
    drop(ours);
    server.serve(|| !server.channel.drives());
    assert!(!theirs.ready() && theirs.state().is_err(), "it is over, and forgotten");
    let (ours, mut theirs) = server.connected();
    server.channel.end();
    assert!(!server.channel.drives());
    drop(ours);
    let address = server.listener.address();
    let late = std::thread::spawn(move || connect(&address));
    let incoming = server.listener.accept(TIME).expect("accept").expect("a peer");
    // The NIC thread of the listener takes what comes now.
    let ours = incoming.accept(b"", vec![], 0, &server.channel).expect("let in");
    assert_eq!(ours.told(), None);
    drop((ours, late.join().expect("the client's thread")));
    theirs.wait(Duration::from_secs(1));
    assert!(theirs.state().is_err() || !theirs.ready());
}
