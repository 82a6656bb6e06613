//! The wrappers pass the whole suite, and each does its own thing.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Place, RegionId};

use super::{Counted, CountsSeen, Faults, Faulty, QueuePairCounts, Traced};
use crate::conformance::Setup;
use crate::shm::{Shm, ShmIncoming, ShmListener, ShmQp};
use crate::{
    Address, Channel, Completion, Completions, ConnectRequest, Connected, Grant, Incoming, ListenOptions,
    Listener, Op, PeerInfo, PostError, QueuePair, Reason, SetupError, Ticket, Transport, WorkError,
    conformance,
};

/// All wrappers at once, with faults that a correct caller must bear: completions come late.
type Wrapped = Counted<Traced<Faulty<ShmQp>>>;

fn wrap(inner: ShmQp) -> Wrapped {
    let faults = Faults { seed: 7, delay: 4096, delay_polls: 3, ..Faults::default() };
    Counted::new(Traced::new(Faulty::new(inner, faults), 100), Arc::default())
}

struct Hooked;
struct HookedListener(ShmListener);
struct HookedIncoming(ShmIncoming);

impl Transport for Hooked {
    type Qp = Wrapped;
    type Listener = HookedListener;

    fn listen(&self, address: &Address, options: ListenOptions) -> Result<HookedListener, SetupError> {
        Shm.listen(address, options).map(HookedListener)
    }
    fn connect(
        &self,
        address: &Address,
        request: ConnectRequest<'_>,
    ) -> Result<Connected<Wrapped>, SetupError> {
        let Connected { qp, welcome } = Shm.connect(address, request)?;
        Ok(Connected { qp: wrap(qp), welcome })
    }
}

impl Listener for HookedListener {
    type Qp = Wrapped;
    type Incoming = HookedIncoming;

    fn accept(&mut self, timeout: Duration) -> Result<Option<HookedIncoming>, SetupError> {
        Ok(self.0.accept(timeout)?.map(HookedIncoming))
    }
    fn address(&self) -> Address {
        self.0.address()
    }
    fn failures(&mut self) -> Vec<String> {
        self.0.failures()
    }
}

impl Incoming for HookedIncoming {
    type Qp = Wrapped;

    fn hello(&self) -> &[u8] {
        self.0.hello()
    }
    fn peer(&self) -> PeerInfo {
        self.0.peer()
    }
    fn accept(
        self,
        welcome: &[u8],
        grants: Vec<Grant>,
        landing: u32,
        channel: &Channel,
    ) -> Result<Wrapped, SetupError> {
        self.0.accept(welcome, grants, landing, channel).map(wrap)
    }
    fn reject(self, reason: Reason) {
        self.0.reject(reason)
    }
}

struct OverHooks;

impl Setup for OverHooks {
    type Transport = Hooked;
    const SUITE: &'static str = module_path!();

    fn transport() -> Hooked {
        Hooked
    }
    fn address() -> Address {
        crate::shm::tests::fresh_address()
    }
}

conformance!(OverHooks);

const REGION: RegionId = RegionId(2);
const READ: Op<'static> = Op::Read { from: Place { region: REGION, offset: 0, len: 64 }, into: 0 };

/// Both ends over shared memory, the client's first.
fn connection() -> (ShmQp, ShmQp) {
    let (ours, theirs, _) =
        conformance::harness::TestServer::<crate::shm::tests::OverShm>::new().connection();
    (theirs, ours)
}

#[test]
fn counts_are_exact() {
    let (inner, mut peer) = connection();
    let counts = Arc::new(QueuePairCounts::default());
    let mut qp = Counted::new(inner, counts.clone());
    for _ in 0..3 {
        qp.post(READ, Ticket(1)).expect("post");
    }
    qp.post(Op::Write { region: REGION, offset: 0, bytes: &[0; 24] }, Ticket::SILENT).expect("post");
    qp.post(Op::WriteImm { region: REGION, offset: 0, bytes: &[0; 8], imm: 1 }, Ticket::SILENT)
        .expect("post");
    qp.post(Op::Send { bytes: b"hi" }, Ticket::SILENT).expect("post");
    qp.post(Op::FetchAdd { region: REGION, offset: 0, add: 1 }, Ticket(2)).expect("post");
    let malformed = Op::FetchAdd { region: REGION, offset: 1, add: 1 };
    assert_eq!(qp.post(malformed, Ticket(3)), Err(PostError::Malformed));
    qp.ring();
    peer.post(Op::Send { bytes: b"yo" }, Ticket::SILENT).expect("post");
    peer.ring();
    assert_eq!(conformance::harness::take(&mut qp, 5).len(), 5);
    let nobody = Op::FetchAdd { region: RegionId(9), offset: 0, add: 1 };
    qp.post(nobody, Ticket(4)).expect("post");
    assert_eq!(conformance::harness::take(&mut qp, 1).len(), 1);
    let expected = CountsSeen {
        reads: 3,
        read_bytes: 192,
        writes: 1,
        write_imms: 1,
        sends: 1,
        sent_bytes: 34,
        atomics: 2,
        rings: 1,
        arrivals: 1,
        failures: 1,
        revocations: 0,
    };
    assert_eq!(counts.see(), expected);
}

