//! Requests of a group's leader that wait until they may be answered: each is answered once, then forgotten.

use std::sync::Arc;

use longarm_base::{Csn, Nanos, ReplicaId, Term, UnixMillis};
use longarm_fabric::ring::Mailbox;
use longarm_fabric::{
    AnyListener, AnyQp, Channel, Grant, Incoming, ListenOptions, Listener, QueuePair, Rights, any,
};
use longarm_host::Mutex;
use longarm_memory::{Backing, Mapped, Region, RegionOptions, SumKey};
use longarm_wire::{
    Condition, Hello, MESSAGE_MAX, RING_REGION, Request, RequestKind, Status, VERSIONS, Welcome,
};

use super::harness::{Answer, BOUND, Raw, options, unique, until};
use crate::connection::{Connection, Turn};
use crate::execute::Execution;
use crate::shared::{ConnectedClient, OfReplica, Shared};
use longarm_engine::session::{Session, SessionHello, ToldAges, WINDOW};
use longarm_engine::testing::apply;
use longarm_engine::{Outcome, WorkerContext};
use longarm_group::Phase;
use longarm_group::{Core, Keys, Pulse, TermStart};

/// The sum key of the arena.
const SUM_KEY: u64 = 11;
/// Turns in which a waiting request would show itself.
const TURNS: usize = 50;

/// A leader whose only worker is the test, with one client.
struct Leader {
    shared: Arc<Shared>,
    pulse: Pulse,
    context: WorkerContext<Mapped>,
    session: Arc<Mutex<Session>>,
    connection: Connection<AnyQp>,
    client: Raw,
}

impl Leader {
    fn new() -> Leader {
        let (options, _) = options();
        let address = options.addresses[0].clone();
        let lent = crate::regions::create_of_replica(&options).expect("regions");
        let lent = Arc::new(lent);
        longarm_store::format(lent.arena.memory(), &SumKey::new(SUM_KEY)).expect("an arena");
        let start = TermStart {
            term: Term::new(1, ReplicaId(1)),
            items: 0,
            calendar: UnixMillis(0),
            ages: ToldAges::default(),
            ceiling: Csn::NONE,
        };
        let keys = Keys { sum: SUM_KEY, hash: 5 };
        let core = Core::of_term(options.core(), lent, keys, start, None).expect("a leader");
        let shared = Arc::new(Shared::new(options, Arc::new(core), OfReplica::default()));
        let mut listener = any::listen(&address, ListenOptions::default()).expect("listen");
        let id = unique() | 1 << 42;
        let client = std::thread::spawn(move || Raw::session(&address, id));
        let (session, generation) =
            shared.core.sessions.open(SessionHello { id, fresh: 1, since: Csn::NONE });
        let (qp, mailbox) = accept(&mut listener, &shared);
        let slot = shared.take_slot().expect("a slot");
        let (name, peer, transport) = ("raw".into(), "a test".into(), qp.describe());
        let listed = Arc::new(ConnectedClient { name, peer, transport, requests: 0.into(), bytes: 0.into() });
        let connection = Connection::new(qp, mailbox, session.clone(), generation, listed, slot);
        let context = shared.core.engine.worker_context(0);
        let client = client.join().expect("connected");
        Leader { shared, pulse: Pulse::default(), context, session, connection, client }
    }

    /// Makes a turn, after which all that was written is committed and applied.
    fn turn(&mut self) {
        let mut execution = Execution {
            shared: &self.shared,
            pulse: &self.pulse,
            context: &mut self.context,
            phase: self.shared.core.phase(),
        };
        assert_ne!(self.connection.turn(&mut execution), Turn::Gone, "the client was dropped");
        apply(&self.shared.core.engine, &mut self.context, self.shared.core.timestamps());
    }

    /// All answers of some turns.
    fn answers(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        for _ in 0..TURNS {
            self.turn();
            answers.extend(self.client.answer_there());
        }
        answers
    }

    /// Sends a request, which then waits; lets it continue, and returns its one answer.
    fn waits(&mut self, request: &Request<'_>, go_on: impl FnOnce(&Leader)) -> Answer {
        assert!(self.client.send(request));
        let mut early = Vec::new();
        until("the request is there, and waits", || {
            early.extend(self.answers());
            self.connection.owes()
        });
        assert_eq!(early, [], "answered before it could be told: {request:?}");
        go_on(self);
        let mut answers = Vec::new();
        until("an answer", || {
            answers.extend(self.answers());
            !answers.is_empty()
        });
        answers.extend(self.answers());
        assert_eq!(answers.len(), 1, "{request:?} was answered {} times", answers.len());
        assert!(!self.connection.owes(), "{request:?} is over, and waits");
        answers.remove(0)
    }

    fn waits_for_the_lease(&mut self, request: &Request<'_>) -> Answer {
        self.shared.core.set_lease(Nanos(0));
        self.waits(request, |leader| leader.shared.core.set_lease(Nanos(u64::MAX)))
    }

    fn waits_for_a_hand_over(&mut self, request: &Request<'_>) -> Answer {
        self.shared.core.hold_writes(true);
        self.waits(request, |leader| leader.shared.core.hold_writes(false))
    }
}

