//! What a replica does for an election from disks (`longarm_replica::Basis::Disks`).

use longarm_fabric::Transport;
use longarm_host::now;
use longarm_host::observe::{Observation as Seen, observe};
use longarm_memory::Words;
use longarm_ordered::{Kept, Order};
use longarm_replica::{Event, page};
use longarm_wire::{DiskReport, Extent, OperatorReply, ReplicaReport};

use super::Node;
use crate::peer::PATIENCE;

impl<T: Transport> Node<T> {
    /// What is on this replica's disk, and whether its memory has that, too. The thread that had the file has
    /// given it back, or does so soon: this replica has promised a term.
    pub(super) fn survey_disk(&mut self) -> ReplicaReport {
        let (memory, page) = (self.machine.sync(), self.page.memory());
        let mut report = ReplicaReport {
            sync: memory.unwrap_or_default(),
            reclaimed: page.load(page::RECLAIMED),
            unix: page.load(page::UNIX),
            ..ReplicaReport::default()
        };
        let worth = || !self.stop.is_stopped();
        let has_memory = memory.is_some();
        let mut on_disk = DiskReport { has_memory, ..DiskReport::default() };
        if let Some(disk) = &self.disk
            && let Some(kept) = disk.slot.take(now() + PATIENCE, worth)
        {
            let note = kept.note.clone().unwrap_or_default();
            disk.slot.put(kept);
            let is_its = memory == Some(note.term) && !note.mixed && !self.machine.is_mixed();
            let ready = if has_memory { is_its } else { disk.is_loaded };
            let (term, mixed, stable, ceiling) = (note.term, note.mixed, note.stable, note.ceiling);
            on_disk = DiskReport { term, mixed, stable, ceiling, ready, has_memory };
            report.unix = report.unix.max(note.unix);
            report.streams = note.floors.iter().map(|&len| Extent { floor: len, len }).collect();
        }
        observe(|| {
            let (term, reclaimed, lens) = (self.machine.promised(), report.reclaimed, Vec::new());
            // It speaks of the disk, and says nothing of what the memory counts for.
            Seen::Reported { term, sync: on_disk.term, lens, reclaimed, mixed: true }
        });
        ReplicaReport { disk: Some(on_disk), ..report }
    }

    /// Stands with what is on disk, on an operator's order.
    pub(super) fn recall(&mut self) -> OperatorReply {
        if let Some(why) = self.machine.rests(now()) {
            return OperatorReply::Rests(why);
        }
        self.log("an operator accepts that replicas are missing: what is on the disks of the others counts");
        self.handle(Event::Recall);
        OperatorReply::Recalls
    }

    /// Gives up what only the memory has: this replica is to lead from its disk.
    pub(super) fn go_by_disk(&mut self) -> Result<(), String> {
        let worth = || !self.stop.is_stopped();
        let Some(disk) = &mut self.disk else { return Err("it has no disk".into()) };
        if !disk.is_loaded {
            let mut kept = disk.slot.take(now() + PATIENCE, worth).ok_or("its disk has failed")?;
            let gone = kept.trim(&self.arena);
            let gone = gone.map_err(|error| {
                disk.slot.fail();
                error.to_string()
            })?;
            disk.slot.put(kept);
            disk.is_loaded = true;
            self.log(&format!(
                "{gone} entries that only the memory had are given up, as all others lost theirs"
            ));
        }
        // Indexes have what was given up.
        self.order.give(Order::Prepare { kept: Kept::Nothing });
        Ok(())
    }
}
