//! The answer to a request for a page: a 48-byte header and the items.
//!
//! `[status u8 | flags u8 | 0 u16 | count u32][operation][term][tree][step][rounds u32 | lag us u32]`
//!
//! An item is `[shared u16 | suffix length u16 | value length u32][csn][expiry][suffix][value]`. Its key is
//! the first `shared` bytes of the key before it, which are all that the two share, and the suffix. The top
//! bit of the csn says whether there is an expiry. The top bit of the value's length says that the value is
//! far: it is in the entry of that length, and instead of the value comes the entry's offset in the arena.
//!
//! An answer to a count has no items. If there are more keys it has the last key that was counted:
//! `[length u32 | 0][key]`.
//!
//! An answer to a request for statistics has those of `stats.rs` instead of items.

use std::cmp::Ordering;

use longarm_base::bytes::common;
use longarm_base::limits::{CSN_MAX, KEY_MAX, LINE, SEGMENT_BYTES, SEGMENTS_MAX};
use longarm_base::{Csn, EntryRef, Term, UnixMillis};

use super::limits::{COUNT_MAX, FAR_FROM, PAGE_BYTES_MAX, PAGE_ITEMS_MAX};
use super::request::TreeMoment;
use super::stats::OrderedStats;
use crate::codec::{Bad, Fields, kind, take_term};

/// Longest message of a scan: the answer.
pub const SCAN_MESSAGE_MAX: usize = HEADER + PAGE_BYTES_MAX as usize;

/// Bytes of an answer's header.
const HEADER: usize = 48;
const MORE: u8 = 1;
const KEYS: u8 = 2;
const COUNT: u8 = 4;
const STATS: u8 = 8;
const FLAGS: u8 = MORE | KEYS | COUNT | STATS;
/// Bytes of an item before its expiry.
const ITEM: usize = 16;
/// The value's length is that of the entry which has it.
const FAR: u32 = 1 << 31;
/// The csn is followed by an expiry.
const EXPIRES: u64 = 1 << 63;
const ARENA_MAX: u64 = SEGMENTS_MAX * SEGMENT_BYTES;

const _: () = assert!(CSN_MAX < EXPIRES && KEY_MAX <= u16::MAX as usize);
const _: () = assert!(ITEM + 8 + KEY_MAX + FAR_FROM <= PAGE_BYTES_MAX as usize, "any item fits");

/// The status of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ScanStatus {
    /// Here is the page.
    Ok = 0,
    /// This replica is not of the named term, or has no ordered index now: ask another, or look for a newer
    /// leader.
    Elsewhere = 1,
    /// This replica lacks entries that the leader has applied: another may have them.
    Behind = 2,
    /// The range is written all the time: no page was found that nothing had changed meanwhile.
    Contended = 3,
    /// The replica is shutting down.
    Closing = 4,
    /// The request makes no sense.
    Invalid = 5,
    /// The ordered index outgrew its memory: this replica answers no scan until it is built anew.
    Full = 6,
    /// Of a recheck: something in the range has changed, or the page was of another tree.
    Changed = 7,
    /// Of a page of a snapshot: that is not kept any more. Nobody asked for it for long, it outgrew its
    /// memory, another leader leads, or an entry of it is gone.
    Gone = 8,
    /// Of a snapshot: as many are kept as may be.
    Crowded = 9,
}

/// The value of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanValue<'a> {
    /// Nobody asked for it.
    None,
    /// The value.
    Inline(&'a [u8]),
    /// The entry in the replica's arena that has the value: more than [`FAR_FROM`] bytes.
    Far(EntryRef),
}

/// An item of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The version.
    pub csn: Csn,
    /// When the item is gone, or never.
    pub expiry: UnixMillis,
    /// The value.
    pub value: ScanValue<'a>,
}

/// The header of an answer, except for what its items say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanHead {
    /// The status.
    pub status: ScanStatus,
    /// Whether the range may have more items behind the last one.
    pub more: bool,
    /// The request's operation.
    pub operation: u64,
    /// The term that the page is of.
    pub term: Term,
    /// When the page was made, in steps of the ordered index.
    pub made: TreeMoment,
    /// How often the page was made until nothing had changed meanwhile.
    pub rounds: u32,
    /// How old the replica's knowledge of what the leader has applied was when the request came, in
    /// microseconds.
    pub lag_us: u32,
}

