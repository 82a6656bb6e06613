//! Frames and sessions of the TCP transport against a hostile peer.
//!
//! Oracles: a frame that parses encodes to the bytes it came from, and each shorter piece of it is "not yet";
//! a plain model of the lent regions agrees with them to the byte, so a refused access has changed nothing;
//! what the session says parses; every signalled request of ours completes exactly once, in order; and two
//! sessions that are fed the same bytes in different pieces do the same.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use longarm_base::{Place, RegionId};
use longarm_fabric::tcp::frame::{self, Frame};
use longarm_fabric::tcp::fuzzing::SessionEnd;
use longarm_fabric::{Completion, Completions, Grant, Op, Rights, SEND_MAX, Ticket};
use longarm_memory::{Backing, OwnedWords, Region, RegionOptions, Words};

use crate::{COMMANDS_MAX, Input};

const REGION: u64 = 4096;
const LANDING: u32 = 4096;
/// Bytes fed at once: fewer than 16 SENDs, and what is left of one.
const PIECE: usize = 120;
/// Rights of regions 1 to 4.
const LENT: [Rights; 4] =
    [Rights::READ, Rights::WRITE, Rights::ATOMIC, Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC)];

thread_local! {
    /// Two sets of regions, used by all inputs.
    static REGIONS: RefCell<[Vec<Arc<Region>>; 2]> = RefCell::new(std::array::from_fn(|_| {
        let options = RegionOptions { name: "lent".into(), bytes: REGION, backing: Backing::Memory };
        LENT.iter().map(|_| Arc::new(Region::create(&options).expect("a memory file"))).collect()
    }));
}

/// One input: frames alone, and a connection.
pub fn run(bytes: &[u8]) {
    frames(bytes);
    REGIONS.with_borrow(|[whole, pieces]| {
        let mut input = Input(bytes);
        let step = usize::from(input.u8()) % PIECE + 1;
        let mut life = Life::new(whole, pieces, step);
        for _ in 0..COMMANDS_MAX {
            if input.is_empty() || life.one.end.broken().is_some() {
                break;
            }
            life.step(&mut input);
        }
        life.over();
    });
}

/// Frame by frame, as long as the bytes are frames.
fn frames(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((parsed, len))) = frame::parse(rest) {
        let used = &rest[..len];
        assert_eq!(parsed.size(), len, "{parsed:?}");
        let mut again = vec![0; len];
        parsed.encode(&mut again);
        if matches!(parsed, Frame::Goodbye { .. }) {
            // A goodbye answers nothing: its seq is not looked at.
            again[2..4].copy_from_slice(&used[2..4]);
        }
        assert_eq!(again, used, "{parsed:?}");
        for cut in [0, 7, 8, len - 1].into_iter().filter(|&cut| cut < len) {
            assert_eq!(frame::parse(&used[..cut]), Ok(None), "{cut} of {parsed:?}");
        }
        let data = frame::peek_data(used);
        match parsed {
            Frame::Data { seq, bytes } => assert_eq!(data, Some((seq, bytes.len() as u32))),
            _ => assert_eq!(data, None),
        }
        rest = &rest[len..];
    }
}

/// One session and what it is seen to do.
struct One {
    end: SessionEnd,
    regions: Vec<Arc<Region>>,
    /// Received and not yet used up.
    raw: Vec<u8>,
    said: Vec<u8>,
    polled: Vec<Completion>,
    messages: Vec<Vec<u8>>,
    posted: Vec<u64>,
}

impl One {
    fn new(regions: &[Arc<Region>]) -> One {
        let grant = |(i, region): (usize, &Arc<Region>)| {
            region.memory().copy_in(0, &[0; REGION as usize]);
            Grant { id: RegionId(i as u32 + 1), region: region.clone(), rights: LENT[i] }
        };
        One {
            end: SessionEnd::new(regions.iter().enumerate().map(grant).collect(), LANDING),
            regions: regions.to_vec(),
            raw: Vec::new(),
            said: Vec::new(),
            polled: Vec::new(),
            messages: Vec::new(),
            posted: Vec::new(),
        }
    }

    /// Feeds what is there and empties what comes out until nothing moves.
    fn pump(&mut self) {
        loop {
            let (used, stuck) = self.end.feed(&self.raw);
            assert!(used <= self.raw.len());
            self.raw.drain(..used);
            self.drain();
            if self.end.broken().is_some() || (used == 0 && !stuck) || self.raw.is_empty() {
                return;
            }
        }
    }

