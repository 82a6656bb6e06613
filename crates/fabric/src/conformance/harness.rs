//! Two connected ends with memory lent both ways, and bounded waits for what should happen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_base::{Place, RegionId};
use longarm_memory::{Backing, Region, RegionOptions};

use super::Setup;
use crate::{
    Address, Broken, Channel, Completion, Completions, ConnectRequest, Connected, Grant, Incoming,
    ListenOptions, Listener, Login, Op, PostError, QueuePair, Rights, SetupError, Ticket, Transport,
    WorkError,
};

/// The bound on everything that should happen at once; generous, because test machines stall.
pub const SOON: Duration = Duration::from_secs(20);
/// Region the server lends for READ.
pub const LOOK: RegionId = RegionId(1);
/// Region the server lends for everything.
pub const ALL: RegionId = RegionId(2);
/// Region the server lends for WRITE alone.
pub const DROP_BOX: RegionId = RegionId(300);
/// Region the client lends for everything.
pub const BACK: RegionId = RegionId(16);
/// Size of the regions; the longest READ fits.
pub const BYTES: u64 = 512 << 10;
/// Size of the landing buffers.
pub const LANDING: u32 = 512 << 10;

pub type Qp<S> = <<S as Setup>::Transport as Transport>::Qp;
pub type Listening<S> = <<S as Setup>::Transport as Transport>::Listener;

pub fn everything() -> Rights {
    Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC)
}

pub fn region(name: &str) -> Arc<Region> {
    let options = RegionOptions { name: name.into(), bytes: BYTES, backing: Backing::Memory };
    Arc::new(Region::create(&options).expect("memfd"))
}

/// Memory of a server.
pub struct Memory {
    pub look: Arc<Region>,
    pub all: Arc<Region>,
    pub drop_box: Arc<Region>,
}

impl Memory {
    pub fn new() -> Memory {
        Memory { look: region("look"), all: region("all"), drop_box: region("drop-box") }
    }

    pub fn grants(&self) -> Vec<Grant> {
        vec![
            Grant { id: LOOK, region: self.look.clone(), rights: Rights::READ },
            Grant { id: ALL, region: self.all.clone(), rights: everything() },
            Grant { id: DROP_BOX, region: self.drop_box.clone(), rights: Rights::WRITE },
        ]
    }
}

pub fn listen<S: Setup>(options: ListenOptions) -> (Listening<S>, Address) {
    let listener = S::listening().listen(&S::address(), options).expect("listen");
    let address = listener.address();
    (listener, address)
}

pub fn request(grants: Vec<Grant>) -> ConnectRequest<'static> {
    ConnectRequest { hello: b"hello", grants, landing: LANDING, login: Login::None, timeout: SOON }
}

pub fn connect<S: Setup>(address: &Address, grants: Vec<Grant>) -> Result<Connected<Qp<S>>, SetupError> {
    S::transport().connect(address, request(grants))
}

/// A server with its memory, and clients.
pub struct TestServer<S: Setup> {
    pub listener: Listening<S>,
    pub address: Address,
    pub memory: Memory,
    pub channel: Channel,
}

impl<S: Setup> TestServer<S> {
    pub fn new() -> TestServer<S> {
        let (listener, address) = listen::<S>(ListenOptions::default());
        TestServer { listener, address, memory: Memory::new(), channel: S::channel() }
    }

    /// The next peer, let in.
    pub fn accept(&mut self) -> Qp<S> {
        let incoming = self.listener.accept(SOON).expect("accept").expect("a peer in time");
        incoming.accept(b"welcome", self.memory.grants(), LANDING, &self.channel).expect("let in")
    }

    /// A new connection, both ends in this process: ours, theirs, and what they lend.
    pub fn connection(&mut self) -> (Qp<S>, Qp<S>, Arc<Region>) {
        let back = region("back");
        let grant = Grant { id: BACK, region: back.clone(), rights: everything() };
        let address = self.address.clone();
        let (ours, theirs) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| connect::<S>(&address, vec![grant]).expect("connect").qp);
            (self.accept(), theirs.join().expect("the client's thread"))
        });
        (ours, theirs, back)
    }
}

