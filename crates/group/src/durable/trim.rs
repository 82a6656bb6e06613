//! A memory goes back to what its disk has: what only the memory has is given up (D6).
//!
//! A replica that still has its memory may lead from its disk, where most others have lost theirs
//! (`longarm_replica::Basis::Disks`). It then has to be as if it had lost its memory, too: the writes above
//! the version of its note are lost elsewhere, and with only some of them it would hold what the group never
//! held. What the memory let go of, a note of this disk covered before (D5). So what is left is what a start
//! from the disk would find.

use longarm_base::Mutant;
use longarm_disk::DiskError;
use longarm_memory::{Mapped, OwnedWords};
use longarm_store::object::layout::SUM;
use longarm_store::segment::ArenaGeometry;
use longarm_store::{Room, SegmentUse};

use crate::OWN_HEADER;
use crate::checked_arena::CheckedArena;
use crate::durable::load::{Judge, Verdict};
use crate::durable::settle::KeptDisk;

impl KeptDisk {
    /// Voids the entries of the note's term that the note does not cover, in the memory and in the file.
    /// Returns how many there were.
    pub fn trim(&mut self, arena: &CheckedArena<Mapped>) -> Result<usize, DiskError> {
        let Some(note) = self.note.clone().filter(|_| !Mutant::KeepWarmTail.is_on()) else { return Ok(0) };
        let (view, judge) = (arena.view(), Judge { note: &note });
        let geometry = ArenaGeometry::read(view.memory, view.sums).expect(OWN_HEADER);
        let mut goes = Vec::new();
        for segment in geometry.table..geometry.segments {
            let Some(it) = SegmentUse::read(view, geometry, segment) else { continue };
            if it.line.term != note.term {
                continue;
            }
            it.rooms(view, &mut |offset, room| {
                if let Room::Entry(_, entry) = room
                    && judge.judge(&it.line, entry.csn, entry.position, true) == Verdict::Goes
                {
                    goes.push(offset);
                }
            });
        }
        for &offset in &goes {
            arena.memory.store(offset + SUM, 0);
            self.disk.write(offset + SUM, &[0; 8])?;
        }
        self.disk.sync()?;
        Ok(goes.len())
    }
}