    fn drain(&mut self) {
        let mut done = Completions::new(64);
        while self.end.poll(&mut done) > 0 {
            for completion in done.drain() {
                let mut seen = completion;
                if let Completion::Message { buffer, len } = completion {
                    assert!(len as usize <= SEND_MAX);
                    self.messages.push(self.end.message(buffer, len).to_vec());
                    self.end.release(buffer);
                    // Which buffer it was depends on the rhythm.
                    seen = Completion::Message { buffer: 0, len };
                }
                self.polled.push(seen);
            }
        }
        self.said.extend_from_slice(self.end.out());
        self.end.sent(self.end.out().len());
    }

    fn dump(&self) -> Vec<Vec<u8>> {
        let copy = |region: &Arc<Region>| {
            let mut bytes = vec![0; REGION as usize];
            region.memory().copy_out(0, &mut bytes);
            bytes
        };
        self.regions.iter().map(copy).collect()
    }
}

struct Life {
    one: One,
    /// The same, fed other pieces.
    other: One,
    step: usize,
    model: Model,
    /// Bytes of the peer that the model has not executed.
    unread: Vec<u8>,
}

impl Life {
    fn new(whole: &[Arc<Region>], pieces: &[Arc<Region>], step: usize) -> Life {
        let (one, other) = (One::new(whole), One::new(pieces));
        Life { one, other, step, model: Model::new(), unread: Vec::new() }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 10 {
            0 => {
                let bytes = input.counted().to_vec();
                self.arrive(&bytes);
            }
            1..=5 => self.request(input),
            6 => self.post(input),
            7 => self.answer(input),
            8 => {
                let credit = Frame::Credit { count: input.near(2) as u16 };
                self.say(credit);
            }
            _ if input.u8() == 1 => self.end(input),
            _ => {}
        }
    }

    /// A request of the peer, in turn but for a rare lie, mostly in bounds.
    fn request(&mut self, input: &mut Input<'_>) {
        let lie = u16::from(input.u8() == 255);
        let seq = self.model.theirs.wrapping_add(lie);
        let region = RegionId(input.near(5) as u32);
        let offset = input.near(REGION / 8 + 2).wrapping_mul(8);
        // Often where a region ends, or one word further.
        let edge = input.u8();
        let place = |len: usize| match edge % 4 {
            0 => (REGION - len as u64 % REGION) / 8 * 8 + u64::from(edge >> 2 & 8),
            _ => offset,
        };
        let signalled = input.u8() & 1 == 1;
        match input.u8() % 6 {
            0 => {
                let want = input.near(REGION / 8).wrapping_mul(8) as u32;
                self.say(Frame::Read { seq, region, offset: place(want as usize), want });
            }
            kind @ 1..=2 => {
                let bytes = input.counted();
                let bytes = &bytes[..bytes.len() / 8 * 8];
                let imm = (kind == 2).then(|| input.u32());
                let offset = place(bytes.len());
                self.say(Frame::Write { seq, signalled, region, offset, imm, bytes });
            }
            3 => self.say(Frame::Send { seq, signalled, bytes: input.counted() }),
            4 => {
                // Zero is what most words are: a swap that succeeds.
                let (expected, new) = (input.near(2), input.u64());
                self.say(Frame::CompareSwap { seq, region, offset: place(8), expected, new });
            }
            _ => self.say(Frame::FetchAdd { seq, region, offset: place(8), add: input.u64() }),
        }
    }

