//! Values that name their write, whose number says how long they are.

use longarm_base::limits::WORD;
use longarm_base::random::SplitMix64;
use longarm_history::Value;
use longarm_workload::values::{judge, make};

/// The place of the bits in a value's number that say how long it is: from two to their power words on, to
/// twice that.
const LENGTH: u64 = 24;

/// A value that no client wrote yet: short three times of four, or of any length up to the longest.
pub(super) fn new(client: u32, operation: u32, longest: u64, chance: &mut SplitMix64) -> Value {
    let most = u64::from((longest / WORD).ilog2());
    let length = if chance.once_in(4) { chance.below(most) } else { chance.below(2) };
    Value(u64::from(client) << 32 | length << LENGTH | u64::from(operation))
}

/// The same of 16 to 512 KiB: a hundred are more than a small memory holds.
pub(super) fn large(client: u32, operation: u32, chance: &mut SplitMix64) -> Value {
    Value(u64::from(client) << 32 | (11 + chance.below(5)) << LENGTH | u64::from(operation))
}

fn len_of(value: u64) -> usize {
    let least = 1 << (value >> LENGTH & 0x1F);
    (WORD * (least + SplitMix64::new(value).below(least))) as usize
}

/// The bytes that a client writes under a key.
pub(super) fn bytes(key: u32, value: Value) -> Vec<u8> {
    make(key.into(), value.0, len_of(value.0))
}

/// Reads a value, of which every byte counts. Panics if no client can have written these bytes under the key.
pub(super) fn read(key: u32, found: &[u8]) -> Value {
    judge(key.into(), found, len_of).map_or_else(|why| panic!("torn: a value {why}"), Value)
}

#[test]
fn a_value_is_read_and_a_torn_one_is_not() {
    let mut chance = SplitMix64::new(1);
    for operation in 0..40 {
        let value = new(7, operation, 1 << 14, &mut chance);
        assert_eq!(read(3, &bytes(3, value)), value);
    }
    let long = Value(7 << 32 | 9 << LENGTH | 1);
    let mut other = bytes(3, long);
    other.copy_within(512..1024, 1024);
    assert!(std::panic::catch_unwind(|| read(3, &other)).is_err(), "a part is where another belongs");
}
