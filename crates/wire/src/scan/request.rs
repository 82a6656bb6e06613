//! A request for a page: a 40-byte header and the keys of its bounds.
//!
//! `[kind u8 | flags u8 | low length u16 | high length u16 | 0 u16][limit u32 | bytes u32][operation][term]`
//! `[unix ms][low][high]`
//!
//! Kinds that speak of an earlier moment have it, `[tree][step]`, before the keys.
//!
//! A bound without a key has length zero. The range of a page is the same whatever its direction: low is
//! below high.

use std::ops::Bound;

use longarm_base::limits::KEY_MAX;
use longarm_base::{Term, UnixMillis};

use super::limits::{COUNT_MAX, PAGE_BYTES_MAX, PAGE_ITEMS_MAX};
use crate::codec::{Bad, Fields, take_term};

/// Bytes of a request's header.
const HEADER: usize = 40;
const REVERSE: u8 = 1;
const KEYS: u8 = 2;
const COUNT: u8 = 4;
const LOW_OPEN: u8 = 8;
const HIGH_OPEN: u8 = 16;
const FLAGS: u8 = REVERSE | KEYS | COUNT | LOW_OPEN | HIGH_OPEN;

/// The kinds of requests on the connection of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ScanKind {
    /// Answer a page.
    Page = 1,
    /// Say whether nothing in a range has changed since a page of it was made, by the rule by which a page is
    /// answered. Limit and what to show mean nothing.
    Recheck = 2,
    /// The snapshot of that moment is needed no more. Range, limit and term mean nothing.
    Close = 3,
    /// Say how the ordered index stands, whatever its state. Range, limit and term mean nothing.
    Stats = 4,
    /// Keep the ordered index as it is, for pages of this range, by the rule by which a page is answered. The
    /// answer names the moment. Limit and what to show mean nothing.
    Snapshot = 5,
    /// Answer a page as of the moment of a snapshot.
    SnapshotPage = 6,
}

impl ScanKind {
    /// Whether the request speaks of an earlier moment.
    pub fn has_moment(self) -> bool {
        matches!(self, ScanKind::Recheck | ScanKind::Close | ScanKind::SnapshotPage)
    }
}

/// A moment of an ordered index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeMoment {
    /// The number that was drawn for the tree.
    pub tree: u64,
    /// Its step.
    pub step: u64,
}

/// A request; the keys are borrowed from the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanRequest<'a> {
    /// The kind.
    pub kind: ScanKind,
    /// Whether the page begins with the highest key of the range and goes down.
    pub reverse: bool,
    /// Whether values are left out.
    pub keys_only: bool,
    /// Whether keys are counted instead of shown; excludes `keys_only`.
    pub count: bool,
    /// Where the range begins, below its end. The key is not empty.
    pub low: Bound<&'a [u8]>,
    /// Where the range ends. The key is not empty.
    pub high: Bound<&'a [u8]>,
    /// The most items, 1 to [`PAGE_ITEMS_MAX`]; of a count the most keys, 1 to [`COUNT_MAX`].
    pub limit: u32,
    /// The most bytes of the items, as they travel, 1 to [`PAGE_BYTES_MAX`]. The first item is shown in any
    /// case.
    pub bytes: u32,
    /// The client's number for the request, which the answer repeats.
    pub operation: u64,
    /// The term whose leader the client has a lease on: the page must be as of this term.
    pub term: Term,
    /// The leader's calendar, by which items are expired.
    pub unix: UnixMillis,
    /// Of a recheck when the page was made; else of which snapshot it speaks.
    pub moment: TreeMoment,
}

