//! The messages of SCAN: requests, answers, greetings.
//!
//! Oracles: a message that decodes encodes to the bytes it came from; of an answer, every item that is read
//! goes through a second writer, which makes the same answer; keys differ from the one before, values are as
//! long as they may be, and places are in an arena; what the writer takes comes back.

use std::ops::Bound;

use longarm_base::limits::{KEY_MAX, SEGMENT_BYTES, SEGMENTS_MAX};
use longarm_base::{Csn, EntryRef, Term, UnixMillis};
use longarm_wire::{
    COUNT_MAX, FAR_FROM, PAGE_BYTES_MAX, PAGE_ITEMS_MAX, SCAN_MESSAGE_MAX, ScanAnswer, ScanAnswerWriter,
    ScanHead, ScanHello, ScanItem, ScanKind, ScanRequest, ScanStatus, ScanValue, ScanWelcome, TreeMoment,
};

use crate::{COMMANDS_MAX, Input};

/// Bytes of the mark and the range of versions at the begin of a hello.
const RANGE: usize = 12;

/// One input: foreign bytes if its first byte is odd, else a message of ours, of which a byte is then
/// changed.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let message = match input.u8() % 4 {
        0 => page(&mut input),
        2 => request(&mut input),
        _ => return messages(input.0),
    };
    messages(&message);
    let mut message = message;
    let at = input.below(message.len() as u64) as usize;
    message[at] ^= input.u8();
    messages(&message);
}

/// A request that makes sense.
fn request(input: &mut Input<'_>) -> Vec<u8> {
    let flags = input.u8();
    let (low, high) = (key(input), key(input));
    let bound = |key, how| match how % 3 {
        0 => Bound::Unbounded,
        1 => Bound::Included(key),
        _ => Bound::Excluded(key),
    };
    let (count, keys_only) = (flags & 1 != 0, flags & 3 == 2);
    let term = Term::from_bits(input.u64() >> (64 - Term::BITS)).expect("few enough bits");
    let request = ScanRequest {
        reverse: flags & 4 != 0,
        keys_only,
        count,
        low: bound(&low[..], flags >> 3),
        high: bound(&high[..], flags >> 5),
        limit: 1 + input.below(u64::from(if count { COUNT_MAX } else { PAGE_ITEMS_MAX })) as u32,
        bytes: 1 + input.below(u64::from(PAGE_BYTES_MAX)) as u32,
        ..ScanRequest::new(input.u64(), term, UnixMillis(input.u64()))
    };
    let made = TreeMoment { tree: input.u64(), step: input.u64() };
    let request = match flags >> 5 {
        4 => request.about(ScanKind::Recheck, made),
        5 => request.about(ScanKind::Close, made),
        6 => request.about(ScanKind::SnapshotPage, made),
        7 => ScanRequest { kind: ScanKind::Snapshot, ..request },
        _ => request,
    };
    let message = request.encode();
    assert_eq!(ScanRequest::decode(&message), Ok(request));
    message
}

/// A key of any bytes, which an item may have.
fn key(input: &mut Input<'_>) -> Vec<u8> {
    let key = input.counted();
    let key = &key[..key.len().min(KEY_MAX)];
    if key.is_empty() { vec![b'k'] } else { key.to_vec() }
}

/// An item as the model keeps it: key, version, expiry, value.
struct Pushed {
    key: Vec<u8>,
    csn: Csn,
    expiry: UnixMillis,
    value: Value,
}

enum Value {
    Inline(Vec<u8>),
    Far(EntryRef),
}

impl Pushed {
    fn item(&self) -> ScanItem<'_> {
        let value = match &self.value {
            Value::Inline(bytes) => ScanValue::Inline(bytes),
            Value::Far(entry) => ScanValue::Far(*entry),
        };
        ScanItem { key: &self.key, csn: self.csn, expiry: self.expiry, value }
    }
}

fn pushed(input: &mut Input<'_>, before: Option<&Pushed>) -> Pushed {
    let how = input.u8();
    let mut next = key(input);
    if let Some(before) = before.filter(|_| how & 1 != 0) {
        // Keys mostly begin as the one before.
        let shared = input.below(before.key.len() as u64 + 1) as usize;
        next = [&before.key[..shared], &next].concat();
        next.truncate(KEY_MAX);
    }
    if before.is_some_and(|before| before.key == next) {
        next[0] ^= 1;
    }
    let value = match how & 2 {
        0 => Value::Inline(input.counted().iter().copied().take(FAR_FROM).collect()),
        _ => {
            let len = FAR_FROM as u32 + 8 + input.below(1 << 16) as u32 * 8;
            let lines = (SEGMENTS_MAX * SEGMENT_BYTES - u64::from(len)) / 64;
            Value::Far(EntryRef { offset: input.u64() % (lines + 1) * 64, len })
        }
    };
    let csn = Csn((input.u32() as u64).max(1));
    let expiry = if how & 4 != 0 { UnixMillis(input.u64()) } else { UnixMillis::NEVER };
    Pushed { key: next, csn, expiry, value }
}

