//! A write runs once, however often it is requested and over how many connections.

use longarm_wire::{Request, RequestKind, Status};

use super::harness::{Raw, start, unique, until};

fn add(operation: u64) -> Request<'static> {
    Request { key: b"n", argument: 1, ..Request::new(RequestKind::Increment, operation) }
}

#[test]
fn a_repeated_operation_is_answered_from_the_record() {
    let (server, _) = start(|_| {});
    for address in server.addresses().to_vec() {
        let session = unique() | 1 << 41;
        let mut raw = Raw::session(&address, session);
        raw.delete(b"n");
        let first = raw.ask(&add(2));
        assert_eq!(first.number, 1);
        let again = raw.ask(&add(2));
        assert_eq!((again.number, again.csn), (1, first.csn));
        drop(raw);
        let mut raw = Raw::session(&address, session);
        let again = raw.ask(&add(2));
        assert_eq!((again.number, again.csn), (1, first.csn), "also after a reconnect");
        assert_eq!(raw.ask(&add(3)).number, 2);
        for operation in 4..=2 + longarm_engine::session::WINDOW as u64 {
            raw.ask(&add(operation));
        }
        assert_eq!(raw.ask(&add(2)).status, Status::Forgotten);
        assert_eq!(raw.get(b"n").value, (1 + longarm_engine::session::WINDOW).to_string().as_bytes());
    }
}

#[test]
fn the_old_connection_of_a_session_runs_nothing_any_more() {
    let (server, lines) = start(|_| {});
    for address in server.addresses().to_vec() {
        let session = unique() | 1 << 41;
        let mut old = Raw::session(&address, session);
        let start = old.ask(&add(1)).number;
        let mut new = Raw::session(&address, session);
        assert!(old.send(&add(2)));
        assert_eq!(old.answer(), None, "fenced");
        assert_eq!(new.ask(&add(2)).number, start + 1, "it had not run");
        drop(old);
        assert_eq!(new.ask(&add(3)).number, start + 2);
    }
    until("the log", || lines.lock().expect("log").len() == 2);
    let lines = lines.lock().expect("log");
    assert!(lines.iter().all(|line| line.contains("connected again")), "{lines:?}");
}

/// A client with 21 requests on their way, which loses its connection and repeats the oldest of them.
#[test]
fn all_that_a_client_may_repeat_is_recalled_and_nothing_else_runs() {
    let (server, _) = start(|_| {});
    for address in server.addresses().to_vec() {
        let session = unique() | 1 << 41;
        let mut raw = Raw::session(&address, session);
        raw.delete(b"n");
        let mut answers = vec![];
        for operation in 2..=100 {
            let behind = 20.min(operation - 1) as u8;
            answers.push(raw.ask(&Request { behind, ..add(operation) }));
        }
        drop(raw);
        let mut raw = Raw::session(&address, session);
        for operation in 2..=100 {
            let again = raw.ask(&add(operation));
            let first = &answers[operation as usize - 2];
            if again.status == Status::Ok {
                assert_eq!((again.number, again.csn), (first.number, first.csn));
            } else {
                assert!(again.status == Status::Forgotten && operation < 80, "{operation}: {again:?}");
            }
        }
        assert_eq!(raw.get(b"n").value, b"99");
    }
}
