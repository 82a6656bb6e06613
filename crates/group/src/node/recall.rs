//! What a replica does for an election from disks (`longarm_replica::Basis::Disks`).

use longarm_base::{Csn, Mutant, Term};
use longarm_disk::Note;
use longarm_fabric::Transport;
use longarm_host::now;
use longarm_host::observe::{Observation as Seen, observe};
use longarm_memory::{Mapped, Words};
use longarm_ordered::{Kept, Order};
use longarm_replica::{Event, FromDisk, page};
use longarm_wire::{DiskReport, Extent, OperatorReply, ReplicaReport};

use super::Node;
use crate::durable::slot::DiskSlot;

/// No version up to this one is drawn again by a replica that has this ceiling of its own: leaders from
/// disks, of the start set's base or before it, gave up versions that clients may have seen, as the page
/// tells (D3).
pub(super) fn ceiling(own: Csn, page: &Mapped, disk: Option<FromDisk>) -> Csn {
    let told = if Mutant::UntoldCeiling.is_on() { 0 } else { page.load(page::CEILING) };
    own.max(Csn(told)).max(disk.map_or(Csn::NONE, |disk| disk.ceiling))
}

/// Whether memory of the start set of this term, which is no mixture, has what the file has, and may be
/// trimmed to that. It may not if a leader wrote to it that the file does not follow yet: where segments were
/// used again, the file alone has what was there.
fn is_its(memory: Option<Term>, note: &Note, slot: &DiskSlot) -> bool {
    let owes = slot.owes() && !Mutant::LeadOwing.is_on();
    memory == Some(note.term) && !note.mixed && !owes
}

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
            && let Ok(kept) = disk.take(worth)
        {
            let note = kept.note.clone().unwrap_or_default();
            disk.slot.put(kept);
            let its = memory.filter(|_| !self.machine.is_mixed());
            let ready = if has_memory { is_its(its, &note, &disk.slot) } else { disk.is_loaded };
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
            let mut kept = disk.take(worth)?;
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

#[test]
fn versions_go_on_above_all_that_a_leader_from_a_disk_gave_up() {
    use longarm_memory::OwnedWords;
    let page = longarm_engine::testing::memory(1 << 20);
    assert_eq!(ceiling(Csn(3), &page, None), Csn(3));
    page.store(page::CEILING, 5);
    assert_eq!(ceiling(Csn(3), &page, None), Csn(5), "its leader was one, or that of an older term");
    assert_eq!(ceiling(Csn(7), &page, None), Csn(7), "it was one itself");
    let disk = FromDisk { stable: Csn(2), ceiling: Csn(9) };
    assert_eq!(ceiling(Csn(7), &page, Some(disk)), Csn(9), "it is one");
}

#[test]
fn a_memory_that_a_leader_may_have_written_over_does_not_lead_from_its_file() {
    let terms = [3, 4].map(|counter| Term::new(counter, longarm_base::ReplicaId(0)));
    let (note, slot) = (Note { term: terms[0], ..Note::default() }, DiskSlot::new(None));
    assert!(is_its(Some(terms[0]), &note, &slot));
    assert!(!is_its(Some(terms[1]), &note, &slot) && !is_its(None, &note, &slot));
    assert!(!is_its(Some(terms[0]), &Note { mixed: true, ..note.clone() }, &slot));
    // It was away, and its leader gives it what became of the segments meanwhile.
    slot.prepare(false);
    assert!(!is_its(Some(terms[0]), &note, &slot));
    slot.set_settled(terms[0], slot.prepared());
    assert!(is_its(Some(terms[0]), &note, &slot), "a note says that the file has that, too");
}
