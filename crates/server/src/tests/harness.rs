//! A raw client: a queue pair and two rings, which hide nothing that the server does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use longarm_fabric::ring::Mailbox;
use longarm_fabric::{
    Address, AnyQp, Completion, Completions, ConnectRequest, Grant, Login, Op, QueuePair, Rights, SetupError,
    Ticket, any,
};
use longarm_index::control::{HEARTBEAT_PLACE, Heartbeat};
use longarm_memory::{Backing, Region, RegionOptions};
use longarm_wire::{Hello, MESSAGE_MAX, RING_REGION, Request, RequestKind, Response, Status, Welcome};

use crate::{Server, ServerOptions};

/// Bound on every wait of a test.
pub const BOUND: Duration = Duration::from_secs(20);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A number that no other test of this process has.
pub fn unique() -> u64 {
    // Relaxed: a counter.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A socket path that no other test has.
pub fn shm_address() -> Address {
    let file = format!("longarm-server-test-{}-{}.sock", std::process::id(), unique());
    Address::Shm(std::env::temp_dir().join(file))
}

/// Options for a small server that starts quickly, on shared memory and tcp, and whose log is kept.
pub fn options() -> (ServerOptions, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    let options = ServerOptions {
        addresses: vec![shm_address(), "tcp://127.0.0.1:0".parse().expect("an address")],
        memory: 64 << 20,
        read_bound: Duration::from_millis(20),
        // Other tests use these cores too: only the test of hanging workers shall see one hang.
        stall: Duration::from_secs(30),
        log: longarm_group::Log::new(move |line| kept.lock().expect("log").push(line.text.to_string())),
        ..ServerOptions::default()
    };
    (options, lines)
}

pub fn start(change: impl FnOnce(&mut ServerOptions)) -> (Server, Arc<Mutex<Vec<String>>>) {
    let (mut options, lines) = options();
    change(&mut options);
    (Server::start(options).expect("start"), lines)
}

impl Server {
    /// The state that the threads of a server of its own share; if it is a replica, in its present term.
    pub(crate) fn shared(&self) -> Arc<crate::shared::Shared> {
        match &self.body {
            crate::start::Body::Alone { shared, .. } => shared.clone(),
            crate::start::Body::Replicas(replicas) => (replicas[0].shared)().expect("it leads"),
        }
    }
}

/// Waits until the condition holds.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < BOUND, "{what}: not within {BOUND:?}");
        std::thread::yield_now();
    }
}

/// An answer with a value of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub status: Status,
    pub operation: u64,
    pub csn: u64,
    pub number: i64,
    pub stamp: u64,
    pub value: Vec<u8>,
}

pub struct Raw {
    pub qp: AnyQp,
    pub mailbox: Mailbox,
    pub welcome: Welcome,
    pub operation: u64,
    answers: VecDeque<Answer>,
    _ring: Arc<Region>,
}

impl Raw {
    pub fn connect(address: &Address) -> Raw {
        Raw::session(address, unique() | 1 << 40)
    }

    pub fn session(address: &Address, session: u64) -> Raw {
        Raw::try_connect(address, session, 64 << 10).expect("connect")
    }

    pub fn try_connect(address: &Address, session: u64, ring_bytes: u64) -> Result<Raw, SetupError> {
        let options =
            RegionOptions { name: "test-answers".into(), bytes: ring_bytes, backing: Backing::Memory };
        let ring = Arc::new(Region::create(&options).expect("a ring"));
        let hello = Hello { session, ring_bytes, group: 0, fresh: 1, since: 0, name: "raw".into() }.encode();
        let grants = vec![Grant { id: RING_REGION, region: ring.clone(), rights: Rights::WRITE }];
        let request =
            ConnectRequest { hello: &hello, grants, landing: 4096, login: Login::None, timeout: BOUND };
        let connected = any::connect(address, request)?;
        let welcome = Welcome::decode(&connected.welcome).expect("welcome");
        let mailbox = Mailbox::new(ring.memory().clone(), RING_REGION, welcome.ring_bytes, MESSAGE_MAX);
        let answers = VecDeque::new();
        Ok(Raw { qp: connected.qp, mailbox, welcome, operation: 0, answers, _ring: ring })
    }

