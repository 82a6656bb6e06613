//! Keys of records: from a record number to the bytes a store sees.

use std::cmp::Ordering;

use longarm_base::random::mix64;
use serde::{Deserialize, Serialize};

/// How a record number becomes a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyFormat {
    /// YCSB's hashed insert order: `user` and the decimal FNV-64 hash of the record number (5 to 23 bytes).
    Ycsb,
    /// YCSB's ordered insert order with zero padding to 20 digits: 24 bytes, ascending with the record
    /// number.
    YcsbOrdered,
    /// Sixteen hexadecimal digits of a bijective mix of the record number: 16 bytes, no order, no collision.
    Hex16,
}

/// Longest key that any format makes.
pub const KEY_BYTES_MAX: usize = 24;

/// A key in place, so that streams of operations allocate nothing.
#[derive(Clone, Copy)]
pub struct Key {
    len: u8,
    bytes: [u8; KEY_BYTES_MAX],
}

impl Key {
    /// The key of these bytes, unless they are more than any format makes.
    pub fn of(bytes: &[u8]) -> Option<Key> {
        let mut key = Key { len: bytes.len() as u8, bytes: [0; KEY_BYTES_MAX] };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// Keys are in the order of their bytes, as stores have them.
impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Key {}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.bytes()))
    }
}

impl KeyFormat {
    /// The key of record `record`.
    #[inline]
    pub fn key(self, record: u64) -> Key {
        match self {
            KeyFormat::Ycsb => user_key(fnv_hash(record), 1),
            KeyFormat::YcsbOrdered => user_key(record, 20),
            KeyFormat::Hex16 => hex_key(mix64(record)),
        }
    }

    /// The record whose key this is, where the format can tell: hashes cannot be undone.
    pub fn record(self, key: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(key).ok()?;
        let record = match self {
            KeyFormat::Ycsb => return None,
            KeyFormat::YcsbOrdered => text.strip_prefix("user")?.parse().ok()?,
            KeyFormat::Hex16 => unmix64(u64::from_str_radix(text, 16).ok()?),
        };
        Some(record).filter(|&record| self.key(record).bytes() == key)
    }

    /// Short name for tables.
    pub fn name(self) -> &'static str {
        match self {
            KeyFormat::Ycsb => "ycsb",
            KeyFormat::YcsbOrdered => "ycsb-ordered",
            KeyFormat::Hex16 => "hex16",
        }
    }
}

impl std::str::FromStr for KeyFormat {
    type Err = String;
    fn from_str(name: &str) -> Result<KeyFormat, String> {
        [KeyFormat::Ycsb, KeyFormat::YcsbOrdered, KeyFormat::Hex16]
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| format!("unknown key format '{name}': use ycsb, ycsb-ordered or hex16"))
    }
}

/// YCSB's `Utils.fnvhash64`: FNV-1a over the eight octets from the lowest, then the absolute value.
#[inline]
pub fn fnv_hash(value: u64) -> u64 {
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    for octet in value.to_le_bytes() {
        hash = (hash ^ octet as u64).wrapping_mul(1_099_511_628_211);
    }
    (hash as i64).unsigned_abs()
}

fn user_key(number: u64, digits_min: usize) -> Key {
    let mut bytes = [b'0'; KEY_BYTES_MAX];
    let mut at = KEY_BYTES_MAX;
    let mut rest = number;
    loop {
        at -= 1;
        bytes[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    // A u64 has at most 20 digits, so "user" always fits before them.
    let start = at.min(KEY_BYTES_MAX - digits_min) - 4;
    bytes[start..start + 4].copy_from_slice(b"user");
    bytes.copy_within(start.., 0);
    Key { len: (KEY_BYTES_MAX - start) as u8, bytes }
}

fn hex_key(word: u64) -> Key {
    let mut bytes = [0; KEY_BYTES_MAX];
    bytes[..8].copy_from_slice(&hex_digits((word >> 32) as u32).to_le_bytes());
    bytes[8..16].copy_from_slice(&hex_digits(word as u32).to_le_bytes());
    Key { len: 16, bytes }
}

/// The word whose `mix64` this is: its three steps, undone in turn.
fn unmix64(mixed: u64) -> u64 {
    let word = (mixed ^ (mixed >> 31) ^ (mixed >> 62)).wrapping_mul(0x3196_42B2_D24D_8EC3);
    let word = (word ^ (word >> 27) ^ (word >> 54)).wrapping_mul(0x96DE_1B17_3F11_9089);
    word ^ (word >> 30) ^ (word >> 60)
}

/// Eight digits, the first in the lowest byte: all at once, as making keys must not be what is measured.
fn hex_digits(half: u32) -> u64 {
    let mut digits = u64::from(half);
    // The lowest four bits end in the lowest byte, so the bytes are turned round at the end.
    digits = (digits | digits << 16) & 0x0000_FFFF_0000_FFFF;
    digits = (digits | digits << 8) & 0x00FF_00FF_00FF_00FF;
    digits = (digits | digits << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    let letters = (digits + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    (digits + 0x3030_3030_3030_3030 + letters * 39).swap_bytes()
}