impl ScanHead {
    /// The header of an answer without items.
    pub fn new(status: ScanStatus, operation: u64, term: Term) -> ScanHead {
        ScanHead { status, more: false, operation, term, made: TreeMoment::default(), rounds: 0, lag_us: 0 }
    }

    /// The answer to a request for statistics.
    pub fn with_stats(self, stats: &OrderedStats) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        self.write(&mut out, STATS, 0);
        stats.put(&mut out);
        out
    }

    /// The whole answer, if the status is not Ok.
    pub fn encode(self) -> Vec<u8> {
        ScanAnswerWriter::new(Vec::new(), PAGE_BYTES_MAX, true).finish(self)
    }

    fn write(&self, out: &mut [u8], flags: u8, count: u32) {
        let more = if self.more { MORE } else { 0 };
        out[0] = self.status as u8;
        out[1] = flags | more;
        out[4..8].copy_from_slice(&count.to_le_bytes());
        let last = u64::from(self.rounds) | u64::from(self.lag_us) << 32;
        let TreeMoment { tree, step } = self.made;
        for (chunk, word) in
            out[8..HEADER].chunks_exact_mut(8).zip([self.operation, self.term.bits(), tree, step, last])
        {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Writes an answer, item by item.
#[derive(Clone, Debug)]
pub struct ScanAnswerWriter {
    out: Vec<u8>,
    most: usize,
    keys_only: bool,
    /// The key of the last item, which the next one shares bytes with.
    last: Vec<u8>,
    count: u32,
}

impl ScanAnswerWriter {
    /// A writer that takes items of up to `bytes` bytes as they travel, and of [`PAGE_ITEMS_MAX`] items.
    /// What `out` has is lost; its memory is used. With `keys_only` values are left out.
    pub fn new(mut out: Vec<u8>, bytes: u32, keys_only: bool) -> ScanAnswerWriter {
        out.clear();
        out.resize(HEADER, 0);
        let most = HEADER + bytes.min(PAGE_BYTES_MAX) as usize;
        ScanAnswerWriter { out, most, keys_only, last: Vec::new(), count: 0 }
    }

    /// Appends an item, which comes after the last one in the page's direction. `false` if there is no room
    /// for it; the first item always has room.
    pub fn push(&mut self, item: &ScanItem<'_>) -> bool {
        debug_assert!(!item.key.is_empty() && item.key.len() <= KEY_MAX && item.csn.is_valid());
        let shared = common(&self.last, item.key);
        let suffix = &item.key[shared..];
        let value = if self.keys_only { ScanValue::None } else { item.value };
        let (len, bytes) = match value {
            ScanValue::None => (0, 0),
            ScanValue::Inline(value) => (value.len() as u32, value.len()),
            ScanValue::Far(entry) => (FAR | entry.len, 8),
        };
        let expires = item.expiry != UnixMillis::NEVER;
        let size = ITEM + if expires { 8 } else { 0 } + suffix.len() + bytes;
        let full = self.count == PAGE_ITEMS_MAX || self.out.len() + size > self.most;
        if self.count > 0 && full {
            return false;
        }
        let first = shared as u64 | (suffix.len() as u64) << 16 | u64::from(len) << 32;
        let second = item.csn.0 | if expires { EXPIRES } else { 0 };
        self.out.extend_from_slice([first.to_le_bytes(), second.to_le_bytes()].as_flattened());
        if expires {
            self.out.extend_from_slice(&item.expiry.0.to_le_bytes());
        }
        self.out.extend_from_slice(suffix);
        match value {
            ScanValue::None => {}
            ScanValue::Inline(value) => self.out.extend_from_slice(value),
            ScanValue::Far(entry) => self.out.extend_from_slice(&entry.offset.to_le_bytes()),
        }
        self.last.truncate(shared);
        self.last.extend_from_slice(suffix);
        self.count += 1;
        true
    }

    /// The number of items so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The key of the last item; empty if there is none.
    pub fn last_key(&self) -> &[u8] {
        &self.last
    }

    /// The answer. Only a page that is Ok has items.
    pub fn finish(mut self, head: ScanHead) -> Vec<u8> {
        debug_assert!(head.status == ScanStatus::Ok || self.count == 0, "items of a page that is none");
        let flags = if self.keys_only && head.status == ScanStatus::Ok { KEYS } else { 0 };
        head.write(&mut self.out, flags, self.count);
        self.out
    }

    /// The answer to a count of `count` keys. If there are more, `last` is the last one counted, and else
    /// `None`; what `head` says about more is not looked at.
    pub fn counted(mut out: Vec<u8>, head: ScanHead, count: u32, last: Option<&[u8]>) -> Vec<u8> {
        debug_assert!(head.status == ScanStatus::Ok && count <= COUNT_MAX);
        out.clear();
        out.resize(HEADER, 0);
        ScanHead { more: last.is_some(), ..head }.write(&mut out, COUNT, count);
        if let Some(key) = last {
            out.extend_from_slice(&(key.len() as u64).to_le_bytes());
            out.extend_from_slice(key);
        }
        out
    }
}

/// An answer; its items are borrowed from the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanAnswer<'a> {
    /// The header.
    pub head: ScanHead,
    /// The number of items, or of the keys counted.
    pub count: u32,
    /// Whether it answers a request for keys only.
    pub keys_only: bool,
    /// Of an answer to a count whose range has more keys: the last one counted.
    pub last: Option<&'a [u8]>,
    /// Of an answer to a request for statistics: those.
    pub stats: Option<OrderedStats>,
    counted: bool,
    body: &'a [u8],
}

impl<'a> ScanAnswer<'a> {
    /// Decodes a received message; its items are decoded when they are asked for.
    pub fn decode(message: &'a [u8]) -> Result<ScanAnswer<'a>, Bad> {
        let mut fields = Fields(message);
        let first = fields.bytes(2)?;
        let (status, flags) = (status(first[0])?, first[1]);
        if flags & !FLAGS != 0 || ![0, KEYS, COUNT, STATS].contains(&(flags & !MORE)) {
            return Err(Bad("unknown flags"));
        }
        if fields.u16()? != 0 {
            return Err(Bad("bits set that mean nothing"));
        }
        let (counted, more, keys_only) = (flags & COUNT != 0, flags & MORE != 0, flags & KEYS != 0);
        let count = fields.u32()?;
        if count > if counted { COUNT_MAX } else { PAGE_ITEMS_MAX } {
            return Err(Bad("more items than a page may have"));
        }
        if flags & STATS != 0 && count > 0 {
            return Err(Bad("statistics with items"));
        }
        if more && count == 0 {
            return Err(Bad("a page without items that says there are more"));
        }
        let (operation, term) = (fields.u64()?, take_term(&mut fields)?);
        let made = TreeMoment { tree: fields.u64()?, step: fields.u64()? };
        let (rounds, lag_us) = (fields.u32()?, fields.u32()?);
        let last = if counted && more { Some(take_last(&mut fields)?) } else { None };
        let stats = if flags & STATS != 0 { Some(OrderedStats::take(&mut fields)?) } else { None };
        if count == 0 || counted {
            fields.end()?;
        }
        if status != ScanStatus::Ok && (count > 0 || flags != 0) {
            return Err(Bad("items of a page that is none"));
        }
        let head = ScanHead { status, more, operation, term, made, rounds, lag_us };
        Ok(ScanAnswer { head, count, keys_only, last, stats, counted, body: fields.0 })
    }

    /// The bytes of its items as they travel.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Whether it answers a count.
    pub fn is_count(&self) -> bool {
        self.counted
    }

    /// The items, in the page's order.
    pub fn items(&self) -> ScanItems<'a> {
        let left = if self.counted { 0 } else { self.count };
        let keys_only = self.keys_only;
        ScanItems { fields: self.body, left, keys_only, key: Vec::new(), order: None }
    }
}

fn status(number: u8) -> Result<ScanStatus, Bad> {
    Ok(match number {
        0 => ScanStatus::Ok,
        1 => ScanStatus::Elsewhere,
        2 => ScanStatus::Behind,
        3 => ScanStatus::Contended,
        4 => ScanStatus::Closing,
        5 => ScanStatus::Invalid,
        6 => ScanStatus::Full,
        7 => ScanStatus::Changed,
        8 => ScanStatus::Gone,
        9 => ScanStatus::Crowded,
        _ => return Err(Bad("unknown status of a page")),
    })
}

fn take_last<'a>(fields: &mut Fields<'a>) -> Result<&'a [u8], Bad> {
    let len = kind(fields)? as usize;
    if len == 0 || len > KEY_MAX {
        return Err(Bad("a key of an impossible length"));
    }
    fields.bytes(len)
}

