//! Items that describe themselves: a reader that knows the key can judge every byte of any version of the
//! value.
//!
//! A value is `[version][filler]`; the filler is a stream of words drawn from the item's number and the
//! version. So a torn, mixed up or stale byte differs from what the value's own head says. A value of eight
//! bytes is its head alone, and only a history can tell whether it is that of the item.

use longarm_base::random::{SplitMix64, mix64};

use super::item::Item;
use crate::human;

/// The bytes of a word, and of the head.
const WORD: usize = 8;
/// Bytes of a small item's value.
pub const SMALL: usize = 32;
/// Longest value that writers replace.
const SCRATCH_MAX: u64 = 64 << 10;

/// The words of a value, without end.
fn words(number: u64, version: u64) -> impl Iterator<Item = [u8; WORD]> {
    let mut filler = SplitMix64::new(mix64(number ^ mix64(version)));
    std::iter::once(version).chain(std::iter::repeat_with(move || filler.draw())).map(u64::to_le_bytes)
}

/// The value of an item, of `len` bytes, which are at least those of the head.
pub fn make(number: u64, version: u64, len: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(len.next_multiple_of(WORD));
    words(number, version).take(len.div_ceil(WORD)).for_each(|word| value.extend_from_slice(&word));
    value.truncate(len);
    value
}

/// Judges a value: gives the version that it states, or says how it is wrong.
pub fn judge(number: u64, value: &[u8], len_of: impl Fn(u64) -> usize) -> Result<u64, String> {
    let (parts, end) = value.as_chunks();
    let Some(head) = parts.first() else {
        return Err(format!("has {} bytes, fewer than its head", value.len()));
    };
    let version = u64::from_le_bytes(*head);
    // Wrong bytes may claim any length, so they are compared as far as they go.
    let (len, mut expected) = (len_of(version), words(number, version));
    let same = parts.iter().zip(&mut expected).take_while(|(part, word)| *part == word).count();
    let ends = same == parts.len() && expected.next().is_some_and(|word| word.starts_with(end));
    if ends && value.len() == len {
        return Ok(version);
    }
    let (bytes, right) = (value.len(), WORD * same);
    Err(format!(
        "(version {version:#x}) has {bytes} bytes, is right up to byte {right}, and should have {len}"
    ))
}

/// Judges what a client got of an item that must be there, and says what is wrong with it.
pub fn check(key: &[u8], number: u64, found: Option<&[u8]>, len_of: impl Fn(u64) -> usize) -> Option<String> {
    let judged = found.ok_or_else(|| "is missing".into()).and_then(|value| judge(number, value, len_of));
    judged.err().map(|why| format!("item {} {why}", human::key(key)))
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
    Item { key, value: make(number, version, len), ttl: None, place: "demo item".into(), bytes: len as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        let value = make(7, 3, SMALL);
        assert_eq!(judge(7, &value, |_| SMALL), Ok(3));
        for at in 0..SMALL {
            let mut wrong = value.clone();
            wrong[at] ^= 1;
            assert!(judge(7, &wrong, |_| SMALL).is_err(), "byte {at}");
        }
        assert!(judge(8, &value, |_| SMALL).is_err(), "another item's value");
        assert!(judge(7, &value[..31], |_| SMALL).is_err(), "cut");
        assert!(judge(7, &[], |_| SMALL).is_err(), "empty");
        assert_eq!(&small_key(1_234_567), b"item000001234567");
    }

    #[test]
    fn values_of_any_length_are_themselves() {
        for len in WORD..64 {
            let value = make(7, 3, len);
            assert_eq!(judge(7, &value, |_| len), Ok(3), "{len}");
            assert!(judge(7, &make(7, 3, len + 1), |_| len).is_err(), "{len} and one more");
            assert_eq!(judge(8, &value, |_| len).is_ok(), len == WORD, "another item's value of {len}");
        }
        let wrong = judge(7, &make(7, 3, 16), |_| 99).expect_err("too short");
        assert_eq!(wrong, "(version 0x3) has 16 bytes, is right up to byte 16, and should have 99");
    }

    #[test]
    fn replaced_values_have_many_lengths_within_bounds() {
        let lens: Vec<usize> = (0..1000).map(|version| scratch_len(3, version)).collect();
        assert!(lens.iter().all(|len| (16..16 + SCRATCH_MAX as usize).contains(len)));
        assert!(lens.iter().any(|&len| len > 32 << 10) && lens.iter().any(|&len| len < 1 << 10));
    }
}