    /// A request of ours, posted at both.
    fn post(&mut self, input: &mut Input<'_>) {
        let signalled = input.u8() & 1 == 1;
        let number = self.one.posted.len() as u64;
        let ticket = if signalled { Ticket(number) } else { Ticket::SILENT };
        let (region, offset) = (RegionId(1), input.near(64).wrapping_mul(8));
        let kind = input.u8() % 5;
        let bytes = if kind == 0 { &[] } else { input.counted() };
        let bytes = if kind == 1 { &bytes[..bytes.len() / 8 * 8] } else { bytes };
        let (len, into) = (input.near(256).wrapping_mul(8) as u32, input.near(256).wrapping_mul(8) as u32);
        let op = match kind {
            0 => Op::Read { from: Place::new(region, offset, len), into },
            1 => Op::Write { region, offset, bytes },
            2 => Op::Send { bytes },
            3 => Op::CompareSwap { region, offset, expected: 1, new: 2 },
            _ => Op::FetchAdd { region, offset, add: 1 },
        };
        let posted = self.one.end.post(op, ticket);
        assert_eq!(posted, self.other.end.post(op, ticket));
        if posted.is_err() {
            return;
        }
        if signalled {
            self.one.posted.push(number);
            self.other.posted.push(number);
        }
        self.model.pending.push_back(match op {
            Op::Read { .. } => Wants::Data { into, len },
            Op::Write { .. } | Op::WriteImm { .. } | Op::Send { .. } => Wants::Ack,
            Op::CompareSwap { .. } | Op::FetchAdd { .. } => Wants::Word,
        });
        self.model.next = self.model.next.wrapping_add(1);
        self.model.sends += usize::from(kind == 2);
        self.one.drain();
        self.other.drain();
    }

    /// The answer to one of our requests: the oldest, or one a little after it.
    fn answer(&mut self, input: &mut Input<'_>) {
        let (which, how, fill) = (input.u8(), input.u8(), input.u8());
        let Some(at) = usize::from(which).checked_rem(self.model.pending.len().min(4)) else { return };
        let wants = self.model.pending[at];
        let seq = self.model.oldest().wrapping_add(at as u16);
        if how == 255 {
            return self.say(Frame::Fail { seq, text: b"no\x1b[2J \xff" });
        }
        match wants {
            Wants::Ack => self.say(Frame::Ack { seq }),
            Wants::Word => self.say(Frame::Word { seq, word: u64::from(fill) }),
            Wants::Data { into, len } => {
                let quiet = self.unread.is_empty();
                self.say(Frame::Data { seq, bytes: &vec![fill; len as usize] });
                if quiet && !self.model.over {
                    for one in [&self.one, &self.other] {
                        assert!(one.end.landing(into, len).iter().all(|&byte| byte == fill));
                    }
                }
            }
        }
    }

    fn end(&mut self, input: &mut Input<'_>) {
        let kind = input.u8() % 3;
        for one in [&mut self.one, &mut self.other] {
            match kind {
                0 => one.end.close(),
                1 => one.end.revoke(),
                _ => {}
            }
            one.drain();
        }
    }

    fn say(&mut self, frame: Frame<'_>) {
        let mut bytes = vec![0; frame.size()];
        frame.encode(&mut bytes);
        self.arrive(&bytes);
    }

    /// Bytes of the peer, to both sessions and to the model.
    fn arrive(&mut self, bytes: &[u8]) {
        // No piece holds more SENDs than there are receive buffers: they are handed back after each.
        for (one, step) in [(&mut self.one, PIECE), (&mut self.other, self.step)] {
            for piece in bytes.chunks(step) {
                one.raw.extend_from_slice(piece);
                one.pump();
            }
        }
        self.unread.extend_from_slice(bytes);
        self.model.execute(&mut self.unread);
        assert_eq!(self.one.end.broken(), self.other.end.broken());
        assert_eq!(self.one.end.broken().is_some(), self.model.over);
    }

