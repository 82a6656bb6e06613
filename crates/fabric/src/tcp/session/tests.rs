//! Two sessions joined by byte vectors: no socket, every schedule of bytes.

use std::sync::Arc;

use longarm_base::{Place, RegionId};
use longarm_memory::{Backing, OwnedWords, Region, RegionOptions, Words};
use proptest::prelude::*;

use super::super::inbox::{ARRIVALS_MAX, TcpInbox};
use super::*;
use crate::{Completions, Rights};

const LANDING: usize = 64 << 10;
const LENT: RegionId = RegionId(1);

struct End {
    session: TcpSession,
    inbox: TcpInbox,
    region: Arc<Region>,
    /// Received and not yet taken.
    raw: Vec<u8>,
}

impl End {
    fn new() -> End {
        let options = RegionOptions { name: "lent".into(), bytes: 256 << 10, backing: Backing::Memory };
        let region = Arc::new(Region::create(&options).expect("memfd"));
        let rights = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
        let session = TcpSession::new(vec![Grant { id: LENT, region: region.clone(), rights }]);
        End { session, inbox: TcpInbox::new(LANDING as u32), region, raw: Vec::new() }
    }

    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        self.session.post(op, ticket, LANDING, self.inbox.own(), 0)
    }

    fn feed(&mut self, bytes: &[u8]) -> Fed {
        self.raw.extend_from_slice(bytes);
        let fed = self.session.feed(&self.raw, &mut self.inbox);
        self.raw.drain(..fed.used);
        fed
    }

    /// At most `most` bytes of what it has to say.
    fn say(&mut self, most: usize) -> Vec<u8> {
        let bytes = self.session.out.content();
        let bytes = bytes[..bytes.len().min(most)].to_vec();
        self.session.out.consume(bytes.len());
        bytes
    }

    fn polled(&mut self) -> Vec<Completion> {
        let mut done = Completions::new(10_000);
        self.inbox.take(&mut done);
        done.drain().collect()
    }
}

/// Carries bytes both ways, `step` at a time, until nothing moves.
fn settle(a: &mut End, b: &mut End, step: usize) {
    loop {
        let (to_b, to_a) = (a.say(step), b.say(step));
        if to_a.is_empty() && to_b.is_empty() {
            return;
        }
        b.feed(&to_b);
        a.feed(&to_a);
    }
}

#[test]
fn every_request_is_answered_in_order_at_every_dribble() {
    for step in [1, 7, 64, 1 << 20] {
        let (mut a, mut b) = (End::new(), End::new());
        b.region.memory().store(64, 41);
        a.post(Op::FetchAdd { region: LENT, offset: 64, add: 1 }, Ticket(1)).expect("post");
        a.post(Op::Write { region: LENT, offset: 0, bytes: &[5; 16] }, Ticket::SILENT).expect("post");
        a.post(Op::Read { from: Place::new(LENT, 0, 24), into: 8 }, Ticket(2)).expect("post");
        a.post(Op::Send { bytes: b"odd" }, Ticket(3)).expect("post");
        a.post(Op::WriteImm { region: LENT, offset: 8, bytes: &[6; 8], imm: 77 }, Ticket(4)).expect("post");
        a.post(Op::CompareSwap { region: LENT, offset: 64, expected: 42, new: 9 }, Ticket(5)).expect("post");
        settle(&mut a, &mut b, step);
        let done = |ticket, word| Completion::Done(Ticket(ticket), Ok(word));
        assert_eq!(a.polled(), [done(1, 41), done(2, 0), done(3, 0), done(4, 0), done(5, 42)]);
        assert_eq!(a.inbox.landing(8, 24), [&[5; 16][..], &[0; 8]].concat());
        assert_eq!(
            b.polled(),
            [Completion::Message { buffer: 0, len: 3 }, Completion::Arrived { imm: 77, len: 8 }]
        );
        assert_eq!(b.inbox.receive(0, 3), b"odd");
        assert_eq!(b.region.memory().load(64), 9);
        assert!(a.session.pending.is_empty() && a.session.reading == 0 && a.session.writing == 0);
    }
}

#[test]
fn a_batch_of_signalled_writes_gets_one_answer() {
    let (mut a, mut b) = (End::new(), End::new());
    for i in 0..32 {
        a.post(Op::Write { region: LENT, offset: i * 8, bytes: &[1; 8] }, Ticket(i)).expect("post");
    }
    let bytes = a.say(usize::MAX);
    b.feed(&bytes);
    assert_eq!(b.session.out.len(), HEAD, "one ACK for all");
    settle(&mut a, &mut b, 1 << 20);
    assert_eq!(a.polled().len(), 32);
}

