//! The message ring, and the messages in it.
//!
//! Oracles: a second, plain receiver written from the ring's head comment agrees on every frame, also on
//! which are refused; what is sent stays inside the peer's ring and its unconsumed window; a message that
//! decodes encodes to the bytes it came from.

use std::cell::RefCell;
use std::time::Duration;

use longarm_base::{Csn, Nanos, RegionId, UnixMillis};
use longarm_fabric::ring::Mailbox;
use longarm_fabric::{Broken, Completions, Granted, Op, PostError, QueuePair, SetupError, Ticket, WRITE_MAX};
use longarm_memory::{Backing, Mapped, OwnedWords, Region, RegionOptions, Words};
use longarm_wire::{Hello, Request, RequestKind, Response, Status, VERSIONS, Welcome};

use crate::{COMMANDS_MAX, Input};

const RING: u64 = 4096;
const MESSAGE_MAX: usize = 1500;
/// Bytes of the range of versions at the begin of a hello.
const RANGE: usize = 8;
/// Longest message of ours: more than the peer's ring.
const SENT_MAX: u64 = 9000;

thread_local! {
    static MEMORY: RefCell<Mapped> = RefCell::new({
        let options = RegionOptions { name: "ring".into(), bytes: RING, backing: Backing::Memory };
        Region::create(&options).expect("a memory file").memory().clone()
    });
}

/// One input: messages if its first byte is odd, else a life of a mailbox.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.u8() % 4 {
        1 => return messages(input.0),
        3 => return messages(&message(&mut input)),
        _ => {}
    }
    MEMORY.with_borrow(|ring| {
        ring.copy_in(0, &[0; RING as usize]);
        let mut life = Life {
            ring,
            mailbox: Mailbox::new(ring.clone(), RegionId(16), RING, MESSAGE_MAX),
            model: Model::default(),
            wire: Wire::default(),
        };
        for _ in 0..COMMANDS_MAX {
            if input.is_empty() || !life.step(&mut input) {
                return;
            }
        }
    });
}

/// What a receiver must remember, and nothing else.
#[derive(Default)]
struct Model {
    taken: u64,
    credited: u64,
    message: Vec<u8>,
    complete: bool,
}

impl Model {
    /// What `receive` must answer; nothing where the frame must be refused.
    fn receive(&mut self, ring: &Mapped, imm: u32, len: u32, sent: u64) -> Option<bool> {
        if std::mem::take(&mut self.complete) {
            self.message.clear();
        }
        let at = u64::from(imm) * 16;
        let here = self.taken % RING;
        let skip = if at == here { 0 } else { RING - here };
        if (at != here && at != 0) || len < 16 || at + u64::from(len) > RING {
            return None;
        }
        let mut frame = vec![0; len as usize];
        ring.copy_out(at, &mut frame);
        let mut words = Input(&frame);
        let (body, flags, consumed) = (words.u32(), words.u32(), words.u64());
        let padded = (u64::from(body) + 16).next_multiple_of(8) == u64::from(len);
        if !padded || flags > 1 || consumed < self.credited || consumed > sent {
            return None;
        }
        if self.message.len() + body as usize > MESSAGE_MAX {
            return None;
        }
        self.message.extend_from_slice(&frame[16..16 + body as usize]);
        self.taken += skip + (u64::from(body) + 16).next_multiple_of(16);
        self.credited = consumed;
        self.complete = flags == 0 && !self.message.is_empty();
        Some(self.complete)
    }
}

struct Life<'a> {
    ring: &'a Mapped,
    mailbox: Mailbox,
    model: Model,
    wire: Wire,
}