    fn over(mut self) {
        for one in [&mut self.one, &mut self.other] {
            one.end.close();
            one.drain();
            one.end.feed(&[1; 100]);
            one.drain();
            let mut rest = &one.said[..];
            while !rest.is_empty() {
                let (_, len) = frame::parse(rest).expect("own frames parse").expect("own frames are whole");
                rest = &rest[len..];
            }
            let own =
                |c: &Completion| if let Completion::Done(ticket, _) = c { Some(ticket.0) } else { None };
            let done: Vec<u64> = one.polled.iter().filter_map(own).filter(|&t| t != u64::MAX).collect();
            assert_eq!(done, one.posted, "each signalled request completes once, in order");
        }
        assert_eq!(self.one.polled, self.other.polled);
        assert_eq!(self.one.messages, self.other.messages);
        let regions = self.one.dump();
        assert!(regions == self.other.dump(), "the rhythm of the bytes changed what they did");
        assert!(self.model.regions == regions, "memory is not what the peer's requests make of it");
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Wants {
    Data { into: u32, len: u32 },
    Word,
    Ack,
}

/// What the peer's requests do to plain memory, and which answers it may give.
struct Model {
    regions: Vec<Vec<u8>>,
    theirs: u16,
    pending: VecDeque<Wants>,
    /// Seq of our next request.
    next: u16,
    sends: usize,
    over: bool,
}

impl Model {
    fn new() -> Model {
        let regions = vec![vec![0; REGION as usize]; LENT.len()];
        Model { regions, theirs: 0, pending: VecDeque::new(), next: 0, sends: 0, over: false }
    }

    fn oldest(&self) -> u16 {
        self.next.wrapping_sub(self.pending.len() as u16)
    }

    fn execute(&mut self, bytes: &mut Vec<u8>) {
        while !self.over {
            let len = match frame::parse(bytes) {
                Ok(None) => {
                    self.over = frame::peek_data(bytes).is_some_and(|(seq, len)| !self.awaits(seq, len));
                    return;
                }
                Err(_) => {
                    self.over = true;
                    return;
                }
                Ok(Some((frame, len))) => {
                    self.over = self.one(frame).is_none();
                    len
                }
            };
            bytes.drain(..len);
        }
    }

    /// Whether a READ of this length waits for such an answer.
    fn awaits(&self, seq: u16, len: u32) -> bool {
        self.place(seq, |wants| matches!(wants, Wants::Data { len: l, .. } if l == len)).is_some()
    }

    fn place(&self, seq: u16, kind: impl Fn(Wants) -> bool) -> Option<usize> {
        let at = usize::from(seq.wrapping_sub(self.oldest()));
        let skips = |earlier: &Wants| *earlier == Wants::Ack;
        let fits = kind(*self.pending.get(at)?) && self.pending.iter().take(at).all(skips);
        fits.then_some(at)
    }

    fn settle(&mut self, seq: u16, kind: impl Fn(Wants) -> bool) -> Option<()> {
        let at = self.place(seq, kind)?;
        self.pending.drain(..=at);
        Some(())
    }

    /// Nothing if the connection ends with this frame.
    fn one(&mut self, frame: Frame<'_>) -> Option<()> {
        let (seq, region, offset, len, rights) = match frame {
            Frame::Read { seq, region, offset, want } => (seq, region, offset, want as usize, Rights::READ),
            Frame::Write { seq, region, offset, bytes, .. } => {
                (seq, region, offset, bytes.len(), Rights::WRITE)
            }
            Frame::CompareSwap { seq, region, offset, .. } | Frame::FetchAdd { seq, region, offset, .. } => {
                (seq, region, offset, 8, Rights::ATOMIC)
            }
            Frame::Send { seq, .. } => (seq, RegionId(4), 0, 0, Rights::READ),
            Frame::Goodbye { .. } | Frame::Fail { .. } => return None,
            Frame::Ack { seq } => return self.settle(seq, |wants| wants == Wants::Ack),
            Frame::Word { seq, .. } => return self.settle(seq, |wants| wants == Wants::Word),
            Frame::Data { seq, bytes } => {
                let len = bytes.len() as u32;
                return self.settle(seq, |wants| matches!(wants, Wants::Data { len: l, .. } if l == len));
            }
            Frame::Credit { count } => {
                self.sends = self.sends.checked_sub(count.into())?;
                return Some(());
            }
        };
        if seq != self.theirs {
            return None;
        }
        self.theirs = seq.wrapping_add(1);
        let index = (region.0 as usize).checked_sub(1).filter(|&i| i < LENT.len())?;
        let end = usize::try_from(offset).ok()?.checked_add(len)?;
        if !LENT[index].allow(rights) || end > REGION as usize {
            return None;
        }
        let target = &mut self.regions[index][offset as usize..end];
        let before = || u64::from_le_bytes(target[..8].try_into().expect("eight bytes"));
        match frame {
            Frame::Write { bytes, .. } => target.copy_from_slice(bytes),
            Frame::CompareSwap { expected, new, .. } if before() == expected => {
                target.copy_from_slice(&new.to_le_bytes());
            }
            Frame::FetchAdd { add, .. } => {
                let sum = before().wrapping_add(add);
                target.copy_from_slice(&sum.to_le_bytes());
            }
            _ => {}
        }
        Some(())
    }
}
