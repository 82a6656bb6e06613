//! Items that describe themselves: a reader that knows the key can judge every byte of any version of the
//! value.
//!
//! A value is `[number][version][filler]`; the filler is a stream of words drawn from both numbers. So a
//! torn, mixed up or stale byte differs from what the value's own head says.

use longarm_base::random::mix64;

use super::difference::difference;
use super::item::Item;

/// Bytes of a small item's value.
pub const SMALL: usize = 32;
/// Longest value that writers replace.
const SCRATCH_MAX: u64 = 64 << 10;

/// Writes the value of `len` bytes (at least 16) of an item.
pub fn fill(number: u64, version: u64, len: usize, value: &mut Vec<u8>) {
    value.clear();
    value.extend_from_slice(&number.to_le_bytes());
    value.extend_from_slice(&version.to_le_bytes());
    let mut word = mix64(number ^ mix64(version));
    while value.len() < len {
        word = mix64(word.wrapping_add(0x9E37_79B9_7F4A_7C15));
        value.extend_from_slice(&word.to_le_bytes());
    }
    value.truncate(len);
}

/// Judges a value: gives the version that it states, or says how it is wrong. `expected` is memory that calls
/// reuse.
pub fn judge(
    number: u64,
    value: &[u8],
    len_of: impl Fn(u64) -> usize,
    expected: &mut Vec<u8>,
) -> Result<u64, String> {
    let Some((head, _)) = value.split_first_chunk::<16>() else {
        return Err(format!("has {} bytes, fewer than its head", value.len()));
    };
    let version = u64::from_le_bytes(head[8..].try_into().expect("eight bytes"));
    fill(number, version, len_of(version), expected);
    match difference(expected, value) {
        None => Ok(version),
        Some(how) => Err(format!("(version {version}) {how}")),
    }
}

/// Key of a small item: 16 bytes.
pub fn small_key(number: u64) -> [u8; 16] {
    let mut key = *b"item000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The length of a value that writers replace; each version has another.
pub fn scratch_len(number: u64, version: u64) -> usize {
    // Most values are short and some are long, as in practice.
    let draw = mix64(number.wrapping_mul(0x517C_C1B7) ^ mix64(version));
    16 + (draw % (SCRATCH_MAX >> (draw >> 32 & 7))) as usize
}

/// Key of a value that writers replace.
pub fn scratch_key(number: u64) -> Vec<u8> {
    format!("scratch/{number}").into_bytes()
}

/// A small item as a record to load.
pub fn small_item(number: u64, version: u64) -> Item {
    item(small_key(number).to_vec(), number, version, SMALL)
}

/// A replaced value as a record to load.
pub fn scratch_item(number: u64, version: u64) -> Item {
    item(scratch_key(number), number, version, scratch_len(number, version))
}

fn item(key: Vec<u8>, number: u64, version: u64, len: usize) -> Item {
    let mut value = Vec::new();
    fill(number, version, len, &mut value);
    Item { key, value, ttl: None, place: "demo item".into(), bytes: len as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        let (mut value, mut memory) = (Vec::new(), Vec::new());
        fill(7, 3, SMALL, &mut value);
        assert_eq!(judge(7, &value, |_| SMALL, &mut memory), Ok(3));
        for at in 0..SMALL {
            let mut wrong = value.clone();
            wrong[at] ^= 1;
            assert!(judge(7, &wrong, |_| SMALL, &mut memory).is_err(), "byte {at}");
        }
        assert!(judge(8, &value, |_| SMALL, &mut memory).is_err(), "another item's value");
        assert!(judge(7, &value[..31], |_| SMALL, &mut memory).is_err(), "cut");
        assert!(judge(7, &[], |_| SMALL, &mut memory).is_err(), "empty");
        assert_eq!(&small_key(1_234_567), b"item000001234567");
    }

    #[test]
    fn replaced_values_have_many_lengths_within_bounds() {
        let lens: Vec<usize> = (0..1000).map(|version| scratch_len(3, version)).collect();
        assert!(lens.iter().all(|len| (16..16 + SCRATCH_MAX as usize).contains(len)));
        assert!(lens.iter().any(|&len| len > 32 << 10) && lens.iter().any(|&len| len < 1 << 10));
    }
}
