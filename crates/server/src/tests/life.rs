//! A server starts, beats, and stops.

use std::sync::atomic::Ordering;
use std::time::Duration;

use longarm_index::control::ServerState;
use longarm_wire::{Request, RequestKind, Status};

use super::harness::{Raw, options, start, until};
use crate::{Eviction, Server, ServerOptions};

#[test]
fn the_heart_beats_on_the_clock_of_the_welcome() {
    let (server, _) = start(|_| {});
    for address in server.addresses().to_vec() {
        let mut raw = Raw::connect(&address);
        let first = raw.heartbeat();
        assert_eq!((first.boot, first.state), (raw.welcome.boot, ServerState::Serving));
        assert!(first.stamp.0 + 10_000_000_000 > raw.welcome.stamp);
        until("a beat", || raw.heartbeat().stamp > first.stamp);
        assert!(raw.put(b"k", b"v").stamp >= first.stamp.0);
    }
}

/// A server of its own, and one that keeps an ordered index, which is a group of one.
const KINDS: [bool; 2] = [false, true];

#[test]
fn a_worker_that_hangs_stops_the_heart() {
    KINDS.into_iter().for_each(a_worker_stops_the_heart);
}

fn a_worker_stops_the_heart(ordered: bool) {
    let (server, lines) = start(|options| {
        options.stall = Duration::from_millis(50);
        options.ordered = ordered;
    });
    let mut raw = Raw::connect(&server.addresses()[0]);
    assert_eq!(raw.put(b"k", b"v").status, Status::Ok);
    let shared = server.shared();
    let hang = &shared.hang;
    // Relaxed: the worker sees it sooner or later.
    hang.store(true, Ordering::Relaxed);
    assert!(raw.send(&Request::new(RequestKind::Ping, 0)));
    until("beats to be withheld", || server.stats().heartbeats_withheld > 3);
    let stopped = raw.heartbeat().stamp;
    let withheld = server.stats().heartbeats_withheld;
    until("more to be withheld", || server.stats().heartbeats_withheld > withheld + 3);
    assert_eq!(raw.heartbeat().stamp, stopped);
    // Relaxed: as above.
    hang.store(false, Ordering::Relaxed);
    until("the heart to go on", || raw.heartbeat().stamp > stopped);
    assert_eq!(raw.answer().expect("an answer").status, Status::Ok);
    let said = || {
        let mut lines = lines.lock().expect("log").clone();
        lines.retain(|line| line.contains("worker"));
        lines
    };
    until("the log", || said().len() >= 2);
    let lines = said();
    assert!(lines[0].contains("worker 0 made no progress") && lines[1].contains("go on"), "{lines:?}");
}

#[test]
fn a_stop_answers_what_arrived_and_says_goodbye() {
    KINDS.into_iter().for_each(a_stop_answers);
}

fn a_stop_answers(ordered: bool) {
    let (server, _) = start(|options| {
        options.workers = 2;
        options.ordered = ordered;
    });
    let addresses = server.addresses().to_vec();
    let mut clients: Vec<_> = addresses.iter().map(Raw::connect).collect();
    for raw in &mut clients {
        raw.put(b"k", b"v");
        for i in 0..100u32 {
            let request = Request { key: &i.to_le_bytes(), value: b"x", ..raw.next(RequestKind::Put) };
            assert!(raw.send(&request));
        }
    }
    let report = server.stop(Duration::from_secs(10));
    assert_eq!((report.clients, report.drained, report.panicked), (2, true, 0));
    // A request in a socket may arrive after the stop: it is refused or not answered at all.
    for (i, raw) in clients.iter_mut().enumerate() {
        let answers: Vec<_> = std::iter::from_fn(|| raw.answer()).collect();
        let done = answers.iter().filter(|answer| answer.status == Status::Ok).count();
        assert!(answers.iter().all(|answer| matches!(answer.status, Status::Ok | Status::Closing)));
        if i == 0 {
            assert_eq!(done, 100, "over shared memory all had arrived");
        }
        assert_eq!(raw.qp_state(), "the peer closed the connection");
    }
    for address in &addresses {
        assert!(Raw::try_connect(address, 1, 4096).is_err(), "nobody listens");
    }
    let longarm_fabric::Address::Shm(path) = &addresses[0] else { panic!("shm comes first") };
    assert!(!path.exists());
}

#[test]
fn later_requests_are_told_that_the_server_closes() {
    let (server, _) = start(|_| {});
    let mut raw = Raw::connect(&server.addresses()[0]);
    let first = raw.put(b"k", b"v");
    let shared = server.shared();
    let far = shared.core.timestamps().now + longarm_base::Nanos::from_millis(20_000);
    shared.core.enter(longarm_group::Phase::Draining, far);
    until("the drain", || {
        raw.qp_ring();
        shared.core.pulses[0].is_drained()
    });
    assert_eq!(raw.put(b"k", b"late").status, Status::Closing);
    assert_eq!(raw.get(b"k").status, Status::Closing);
    let repeated = Request { key: b"k", value: b"v", ..Request::new(RequestKind::Put, 1) };
    assert_eq!(raw.ask(&repeated).csn, first.csn, "what was done is still said");
    let page = raw.heartbeat();
    assert_eq!(page.state, ServerState::Serving);
    let control = shared.core.lent.control.clone();
    server.stop(Duration::from_secs(1));
    let mut line = [0; 64];
    longarm_memory::Words::copy_out(control.memory(), 0, &mut line);
    let beat = longarm_index::control::Heartbeat::parse(&line).expect("a control page");
    assert_eq!(beat.state, ServerState::Closed);
}

#[test]
fn options_that_make_no_sense_are_named() {
    let wrong = |change: &dyn Fn(&mut ServerOptions)| {
        let (mut options, _) = options();
        change(&mut options);
        match Server::start(options) {
            Ok(_) => panic!("it started"),
            Err(error) => error.to_string(),
        }
    };
    assert!(wrong(&|o| o.addresses.clear()).starts_with("option addresses: none given"));
    assert!(wrong(&|o| o.workers = 0).starts_with("option workers: 0 given"));
    assert!(wrong(&|o| o.memory = 1 << 20).starts_with("option memory"));
    assert!(wrong(&|o| o.lease = Duration::ZERO).starts_with("option lease"));
    assert!(wrong(&|o| o.ring_bytes = 100).starts_with("option ring_bytes"));
    assert!(wrong(&|o| o.max_clients = 0).starts_with("option max_clients"));
    assert!(wrong(&|o| o.read_bound = Duration::ZERO).starts_with("option read_bound"));
    assert!(wrong(&|o| o.collect_percent = 100).starts_with("option collect_percent"));
    assert!(wrong(&|o| o.kept_share = 0).starts_with("option kept_share"));
    assert!(wrong(&|o| o.expected_items = 1 << 40).contains("raise `memory` or expect fewer items"));
    let ordered = |change: &dyn Fn(&mut ServerOptions)| {
        wrong(&|o| {
            o.ordered = true;
            change(o);
        })
    };
    let error = ordered(&|o| o.eviction = Eviction::Lru);
    assert!(error.starts_with("option eviction: ") && error.contains("`ordered`"), "{error}");
    let error = ordered(&|o| o.keep_sessions = Duration::from_secs(5_000));
    assert!(error.starts_with("option keep_sessions: ") && error.contains("`ordered`"), "{error}");
    let missing = "/nonexistent/longarm";
    let error = wrong(&|o| o.addresses = vec![format!("shm:{missing}/a.sock").parse().expect("address")]);
    assert!(error.starts_with("cannot listen at shm:/nonexistent"), "{error}");
}
