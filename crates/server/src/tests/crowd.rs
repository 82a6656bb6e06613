//! Many clients, hostile clients, and clients that die.

use std::time::{Duration, Instant};

use longarm_fabric::{Op, PostError, QueuePair, Ticket};
use longarm_wire::{RING_REGION, Request, RequestKind, Status};

use super::harness::{Raw, start, until};

#[test]
fn a_hundred_clients_on_two_workers() {
    let (server, _) = start(|options| options.workers = 2);
    for address in server.addresses().to_vec() {
        let mut clients: Vec<_> = (0..100).map(|_| Raw::connect(&address)).collect();
        for round in 0..3u32 {
            for (i, raw) in clients.iter_mut().enumerate() {
                let request = Request {
                    key: &i.to_string().into_bytes(),
                    value: &round.to_le_bytes(),
                    ..raw.next(RequestKind::Put)
                };
                assert!(raw.send(&request));
            }
            for raw in &mut clients {
                assert_eq!(raw.answer().expect("an answer").status, Status::Ok);
            }
        }
        let stats = server.stats();
        assert_eq!((stats.clients.len(), stats.items), (100, 100));
        assert!(stats.clients.iter().all(|client| client.requests == 3));
        drop(clients);
        until("clients to leave", || server.stats().clients.is_empty());
    }
    assert_eq!(server.stats().sessions, 200, "remembered for a while");
}

/// Connections move between workers all the time, with requests under way: each is executed once, and
/// answered in order.
#[test]
fn clients_whose_connections_move_between_workers_lose_no_answer() {
    let (server, _) = start(|options| options.workers = 3);
    let shared = server.shared();
    // Relaxed: a switch of a test.
    shared.wanders.store(true, std::sync::atomic::Ordering::Relaxed);
    let address = server.addresses().iter().find(|address| address.to_string().starts_with("tcp")).cloned();
    let address = address.expect("one of tcp");
    std::thread::scope(|scope| {
        for client in 0..6u64 {
            let address = &address;
            scope.spawn(move || {
                let mut raw = Raw::connect(address);
                let (begun, mut expected) = (Instant::now(), 0);
                while begun.elapsed() < Duration::from_secs(2) {
                    for _ in 0..20 {
                        let key = client.to_le_bytes();
                        let one = Request { key: &key, argument: 1, ..raw.next(RequestKind::Increment) };
                        assert!(raw.send(&one));
                    }
                    for _ in 0..20 {
                        let answer = raw.answer().expect("an answer");
                        expected += 1;
                        assert_eq!((answer.status, answer.number), (Status::Ok, expected), "client {client}");
                    }
                }
            });
        }
    });
    // Relaxed: a figure of a test.
    let moves = shared.moves.load(std::sync::atomic::Ordering::Relaxed);
    assert!(moves > 10, "{moves} moves");
    until("clients to leave", || server.stats().clients.is_empty());
}

/// A worker that slept several times looks no more at clients that ask nothing: the first request of each
/// wakes it all the same, and it sees one leave.
#[test]
fn clients_that_slept_with_the_worker_are_answered_and_seen_to_leave() {
    let (server, _) = start(|options| options.workers = 1);
    for address in server.addresses().to_vec() {
        let mut busy = Raw::connect(&address);
        let mut idle: Vec<_> = (0..20).map(|_| Raw::connect(&address)).collect();
        let mut waited = Duration::ZERO;
        for _ in 0..3 {
            // The worker sleeps between two of these.
            for _ in 0..8 {
                let request = busy.next(RequestKind::Put);
                assert!(busy.send(&Request { key: b"busy", value: b"v", ..request }));
                assert_eq!(busy.answer().expect("an answer").status, Status::Ok);
                longarm_host::sleep(Duration::from_millis(3));
            }
            for (i, raw) in idle.iter_mut().enumerate() {
                let request = raw.next(RequestKind::Put);
                let (key, sent) = ((i as u32).to_le_bytes(), Instant::now());
                assert!(raw.send(&Request { key: &key, value: b"v", ..request }));
                assert_eq!(raw.answer().expect("an answer").status, Status::Ok);
                waited += sent.elapsed();
            }
        }
        // The worker sleeps for half a second: a request that wakes nobody waits for half of that.
        assert!(waited < Duration::from_secs(5), "sixty requests waited for {waited:?}");
        idle.truncate(5);
        until("the clients to leave", || server.stats().clients.len() == 6);
        drop((busy, idle));
        until("all clients to leave", || server.stats().clients.is_empty());
    }
}

#[test]
fn pipelined_requests_are_all_answered_in_order() {
    let (server, _) = start(|options| options.ring_bytes = 4096);
    for address in server.addresses().to_vec() {
        let mut raw = Raw::try_connect(&address, 77, 4096).expect("connect");
        let mut expected = 1;
        for wave in 0..20u64 {
            for i in 0..250u64 {
                let value = vec![wave as u8; 100];
                let request = Request { key: &i.to_le_bytes(), value: &value, ..raw.next(RequestKind::Put) };
                assert!(raw.send(&request));
            }
            for _ in 0..250 {
                assert_eq!(raw.answer().expect("an answer").operation, expected);
                expected += 1;
            }
        }
        // Answers far larger than the ring, asked for at once.
        raw.put(b"large", &vec![3; 100_000]);
        for _ in 0..50 {
            assert!(raw.send(&Request { key: b"large", ..Request::new(RequestKind::Get, 5) }));
        }
        for _ in 0..50 {
            assert_eq!(raw.answer().expect("an answer").value.len(), 100_000);
        }
    }
}