#[test]
fn silent_requests_never_fill_the_queue_for_good() {
    let (mut a, mut b) = (End::new(), End::new());
    for len in [8, WRITE_MAX] {
        for _ in 0..5 * QUEUE_DEPTH {
            let bytes = vec![1; len];
            let op = Op::Write { region: LENT, offset: 0, bytes: &bytes };
            if a.post(op, Ticket::SILENT) == Err(PostError::Full) {
                settle(&mut a, &mut b, 1 << 20);
                a.post(op, Ticket::SILENT).expect("room after the peer took everything");
            }
        }
        settle(&mut a, &mut b, 1 << 20);
    }
    assert!(a.polled().is_empty());
}

#[test]
fn windows_and_credits_bound_what_is_outstanding() {
    let (mut a, mut b) = (End::new(), End::new());
    let read = Op::Read { from: Place::new(LENT, 0, LANDING as u32), into: 0 };
    let posted = (0..).take_while(|&i| a.post(read, Ticket(i)).is_ok()).count();
    assert_eq!(posted, READ_WINDOW / LANDING);
    let sent = (0..).take_while(|&i| a.post(Op::Send { bytes: &[0; 64] }, Ticket(100 + i)).is_ok()).count();
    assert_eq!(sent, RECEIVES);
    settle(&mut a, &mut b, 1 << 20);
    assert_eq!(a.polled().len(), posted + sent);
    assert_eq!(a.post(Op::Send { bytes: &[] }, Ticket(1)), Err(PostError::Full), "received is not released");
    for completion in b.polled() {
        let Completion::Message { buffer, .. } = completion else { panic!("{completion:?}") };
        b.inbox.release(buffer);
        b.session.release();
    }
    settle(&mut a, &mut b, 1 << 20);
    a.post(Op::Send { bytes: &[] }, Ticket(1)).expect("credit came back");
}

#[test]
fn arrivals_that_nobody_polls_stop_the_stream_and_lose_nothing() {
    let (mut a, mut b) = (End::new(), End::new());
    let (mut imm, mut full) = (0, false);
    while !full {
        let op = Op::WriteImm { region: LENT, offset: 0, bytes: &[0; 8], imm };
        full = a.post(op, Ticket::SILENT) == Err(PostError::Full);
        imm += u32::from(!full);
        settle(&mut a, &mut b, 1 << 20);
    }
    assert!(b.feed(&[]).stuck && imm as usize >= ARRIVALS_MAX);
    let mut next = 0;
    while next < imm {
        let polled = b.polled();
        assert!(!polled.is_empty() && polled.len() <= ARRIVALS_MAX);
        for completion in polled {
            assert_eq!(completion, Completion::Arrived { imm: next, len: 8 });
            next += 1;
        }
        b.feed(&[]);
    }
}

#[test]
fn a_peer_that_never_reads_is_served_no_further_than_the_buffer() {
    let mut b = End::new();
    let mut seq = 0u16;
    let mut frame = [0; 24];
    let stuck = (0..100).any(|_| {
        Frame::Read { seq, region: LENT, offset: 0, want: READ_MAX }.encode(&mut frame);
        seq += 1;
        b.feed(&frame).stuck
    });
    assert!(stuck && b.session.out.len() <= OUT_MAX && b.session.broken().is_none());
    let mut writes = End::new();
    let mut frame = [0; 32];
    let stuck = (0..1_000_000u32).any(|i| {
        Frame::Write { seq: i as u16, signalled: true, region: LENT, offset: 0, imm: None, bytes: &[0; 8] }
            .encode(&mut frame);
        writes.feed(&frame).stuck
    });
    assert!(stuck && writes.session.broken().is_none(), "answers to WRITEs are bounded, too");
}

#[test]
fn a_refused_access_breaks_both_ends_and_changes_nothing() {
    let (mut a, mut b) = (End::new(), End::new());
    a.post(Op::Write { region: LENT, offset: 0, bytes: &[1; 8] }, Ticket(1)).expect("post");
    a.post(Op::Write { region: LENT, offset: 256 << 10, bytes: &[1; 8] }, Ticket::SILENT).expect("post");
    a.post(Op::Write { region: LENT, offset: 8, bytes: &[1; 8] }, Ticket(3)).expect("post");
    settle(&mut a, &mut b, 1 << 20);
    let failed = |ticket, error| Completion::Done(ticket, Err(error));
    let expected = [
        Completion::Done(Ticket(1), Ok(0)),
        failed(Ticket::SILENT, WorkError::Access),
        failed(Ticket(3), WorkError::Flushed),
    ];
    assert_eq!(a.polled(), expected);
    assert_eq!((b.region.memory().load(0), b.region.memory().load(8)), (0x0101_0101_0101_0101, 0));
    let reason = |end: &End| end.session.broken().expect("broken").to_string();
    assert!(reason(&a).contains("outside region 1") && reason(&b).contains("outside region 1"));
    assert_eq!(a.post(Op::Send { bytes: &[] }, Ticket(4)), Err(PostError::Broken));
}