    /// Sends without waiting; `false` if the server is gone.
    pub fn send(&mut self, request: &Request<'_>) -> bool {
        let header = request.header();
        let start = Instant::now();
        loop {
            match self.mailbox.send(&mut self.qp, &[&header, request.key, request.value]) {
                Ok(()) => break,
                Err(longarm_fabric::PostError::Full) => {}
                Err(_) => return false,
            }
            assert!(start.elapsed() < BOUND, "the server takes no requests");
            self.qp.ring();
            self.poll();
        }
        while self.mailbox.is_sending() && self.qp.state().is_ok() {
            assert!(start.elapsed() < BOUND, "the server takes no requests");
            self.qp.ring();
            self.poll();
        }
        self.qp.ring();
        true
    }

    fn poll(&mut self) {
        let mut done = Completions::new(32);
        self.qp.poll(&mut done);
        done.drain().for_each(|completion| self.take(completion));
        let _ = self.mailbox.pump(&mut self.qp);
        self.qp.ring();
    }

    fn take(&mut self, completion: Completion) {
        let Completion::Arrived { imm, len } = completion else { return };
        if self.mailbox.receive(imm, len).expect("a good frame") {
            let answer = Response::decode(self.mailbox.message()).expect("a good response");
            self.answers.push_back(Answer {
                status: answer.status,
                operation: answer.operation,
                csn: answer.csn.0,
                number: answer.number,
                stamp: answer.stamp.0,
                value: answer.value.to_vec(),
            });
        }
    }

    /// The next answer; `None` if the server ended the connection.
    pub fn answer(&mut self) -> Option<Answer> {
        let start = Instant::now();
        loop {
            self.poll();
            if let Some(answer) = self.answers.pop_front() {
                return Some(answer);
            }
            if self.qp.state().is_err() {
                return None;
            }
            assert!(start.elapsed() < BOUND, "no answer");
            self.qp.wait(Duration::from_millis(10));
        }
    }

    /// The next answer, if it is there.
    pub fn answer_there(&mut self) -> Option<Answer> {
        self.poll();
        self.answers.pop_front()
    }

    pub fn ask(&mut self, request: &Request<'_>) -> Answer {
        assert!(self.send(request), "the server is gone: {:?}", self.qp.state());
        let answer = self.answer().unwrap_or_else(|| panic!("dropped: {:?}", self.qp.state()));
        assert_eq!(answer.operation, request.operation);
        answer
    }

    pub fn next(&mut self, kind: RequestKind) -> Request<'static> {
        self.operation += 1;
        Request::new(kind, self.operation)
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Answer {
        let request = Request { key, value, ..self.next(RequestKind::Put) };
        self.ask(&request)
    }

    pub fn get(&mut self, key: &[u8]) -> Answer {
        self.ask(&Request { key, ..Request::new(RequestKind::Get, 0) })
    }

    pub fn delete(&mut self, key: &[u8]) -> Answer {
        let request = Request { key, ..self.next(RequestKind::Delete) };
        self.ask(&request)
    }

    /// The reason why the connection is over.
    pub fn qp_state(&self) -> String {
        self.qp.state().map_or_else(|why| why.to_string(), |()| "it stands".into())
    }

    /// Sends a message that wants no answer: it makes the worker look.
    pub fn qp_ring(&mut self) {
        self.send(&Request::new(RequestKind::Hints, 0));
    }

    /// Connects and announces an answer ring of `bytes`, without having one.
    pub fn try_ring(address: &Address, bytes: u64) -> Result<(), SetupError> {
        let hello = Hello { session: 1, ring_bytes: bytes, group: 0, fresh: 1, since: 0, name: "raw".into() }
            .encode();
        let grants = Vec::new();
        let request =
            ConnectRequest { hello: &hello, grants, landing: 4096, login: Login::None, timeout: BOUND };
        any::connect(address, request).map(|_| ())
    }

    pub fn heartbeat(&mut self) -> Heartbeat {
        let read = Op::Read { from: HEARTBEAT_PLACE, into: 0 };
        self.qp.post(read, Ticket(7)).expect("post");
        self.qp.ring();
        let mut done = Completions::new(4);
        let mut read = None;
        until("a READ", || {
            self.qp.poll(&mut done);
            for completion in done.drain() {
                match completion {
                    Completion::Done(Ticket(7), result) => read = Some(result),
                    other => self.take(other),
                }
            }
            read.is_some()
        });
        assert_eq!(read, Some(Ok(0)));
        Heartbeat::parse(self.qp.landing(0, 64)).expect("a control page")
    }
}
