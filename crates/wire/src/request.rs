//! Requests: a 40-byte header, the key, the value.
//!
//! `[kind u8 | condition u8 | flags u8 | behind u8 | key length u32][value length u32 | placement epoch u32,
//! zero]`
//! `[operation][argument][ttl ms]`

use longarm_base::UnixMillis;
use longarm_base::limits::{KEY_MAX, OPERATIONS_AHEAD, VALUE_MAX};

use crate::codec::{Bad, Fields};

/// The kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RequestKind {
    /// Answer, and so renew the lease.
    Ping = 0,
    /// Store a value.
    Put = 1,
    /// Remove a key.
    Delete = 2,
    /// Add the argument (an i64) to a decimal value; a missing key counts as 0.
    Increment = 3,
    /// Change the expiry only.
    Touch = 4,
    /// Read through the server, if one-sided READs cannot settle the GET.
    Get = 5,
    /// Statistics as JSON.
    Stats = 6,
    /// Take the value as hashes of keys that were read, eight bytes each. Not answered.
    Hints = 7,
    /// List the keys of items that no client finds by itself, each as a [`SpilledKey`]: the keys after the
    /// one in the value, or from the first on if it is empty. An empty answer is the end.
    Spilled = 8,
    /// A step of a backup, which the argument names as a [`BackupStep`]: the server keeps what a backup is
    /// still to copy.
    Backup = 9,
}

/// A step of a backup. Each may be repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum BackupStep {
    /// From now on no segment is used again that this connection did not let go of. The answer has the
    /// highest version that was drawn by a moment after that. What was acknowledged before has no higher one.
    Begin = 0,
    /// The connection lets go of the segments whose numbers are the value. The answer has the number of
    /// segments that wait for it.
    LetGo = 1,
    /// The backup is over.
    End = 2,
    /// The answer has the stable point, and the number of claims at that moment or later.
    Settle = 3,
}

impl BackupStep {
    /// The step of this number.
    pub const fn of(number: u64) -> Option<BackupStep> {
        Some(match number {
            0 => BackupStep::Begin,
            1 => BackupStep::LetGo,
            2 => BackupStep::End,
            3 => BackupStep::Settle,
            _ => return None,
        })
    }
}

/// When a PUT or DELETE takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Condition {
    /// Always.
    Always = 0,
    /// Only if the key is not there.
    Absent = 1,
    /// Only if the key is there.
    Present = 2,
    /// Only if the key's version is the argument.
    Version = 3,
}

/// A request; key and value are borrowed from the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The kind.
    pub kind: RequestKind,
    /// When it takes effect.
    pub condition: Condition,
    /// Whether to keep the expiry of the item, instead of setting one.
    pub keep_ttl: bool,
    /// The number of the operation in the client's session, ascending from 1; zero for a request that may run
    /// twice.
    pub operation: u64,
    /// How far behind the operation the oldest one is, at most, that the client may still repeat.
    pub behind: u8,
    /// Version of a condition, or the number to add.
    pub argument: u64,
    /// Time to live in milliseconds from now; zero for ever.
    pub ttl_ms: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// Bytes of a request's header.
const HEADER: usize = 40;
const _: () = assert!(OPERATIONS_AHEAD <= 1 << 8, "`behind` reaches as far back as a client may repeat");
const KEEP_TTL: u8 = 1;
/// The most hashes in one Hints request.
pub const HINTS_MAX: usize = 128;
/// The most segments that a backup lets go of in one request.
pub const LET_GO_MAX: usize = 1024;