/// Admits the one client that comes.
fn accept(listener: &mut AnyListener, shared: &Shared) -> (AnyQp, Mailbox) {
    let mut incoming = None;
    until("a client knocks", || {
        incoming = listener.accept(BOUND).expect("accept");
        incoming.is_some()
    });
    let incoming = incoming.expect("it knocked");
    let hello = Hello::decode(incoming.hello()).expect("a hello");
    let ring = RegionOptions { name: "ring".into(), bytes: 64 << 10, backing: Backing::Memory };
    let ring = Arc::new(Region::create(&ring).expect("a ring"));
    let welcome = Welcome {
        agreed: VERSIONS.meet(VERSIONS).expect("one side"),
        boot: shared.core.boot,
        sum_key: SUM_KEY,
        stamp: shared.core.timestamps().now.0,
        lease: 1,
        read_bound: 1,
        ring_bytes: ring.bytes(),
        pid: 1,
        wants_hints: 0,
        group: 0,
        csn: 0,
        keep_sessions: 1 << 40,
        term: 0,
    };
    let grants = vec![Grant { id: RING_REGION, region: ring.clone(), rights: Rights::WRITE }];
    let channel = Channel::new().expect("a channel");
    let qp = incoming.accept(&welcome.encode(), grants, 0, &channel).expect("a connection");
    let mailbox = Mailbox::new(ring.memory().clone(), RING_REGION, hello.ring_bytes, MESSAGE_MAX);
    (qp, mailbox)
}

#[test]
fn what_waits_for_the_lease_is_answered_once() {
    let mut leader = Leader::new();
    leader.shared.core.set_lease(Nanos(u64::MAX));
    let mut operation = 0;
    let mut request = |kind, key| {
        operation += 1;
        Request { key, ..Request::new(kind, operation) }
    };
    let put = Request { value: b"text", ..request(RequestKind::Put, b"there") };
    assert!(leader.client.send(&put));
    until("it is there", || leader.answers().len() == 1);
    let get = request(RequestKind::Get, b"there");
    assert_eq!(leader.waits_for_the_lease(&get).value, b"text");
    let get = request(RequestKind::Get, b"nothing");
    assert_eq!(leader.waits_for_the_lease(&get).status, Status::NotFound);
    // These were judged by the items here, and leave no entry.
    let put = Request { condition: Condition::Absent, ..request(RequestKind::Put, b"there") };
    assert_eq!(leader.waits_for_the_lease(&put).status, Status::Mismatch);
    let delete = request(RequestKind::Delete, b"nothing");
    assert_eq!(leader.waits_for_the_lease(&delete).status, Status::NotFound);
    let touch = request(RequestKind::Touch, b"nothing");
    assert_eq!(leader.waits_for_the_lease(&touch).status, Status::NotFound);
    let add = Request { argument: 1, ..request(RequestKind::Increment, b"there") };
    assert_eq!(leader.waits_for_the_lease(&add).status, Status::NotANumber);
}

/// A client whose connection breaks sends its request to the next leader, which runs it, and again to the
/// previous leader, which does not know yet that it leads no more. That leader had refused the request, and
/// must not say so now.
#[test]
fn what_was_refused_before_is_refused_again_only_under_the_lease() {
    let mut leader = Leader::new();
    leader.shared.core.set_lease(Nanos(u64::MAX));
    let touch = Request { key: b"nothing", ..Request::new(RequestKind::Touch, 1) };
    assert!(leader.client.send(&touch));
    until("it is refused", || leader.answers().len() == 1);
    assert_eq!(leader.waits_for_the_lease(&touch).status, Status::NotFound);
}

#[test]
fn what_waits_for_a_hand_over_is_answered_once() {
    let mut leader = Leader::new();
    leader.shared.core.set_lease(Nanos(u64::MAX));
    let kinds = [RequestKind::Put, RequestKind::Increment, RequestKind::Touch, RequestKind::Delete];
    for (kind, operation) in kinds.into_iter().zip(1..) {
        let request = Request { key: b"n", value: b"", argument: 1, ..Request::new(kind, operation) };
        let request = if kind == RequestKind::Put { Request { value: b"5", ..request } } else { request };
        assert_eq!(leader.waits_for_a_hand_over(&request).status, Status::Ok, "{kind:?}");
    }
}

#[test]
fn what_became_known_while_it_waited_is_answered_once() {
    let mut leader = Leader::new();
    leader.shared.core.set_lease(Nanos(u64::MAX));
    let put = |operation| Request { key: b"k", ..Request::new(RequestKind::Put, operation) };
    leader.shared.core.hold_writes(true);
    let ran = leader.waits(&put(1), |leader| {
        leader.session.lock().record(1, Outcome::ok(Csn(9)), None);
    });
    assert_eq!((ran.status, ran.csn), (Status::Ok, 9));
    let forgotten = leader.waits(&put(2), |leader| {
        leader.session.lock().record(2 + WINDOW as u64, Outcome::ok(Csn(10)), None);
    });
    assert_eq!(forgotten.status, Status::Forgotten);
    leader.shared.core.hold_writes(false);
}

#[test]
fn what_waits_until_the_server_closes_is_answered_once() {
    for kind in [RequestKind::Get, RequestKind::Put] {
        let mut leader = Leader::new();
        leader.shared.core.hold_writes(true);
        let request = Request { key: b"k", ..Request::new(kind, 1) };
        let closing = leader.waits(&request, |leader| {
            leader.shared.core.enter(Phase::Draining, Nanos(u64::MAX));
            leader.pulse.set_drained();
        });
        assert_eq!(closing.status, Status::Closing, "{kind:?}");
    }
}
