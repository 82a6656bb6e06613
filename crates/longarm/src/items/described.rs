//! The demo's items, which describe themselves (`longarm_workload::values`): a reader can judge every byte of
//! any version of a value.

use longarm_base::random::mix64;
use longarm_workload::values::{judge, make};

use super::item::Item;
use crate::human;

/// Bytes of a small item's value.
pub const SMALL: usize = 32;
/// Longest value that writers replace.
const SCRATCH_MAX: u64 = 64 << 10;

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
    fn small_keys_have_sixteen_bytes() {
        assert_eq!(&small_key(1_234_567), b"item000001234567");
    }

    #[test]
    fn replaced_values_have_many_lengths_within_bounds() {
        let lens: Vec<usize> = (0..1000).map(|version| scratch_len(3, version)).collect();
        assert!(lens.iter().all(|len| (16..16 + SCRATCH_MAX as usize).contains(len)));
        assert!(lens.iter().any(|&len| len > 32 << 10) && lens.iter().any(|&len| len < 1 << 10));
    }
}
