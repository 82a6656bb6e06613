//! Added groups of slots: which pair gets one, and how they go back (continuity hashing IV.B).

use std::sync::atomic::Ordering;

use longarm_memory::OwnedWords;

use super::layout::{EXTENDED_SHARE, GROUPS_MAX, Header, Table, header, indicator};
use super::owner::{Entries, LiveTable, NoRoom, Owner, first_free};

impl<M: OwnedWords, E: Entries> Owner<M, E> {
    /// A free slot for a key of this parity: the home bucket first, then the shared ones from the near end
    /// (continuity hashing III.C: left to right for even, right to left for odd), then added groups.
    pub(super) fn free_slot(
        &self,
        live: &LiveTable,
        pair: u64,
        header: &mut Header,
        odd: bool,
    ) -> Result<usize, NoRoom> {
        let shape = &live.table.shape;
        if let Some(slot) = first_free(shape, header, odd) {
            return Ok(slot);
        }
        let free = |header: &Header| shape.home_mask(odd) & header.existing(shape) & !header.occupied();
        if free(header) == 0 {
            self.add_group(live, pair, header)?;
        }
        Ok(free(header).trailing_zeros() as usize)
    }

    /// Adds a group of slots, if no more than a share of the pairs have some (continuity hashing IV.B).
    fn add_group(&self, live: &LiveTable, pair: u64, header: &mut Header) -> Result<(), NoRoom> {
        let table = &live.table;
        let Some(next) = header.groups.iter().position(|group| *group == 0) else { return Err(NoRoom::Pair) };
        let first = header.groups == [0; GROUPS_MAX];
        // Relaxed: counters that publish nothing else.
        if first && live.extended.load(Ordering::Relaxed) * EXTENDED_SHARE >= table.pairs {
            return Err(NoRoom::Table);
        }
        let back = live.back.lock().expect("groups").pop();
        // Relaxed: as above.
        let taken = back.map_or_else(
            || {
                live.groups.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                    (used < table.groups).then_some(used + 1)
                })
            },
            |group| Ok(u64::from(group)),
        );
        let Ok(group) = taken else { return Err(NoRoom::Table) };
        if first {
            // Relaxed: as above.
            live.extended.fetch_add(1, Ordering::Relaxed);
        }
        self.set_group(table, pair, header, next, group as u32 + 1);
        // Relaxed: as above.
        live.whole.fetch_add(u64::from(header.is_whole()), Ordering::Relaxed);
        self.set_indicator(table, pair, header, header.indicator | indicator::EXTENDED);
        Ok(())
    }

    pub(super) fn set_group(&self, table: &Table, pair: u64, header: &mut Header, at: usize, group: u32) {
        header.groups[at] = group;
        let word = at / 2;
        let value = u64::from(header.groups[word * 2]) | u64::from(header.groups[word * 2 + 1]) << 32;
        self.memory.store(table.header_at(pair) + header::GROUPS + word as u64 * 8, value);
    }

    /// Groups of a locked pair in which nothing stands any more go back to the pool; how many. A client that
    /// READs a slot there that it knows of from before finds nothing, or a record of another pair, and then
    /// another indicator.
    pub(super) fn give_back(&self, live: &LiveTable, pair: u64, header: &mut Header) -> usize {
        let table = &live.table;
        let mut back = 0;
        for at in 0..GROUPS_MAX {
            let group = header.groups[at];
            if group == 0 || header.occupied() & table.shape.group_mask(at) != 0 {
                continue;
            }
            // Relaxed: a counter that publishes nothing else.
            live.whole.fetch_sub(u64::from(header.is_whole()), Ordering::Relaxed);
            self.set_group(table, pair, header, at, 0);
            let mut word = header.indicator;
            if header.groups == [0; GROUPS_MAX] {
                word &= !indicator::EXTENDED;
                // Relaxed: a counter that publishes nothing else.
                live.extended.fetch_sub(1, Ordering::Relaxed);
            }
            self.set_indicator(table, pair, header, word);
            live.back.lock().expect("groups").push(group - 1);
            back += 1;
        }
        back
    }
}
