//! The steps of random runs of a map: any numbers make one.

use proptest::prelude::*;

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub kind: u8,
    pub key: u32,
    pub pick: u64,
    pub before: u64,
    pub after: u64,
    pub fate: u8,
}

/// One step or more, of less than `most`, with numbers below these.
pub(crate) fn draws(kinds: u8, keys: u32, fates: u8, most: usize) -> impl Strategy<Value = Vec<Draw>> {
    let one = (0..kinds, 0..keys, any::<u64>(), 0..35u64, 0..35u64, 0..fates);
    let draw = |(kind, key, pick, before, after, fate)| Draw { kind, key, pick, before, after, fate };
    prop::collection::vec(one.prop_map(draw), 1..most)
}
