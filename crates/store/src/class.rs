//! Size classes: the strides at which entries share a segment, all of whose entries have one (LoLKV 3.1).
//!
//! In cache lines: every length up to 2 KiB, then sixteen steps a doubling, so that a room is at most a
//! sixteenth larger than its entry. If two neighbouring classes would put equally many rooms into a segment,
//! only the larger one is kept: the smaller one would save no memory, and would keep one more segment open.

use longarm_base::limits::{ENTRY_SHARED_MAX, LINE, SEGMENT_BYTES};

/// Cache lines of a segment.
pub(crate) const SEGMENT_UNITS: u32 = (SEGMENT_BYTES / LINE) as u32;
/// Cache lines of the largest entry that shares a segment.
pub(crate) const SHARED_UNITS: u32 = (ENTRY_SHARED_MAX / LINE) as u32;
/// Classes up to here step by one cache line.
const EXACT_UNITS: u32 = 32;
const STEPS: u32 = 16;

const CANDIDATES: usize = (EXACT_UNITS + STEPS * (SHARED_UNITS.ilog2() - EXACT_UNITS.ilog2())) as usize;

const fn candidate(i: usize) -> u32 {
    let i = i as u32;
    if i < EXACT_UNITS {
        return i + 1;
    }
    let doubling = (i - EXACT_UNITS) / STEPS;
    let step = (i - EXACT_UNITS) % STEPS + 1;
    let base = EXACT_UNITS << doubling;
    base + step * (base / STEPS)
}

const fn kept(i: usize) -> bool {
    i + 1 == CANDIDATES || SEGMENT_UNITS / candidate(i) != SEGMENT_UNITS / candidate(i + 1)
}

const fn count() -> usize {
    let (mut i, mut n) = (0, 0);
    while i < CANDIDATES {
        n += kept(i) as usize;
        i += 1;
    }
    n
}

/// The number of classes.
pub(crate) const CLASSES: usize = count();

static STRIDES: [u32; CLASSES] = {
    let mut strides = [0; CLASSES];
    let (mut i, mut n) = (0, 0);
    while i < CANDIDATES {
        if kept(i) {
            strides[n] = candidate(i);
            n += 1;
        }
        i += 1;
    }
    strides
};

const _: () = {
    assert!(SHARED_UNITS.is_power_of_two() && SHARED_UNITS > EXACT_UNITS);
    assert!(candidate(CANDIDATES - 1) == SHARED_UNITS, "the last class holds the largest shared entry");
    assert!(CLASSES < u16::MAX as usize);
};

/// The smallest class whose rooms hold `units` cache lines, at most [`SHARED_UNITS`].
pub(crate) fn class_of(units: u32) -> usize {
    debug_assert!((1..=SHARED_UNITS).contains(&units));
    if units <= EXACT_UNITS {
        return units as usize - 1;
    }
    STRIDES.partition_point(|&stride| stride < units)
}

/// Cache lines of a room of the class.
pub(crate) fn stride_units(class: usize) -> u32 {
    STRIDES[class]
}

/// Whether a segment line may name this stride, in bytes.
pub(crate) fn is_stride(bytes: u32) -> bool {
    bytes.is_multiple_of(LINE as u32) && STRIDES.binary_search(&(bytes / LINE as u32)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_the_smallest_class_that_holds_it() {
        for units in 1..=SHARED_UNITS {
            let class = class_of(units);
            let stride = stride_units(class);
            assert!(stride >= units);
            assert!(class == 0 || stride_units(class - 1) < units);
            assert!(is_stride(stride * 64) && !is_stride(stride * 64 + 8));
        }
        assert_eq!(stride_units(CLASSES - 1), SHARED_UNITS);
    }

    #[test]
    fn a_room_wastes_a_sixteenth_or_no_room_at_all() {
        for units in 1..=SHARED_UNITS {
            let stride = stride_units(class_of(units));
            let rooms = SEGMENT_UNITS / stride;
            let within_sixteenth = (stride - units) * 16 < stride;
            let ideal = SEGMENT_UNITS / units.next_multiple_of((units.next_power_of_two() / 32).max(1));
            assert!(within_sixteenth || rooms == ideal, "{units} units in rooms of {stride}");
        }
        assert_eq!(stride_units(class_of(32)), 32);
        const { assert!(CLASSES < 132) };
    }
}