impl Life<'_> {
    /// One command; `false` once a frame was refused, which ends a connection.
    fn step(&mut self, input: &mut Input<'_>) -> bool {
        match input.u8() % 6 {
            0 => {
                let at = input.below(RING / 8) * 8;
                let bytes = input.counted();
                self.ring.copy_in(at, &bytes[..bytes.len().min((RING - at) as usize)]);
            }
            1 => {
                let (imm, len) = (input.near(RING / 16) as u32, input.near(RING) as u32);
                return self.receive(imm, len);
            }
            2 | 3 => return self.frame(input),
            4 => {
                self.wire.room = usize::from(input.u8() % 8);
                let len = input.below(SENT_MAX) as usize;
                let bytes = vec![input.u8(); len];
                let (left, right) = bytes.split_at(len / 2);
                let _ = self.mailbox.send(&mut self.wire, &[left, right]);
                self.check_credit();
            }
            _ => {
                self.wire.room = usize::from(input.u8() % 8);
                let _ = self.mailbox.pump(&mut self.wire);
                self.check_credit();
                self.mailbox.shrink();
            }
        }
        true
    }

    /// An honest peer's next frame, in one field of which it may err.
    fn frame(&mut self, input: &mut Input<'_>) -> bool {
        let (lie, more) = (input.u8(), input.u8());
        // Long bodies from few bytes, so that an input gets round the ring.
        let filled = vec![more; if more & 2 != 0 { input.below(1000) as usize } else { 0 }];
        let body = if more & 2 != 0 { &filled[..] } else { input.counted() };
        let body = &body[..body.len().min(1000)];
        let (mut len, mut flags) = (body.len() as u32, u32::from(more & 1));
        let mut consumed =
            self.model.credited + input.below(64) * (self.wire.sent - self.model.credited) / 63;
        match lie {
            250 => len = input.u32(),
            251 => flags = input.u32(),
            252 => consumed = input.u64(),
            _ => {}
        }
        let size = (16 + body.len() as u64).next_multiple_of(8);
        let here = self.model.taken % RING;
        let at = if here + size > RING || lie == 249 { 0 } else { here };
        self.ring.copy_in(at, &[&len.to_le_bytes()[..], &flags.to_le_bytes()].concat());
        self.ring.store(at + 8, consumed);
        self.ring.copy_in(at + 16, body);
        self.receive((at / 16) as u32, size as u32)
    }

    fn receive(&mut self, imm: u32, len: u32) -> bool {
        let expected = self.model.receive(self.ring, imm, len, self.wire.sent);
        let got = self.mailbox.receive(imm, len);
        assert_eq!(got.as_ref().ok().copied(), expected, "imm {imm}, {len} bytes: {got:?}");
        if expected.is_some() {
            let shown = if self.model.complete { &self.model.message[..] } else { &[] };
            assert_eq!(self.mailbox.message(), shown);
        }
        expected.is_some()
    }

    fn check_credit(&self) {
        let window = self.wire.sent - self.model.credited;
        assert!(window <= RING, "{window} bytes without credit in a ring of {RING}");
    }
}

/// The peer's ring, of which only the offsets matter.
#[derive(Default)]
struct Wire {
    room: usize,
    sent: u64,
}

impl QueuePair for Wire {
    fn post(&mut self, op: Op<'_>, _: Ticket) -> Result<(), PostError> {
        let Op::WriteImm { region, offset, bytes, imm } = op else { panic!("a ring uses WRITE_WITH_IMM") };
        if self.room == 0 {
            return Err(PostError::Full);
        }
        self.room -= 1;
        let len = bytes.len() as u64;
        assert!(region == RegionId(16) && bytes.len() <= WRITE_MAX && len.is_multiple_of(8));
        assert!(offset == u64::from(imm) * 16 && offset + len <= RING, "{offset}+{len}");
        let here = self.sent % RING;
        assert!(offset == here || offset == 0, "a gap: {offset} after {here}");
        self.sent += if offset == here { 0 } else { RING - here } + len.next_multiple_of(16);
        Ok(())
    }
    fn ring(&mut self) {}
    fn poll(&mut self, _: &mut Completions) -> usize {
        0
    }
    fn landing(&self, _: u32, _: u32) -> &[u8] {
        &[]
    }
    fn message(&self, _: u16, _: u32) -> &[u8] {
        &[]
    }
    fn release(&mut self, _: u16) {}
    fn arm(&mut self) -> bool {
        false
    }
    fn ready(&mut self) -> bool {
        false
    }
    fn attend(&mut self, _: &longarm_fabric::Channel) -> Result<(), longarm_fabric::SetupError> {
        Ok(())
    }
    fn wait(&mut self, _: Duration) {}
    fn state(&self) -> Result<(), Broken> {
        Ok(())
    }
    fn granted(&self) -> &[Granted] {
        &[]
    }
    fn revoke(&mut self) -> Result<(), SetupError> {
        Ok(())
    }
    fn describe(&self) -> String {
        "wire".into()
    }
}

