//! Values of 1 byte to 1 MiB, and which write each is of. Values of sixteen bytes and more name their write,
//! and can be judged byte for byte. Which write a shorter value is of is remembered here.

use std::collections::HashMap;

use longarm_base::random::SplitMix64;
use longarm_history::Value;
use longarm_host::Mutex;
use longarm_workload::values::{judge, make};

/// The bytes that say which write a value is of, and prove under which key it is.
const HEAD: usize = 16;
/// Marks the number of a write whose value has `BULK` bytes.
const BULK_BIT: u64 = 1 << 39;
/// The least and the most bytes of values that clients overwrite all the time, so that segments are
/// collected.
const BULK: (u64, u64) = (8 << 10, 100 << 10);
/// The longest value.
const LEN_MAX: u64 = 1 << 20;
/// One value in so many is shorter than its head would be.
const TINY: u64 = 24;

/// The number of a client's write, as a value that names it.
pub fn number(client: u32, written: u64, bulk: bool) -> Value {
    Value(u64::from(client) << 40 | if bulk { BULK_BIT } else { 0 } | written)
}

/// The length of a value. Most values fit a slot, some are long, few go in pieces, and very few in many.
pub fn len_of(value: u64) -> usize {
    let mut chance = SplitMix64::new(value);
    if value & BULK_BIT != 0 {
        // Each size class has as many values; a piece is 16 KiB.
        let most = BULK.1 >> chance.modulo(3);
        return (BULK.0 + chance.modulo(most - BULK.0)) as usize;
    }
    HEAD + match chance.modulo(2_048) {
        0 => chance.modulo(LEN_MAX - HEAD as u64 + 1) as usize,
        1..8 => chance.modulo(100_000) as usize,
        8..512 => chance.modulo(3_000) as usize,
        _ => chance.modulo(24) as usize,
    }
}

/// The writes of values too short to name theirs. The same bytes under a key are of one write only.
#[derive(Default)]
pub struct Values {
    tiny: Mutex<HashMap<(u32, Vec<u8>), Value>>,
}

impl Values {
    /// The bytes that a write puts under a key.
    pub fn make(&self, key: u32, value: Value, chance: &mut SplitMix64) -> Vec<u8> {
        if value.0 & BULK_BIT == 0 && chance.modulo(TINY) == 0 {
            let len = 1 + chance.modulo(HEAD as u64 - 1) as usize;
            let bytes: Vec<u8> = (0..len).map(|_| chance.modulo(256) as u8).collect();
            let mut tiny = self.tiny.lock();
            if let std::collections::hash_map::Entry::Vacant(free) = tiny.entry((key, bytes.clone())) {
                free.insert(value);
                return bytes;
            }
        }
        make(key.into(), value.0, len_of(value.0))
    }

    /// The write that bytes under a key are of, or how the bytes are wrong.
    pub fn read(&self, key: u32, bytes: &[u8]) -> Result<Value, String> {
        if bytes.len() >= HEAD {
            return judge(key.into(), bytes, len_of).map(Value);
        }
        let known = self.tiny.lock().get(&(key, bytes.to_vec())).copied();
        known.ok_or_else(|| format!("is {bytes:?}, which nobody wrote there"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_of_one_write_and_of_one_key() {
        let (values, mut chance) = (Values::default(), SplitMix64::new(1));
        let mut lens = Vec::new();
        for written in 0..3_000 {
            let value = number(7, written, false);
            let bytes = values.make(3, value, &mut chance);
            assert_eq!(values.read(3, &bytes), Ok(value));
            assert!(values.read(4, &bytes).is_err(), "of another key");
            lens.push(bytes.len());
        }
        assert!(lens.iter().any(|len| *len < 8) && lens.iter().any(|len| (8..16).contains(len)));
        assert!(lens.iter().any(|len| *len > 16 << 10) && lens.iter().all(|len| *len <= LEN_MAX as usize));
        assert!(lens.iter().filter(|len| **len < 48).count() > 2_000, "most are small");
        assert!(values.read(3, &[]).is_err());
    }

    #[test]
    fn short_values_that_are_taken_become_long() {
        let (values, mut chance) = (Values::default(), SplitMix64::new(1));
        let tiny =
            (0..60_000).filter(|n| values.make(1, number(1, *n, false), &mut chance).len() == 1).count();
        assert!((100..=256).contains(&tiny), "{tiny} of one byte");
    }

    #[test]
    fn bulk_is_of_8_to_100_kib_and_its_like_in_every_class() {
        let lens: Vec<usize> = (0..1_000).map(|n| len_of(number(1, n, true).0)).collect();
        assert!(lens.iter().all(|len| (8 << 10..100 << 10).contains(len)));
        for least in [8, 16, 32, 64] {
            let class = (least << 10)..(2 * least << 10);
            assert!(lens.iter().filter(|len| class.contains(*len)).count() > 50, "{least} KiB and more");
        }
    }
}