#[test]
fn leaving_is_told_from_being_lost() {
    let (mut a, mut b) = (End::new(), End::new());
    a.post(Op::WriteImm { region: LENT, offset: 0, bytes: &[], imm: 1 }, Ticket::SILENT).expect("post");
    a.session.close(&mut a.inbox);
    settle(&mut a, &mut b, 3);
    assert_eq!(b.session.broken(), Some(&Broken::Closed));
    assert_eq!(b.polled(), [Completion::Arrived { imm: 1, len: 0 }]);
    let (mut a, mut b) = (End::new(), End::new());
    a.post(Op::Read { from: Place::new(LENT, 0, 8), into: 0 }, Ticket(1)).expect("post");
    a.session.lose("reset", &mut a.inbox);
    assert_eq!(a.polled(), [Completion::Done(Ticket(1), Err(WorkError::Flushed))]);
    b.post(Op::Write { region: LENT, offset: 0, bytes: &[1; 8] }, Ticket(1)).expect("post");
    a.session.revoke(&mut a.inbox);
    let late = b.say(usize::MAX);
    assert_eq!(a.feed(&late), Fed { used: late.len(), stuck: false });
    assert_eq!(a.region.memory().load(0), 0, "nothing is executed after revoke");
}

/// What breaks the rules closes the connection with a reason, which the peer shows.
fn foul(bytes: &[u8], reason: &str) {
    let (mut a, mut b) = (End::new(), End::new());
    b.feed(bytes);
    let Some(Broken::Protocol(text)) = b.session.broken() else { panic!("{:?}", b.session.broken()) };
    assert!(text.contains(reason), "{text}");
    settle(&mut a, &mut b, 1 << 20);
    let Some(Broken::Protocol(text)) = a.session.broken() else { panic!("{:?}", a.session.broken()) };
    assert!(text.contains(reason), "{text}");
}

#[test]
fn frames_against_the_rules_close_with_a_reason() {
    let bytes = |frame: Frame<'_>| {
        let mut bytes = vec![0; frame.size()];
        frame.encode(&mut bytes);
        bytes
    };
    foul(b"GET / HTTP/1.0\r\n\r\n", "unknown kind 71");
    foul(&bytes(Frame::Ack { seq: 0 }), "no request waits for");
    foul(&bytes(Frame::Word { seq: 3, word: 1 }), "no request waits for");
    foul(&bytes(Frame::Credit { count: 1 }), "never sent");
    foul(&bytes(Frame::FetchAdd { seq: 1, region: LENT, offset: 0, add: 1 }), "request 1 where 0 was next");
    foul(&frame::data_head(0, READ_MAX), "no request waits for");
    let sends: Vec<u8> = (0..RECEIVES as u16 + 1)
        .flat_map(|seq| bytes(Frame::Send { seq, signalled: false, bytes: &[] }))
        .collect();
    foul(&sends, "without credit");
}

proptest! {
    /// Garbage, before or in the middle of a good stream: no panic, and never more than one end of it all.
    #[test]
    fn garbage_never_panics(garbage in proptest::collection::vec(any::<u8>(), 0..400),
                            posts in 0u64..20, flip: u16) {
        let (mut a, mut b) = (End::new(), End::new());
        for i in 0..posts {
            let op = match i % 4 {
                0 => Op::Read { from: Place::new(LENT, i * 8, 100), into: 0 },
                1 => Op::WriteImm { region: LENT, offset: i * 8, bytes: &[1; 64], imm: 1 },
                2 => Op::Send { bytes: &[3; 11] },
                _ => Op::CompareSwap { region: LENT, offset: 0, expected: 0, new: i },
            };
            let _ = a.post(op, Ticket(i));
        }
        let mut bytes = a.say(usize::MAX);
        bytes.extend_from_slice(&garbage);
        if !bytes.is_empty() {
            let at = flip as usize % bytes.len();
            bytes[at] ^= 1 << (flip >> 13);
        }
        b.feed(&bytes);
        settle(&mut a, &mut b, 1 << 20);
        let answers = b.polled().len() + a.polled().len();
        prop_assert!(answers <= bytes.len());
        if a.session.broken().is_some() {
            prop_assert!(a.session.pending.is_empty(), "everything is flushed");
        }
    }
}
