//! Where else an inline item stands: a word a slot behind each table, for its owner alone.
//!
//! In a group every item is an entry in the arena, which followers have; one that fits a slot stands there
//! too, so that a GET takes one READ. Who replaces it must know the entry that it supersedes. Zero for none,
//! else `offset / 64 : 34 | length / 8 : 14`. The word means something while the slot holds an inline record;
//! it is written and read under the lock of the pair.

use longarm_base::EntryRef;
use longarm_base::limits::LINE;
use longarm_memory::OwnedWords;

use super::layout::{GROUP_SLOTS, GROUPS_MAX, Table};
use super::slot::INLINE_MAX;

const OFFSET_BITS: u32 = 34;

impl Table {
    /// Bytes of the words behind a table of so many pairs.
    pub(super) const fn places_for(&self) -> u64 {
        let slots = self.pairs * self.shape.base_slots() as u64 + self.groups * GROUP_SLOTS as u64;
        (slots * 8).next_multiple_of(4096)
    }

    /// The word of a slot of a pair whose header names these groups.
    #[inline]
    fn place_word(&self, pair: u64, slot: usize, groups: &[u32; GROUPS_MAX]) -> u64 {
        let base = self.shape.base_slots();
        let slot = match slot.checked_sub(base) {
            None => pair * base as u64 + slot as u64,
            Some(added) => {
                let group = u64::from(groups[added / GROUP_SLOTS]) - 1;
                self.pairs * base as u64 + group * GROUP_SLOTS as u64 + (added % GROUP_SLOTS) as u64
            }
        };
        self.base + self.bytes() + slot * 8
    }

    /// Has the word of one of the pair's own slots fetched.
    pub(super) fn prefetch_place<M: OwnedWords>(&self, memory: &M, pair: u64, slot: usize) {
        memory.prefetch(self.place_word(pair, slot, &[0; GROUPS_MAX]));
    }

    #[inline]
    pub(super) fn load_place<M: OwnedWords>(
        &self,
        memory: &M,
        pair: u64,
        slot: usize,
        groups: &[u32; GROUPS_MAX],
    ) -> Option<EntryRef> {
        let word = memory.load(self.place_word(pair, slot, groups));
        let offset = (word & ((1 << OFFSET_BITS) - 1)) * LINE;
        (word != 0).then_some(EntryRef { offset, len: (word >> OFFSET_BITS) as u32 * 8 })
    }

    #[inline]
    pub(super) fn store_place<M: OwnedWords>(
        &self,
        memory: &M,
        pair: u64,
        slot: usize,
        groups: &[u32; GROUPS_MAX],
        place: Option<EntryRef>,
    ) {
        let word = place.map_or(0, |EntryRef { offset, len }| {
            assert!(offset.is_multiple_of(LINE) && offset / LINE < 1 << OFFSET_BITS && len > 0);
            offset / LINE | u64::from(len.div_ceil(8)) << OFFSET_BITS
        });
        memory.store(self.place_word(pair, slot, groups), word);
    }
}

// An entry's words and an inline item.
const _: () = assert!((INLINE_MAX + 2 * LINE as usize) / 8 < 1 << 14);

#[cfg(test)]
mod tests {
    use longarm_base::limits::PAIR_SLOTS_MAX;
    use longarm_memory::Journal;

    use super::super::layout::{Discipline, PairShape};
    use super::*;

    #[test]
    fn each_slot_has_a_word_of_its_own_behind_the_table() {
        let (shape, pairs) = (PairShape::INLINE, 5);
        let table = Table {
            id: 1,
            shape,
            discipline: Discipline::InPlace,
            base: 4096,
            pairs,
            groups: Table::groups_for(pairs),
        };
        let end = table.base + table.bytes() + table.places_for();
        let memory = Journal::new(end);
        let groups = |pair: u64| if pair == 3 { [2, 1, 4, 3] } else { [0; GROUPS_MAX] };
        let slots: Vec<_> = (0..pairs)
            .flat_map(|pair| {
                let slots = if pair == 3 { shape.slots_max() } else { shape.base_slots() };
                (0..slots).map(move |slot| (pair, slot))
            })
            .collect();
        assert!(shape.slots_max() <= PAIR_SLOTS_MAX);
        let place = |i: usize| EntryRef { offset: (1 << 39) + i as u64 * 64, len: 104 };
        for (i, &(pair, slot)) in slots.iter().enumerate() {
            table.store_place(&memory, pair, slot, &groups(pair), Some(place(i)));
        }
        for (i, &(pair, slot)) in slots.iter().enumerate() {
            assert_eq!(table.load_place(&memory, pair, slot, &groups(pair)), Some(place(i)));
        }
        table.store_place(&memory, 0, 0, &groups(0), None);
        assert_eq!(table.load_place(&memory, 0, 0, &groups(0)), None);
    }
}
