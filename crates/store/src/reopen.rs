//! Going on from an arena in persistent memory, whose store ended with its process or with the power.
//!
//! [`Store::reopen`] reads the segment table. Its caller then names every entry that counts
//! ([`Store::name`]), from an index that outlived the store as well, and has the store
//! [serve](Store::served). Nothing is read of an entry but its first line, and of what nothing names nothing
//! at all.
//! (1) A line is persistent before an entry is in its segment, and stays the same until that is free. So a
//!     named entry is in a segment in use.
//! (2) A segment whose line says more than is true (its last entry went, or it was freed) has no named
//!     entry. It dies as soon as the store serves, and goes the way of all that die. No client reads yet, so
//!     it needs no quarantine.
//! (3) The superseded bit is none of the things that are made persistent. A named entry may have it, as it
//!     was about to be replaced: the bit goes. What was replaced may have lost it, and then looks alive: it
//!     is not counted, and nothing names it. Collection does not move it, and it goes with its segment.
//! (4) Open segments are sealed. What was being written into them is no entry, or none that is named.

use std::sync::Arc;

use longarm_base::limits::LINE;
use longarm_base::{Csn, EntryRef};
use longarm_memory::{Budget, OwnedWords, SumKey};

use crate::object::layout;
use crate::segment::Phase;
use crate::segment::layout::{segment_at, segment_of};
use crate::{CreateStoreError, Store, StoreOptions};

impl<M: OwnedWords> Store<M> {
    /// A store over an arena that one with the same options filled. Segments in use are charged to the
    /// budget, whatever its limit. Until it [serves](Self::served), nothing is written, superseded or
    /// collected.
    pub fn reopen(
        memory: M,
        budget: Arc<Budget>,
        options: StoreOptions,
        sums: SumKey,
    ) -> Result<Store<M>, CreateStoreError> {
        assert!(options.persistent, "memory that is gone with its process is not reopened");
        Store::adopt(memory, budget, options, sums)
    }

    /// Counts the entry of version `csn` at `place`, of which the length may be unknown (zero). Several
    /// threads may call it, once an entry.
    pub fn name(&self, place: EntryRef, csn: Csn) -> Result<(), CreateStoreError> {
        let entry = self.named(place, csn).ok_or(CreateStoreError::Named { place, csn })?;
        let mark = self.memory.load(entry.offset + layout::MARK);
        if mark & layout::SUPERSEDED != 0 {
            self.memory.store(entry.offset + layout::MARK, mark & !layout::SUPERSEDED);
        }
        self.tallies[segment_of(entry.offset) as usize].found(entry.units());
        Ok(())
    }

    /// The entry there, if there is one of this version in a segment in use.
    fn named(&self, place: EntryRef, csn: Csn) -> Option<EntryRef> {
        let EntryRef { offset, len } = place;
        let is_within = (segment_at(self.table)..segment_at(self.segments)).contains(&offset);
        if !is_within || !offset.is_multiple_of(LINE) {
            return None;
        }
        // What was adopted counts as held by a draft until it serves.
        let is_used = self.tallies[segment_of(offset) as usize].load().pending > 0;
        let (found, _, flags) = layout::split_version(self.memory.load(offset + layout::VERSION));
        let (key, value, _) = layout::split_lengths(self.memory.load(offset + layout::LENGTHS))?;
        let entry = EntryRef { offset, len: layout::entry_len(flags, key, value) as u32 };
        // A slot of 16 bytes has the length in whole lines.
        let is_long = len == 0 || place.units() == entry.units();
        (is_used && found == csn && is_long).then_some(entry)
    }

    /// All entries that count were named: what holds none of them is free from here on.
    pub fn served(&self) {
        for &segment in self.adopted() {
            let line = {
                let mut ledger = self.ledger.lock();
                let known = &mut ledger.segments[segment as usize];
                known.phase = if known.line.stride == 0 { Phase::Run } else { Phase::Sealed };
                // How much of it was handed out is not known: as much as there may be.
                let (room, rooms) = known.line.rooms();
                known.line.tail = if known.line.stride == 0 { 0 } else { (room * rooms) as u32 };
                known.line
            };
            self.put_line(segment, &line);
            self.abandoned(segment);
        }
        self.bury_unread();
    }
}
