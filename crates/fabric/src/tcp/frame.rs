//! Frames of an established connection, both directions. Bytes only: no state, no I/O, nothing allocated.
//!
//! ```text
//! head       kind u8, flags u8, seq u16, len u32          len counts the bytes after the head
//! READ       head, region u32, want u32, offset u64                                  24 bytes
//! WRITE      head, region u32, zero u32, offset u64, bytes                           24 + n
//! WRITE_IMM  head, region u32, imm  u32, offset u64, bytes                           24 + n
//! SEND       head, bytes                                                              8 + n
//! CAS        head, region u32, zero u32, offset u64, expected u64, new u64           40 bytes
//! FAA        head, region u32, zero u32, offset u64, add u64                         32 bytes
//! DATA       head, bytes          answers READ                                        8 + n
//! WORD       head, word u64       answers CAS and FAA                                16 bytes
//! ACK        head                 answers WRITE and SEND                              8 bytes
//! FAIL       head, text           answers what was refused; nothing follows           8 + n
//! CREDIT     head (seq = count)   receive buffers handed back                         8 bytes
//! GOODBYE    head (flags = why), text                                                 8 + n
//! ```
//! (1) `seq` of a request counts up by one from zero, wrapping. An answer with seq `s` answers request `s`,
//!     and says of every request before it that was not answered yet that it succeeded.
//! (2) The only flag of a request is SIGNALLED (bit 0): answer soon. READ, CAS and FAA are always answered.
//! (3) Offsets, and lengths of WRITE, are multiples of 8. Zero fields are zero. Numbers are little-endian.
//! (4) A length beyond its kind's limit is found in the head, before any of the bytes it announces.

use longarm_base::RegionId;
use longarm_base::limits::READ_MAX;

use crate::{SEND_MAX, WRITE_MAX};

/// Bytes of a frame's head.
pub const HEAD: usize = 8;
/// Bytes before the payload of a READ or WRITE.
pub const REQUEST: usize = 24;
/// Longest frame.
pub const FRAME_MAX: usize = HEAD + READ_MAX as usize;
/// Longest text of a FAIL or GOODBYE.
pub const TEXT_MAX: usize = 256;

const _: () = assert!(FRAME_MAX >= REQUEST + WRITE_MAX && FRAME_MAX >= HEAD + SEND_MAX);

const READ: u8 = 1;
const WRITE: u8 = 2;
const WRITE_IMM: u8 = 3;
const SEND: u8 = 4;
const CAS: u8 = 5;
const FAA: u8 = 6;
const DATA: u8 = 16;
const WORD: u8 = 17;
const ACK: u8 = 18;
const FAIL: u8 = 19;
const CREDIT: u8 = 20;
const GOODBYE: u8 = 21;

const SIGNALLED: u8 = 1;

/// Why the sender of a GOODBYE leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// In good order.
    Closed,
    /// The receiver broke the rules; the text says which.
    Protocol,
    /// The receiver was fenced off.
    Revoked,
}