#[test]
fn garbage_ends_its_connection_and_no_other() {
    let (server, lines) = start(|_| {});
    for address in server.addresses().to_vec() {
        let mut good = Raw::connect(&address);
        let mut spoilt: Vec<_> = (0..4).map(|_| Raw::connect(&address)).collect();
        let write = |raw: &mut Raw, bytes: &[u8], offset, imm| {
            let op = Op::WriteImm { region: RING_REGION, offset, bytes, imm };
            let posted = raw.qp.post(op, Ticket::SILENT);
            assert!(matches!(posted, Ok(()) | Err(PostError::Broken)));
            raw.qp.ring();
        };
        write(&mut spoilt[0], &[0xFF; 64], 0, 0);
        write(&mut spoilt[1], &[0; 64], 0, 99);
        let mut frame = vec![0; 64];
        frame[0] = 48;
        frame[16] = 200;
        write(&mut spoilt[2], &frame, 0, 0);
        spoilt[3].qp.post(Op::Send { bytes: b"hello" }, Ticket::SILENT).expect("post");
        spoilt[3].qp.ring();
        for raw in &mut spoilt {
            assert_eq!(raw.answer(), None, "dropped");
        }
        assert_eq!(good.put(b"k", b"v").status, Status::Ok);
    }
    let lines = lines.lock().expect("log");
    let dropped = lines.iter().filter(|line| line.contains("was dropped")).count();
    assert_eq!(dropped, 8, "{lines:?}");
}

#[test]
fn a_client_that_takes_no_answers_is_dropped() {
    let (server, lines) = start(|_| {});
    let mut raw = Raw::try_connect(&server.addresses()[0], 5, 4096).expect("connect");
    let mut sent = 0;
    // Its requests carry credit for answers only if it takes them; it never polls.
    while raw.mailbox.send(&mut raw.qp, &[&Request::new(RequestKind::Ping, 1).header()]).is_ok()
        && sent < 2000
    {
        raw.qp.ring();
        sent += 1;
    }
    until("the drop", || !lines.lock().expect("log").is_empty());
    let line = lines.lock().expect("log")[0].clone();
    assert!(line.contains("without taking their answers"), "{line}");
    until("its slot", || server.stats().clients.is_empty());
}

#[test]
fn the_limit_of_clients_holds_and_a_ring_must_make_sense() {
    let (server, _) = start(|options| options.max_clients = 2);
    for address in server.addresses().to_vec() {
        let (a, b) = (Raw::connect(&address), Raw::connect(&address));
        let refused = Raw::try_connect(&address, 3, 8192).map(|_| ()).expect_err("full");
        assert!(refused.to_string().contains("limit of 2 clients"), "{refused}");
        drop((a, b));
        until("slots", || server.stats().clients.is_empty());
        for bytes in [0, 4096 + 64, 2 << 30] {
            let refused = Raw::try_ring(&address, bytes).expect_err("a bad ring");
            assert!(refused.to_string().contains("answer ring"), "{refused}");
        }
        assert_eq!(Raw::connect(&address).put(b"k", b"v").status, Status::Ok);
        until("the last to leave", || server.stats().clients.is_empty());
    }
}

#[test]
fn clients_that_come_and_go_leave_nothing() {
    let (server, _) = start(|_| {});
    let files = || std::fs::read_dir("/proc/self/fd").expect("fds").count();
    let address = &server.addresses()[0];
    let come_and_go = || {
        for i in 0..20 {
            let mut raw = Raw::connect(address);
            raw.put(b"k", &[i; 1000]);
            // A client in the middle of a request.
            let half = Request { key: b"k", value: &[1; 60_000], ..raw.next(RequestKind::Put) };
            let _ = raw.mailbox.send(&mut raw.qp, &[&half.header(), b"k", &[1; 60_000]]);
        }
        until("clients to leave", || server.stats().clients.is_empty());
    };
    come_and_go();
    // Other tests of this process open files too. A growth of one connection's worth a round would still
    // show.
    let before = files();
    (0..5).for_each(|_| come_and_go());
    until("files to be closed", || files() < before + 100);
    drop(server);
}

#[test]
fn a_server_with_nothing_to_do_sleeps() {
    let (server, _) = start(|_| {});
    let mut raw = Raw::connect(&server.addresses()[0]);
    assert_eq!(raw.put(b"k", b"v").status, Status::Ok);
    until("sleep", || server.shared().core.pulses[0].is_sleeping());
    let bed = longarm_host::Pause::default();
    let asleep = (0..100).filter(|_| {
        bed.sleep(Duration::from_millis(3));
        server.shared().core.pulses[0].is_sleeping()
    });
    let asleep = asleep.count();
    assert!(asleep > 80, "asleep {asleep} times of 100");
    drop(raw);
}