impl<'a> ScanRequest<'a> {
    /// A request for as large a page as may be, of all keys, in ascending order.
    pub fn new(operation: u64, term: Term, unix: UnixMillis) -> ScanRequest<'a> {
        ScanRequest {
            kind: ScanKind::Page,
            reverse: false,
            keys_only: false,
            count: false,
            low: Bound::Unbounded,
            high: Bound::Unbounded,
            limit: PAGE_ITEMS_MAX,
            bytes: PAGE_BYTES_MAX,
            operation,
            term,
            unix,
            moment: TreeMoment::default(),
        }
    }

    /// A request for the statistics of the replica's ordered index.
    pub fn stats(operation: u64) -> ScanRequest<'a> {
        ScanRequest { kind: ScanKind::Stats, ..ScanRequest::new(operation, Term::ZERO, UnixMillis::NEVER) }
    }

    /// The request of this kind about an earlier moment, for the same range.
    pub fn about(self, kind: ScanKind, moment: TreeMoment) -> ScanRequest<'a> {
        ScanRequest { kind, moment, ..self }
    }

    /// The bytes to send. Keys are at most [`KEY_MAX`] long, which the caller has checked.
    pub fn encode(&self) -> Vec<u8> {
        let (low, low_open) = parts(self.low);
        let (high, high_open) = parts(self.high);
        debug_assert!(low.len() <= KEY_MAX && high.len() <= KEY_MAX, "keys that no item has");
        let flags = [
            (self.reverse, REVERSE),
            (self.keys_only, KEYS),
            (self.count, COUNT),
            (low_open, LOW_OPEN),
            (high_open, HIGH_OPEN),
        ];
        let mut bytes = Vec::with_capacity(HEADER + 16 + low.len() + high.len());
        bytes.push(self.kind as u8);
        bytes.push(flags.iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag));
        bytes.extend_from_slice(&(low.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&(high.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.limit.to_le_bytes());
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        for word in [self.operation, self.term.bits(), self.unix.0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        if self.kind.has_moment() {
            bytes.extend_from_slice(&self.moment.tree.to_le_bytes());
            bytes.extend_from_slice(&self.moment.step.to_le_bytes());
        }
        bytes.extend_from_slice(low);
        bytes.extend_from_slice(high);
        bytes
    }

    /// Decodes a received message.
    pub fn decode(message: &'a [u8]) -> Result<ScanRequest<'a>, Bad> {
        let mut fields = Fields(message);
        let head = fields.bytes(2)?;
        let kind = match head[0] {
            1 => ScanKind::Page,
            2 => ScanKind::Recheck,
            3 => ScanKind::Close,
            4 => ScanKind::Stats,
            5 => ScanKind::Snapshot,
            6 => ScanKind::SnapshotPage,
            _ => return Err(Bad("unknown kind of a scan's request")),
        };
        let flags = head[1];
        if flags & !FLAGS != 0 {
            return Err(Bad("unknown flags"));
        }
        let is = |flag| flags & flag != 0;
        if is(KEYS) && is(COUNT) {
            return Err(Bad("a count of keys that shows keys"));
        }
        let (low_len, high_len) = (usize::from(fields.u16()?), usize::from(fields.u16()?));
        if fields.u16()? != 0 {
            return Err(Bad("bits set that mean nothing"));
        }
        let (limit, bytes) = (fields.u32()?, fields.u32()?);
        let most = if is(COUNT) { COUNT_MAX } else { PAGE_ITEMS_MAX };
        if limit == 0 || limit > most {
            return Err(Bad("a page of no items, or of more than allowed"));
        }
        if bytes == 0 || bytes > PAGE_BYTES_MAX {
            return Err(Bad("a page of no bytes, or of more than allowed"));
        }
        let (operation, term) = (fields.u64()?, take_term(&mut fields)?);
        let unix = UnixMillis(fields.u64()?);
        let moment = match kind.has_moment() {
            true => TreeMoment { tree: fields.u64()?, step: fields.u64()? },
            false => TreeMoment::default(),
        };
        let low = bound(&mut fields, low_len, is(LOW_OPEN))?;
        let high = bound(&mut fields, high_len, is(HIGH_OPEN))?;
        fields.end()?;
        let (reverse, keys_only, count) = (is(REVERSE), is(KEYS), is(COUNT));
        Ok(ScanRequest {
            kind,
            reverse,
            keys_only,
            count,
            low,
            high,
            limit,
            bytes,
            operation,
            term,
            unix,
            moment,
        })
    }
}

/// The key of a bound, and whether it is left out of the range.
fn parts(bound: Bound<&[u8]>) -> (&[u8], bool) {
    match bound {
        Bound::Included(key) => (key, false),
        Bound::Excluded(key) => (key, true),
        Bound::Unbounded => (&[], false),
    }
}

fn bound<'a>(fields: &mut Fields<'a>, len: usize, open: bool) -> Result<Bound<&'a [u8]>, Bad> {
    if len > KEY_MAX {
        return Err(Bad("a bound's key longer than allowed"));
    }
    let key = fields.bytes(len)?;
    match (key.is_empty(), open) {
        (true, false) => Ok(Bound::Unbounded),
        (true, true) => Err(Bad("a bound that leaves out a key and names none")),
        (false, false) => Ok(Bound::Included(key)),
        (false, true) => Ok(Bound::Excluded(key)),
    }
}
