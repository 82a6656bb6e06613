//! Where the file of a replica is while no thread has it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use longarm_base::{Mutant, Nanos, Term};
use longarm_disk::DiskError;
use longarm_host::{Mutex, now, sleep};

use crate::durable::settle::KeptDisk;

/// The time between two looks at whether the file is back.
const AGAIN: Duration = Duration::from_micros(200);

/// The file of a replica, for one thread at a time: the scribe of a term that the replica leads, or that of a
/// term that it follows.
pub(crate) struct DiskSlot {
    kept: Mutex<Option<KeptDisk>>,
    /// The memory was given another start set than the file is of, since the file was last given anything.
    other: AtomicBool,
    /// By term: which of its streams' entries were cut off in the memory, since the file was last taken.
    cuts: Mutex<BTreeMap<Term, Vec<u64>>>,
    /// The term whose start set the file has, as its note says.
    settled: AtomicU64,
    /// How often the memory was made ready for a leader to write, and the last of these times of which the
    /// file has what was written.
    prepared: AtomicU64,
    followed: AtomicU64,
    failed: AtomicBool,
}

impl DiskSlot {
    /// The slot of a replica that has this file, if it has one.
    pub fn new(kept: Option<KeptDisk>) -> DiskSlot {
        let settled = kept.as_ref().and_then(|kept| kept.note.as_ref()).map_or(Term::ZERO, |note| note.term);
        DiskSlot {
            kept: Mutex::new(kept),
            other: AtomicBool::new(false),
            cuts: Mutex::default(),
            settled: AtomicU64::new(settled.bits()),
            prepared: AtomicU64::new(0),
            followed: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Takes the file, as soon as the thread that has it gives it back; while `worth` it.
    pub fn take(&self, until: Nanos, worth: impl Fn() -> bool) -> Option<KeptDisk> {
        loop {
            if let Some(kept) = self.kept.lock().take() {
                return Some(kept);
            }
            if self.has_failed() || now() >= until || !worth() {
                return None;
            }
            sleep(AGAIN);
        }
    }

    /// Gives the file back.
    pub fn put(&self, kept: KeptDisk) {
        *self.kept.lock() = Some(kept);
    }

    /// A leader is about to write the memory; `other`: with another start set than the file has. From now on
    /// the file may have what the memory has lost, as segments were used again, and the memory what the
    /// file lacks.
    pub fn prepare(&self, other: bool) {
        // Relaxed: the replica's own thread does this, and looks at it.
        self.prepared.fetch_add(1, Ordering::Relaxed);
        if other {
            // Release: the file is taken by a thread that sees this; pairs with `tell`.
            self.other.store(true, Ordering::Release);
        }
    }

    /// How often the memory was made ready for a leader.
    pub fn prepared(&self) -> u64 {
        // Relaxed: as in `prepare`.
        self.prepared.load(Ordering::Relaxed)
    }

    /// Whether the file is about to become a mixture: the memory has another start set, and the file does not
    /// say so yet.
    pub fn is_to_mix(&self) -> bool {
        // Acquire: as in `tell`.
        self.other.load(Ordering::Acquire)
    }

    /// The entries of this term's streams from here on are cut off in the memory.
    pub fn cut(&self, term: Term, cuts: &[u64]) {
        if Mutant::KeepCutOff.is_on() {
            return;
        }
        match self.cuts.lock().entry(term) {
            Entry::Vacant(entry) => _ = entry.insert(cuts.to_vec()),
            Entry::Occupied(mut entry) => {
                // What a first leader cut off, and a second one did not, is written once more.
                let before = entry.get_mut();
                before.truncate(cuts.len());
                before.iter_mut().zip(cuts).for_each(|(before, cut)| *before = (*before).min(*cut));
            }
        }
    }

    /// Has the file say what became of the memory since it was last taken: this comes before anything is
    /// written to it.
    pub fn tell(&self, kept: &mut KeptDisk) -> Result<(), DiskError> {
        // AcqRel: pairs with `overwrite`.
        if self.other.swap(false, Ordering::AcqRel) {
            kept.mix()?;
        }
        let cuts = std::mem::take(&mut *self.cuts.lock());
        cuts.get(&kept.term).map_or(Ok(()), |cuts| kept.cut(cuts))
    }

    /// The file has the start set of a term, and a note says so; and all that a leader wrote to the memory
    /// since it was made ready for the `prepared`-th time.
    pub fn set_settled(&self, term: Term, prepared: u64) {
        // Release: the note is on disk; pairs with `settled`.
        self.settled.store(term.bits(), Ordering::Release);
        // Release: as above; pairs with `owes`. A scribe that ends late does not speak of a later time.
        self.followed.fetch_max(prepared, Ordering::Release);
    }

    /// The term whose start set the file has.
    pub fn settled(&self) -> Term {
        // Acquire: pairs with `set_settled`.
        Term::from_bits(self.settled.load(Ordering::Acquire)).unwrap_or(Term::ZERO)
    }

    /// Whether the memory was made ready for a leader, and no note says since that the file has what it was
    /// given.
    pub fn owes(&self) -> bool {
        // Acquire: pairs with `set_settled`.
        self.followed.load(Ordering::Acquire) < self.prepared()
    }

    /// Whether the file has all that the leader of the term gave the memory, as its note says.
    pub fn follows(&self, term: Term) -> bool {
        self.settled() == term && !self.owes()
    }

    /// The file is lost.
    pub fn fail(&self) {
        // Relaxed: whoever sees it late finds no file in the slot.
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Whether the file is lost.
    pub fn has_failed(&self) -> bool {
        // Relaxed: as above.
        self.failed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::ReplicaId;

    use super::*;

    #[test]
    fn a_file_owes_what_a_leader_may_have_written_until_a_note_of_that_time_is_there() {
        let terms = [3, 4].map(|counter| Term::new(counter, ReplicaId(0)));
        let slot = DiskSlot::new(None);
        assert!(!slot.owes() && !slot.follows(terms[0]));
        slot.prepare(true);
        assert!(slot.owes() && slot.is_to_mix());
        let first = slot.prepared();
        slot.set_settled(terms[0], first);
        assert!(slot.follows(terms[0]) && !slot.follows(terms[1]));
        // Its connection broke, and the same leader gives it what it missed.
        slot.prepare(false);
        assert!(slot.owes() && slot.settled() == terms[0]);
        slot.set_settled(terms[0], first);
        assert!(slot.owes(), "the scribe of the time before ends late");
        slot.set_settled(terms[0], slot.prepared());
        assert!(slot.follows(terms[0]));
    }
}
