//! Every verb on real devices: two of them, named by LONGARM_VERBS_DEVICES (`rxe0,rxe1`), which reach each
//! other.

#![allow(missing_docs, reason = "tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_ibverbs::*;

const SOON: Duration = Duration::from_secs(10);
const KEY: u32 = 0x1111_1111;
const RELIABILITY: Reliability =
    Reliability { timeout: 14, retries: 7, receive_retries: 7, receive_timer: 1 };

fn names() -> (String, String) {
    let text = std::env::var("LONGARM_VERBS_DEVICES").expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE");
    let (one, two) = text.split_once(',').expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE");
    (one.to_string(), two.to_string())
}

/// One end: a queue pair with a registered buffer, of which the second half is where others write.
struct End {
    context: Arc<Context>,
    port: Port,
    gid: Gid,
    domain: Arc<ProtectionDomain>,
    channel: Arc<CompletionChannel>,
    queue: Arc<CompletionQueue>,
    qp: QueuePair,
    memory: Buffer,
    batch: Batch,
}

const BYTES: usize = 64 << 10;

impl End {
    fn new(device: &str, kind: Kind) -> End {
        let context = Context::open(device).expect("open");
        let port = context.port(1).expect("port 1");
        let gid = context
            .gids(&port)
            .expect("GIDs")
            .into_iter()
            .find(|gid| gid.kind == GidKind::RoceV2 && gid.ipv4().is_some());
        let domain = ProtectionDomain::new(&context).expect("domain");
        let channel = CompletionChannel::new(&context).expect("channel");
        let queue = CompletionQueue::new(&context, 256, Some(&channel)).expect("queue");
        let capacity = Capacity { send: 128, receive: 64, inline: 128 };
        let qp = QueuePair::new(&domain, kind, &queue, &queue, capacity).expect("queue pair");
        let access = Access::REMOTE_READ.and(Access::REMOTE_WRITE).and(Access::REMOTE_ATOMIC);
        let memory = Buffer::new(&domain, BYTES, access).expect("memory");
        let gid = gid.expect("a RoCE v2 GID with an IPv4 address");
        End { context, port, gid, domain, channel, queue, qp, memory, batch: Batch::new(64) }
    }

    fn path(&self, peer: &End) -> Path {
        Path {
            port: self.port.number,
            gid_index: self.gid.index,
            gid: peer.gid.bytes,
            lid: peer.port.lid,
            global: true,
            mtu: self.port.mtu.min(peer.port.mtu),
            number: peer.qp.number(),
            receive_psn: peer.qp.number() * 7,
            send_psn: self.qp.number() * 7,
            reads_served: 16,
            reads_posted: 16,
        }
    }

    fn connect(&self, peer: &End) {
        let path = self.path(peer);
        let everything = Access::REMOTE_READ.and(Access::REMOTE_WRITE).and(Access::REMOTE_ATOMIC);
        self.qp.initialise(1, everything, KEY).expect("INIT");
        self.qp.ready_to_receive(&path, &RELIABILITY).expect("RTR");
        self.qp.ready_to_send(&path, &RELIABILITY).expect("RTS");
    }

    fn local(&self, at: usize, bytes: u32) -> Local {
        Local { address: self.memory.address(at), bytes, key: self.memory.region().local_key() }
    }

    fn remote(&self, at: usize) -> Remote {
        Remote { address: self.memory.address(at), key: self.memory.region().remote_key() }
    }

    fn fill(&self, at: usize, bytes: &[u8]) {
        // SAFETY: tests look at these bytes only after what they posted is over.
        unsafe { self.memory.fill(at, bytes) }
    }

    fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        // SAFETY: as above.
        unsafe { self.memory.bytes(at, len) }.to_vec()
    }

    fn post(&mut self, id: u64, request: Request<'_>) {
        self.batch.push(id, request, Flags { signalled: true, ..Flags::default() });
        self.ring();
    }

    fn ring(&mut self) {
        // SAFETY: the memory lives in `self`, longer than the queue pair.
        unsafe { self.batch.post(&self.qp) }.expect("post");
    }

    fn receive(&self, id: u64, at: usize) {
        let receive = Receive { id, into: Some(self.local(at, 4096)) };
        // SAFETY: as above.
        unsafe { self.qp.post_receive(&receive) }.expect("post a receive");
    }

    fn poll(&self) -> WorkCompletion {
        let mut one = [WorkCompletion::default()];
        let until = Instant::now() + SOON;
        while self.queue.poll(&mut one).expect("poll") == 0 {
            assert!(Instant::now() < until, "nothing came");
            std::thread::yield_now();
        }
        one[0]
    }

    fn done(&self, id: u64) {
        let done = self.poll();
        assert_eq!((done.id(), done.status()), (id, Status::Success), "{}", done.text());
    }
}

fn pair(kind: Kind) -> (End, End) {
    let (one, two) = names();
    let (ours, theirs) = (End::new(&one, kind), End::new(&two, kind));
    ours.connect(&theirs);
    theirs.connect(&ours);
    (ours, theirs)
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn devices_say_what_they_are() {
    let (one, _) = names();
    assert!(devices().expect("a list").contains(&one));
    let end = End::new(&one, Kind::Rc);
    let attributes = end.context.attributes().expect("attributes");
    assert!(attributes.ports >= 1 && attributes.queue_pairs > 10 && attributes.reads_posted > 0);
    assert!(end.port.active && end.port.mtu >= 256, "{:?}", end.port);
    assert!(end.qp.inline_max() >= 64 && end.context.event().is_none());
    let error = Context::open("nothing7").expect_err("nobody has this").to_string();
    assert!(error.contains("nothing7") && error.contains(&one), "{error}");
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_reliable_connection_does_everything() {
    let (mut ours, theirs) = pair(Kind::Rc);
    theirs.fill(0, b"what the other side has");
    ours.post(1, Request::Read(ours.local(0, 24), theirs.remote(0)));
    ours.done(1);
    assert_eq!(&ours.bytes(0, 23), b"what the other side has");

    ours.fill(512, &[7; 2000]);
    ours.post(2, Request::Write(ours.local(512, 2000), theirs.remote(8192), None));
    ours.done(2);
    assert_eq!(theirs.bytes(8192, 2000), [7; 2000]);

    theirs.receive(30, 4096);
    ours.post(3, Request::Write(ours.local(512, 8), theirs.remote(0), Some(0xfedc_ba98)));
    ours.done(3);
    let arrived = theirs.poll();
    assert_eq!((arrived.id(), arrived.kind(), arrived.bytes()), (30, WorkKind::Written, 8));
    assert_eq!(arrived.immediate(), Some(0xfedc_ba98));

    theirs.receive(31, 4096);
    ours.fill(0, b"a message");
    ours.post(4, Request::Send(ours.local(0, 9), None));
    ours.done(4);
    let arrived = theirs.poll();
    assert_eq!((arrived.id(), arrived.kind(), arrived.bytes()), (31, WorkKind::Received, 9));
    assert_eq!(arrived.immediate(), None);
    assert_eq!(theirs.bytes(4096, 9), b"a message");

    theirs.fill(64, &5u64.to_le_bytes());
    ours.post(5, Request::FetchAdd(ours.local(64, 8), theirs.remote(64), 10));
    ours.done(5);
    assert_eq!((ours.memory.word(64), theirs.memory.word(64)), (5, 15));
    for (old, new, after) in [(15, 3, 3), (9, 1, 3)] {
        ours.post(6, Request::CompareSwap(ours.local(64, 8), theirs.remote(64), old, new));
        ours.done(6);
        assert_eq!(theirs.memory.word(64), after);
    }
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_batch_is_one_doorbell_and_silence_is_kept() {
    let (mut ours, theirs) = pair(Kind::Rc);
    let inline = Flags { inline: true, ..Flags::default() };
    for i in 0..48u64 {
        let mut bytes = [0; 8];
        bytes[0] = i as u8;
        // Inline bytes need no registration, and are copied by the doorbell.
        let local = Local { address: bytes.as_ptr() as u64, bytes: 8, key: 0 };
        let flags = Flags { signalled: i % 16 == 15, ..inline };
        let place = theirs.remote(i as usize * 8);
        ours.batch.push(i, Request::Write(local, place, None), flags);
        ours.ring();
        bytes[0] = 0xff;
        std::hint::black_box(&bytes);
    }
    [15, 31, 47].into_iter().for_each(|id| ours.done(id));
    for i in 0..48 {
        assert_eq!(theirs.memory.word(i * 8), i as u64);
    }
    for i in 0..16u64 {
        let flags = Flags { signalled: i == 15, fence: i == 15, ..Flags::default() };
        let (local, remote) = (ours.local(i as usize * 8, 8), theirs.remote(i as usize * 8));
        ours.batch.push(i, Request::Read(local, remote), flags);
    }
    ours.ring();
    ours.done(15);
    assert!((0..16).all(|i| ours.memory.word(i * 8) == i as u64));
    assert_eq!(ours.queue.poll(&mut [WorkCompletion::default(); 4]).expect("poll"), 0, "and nothing else");
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn an_armed_queue_tells_its_channel() {
    let (mut ours, theirs) = pair(Kind::Rc);
    ours.queue.arm().expect("arm");
    assert_eq!(ours.channel.drain(), 0);
    ours.post(1, Request::Read(ours.local(0, 8), theirs.remote(0)));
    let until = Instant::now() + SOON;
    while ours.channel.drain() == 0 {
        assert!(Instant::now() < until, "no event");
    }
    ours.done(1);
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn what_is_not_allowed_fails_at_both_ends() {
    let (mut ours, theirs) = pair(Kind::Rc);
    theirs.receive(9, 0);
    ours.post(1, Request::Read(ours.local(0, 16), theirs.remote(BYTES - 8)));
    assert_eq!(ours.poll().status(), Status::RemoteAccess);
    assert_eq!(ours.qp.state().expect("state"), State::Error);
    assert_eq!(theirs.poll().status(), Status::Flushed);
    ours.post(2, Request::Read(ours.local(0, 8), theirs.remote(0)));
    assert_eq!(ours.poll().status(), Status::Flushed);
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn failing_flushes_receives_and_requests() {
    let (mut ours, theirs) = pair(Kind::Rc);
    (0..3).for_each(|id| ours.receive(id, 0));
    ours.qp.fail().expect("ERR");
    for id in 0..3 {
        let flushed = ours.poll();
        assert_eq!((flushed.id(), flushed.status()), (id, Status::Flushed));
    }
    ours.post(7, Request::Read(ours.local(0, 8), theirs.remote(0)));
    assert_eq!(ours.poll().status(), Status::Flushed);
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn an_unreliable_connection_writes() {
    let (mut ours, theirs) = pair(Kind::Uc);
    theirs.receive(1, 4096);
    ours.fill(0, &[5; 8192]);
    ours.post(1, Request::Write(ours.local(0, 8192), theirs.remote(16384), Some(77)));
    ours.done(1);
    assert_eq!(theirs.poll().immediate(), Some(77));
    assert_eq!(theirs.bytes(16384, 8192), [5; 8192]);
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn datagrams_find_their_way() {
    let (mut ours, theirs) = pair(Kind::Ud);
    theirs.receive(1, 4096);
    ours.fill(0, b"a datagram");
    let to = AddressHandle::new(&ours.domain, &ours.path(&theirs)).expect("address handle");
    ours.post(1, Request::Datagram(ours.local(0, 10), &to, theirs.qp.number(), KEY));
    ours.done(1);
    let arrived = theirs.poll();
    assert_eq!(
        (arrived.source(), arrived.bytes()),
        (ours.qp.number(), 50),
        "a header of 40 bytes comes first"
    );
    assert_eq!(theirs.bytes(4096 + 40, 10), b"a datagram");
}
