//! Connections that are handed from one serving thread to another while their peers send.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use longarm_base::Place;
use longarm_memory::Words;

use super::driven::{LENT, Server, TIME, polled, post};
use super::*;
use crate::{Channel, Completion, Completions, Op, QueuePair, Ticket};

/// A thread that serves, and what it knows of the other one.
struct Hand {
    own: Channel,
    other: Channel,
    comes: Mutex<Receiver<TcpQp>>,
    goes: Sender<TcpQp>,
}

impl Hand {
    fn take(&self) -> Option<TcpQp> {
        self.comes.lock().expect("no panic").try_recv().ok()
    }
}

/// What both threads note.
#[derive(Default)]
struct Noted {
    over: AtomicBool,
    moves: AtomicU64,
    /// What arrived, in order.
    arrived: Mutex<Vec<u32>>,
}

/// Serves the queue pair that comes, and gives it to the other thread after some rounds.
fn serve(hand: &Hand, noted: &Noted) -> Option<TcpQp> {
    let (mut here, mut rounds, begun) = (None, 0, Instant::now());
    // Relaxed: only ends the loop. A test that failed ends it as well.
    while !noted.over.load(Ordering::Relaxed) && begun.elapsed() < 2 * TIME {
        hand.own.wait(Duration::from_micros(200));
        here = here.or_else(|| hand.take());
        let Some(qp) = &mut here else { continue };
        let mut done = Vec::new();
        polled(qp, &mut done);
        noted.arrived.lock().expect("no panic").extend(done.iter().map(|done| match done {
            Completion::Arrived { imm, .. } => *imm,
            other => panic!("{other:?}"),
        }));
        rounds += 1;
        if rounds % 3 == 0 && qp.move_to(&hand.other) {
            // Relaxed: a figure.
            noted.moves.fetch_add(1, Ordering::Relaxed);
            hand.goes.send(here.take().expect("it is here")).expect("the other thread");
        }
    }
    here
}

#[test]
fn a_connection_that_moves_while_its_peer_sends_loses_nothing() {
    const ALL: u32 = 20_000;
    let mut server = Server::new();
    let (ours, mut theirs) = server.connected();
    let others = Channel::driving().expect("channel");
    let ((to_a, at_a), (to_b, at_b)) = (channel(), channel());
    to_a.send(ours).expect("a thread");
    let hand = |own: &Channel, other: &Channel, comes, goes| Hand {
        own: own.clone(),
        other: other.clone(),
        comes: Mutex::new(comes),
        goes,
    };
    let a = hand(&server.channel, &others, at_a, to_b);
    let b = hand(&others, &server.channel, at_b, to_a);
    let noted = Noted::default();
    let mut ours = std::thread::scope(|scope| {
        let threads = [&a, &b].map(|hand| scope.spawn(|| serve(hand, &noted)));
        let (begun, mut sent, mut read) = (Instant::now(), 0, 0);
        let mut done = Completions::new(64);
        // Long ones are taken in parts, by one thread and the other.
        let long = vec![9; crate::WRITE_MAX];
        while sent < ALL || read < ALL / 100 || noted.arrived.lock().expect("no panic").len() < ALL as usize {
            assert!(begun.elapsed() < TIME, "{sent} sent, {read} READ");
            while sent < ALL {
                let bytes = if sent % 500 == 0 { long.as_slice() } else { &[1; 64] };
                let op = Op::WriteImm { region: LENT, offset: 0, bytes, imm: sent };
                if theirs.post(op, Ticket::SILENT).is_err() {
                    break;
                }
                sent += 1;
                if sent % 100 == 0 {
                    while theirs.post(Op::Read { from: Place::new(LENT, 0, 64), into: 0 }, Ticket(1)).is_err()
                    {
                        theirs.ring();
                        theirs.poll(&mut done);
                        read += done.drain().count() as u32;
                    }
                }
            }
            theirs.ring();
            theirs.poll(&mut done);
            read += done.drain().count() as u32;
        }
        // Relaxed: only ends the loops.
        noted.over.store(true, Ordering::Relaxed);
        let [here, there] = threads.map(|thread| thread.join().expect("no panic"));
        here.or(there).or_else(|| a.take()).or_else(|| b.take()).expect("somewhere")
    });
    assert!(*noted.arrived.lock().expect("no panic") == (0..ALL).collect::<Vec<_>>(), "each once, in order");
    // Relaxed: the threads are over.
    assert!(noted.moves.load(Ordering::Relaxed) > 20, "{:?}", noted.moves);
    // It is fenced as any other.
    ours.revoke().expect("revoked");
    let last = server.region.memory().load(0);
    let _ = theirs.post(Op::Write { region: LENT, offset: 0, bytes: &[5; 8] }, Ticket(7));
    theirs.ring();
    for channel in [&server.channel, &others] {
        channel.wait(Duration::from_millis(5));
    }
    assert_eq!(server.region.memory().load(0), last);
    assert!(!server.channel.drives() && !others.drives(), "nobody serves it any more");
}

#[test]
fn a_connection_stays_where_no_other_thread_can_serve_it() {
    let mut server = Server::new();
    let (mut ours, mut theirs) = server.connected();
    let name = ours.told();
    let ended = Channel::driving().expect("channel");
    ended.end();
    for channel in [&ended, &Channel::new().expect("channel")] {
        assert!(!ours.move_to(channel));
        assert_eq!(ours.told(), name);
    }
    assert!(!theirs.move_to(&server.channel), "one that connected serves itself");
    let mut done = Vec::new();
    post(&mut theirs, Op::Read { from: Place::new(LENT, 0, 8), into: 0 }, 2);
    server.serve(|| polled(&mut theirs, &mut done) == 1);
    assert!(ours.came_in_on().is_some() && ours.came_in_on().is_none(), "told once, until more comes");
    drop(theirs);
    server.serve(|| ours.state().is_err());
    assert!(!ours.move_to(&Channel::driving().expect("channel")), "it is over");
}