#[test]
fn a_trace_tells_the_last_events() {
    let (inner, _peer) = connection();
    let mut qp = Traced::new(inner, 4);
    qp.post(READ, Ticket(1)).expect("post");
    qp.post(Op::FetchAdd { region: REGION, offset: 8, add: 1 }, Ticket(2)).expect("post");
    qp.ring();
    let malformed = Op::Write { region: REGION, offset: 8, bytes: &[0; 3] };
    assert_eq!(qp.post(malformed, Ticket::SILENT), Err(PostError::Malformed));
    qp.poll(&mut Completions::new(8));
    let text = qp.trace().dump();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "2 ring", "older ones are forgotten");
    assert!(lines[1].starts_with("3 post WRITE 2:0x8+3 ticket silent refused: "), "{}", lines[1]);
    assert!(lines[2].starts_with("4 done ticket 1 result "), "{}", lines[2]);
    assert_eq!(lines[3..], ["5 done ticket 2 result 0x0"]);
}

/// What a run with faults shows: each post's answer and each poll's completions.
fn run(faults: Faults, posts: u64) -> (Vec<Result<(), PostError>>, Vec<Vec<Completion>>) {
    let (inner, _peer) = connection();
    let mut qp = Faulty::new(inner, faults);
    let mut done = Completions::new(64);
    let mut answers = Vec::new();
    let mut polls = Vec::new();
    for i in 0..posts {
        answers.push(qp.post(READ, Ticket(i)));
        qp.ring();
        qp.poll(&mut done);
        polls.push(done.drain().collect());
    }
    for _ in 0..1000 {
        qp.poll(&mut done);
        polls.push(done.drain().collect());
    }
    (answers, polls)
}

#[test]
fn faults_are_the_same_for_the_same_seed() {
    let faults =
        |seed| Faults { seed, full: 9000, delay: 9000, delay_polls: 9, cut_reads: 90, ..Faults::default() };
    assert_eq!(run(faults(1), 300), run(faults(1), 300));
    assert_ne!(run(faults(1), 300), run(faults(2), 300));
}

#[test]
fn refusals_and_delays_lose_nothing() {
    let faults = Faults { seed: 3, full: 16_384, delay: 16_384, delay_polls: 5, ..Faults::default() };
    let (answers, polls) = run(faults, 400);
    let refused = answers.iter().filter(|answer| **answer == Err(PostError::Full)).count();
    assert!((50..150).contains(&refused), "about a quarter: {refused}");
    let posted = (0..).zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(i, _)| Ticket(i));
    let expected: Vec<_> = posted.collect();
    let found: Vec<_> = polls
        .iter()
        .flatten()
        .map(|completion| match completion {
            Completion::Done(ticket, Ok(_)) => *ticket,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, expected);
    assert!(polls[..400].iter().any(|poll| poll.len() > 3), "some were held back");
}

#[test]
fn a_cut_flushes_what_is_outstanding_and_stays() {
    let (inner, _peer) = connection();
    let mut qp = Faulty::new(inner, Faults { cut_at: Some(3), ..Faults::default() });
    for i in 0..4 {
        qp.post(READ, Ticket(i)).expect("post");
    }
    assert_eq!(qp.post(READ, Ticket(4)), Err(PostError::Broken));
    assert!(qp.arm() && qp.state().is_err());
    let mut done = Completions::new(64);
    qp.poll(&mut done);
    let flushed: Vec<_> = (0..4).map(|i| Completion::Done(Ticket(i), Err(WorkError::Flushed))).collect();
    assert_eq!(done.as_slice(), flushed);
    assert_eq!(qp.poll(&mut done), 0);
    assert!(!qp.arm());
}

#[test]
fn silent_requests_are_forgotten_within_the_depth() {
    let (inner, _peer) = connection();
    let mut qp = Faulty::new(inner, Faults { cut_at: Some(2000), ..Faults::default() });
    let write = Op::Write { region: REGION, offset: 0, bytes: &[0; 8] };
    for _ in 0..=2000 {
        qp.post(write, Ticket::SILENT).expect("post");
    }
    let mut done = Completions::new(4096);
    while qp.poll(&mut done) > 0 {}
    assert!(done.as_slice().len() <= longarm_base::limits::QUEUE_DEPTH);
}