/// A page as a replica writes it, which a client reads.
fn page(input: &mut Input<'_>) -> Vec<u8> {
    let keys_only = input.u8() & 1 != 0;
    let room = input.near(u64::from(PAGE_BYTES_MAX)) as u32;
    let mut writer = ScanAnswerWriter::new(vec![7; 3], room, keys_only);
    let mut taken: Vec<Pushed> = Vec::new();
    for _ in 0..COMMANDS_MAX {
        if input.is_empty() {
            break;
        }
        let next = pushed(input, taken.last());
        if !writer.push(&next.item()) {
            assert!(!taken.is_empty(), "the first item always has room");
            break;
        }
        taken.push(next);
    }
    let head = ScanHead { more: !taken.is_empty(), ..ScanHead::new(ScanStatus::Ok, 1, Term::ZERO) };
    let message = writer.finish(head);
    assert!(message.len() <= SCAN_MESSAGE_MAX);
    let answer = ScanAnswer::decode(&message).expect("our own page");
    assert!(answer.head == head && answer.count as usize == taken.len());
    let mut items = answer.items();
    for pushed in &taken {
        let item = items.next().expect("a good item").expect("one more item");
        let value = if keys_only { ScanValue::None } else { pushed.item().value };
        assert_eq!(item, ScanItem { value, ..pushed.item() });
    }
    assert_eq!(items.next(), Ok(None));
    message
}

/// Every kind of message from the same bytes.
fn messages(bytes: &[u8]) {
    if let Ok(request) = ScanRequest::decode(bytes) {
        assert_eq!(request.encode(), bytes, "{request:?}");
    }
    if let Ok(welcome) = ScanWelcome::decode(bytes) {
        assert_eq!(welcome.encode(), bytes, "{welcome:?}");
    }
    if let Ok(hello) = ScanHello::decode(bytes) {
        let again = ScanHello::decode(&hello.encode()).expect("a name is cut, not refused");
        assert!(ScanHello::is(bytes) && again.group == hello.group && again.ring_bytes == hello.ring_bytes);
        // The range of versions is the sender's own; a name that was no text has other bytes now.
        if !hello.name.contains(char::REPLACEMENT_CHARACTER) {
            assert_eq!(hello.encode()[RANGE..], bytes[RANGE..]);
        }
    }
    if let Ok(answer) = ScanAnswer::decode(bytes) {
        read(&answer, bytes);
    }
}

/// Reads an answer whole, and writes what was read again.
fn read(answer: &ScanAnswer<'_>, bytes: &[u8]) {
    if let Some(stats) = &answer.stats {
        assert_eq!(answer.head.with_stats(stats), bytes);
        return;
    }
    if answer.is_count() {
        let again = ScanAnswerWriter::counted(Vec::new(), answer.head, answer.count, answer.last);
        assert_eq!(again, bytes);
        return;
    }
    let (mut items, mut last) = (answer.items(), Vec::new());
    let mut writer = ScanAnswerWriter::new(Vec::new(), PAGE_BYTES_MAX, answer.keys_only);
    let mut fits = true;
    loop {
        let item = match items.next() {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(_) => {
                assert_eq!(items.next(), Ok(None), "nothing comes after an error");
                return;
            }
        };
        assert!(!item.key.is_empty() && item.key.len() <= KEY_MAX && item.key != last && item.csn.is_valid());
        match item.value {
            ScanValue::None => assert!(answer.keys_only),
            ScanValue::Inline(value) => assert!(!answer.keys_only && value.len() <= FAR_FROM),
            ScanValue::Far(EntryRef { offset, len }) => {
                assert!(!answer.keys_only && len as usize > FAR_FROM && offset.is_multiple_of(64));
                assert!(offset + u64::from(len) <= SEGMENTS_MAX * SEGMENT_BYTES);
            }
        }
        last = item.key.to_vec();
        fits &= writer.push(&item);
    }
    if fits {
        assert_eq!(writer.finish(answer.head), bytes);
    }
}
