//! Responses: a 48-byte header and a value.
//!
//! `[status u8 | 0 | value length u32][operation][csn][number][stamp][unix ms]`

use longarm_base::limits::VALUE_MAX;
use longarm_base::{Csn, Nanos, UnixMillis};

use crate::codec::{Bad, Fields};

/// The status of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// Done; `csn` is the version written (or read).
    Ok = 0,
    /// No such key.
    NotFound = 1,
    /// The condition did not hold; `csn` is the key's version, zero if the key is absent.
    Mismatch = 2,
    /// The value is not a decimal number in 64 bits.
    NotANumber = 3,
    /// The sum leaves 64 bits.
    Overflow = 4,
    /// The memory limit is reached; nothing was stored.
    OutOfMemory = 5,
    /// The server is shutting down; nothing was done.
    Closing = 6,
    /// The operation is older than the session remembers, so its outcome is unknown.
    Forgotten = 7,
    /// The request makes no sense (a limit is exceeded); nothing was done.
    Invalid = 8,
    /// The index has no slot for one more key like this: too many keys have nearly the same hash. Nothing was
    /// stored.
    Crowded = 9,
    /// The disk that is to keep the write failed, and takes no more; nothing was done.
    NoDisk = 10,
}

/// An answer; the value is borrowed from the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// The status.
    pub status: Status,
    /// The request's operation.
    pub operation: u64,
    /// Version written, read, or found in the way.
    pub csn: Csn,
    /// Result of an increment, as i64; time to live in ms of a Get, zero for ever.
    pub number: i64,
    /// The server's monotonic clock, read after the request arrived.
    pub stamp: Nanos,
    /// The server's unix clock at the stamp.
    pub unix: UnixMillis,
    /// The value of a Get, the text of Stats.
    pub value: &'a [u8],
}

/// Bytes of a response's header.
const HEADER: usize = 48;

impl<'a> Response<'a> {
    /// The header; the value follows it in the message.
    pub fn header(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = self.status as u8;
        bytes[4..8].copy_from_slice(&(self.value.len() as u32).to_le_bytes());
        let words = [self.operation, self.csn.0, self.number as u64, self.stamp.0, self.unix.0];
        for (chunk, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes a received message.
    pub fn decode(message: &'a [u8]) -> Result<Response<'a>, Bad> {
        let mut fields = Fields(message);
        let status = match fields.u32()? {
            0 => Status::Ok,
            1 => Status::NotFound,
            2 => Status::Mismatch,
            3 => Status::NotANumber,
            4 => Status::Overflow,
            5 => Status::OutOfMemory,
            6 => Status::Closing,
            7 => Status::Forgotten,
            8 => Status::Invalid,
            9 => Status::Crowded,
            10 => Status::NoDisk,
            _ => return Err(Bad("unknown status")),
        };
        let len = fields.u32()? as usize;
        if len > VALUE_MAX {
            return Err(Bad("value longer than allowed"));
        }
        let operation = fields.u64()?;
        let csn = Csn(fields.u64()?);
        let number = fields.u64()? as i64;
        let (stamp, unix) = (Nanos(fields.u64()?), UnixMillis(fields.u64()?));
        let value = fields.bytes(len)?;
        fields.end()?;
        Ok(Response { status, operation, csn, number, stamp, unix, value })
    }
}