impl<'a> Request<'a> {
    /// A request of this kind with nothing else set, by a client that may repeat all that any client may.
    pub fn new(kind: RequestKind, operation: u64) -> Request<'a> {
        Request {
            kind,
            condition: Condition::Always,
            keep_ttl: false,
            operation,
            behind: u8::MAX,
            argument: 0,
            ttl_ms: 0,
            key: &[],
            value: &[],
        }
    }

    /// The oldest operation that the client may still repeat.
    pub fn oldest(&self) -> u64 {
        self.operation.saturating_sub(u64::from(self.behind))
    }

    /// The header; key and value follow it in the message.
    pub fn header(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = self.kind as u8;
        bytes[1] = self.condition as u8;
        bytes[2] = if self.keep_ttl { KEEP_TTL } else { 0 };
        bytes[3] = self.behind;
        bytes[4..8].copy_from_slice(&(self.key.len() as u32).to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.value.len() as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.operation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.argument.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.ttl_ms.to_le_bytes());
        bytes
    }

    /// The key in the beginning of a message, if it is there as a whole: a hint, as nothing else is checked.
    #[inline]
    pub fn peek_key(beginning: &'a [u8]) -> Option<&'a [u8]> {
        let len = u32::from_le_bytes(beginning.get(4..8)?.try_into().expect("four bytes")) as usize;
        beginning.get(HEADER..)?.get(..len).filter(|key| !key.is_empty())
    }

    /// Decodes a received message.
    pub fn decode(message: &'a [u8]) -> Result<Request<'a>, Bad> {
        let mut fields = Fields(message);
        let head = fields.bytes(4)?;
        let kind = match head[0] {
            0 => RequestKind::Ping,
            1 => RequestKind::Put,
            2 => RequestKind::Delete,
            3 => RequestKind::Increment,
            4 => RequestKind::Touch,
            5 => RequestKind::Get,
            6 => RequestKind::Stats,
            7 => RequestKind::Hints,
            8 => RequestKind::Spilled,
            9 => RequestKind::Backup,
            _ => return Err(Bad("unknown kind of request")),
        };
        let condition = match head[1] {
            0 => Condition::Always,
            1 => Condition::Absent,
            2 => Condition::Present,
            3 => Condition::Version,
            _ => return Err(Bad("unknown condition")),
        };
        let (flags, behind) = (head[2], head[3]);
        if flags & !KEEP_TTL != 0 {
            return Err(Bad("unknown flags"));
        }
        let (key_len, value_len) = (fields.u32()? as usize, fields.u32()? as usize);
        if fields.u32()? != 0 {
            return Err(Bad("a placement's epoch, where keys are placed by their hash alone"));
        }
        let (operation, argument, ttl_ms) = (fields.u64()?, fields.u64()?, fields.u64()?);
        if key_len > KEY_MAX {
            return Err(Bad("a key longer than allowed"));
        }
        check_value(kind, value_len)?;
        let (key, value) = (fields.bytes(key_len)?, fields.bytes(value_len)?);
        fields.end()?;
        let keyless = matches!(
            kind,
            RequestKind::Ping
                | RequestKind::Stats
                | RequestKind::Hints
                | RequestKind::Spilled
                | RequestKind::Backup
        );
        if key.is_empty() != keyless {
            return Err(Bad("a key where none belongs, or none where one does"));
        }
        if kind == RequestKind::Hints && !value.len().is_multiple_of(8) {
            return Err(Bad("hints are eight bytes each"));
        }
        if kind == RequestKind::Backup {
            check_step(argument, value_len)?;
        }
        let keep_ttl = flags & KEEP_TTL != 0;
        Ok(Request { kind, condition, keep_ttl, operation, behind, argument, ttl_ms, key, value })
    }
}

/// Checks the length of a value. A request that carries none, or a short one, may have to wait, and many of
/// them at a time.
fn check_value(kind: RequestKind, len: usize) -> Result<(), Bad> {
    let (most, bad) = match kind {
        RequestKind::Put => (VALUE_MAX, "a value longer than allowed"),
        RequestKind::Hints => (HINTS_MAX * 8, "more hints than allowed"),
        RequestKind::Spilled => (KEY_MAX, "a list of keys that goes on after a key longer than allowed"),
        RequestKind::Backup => (LET_GO_MAX * 4, "more segments let go of than allowed"),
        RequestKind::Ping
        | RequestKind::Delete
        | RequestKind::Increment
        | RequestKind::Touch
        | RequestKind::Get
        | RequestKind::Stats => (0, "a value where none belongs"),
    };
    if len > most { Err(Bad(bad)) } else { Ok(()) }
}

/// Checks a step of a backup: segments belong to one of them alone.
fn check_step(number: u64, value_len: usize) -> Result<(), Bad> {
    match BackupStep::of(number) {
        None => Err(Bad("an unknown step of a backup")),
        Some(BackupStep::LetGo) if value_len.is_multiple_of(4) => Ok(()),
        Some(_) if value_len == 0 => Ok(()),
        Some(_) => Err(Bad("segments are four bytes each, and none belong elsewhere")),
    }
}

/// The segments in a step of a backup.
pub fn let_go(value: &[u8]) -> impl Iterator<Item = u32> + '_ {
    value.chunks_exact(4).map(|chunk| u32::from_le_bytes(chunk.try_into().expect("four bytes")))
}

/// The hashes in a Hints request.
pub fn hints(value: &[u8]) -> impl Iterator<Item = u64> + '_ {
    value.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes")))
}

/// A key of an item that is stored beside the index, as an answer to Spilled lists it:
/// `[key length u32][expiry][key]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpilledKey<'a> {
    /// The key.
    pub key: &'a [u8],
    /// When the item is gone, or never.
    pub expiry: UnixMillis,
}

impl<'a> SpilledKey<'a> {
    /// Appends the key to a list.
    pub fn encode(&self, list: &mut Vec<u8>) {
        list.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        list.extend_from_slice(&self.expiry.0.to_le_bytes());
        list.extend_from_slice(self.key);
    }

    /// Decodes a list.
    pub fn decode_all(list: &'a [u8]) -> Result<Vec<SpilledKey<'a>>, Bad> {
        let mut fields = Fields(list);
        let mut keys = Vec::new();
        while !fields.0.is_empty() {
            let len = fields.u32()? as usize;
            let expiry = UnixMillis(fields.u64()?);
            if len == 0 || len > KEY_MAX {
                return Err(Bad("a key of an impossible length"));
            }
            keys.push(SpilledKey { key: fields.bytes(len)?, expiry });
        }
        Ok(keys)
    }
}
