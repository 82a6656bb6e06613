//! The free segments: extents by address, and which of them have pages.
//!
//! Single segments come from the low end and runs from the high end, so that neither breaks up the other's
//! space.

use std::collections::{BTreeMap, BTreeSet};

/// The extents among which a block without pages is looked for.
const EXTENTS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct FreeMap {
    /// The length of every maximal free extent, by its first segment.
    extents: BTreeMap<u32, u32>,
    /// Free segments that have pages, kept from an earlier use or taken ahead; claimed first.
    kept: BTreeSet<u32>,
    total: u32,
}

impl FreeMap {
    pub(crate) fn new(first: u32, len: u32) -> FreeMap {
        FreeMap { extents: BTreeMap::from([(first, len)]), kept: BTreeSet::new(), total: len }
    }

    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    pub(crate) fn kept(&self) -> u32 {
        self.kept.len() as u32
    }

    /// The first segment of the lowest block of which all segments are free and none has pages. A block is so
    /// many segments from a multiple of their number on. It looks at the lowest extents only.
    pub(crate) fn bare_block(&self, block: u32) -> Option<u32> {
        let lowest = self.extents.iter().take(EXTENTS);
        let blocks = |(&start, &room): (&u32, &u32)| {
            let first = start.next_multiple_of(block);
            (first..(start + room).saturating_sub(block - 1)).step_by(block as usize)
        };
        lowest.flat_map(blocks).find(|&first| self.kept.range(first..first + block).next().is_none())
    }

    /// Notes that these segments have pages, as far as they are free.
    pub(crate) fn keep(&mut self, first: u32, len: u32) {
        for segment in first..first + len {
            let extent = self.extents.range(..=segment).next_back();
            if extent.is_some_and(|(start, room)| segment < start + room) {
                self.kept.insert(segment);
            }
        }
    }

    pub(crate) fn longest(&self) -> u32 {
        self.extents.values().copied().max().unwrap_or(0)
    }

    /// Takes one segment: one with pages if there is any, else the lowest.
    pub(crate) fn take_one(&mut self) -> Option<u32> {
        let one = self.kept.first().copied().or_else(|| self.extents.keys().next().copied())?;
        self.cut(one, 1);
        Some(one)
    }

    /// Takes the highest run of `len` segments.
    pub(crate) fn take_run(&mut self, len: u32) -> Option<u32> {
        let (&start, &room) = self.extents.iter().rev().find(|&(_, &room)| room >= len)?;
        let first = start + room - len;
        self.cut(first, len);
        Some(first)
    }

    /// Removes `len` segments from the extent that holds them.
    fn cut(&mut self, first: u32, len: u32) {
        let (&start, &room) =
            self.extents.range(..=first).next_back().expect("a free segment lies in an extent");
        assert!(first + len <= start + room, "segments {first}+{len} are not all free");
        self.extents.remove(&start);
        if first > start {
            self.extents.insert(start, first - start);
        }
        if first + len < start + room {
            self.extents.insert(first + len, start + room - first - len);
        }
        for segment in first..first + len {
            self.kept.remove(&segment);
        }
        self.total -= len;
    }

    /// Gives segments back; `kept` says whether their pages were kept.
    pub(crate) fn put(&mut self, first: u32, len: u32, kept: bool) {
        let (mut start, mut room) = (first, len);
        if let Some((&before, &its)) = self.extents.range(..first).next_back() {
            assert!(before + its <= first, "segment {first} was freed twice");
            if before + its == first {
                self.extents.remove(&before);
                (start, room) = (before, its + len);
            }
        }
        if let Some((&after, &its)) = self.extents.range(first..).next() {
            assert!(after >= first + len, "segment {after} was freed twice");
            if after == first + len {
                self.extents.remove(&after);
                room += its;
            }
        }
        self.extents.insert(start, room);
        if kept {
            self.kept.extend(first..first + len);
        }
        self.total += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a plain set of numbers.
        #[test]
        fn is_a_set_of_segments(ops in proptest::collection::vec((0u8..5, 1u32..9, any::<usize>()), 0..80)) {
            let mut map = FreeMap::new(1, 40);
            let mut model: BTreeSet<u32> = (1..41).collect();
            let mut held: Vec<(u32, u32)> = Vec::new();
            let mut kept: BTreeSet<u32> = BTreeSet::new();
            for (op, len, pick) in ops {
                match op {
                    0 => {
                        let one = map.take_one();
                        prop_assert_eq!(one.is_some(), !model.is_empty());
                        if let Some(one) = one {
                            prop_assert!(model.remove(&one));
                            prop_assert!(kept.remove(&one) || kept.is_empty(), "those with pages come first");
                            held.push((one, 1));
                        }
                    }
                    1 => {
                        let fits = |s: &u32| (*s..s + len).all(|x| model.contains(&x));
                        let best = model.iter().copied().rfind(fits);
                        prop_assert_eq!(map.take_run(len), best);
                        if let Some(first) = best {
                            (first..first + len).for_each(|s| { model.remove(&s); kept.remove(&s); });
                            held.push((first, len));
                        }
                    }
                    2 => {
                        let bare = |s: &u32| (*s..s + 2).all(|x| model.contains(&x) && !kept.contains(&x));
                        let block = map.bare_block(2);
                        prop_assert_eq!(block, (0..40).step_by(2).find(bare));
                        if let Some(first) = block {
                            // One of the two may be claimed meanwhile.
                            let one = (pick % 2 == 0).then(|| map.take_one()).flatten();
                            map.keep(first, 2);
                            kept.extend(first..first + 2);
                            if let Some(one) = one {
                                model.remove(&one);
                                kept.remove(&one);
                                held.push((one, 1));
                            }
                        }
                    }
                    _ if !held.is_empty() => {
                        let (first, len) = held.swap_remove(pick % held.len());
                        map.put(first, len, op == 3);
                        model.extend(first..first + len);
                        kept.extend((first..first + len).filter(|_| op == 3));
                    }
                    _ => {}
                }
                prop_assert_eq!(map.total() as usize, model.len());
                prop_assert_eq!(&map.kept, &kept);
                prop_assert!(map.longest() <= map.total());
            }
        }
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freeing_a_free_segment_is_a_crash() {
        FreeMap::new(1, 4).put(2, 1, false);
    }
}