/// The items of an answer. Each is checked when it is asked for: after an error there are no more.
#[derive(Clone, Debug)]
pub struct ScanItems<'a> {
    fields: &'a [u8],
    left: u32,
    keys_only: bool,
    key: Vec<u8>,
    /// How each key is to compare with the one before it, if that matters.
    order: Option<Ordering>,
}

impl ScanItems<'_> {
    /// The same items, if each key compares so with the one before it: greater in a page that goes up, less
    /// in one that goes down. The answer does not say its direction.
    pub fn in_order(self, order: Ordering) -> Self {
        ScanItems { order: Some(order), ..self }
    }

    /// The next item, which lasts until the one after it is asked for; `None` behind the last.
    #[allow(clippy::should_implement_trait, reason = "an item borrows the key that the next one changes")]
    pub fn next(&mut self) -> Result<Option<ScanItem<'_>>, Bad> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut fields = Fields(self.fields);
        self.left -= 1;
        let order = self.order.filter(|_| !self.key.is_empty());
        let taken = take_item(&mut fields, &mut self.key, order, self.keys_only);
        if taken.is_err() {
            self.left = 0;
        }
        let (csn, expiry, value) = taken?;
        self.fields = fields.0;
        if self.left == 0 {
            fields.end()?;
        }
        Ok(Some(ScanItem { key: &self.key, csn, expiry, value }))
    }
}