/// A message that is one but for a byte.
fn message(input: &mut Input<'_>) -> Vec<u8> {
    let how = input.u8();
    let (key, value) = (input.counted(), input.counted());
    let mut bytes: Vec<u8> = match how % 4 {
        0 => {
            let kinds = [RequestKind::Put, RequestKind::Delete, RequestKind::Ping, RequestKind::Hints];
            let kind = kinds[usize::from(how >> 2) % kinds.len()];
            let key = if matches!(kind, RequestKind::Ping | RequestKind::Hints) { &[] } else { key };
            let value = if matches!(kind, RequestKind::Put | RequestKind::Hints) { value } else { &[] };
            let mut request = Request::new(kind, input.u64());
            (request.argument, request.ttl_ms) = (input.u64(), input.u64());
            (request.key, request.value) = (key, value);
            [&request.header()[..], key, value].concat()
        }
        1 => {
            let (csn, stamp, unix) = (Csn(input.u64()), Nanos(input.u64()), UnixMillis(input.u64()));
            let (status, operation, number) = (Status::Ok, input.u64(), input.u64() as i64);
            let response = Response { status, operation, csn, number, stamp, unix, value };
            [&response.header()[..], value].concat()
        }
        2 => {
            let name = String::from_utf8_lossy(key).into_owned();
            let (session, ring_bytes, group) = (input.u64(), input.u64(), input.u64());
            let (fresh, since) = (input.u64(), input.u64());
            Hello { session, ring_bytes, group, fresh, since, name }.encode()
        }
        _ => {
            let mut word = || input.u64();
            let (boot, sum_key, stamp, lease) = (word(), word(), word(), word());
            let (read_bound, ring_bytes, pid, group) = (word(), word(), word(), word());
            let (csn, keep_sessions, wants_hints) = (word(), word(), 0);
            let term = word() >> 32;
            Welcome {
                agreed: VERSIONS.meet(VERSIONS).expect("one side"),
                boot,
                sum_key,
                stamp,
                lease,
                read_bound,
                ring_bytes,
                pid,
                wants_hints,
                group,
                csn,
                keep_sessions,
                term,
            }
            .encode()
        }
    };
    let at = input.below(bytes.len().min(48) as u64) as usize;
    bytes[at] ^= input.u8() & input.u8();
    bytes
}

/// Every kind of message from the same bytes.
fn messages(bytes: &[u8]) {
    if let Ok(request) = Request::decode(bytes) {
        let again = [&request.header()[..], request.key, request.value].concat();
        assert_eq!(again, bytes, "{request:?}");
        assert_eq!(Request::decode(&again), Ok(request));
    }
    if let Ok(response) = Response::decode(bytes) {
        assert_eq!([&response.header()[..], response.value].concat(), bytes, "{response:?}");
    }
    if let Ok(welcome) = Welcome::decode(bytes) {
        assert_eq!(welcome.encode(), bytes, "{welcome:?}");
    }
    if let Ok(hello) = Hello::decode(bytes) {
        let again = Hello::decode(&hello.encode()).expect("a name is cut, not refused");
        assert_eq!(
            (again.session, again.ring_bytes, again.group, again.fresh, again.since),
            (hello.session, hello.ring_bytes, hello.group, hello.fresh, hello.since)
        );
        assert!(hello.name.starts_with(&again.name));
        let name = Hello { name: String::new(), ..hello.clone() }.encode().len();
        match std::str::from_utf8(&bytes[name..]) {
            // The range of versions is the sender's own.
            Ok(name) => assert!(hello.name == name && hello.encode()[RANGE..] == bytes[RANGE..]),
            Err(_) => assert!(hello.name.contains(char::REPLACEMENT_CHARACTER)),
        }
    }
}