/// One frame, its payload still in the receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields are those of the drawing above")]
pub enum Frame<'a> {
    Read { seq: u16, region: RegionId, offset: u64, want: u32 },
    Write { seq: u16, signalled: bool, region: RegionId, offset: u64, imm: Option<u32>, bytes: &'a [u8] },
    Send { seq: u16, signalled: bool, bytes: &'a [u8] },
    CompareSwap { seq: u16, region: RegionId, offset: u64, expected: u64, new: u64 },
    FetchAdd { seq: u16, region: RegionId, offset: u64, add: u64 },
    Data { seq: u16, bytes: &'a [u8] },
    Word { seq: u16, word: u64 },
    Ack { seq: u16 },
    Fail { seq: u16, text: &'a [u8] },
    Credit { count: u16 },
    Goodbye { why: Why, text: &'a [u8] },
}

/// Bytes that are no frame. There is no way to go on after one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// No such kind.
    #[error("a frame of unknown kind {0}")]
    Kind(u8),
    /// Longer or shorter than its kind may be.
    #[error("a frame of kind {kind} announces {len} bytes, outside its limits")]
    Length {
        /// Its kind.
        kind: u8,
        /// What it announces.
        len: u32,
    },
    /// An offset or length that is no multiple of 8.
    #[error("a frame of kind {0} with an unaligned offset or length")]
    Unaligned(u8),
    /// Flags or zero fields that are set.
    #[error("a frame of kind {0} with unknown flags")]
    Flags(u8),
}

/// Reads one frame from the start of `bytes`: the frame and its length, or `None` while bytes are missing.
pub fn parse(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
    let (kind, flags, seq) = (head[0], head[1], u16::from_le_bytes([head[2], head[3]]));
    let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    // Before the body is there: nobody collects bytes for a frame that cannot be one.
    let (shortest, longest) = limits(kind).ok_or(FrameError::Kind(kind))?;
    if (len as usize) < shortest || len as usize > longest {
        return Err(FrameError::Length { kind, len });
    }
    let flags_max = match kind {
        WRITE | WRITE_IMM | SEND => SIGNALLED,
        GOODBYE => 2,
        _ => 0,
    };
    if flags > flags_max {
        return Err(FrameError::Flags(kind));
    }
    let total = HEAD + len as usize;
    let Some(body) = bytes.get(HEAD..total) else { return Ok(None) };
    let frame = if kind <= FAA { request(kind, flags, seq, body)? } else { answer(kind, flags, seq, body) };
    Ok(Some((frame, total)))
}

/// Shortest and longest body of a kind.
fn limits(kind: u8) -> Option<(usize, usize)> {
    Some(match kind {
        READ => (16, 16),
        WRITE | WRITE_IMM => (16, 16 + WRITE_MAX),
        SEND => (0, SEND_MAX),
        CAS => (32, 32),
        FAA => (24, 24),
        DATA => (0, READ_MAX as usize),
        WORD => (8, 8),
        ACK | CREDIT => (0, 0),
        FAIL | GOODBYE => (0, TEXT_MAX),
        _ => return None,
    })
}

fn u64_at(body: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(body[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(body: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"))
}

fn request(kind: u8, flags: u8, seq: u16, body: &[u8]) -> Result<Frame<'_>, FrameError> {
    let signalled = flags & SIGNALLED != 0;
    if kind == SEND {
        return Ok(Frame::Send { seq, signalled, bytes: body });
    }
    let (region, extra, offset) = (RegionId(u32_at(body, 0)), u32_at(body, 4), u64_at(body, 8));
    if !offset.is_multiple_of(8) || !body.len().is_multiple_of(8) {
        return Err(FrameError::Unaligned(kind));
    }
    if kind == READ && extra > READ_MAX {
        return Err(FrameError::Length { kind, len: extra });
    }
    if extra != 0 && !matches!(kind, READ | WRITE_IMM) {
        return Err(FrameError::Flags(kind));
    }
    Ok(match kind {
        READ => Frame::Read { seq, region, offset, want: extra },
        WRITE => Frame::Write { seq, signalled, region, offset, imm: None, bytes: &body[16..] },
        WRITE_IMM => Frame::Write { seq, signalled, region, offset, imm: Some(extra), bytes: &body[16..] },
        CAS => Frame::CompareSwap { seq, region, offset, expected: u64_at(body, 16), new: u64_at(body, 24) },
        _ => Frame::FetchAdd { seq, region, offset, add: u64_at(body, 16) },
    })
}

fn answer(kind: u8, flags: u8, seq: u16, body: &[u8]) -> Frame<'_> {
    match kind {
        DATA => Frame::Data { seq, bytes: body },
        WORD => Frame::Word { seq, word: u64_at(body, 0) },
        ACK => Frame::Ack { seq },
        FAIL => Frame::Fail { seq, text: body },
        CREDIT => Frame::Credit { count: seq },
        _ => {
            let why = match flags {
                0 => Why::Closed,
                1 => Why::Protocol,
                _ => Why::Revoked,
            };
            Frame::Goodbye { why, text: body }
        }
    }
}

/// The seq and length of the DATA frame that begins here, if one does. Its head alone is enough.
pub fn peek_data(bytes: &[u8]) -> Option<(u16, u32)> {
    let head = bytes.first_chunk::<HEAD>().filter(|head| head[0] == DATA)?;
    let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    Some((u16::from_le_bytes([head[2], head[3]]), len))
}

fn head(kind: u8, flags: u8, seq: u16, len: usize) -> [u8; HEAD] {
    let (seq, len) = (seq.to_le_bytes(), (len as u32).to_le_bytes());
    [kind, flags, seq[0], seq[1], len[0], len[1], len[2], len[3]]
}

fn addressed(head: [u8; HEAD], region: RegionId, extra: u32, offset: u64) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[..8].copy_from_slice(&head);
    bytes[8..12].copy_from_slice(&region.0.to_le_bytes());
    bytes[12..16].copy_from_slice(&extra.to_le_bytes());
    bytes[16..].copy_from_slice(&offset.to_le_bytes());
    bytes
}

/// Head of the DATA frame for `len` bytes that follow.
pub fn data_head(seq: u16, len: u32) -> [u8; HEAD] {
    head(DATA, 0, seq, len as usize)
}

impl Frame<'_> {
    /// Bytes of the frame.
    pub fn size(&self) -> usize {
        match self {
            Frame::Read { .. } => REQUEST,
            Frame::Write { bytes, .. } => REQUEST + bytes.len(),
            Frame::Send { bytes, .. } | Frame::Data { bytes, .. } => HEAD + bytes.len(),
            Frame::CompareSwap { .. } => REQUEST + 16,
            Frame::FetchAdd { .. } => REQUEST + 8,
            Frame::Word { .. } => HEAD + 8,
            Frame::Ack { .. } | Frame::Credit { .. } => HEAD,
            Frame::Fail { text, .. } | Frame::Goodbye { text, .. } => HEAD + text.len(),
        }
    }

    /// Writes the frame into `out`, which has exactly [`size`](Self::size) bytes.
    pub fn encode(&self, out: &mut [u8]) {
        let body = self.size() - HEAD;
        let (fixed, rest) = match *self {
            Frame::Read { seq, region, offset, want } => {
                out.copy_from_slice(&addressed(head(READ, 0, seq, body), region, want, offset));
                return;
            }
            Frame::Write { seq, signalled, region, offset, imm, bytes } => {
                let kind = if imm.is_some() { WRITE_IMM } else { WRITE };
                let head = head(kind, signalled.into(), seq, body);
                out[..REQUEST].copy_from_slice(&addressed(head, region, imm.unwrap_or(0), offset));
                out[REQUEST..].copy_from_slice(bytes);
                return;
            }
            Frame::CompareSwap { seq, region, offset, expected, new } => {
                out[..REQUEST].copy_from_slice(&addressed(head(CAS, 0, seq, body), region, 0, offset));
                out[REQUEST..REQUEST + 8].copy_from_slice(&expected.to_le_bytes());
                out[REQUEST + 8..].copy_from_slice(&new.to_le_bytes());
                return;
            }
            Frame::FetchAdd { seq, region, offset, add } => {
                out[..REQUEST].copy_from_slice(&addressed(head(FAA, 0, seq, body), region, 0, offset));
                out[REQUEST..].copy_from_slice(&add.to_le_bytes());
                return;
            }
            Frame::Word { seq, word } => {
                out[..HEAD].copy_from_slice(&head(WORD, 0, seq, body));
                out[HEAD..].copy_from_slice(&word.to_le_bytes());
                return;
            }
            Frame::Send { seq, signalled, bytes } => (head(SEND, signalled.into(), seq, body), bytes),
            Frame::Data { seq, bytes } => (head(DATA, 0, seq, body), bytes),
            Frame::Ack { seq } => (head(ACK, 0, seq, 0), &[][..]),
            Frame::Fail { seq, text } => (head(FAIL, 0, seq, body), text),
            Frame::Credit { count } => (head(CREDIT, 0, count, 0), &[][..]),
            Frame::Goodbye { why, text } => (head(GOODBYE, why as u8, 0, body), text),
        };
        out[..HEAD].copy_from_slice(&fixed);
        out[HEAD..].copy_from_slice(rest);
    }
}

#[cfg(test)]
mod tests;