/// Takes an item; `key` is that of the item before, and then its own. The two share what the item says, and
/// no more, so that the byte behind that tells their order.
fn take_item<'a>(
    fields: &mut Fields<'a>,
    key: &mut Vec<u8>,
    wanted: Option<Ordering>,
    keys_only: bool,
) -> Result<(Csn, UnixMillis, ScanValue<'a>), Bad> {
    let (first, csn) = (fields.u64()?, fields.u64()?);
    let (shared, suffix, len) = (first as u16, (first >> 16) as u16, (first >> 32) as u32);
    let (shared, suffix) = (usize::from(shared), usize::from(suffix));
    if shared > key.len() || shared + suffix == 0 || shared + suffix > KEY_MAX {
        return Err(Bad("a key of an impossible length"));
    }
    let expiry = UnixMillis(if csn & EXPIRES != 0 { fields.u64()? } else { 0 });
    if csn & EXPIRES != 0 && expiry == UnixMillis::NEVER {
        return Err(Bad("an expiry that is none"));
    }
    let csn = Csn(csn & !EXPIRES);
    if !csn.is_valid() {
        return Err(Bad("an item of no version"));
    }
    let suffix = fields.bytes(suffix)?;
    let order = suffix.first().cmp(&key.get(shared));
    if order == Ordering::Equal {
        return Err(Bad("a key that shares more with the one before than it says"));
    }
    if wanted.is_some_and(|wanted| order != wanted) {
        return Err(Bad("a key out of the page's order"));
    }
    key.truncate(shared);
    key.extend_from_slice(suffix);
    Ok((csn, expiry, take_value(fields, len, keys_only)?))
}

fn take_value<'a>(fields: &mut Fields<'a>, len: u32, keys_only: bool) -> Result<ScanValue<'a>, Bad> {
    if keys_only {
        return if len == 0 { Ok(ScanValue::None) } else { Err(Bad("a value that nobody asked for")) };
    }
    if len & FAR == 0 {
        let len = len as usize;
        return match len <= FAR_FROM {
            true => Ok(ScanValue::Inline(fields.bytes(len)?)),
            false => Err(Bad("a value that should be far")),
        };
    }
    let entry = EntryRef { offset: fields.u64()?, len: len & !FAR };
    let whole = entry.len as usize > FAR_FROM && entry.len.is_multiple_of(8);
    let end = entry.offset.checked_add(u64::from(entry.len));
    if !whole || !entry.offset.is_multiple_of(LINE) || end.is_none_or(|end| end > ARENA_MAX) {
        return Err(Bad("a value at a place where none can be"));
    }
    Ok(ScanValue::Far(entry))
}
