//! Values that name themselves in every word, so that no byte of another value, or of another place, is taken
//! for one of theirs.

use longarm_base::limits::WORD;
use longarm_base::random::SplitMix64;
use longarm_history::Value;

/// The place of the bits in a value's number that say how long it is: from two to their power words on, to
/// twice that.
const LENGTH: u64 = 24;

/// A value that no client wrote yet: short three times of four, or of any length up to the longest.
pub(super) fn new(client: u32, operation: u32, longest: u64, chance: &mut SplitMix64) -> Value {
    let most = u64::from((longest / WORD).ilog2());
    let length = if chance.once_in(4) { chance.below(most) } else { chance.below(2) };
    Value(u64::from(client) << 32 | length << LENGTH | u64::from(operation))
}

/// A value as bytes.
pub(super) fn bytes(value: Value) -> Vec<u8> {
    let least = 1u64 << least_of(value);
    let words = least + SplitMix64::new(value.0).below(least);
    (0..words).flat_map(|at| word(value, at).to_le_bytes()).collect()
}

fn least_of(value: Value) -> u64 {
    value.0 >> LENGTH & 0xFF
}

fn word(value: Value, at: u64) -> u64 {
    value.0.wrapping_add(at.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Reads a value, of which every byte counts. Panics if no client can have written these bytes.
pub(super) fn read(found: &[u8]) -> Value {
    let value = Value(found.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
    // Wrong bytes may claim any length.
    let least = 1u64.checked_shl(least_of(value) as u32).unwrap_or(0);
    let like = (found.len() as u64 / WORD).checked_div(least) == Some(1) && found == bytes(value);
    assert!(like, "torn: {} bytes that begin as value {:#x}", found.len(), value.0);
    value
}

#[test]
fn a_value_is_read_and_a_torn_one_is_not() {
    let mut chance = SplitMix64::new(1);
    for operation in 0..40 {
        let value = new(7, operation, 1 << 14, &mut chance);
        assert_eq!(read(&bytes(value)), value);
    }
    let long = Value(7 << 32 | 9 << LENGTH | 1);
    let mut other = bytes(long);
    other.copy_within(512..1024, 1024);
    assert!(std::panic::catch_unwind(|| read(&other)).is_err(), "a part is where another belongs");
}