/// Polls, one completion at a time, until `done` says so; panics when it takes too long.
pub fn poll_until<Q: QueuePair>(qp: &mut Q, mut done: impl FnMut(&mut Q, Completion) -> bool) {
    let until = Instant::now() + SOON;
    let mut one = Completions::new(1);
    loop {
        let idle = qp.poll(&mut one) == 0;
        let first = one.drain().next();
        if first.is_some_and(|completion| done(qp, completion)) {
            return;
        }
        assert!(Instant::now() < until, "too late; state {:?}", qp.state());
        if idle {
            qp.wait(Duration::from_millis(1));
        }
    }
}

/// The next `count` completions.
pub fn take<Q: QueuePair>(qp: &mut Q, count: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    if count > 0 {
        poll_until(qp, |_, completion| {
            all.push(completion);
            all.len() == count
        });
    }
    all
}

/// One request from post to completion.
pub fn run<Q: QueuePair>(qp: &mut Q, op: Op<'_>) -> Result<u64, WorkError> {
    post(qp, op, Ticket(77)).expect("post");
    qp.ring();
    match take(qp, 1)[0] {
        Completion::Done(Ticket(77), result) => result,
        other => panic!("expected a completion, got {other:?}"),
    }
}

/// As [`run`], while the peer polls, too: a side without a thread of its own executes requests when it polls.
/// The peer has no room, so its news stays for the test.
pub fn run_on<Q: QueuePair>(qp: &mut Q, peer: &mut Q, op: Op<'_>) -> Result<u64, WorkError> {
    post(qp, op, Ticket(78)).expect("post");
    qp.ring();
    let (mut one, mut none) = (Completions::new(1), Completions::new(0));
    let until = Instant::now() + SOON;
    while qp.poll(&mut one) == 0 {
        assert!(Instant::now() < until, "too late; states {:?} and {:?}", qp.state(), peer.state());
        peer.poll(&mut none);
        peer.ring();
    }
    match one.as_slice()[0] {
        Completion::Done(Ticket(78), result) => result,
        other => panic!("expected a completion, got {other:?}"),
    }
}

/// Posts; when the queue is full, waits for it to empty (nothing signalled may be outstanding then).
pub fn post<Q: QueuePair>(qp: &mut Q, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
    let until = Instant::now() + SOON;
    loop {
        match qp.post(op, ticket) {
            Err(PostError::Full) => {
                assert!(Instant::now() < until, "full for too long");
                qp.ring();
                let mut completions = Completions::new(64);
                qp.poll(&mut completions);
                assert!(completions.as_slice().is_empty(), "lost by the test: {:?}", completions.as_slice());
                std::thread::yield_now();
            }
            other => return other,
        }
    }
}

/// A READ into the start of the landing buffer, and its bytes.
pub fn read<Q: QueuePair>(qp: &mut Q, region: RegionId, offset: u64, len: u32) -> Vec<u8> {
    run(qp, Op::Read { from: Place::new(region, offset, len), into: 0 }).expect("read");
    qp.landing(0, len).to_vec()
}

/// Bytes that differ from one another and from those of other seeds.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| byte()).collect()
}

/// Polls until the queue pair is broken; gives what was flushed or arrived before, and why.
pub fn until_broken<Q: QueuePair>(qp: &mut Q, limit: Duration) -> (Vec<Completion>, Broken) {
    let until = Instant::now() + limit;
    let mut completions = Completions::new(1024);
    while qp.state().is_ok() {
        assert!(Instant::now() < until, "not broken in time");
        if qp.poll(&mut completions) == 0 {
            qp.wait(Duration::from_millis(5));
        }
    }
    // What is flushed comes after the break, and a wrapper may hold it back for some polls.
    for _ in 0..1000 {
        qp.poll(&mut completions);
    }
    let broken = qp.state().expect_err("it stays broken");
    (completions.drain().collect(), broken)
}
