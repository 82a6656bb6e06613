//! Which lines of a node have changes that are not stored yet: a step stores those, and no others.

use std::ops::{BitOr, BitOrAssign, Range};

use longarm_base::limits::LINE;

use super::layout::{CLASSES, Unit};

const _: () = assert!(Unit::Kib.node_bytes(CLASSES - 1) as u64 / LINE <= u128::BITS as u64);

/// Lines of a node, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Lines(u128);

impl Lines {
    /// No line.
    pub const NONE: Lines = Lines(0);

    /// The lines that have these bytes.
    #[inline]
    pub fn of(bytes: Range<usize>) -> Lines {
        let line = LINE as usize;
        let (from, to) = (bytes.start / line, bytes.end.div_ceil(line));
        if bytes.is_empty() { Lines::NONE } else { Lines(u128::MAX >> (128 - (to - from)) << from) }
    }

    /// The bytes of each line, in ascending order.
    pub fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let number = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            let from = number * LINE as usize;
            Some(from..from + LINE as usize)
        })
    }
}

impl BitOr for Lines {
    type Output = Lines;
    fn bitor(self, other: Lines) -> Lines {
        Lines(self.0 | other.0)
    }
}

impl BitOrAssign for Lines {
    fn bitor_assign(&mut self, other: Lines) {
        self.0 |= other.0;
    }
}

#[test]
fn lines_are_those_that_bytes_are_in() {
    let numbers = |lines: Lines| lines.ranges().map(|bytes| bytes.start / 64).collect::<Vec<_>>();
    assert_eq!(numbers(Lines::of(0..0)), [] as [usize; 0]);
    assert_eq!(numbers(Lines::of(63..64)), [0]);
    assert_eq!(numbers(Lines::of(63..65) | Lines::of(256..257)), [0, 1, 4]);
    assert_eq!(numbers(Lines::of(0..8192)), (0..128).collect::<Vec<_>>());
    assert_eq!(numbers(Lines::of(8128..8192)), [127]);
}
