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

    /// The memory is about to be given another start set than the file has.
    pub fn overwrite(&self) {
        // Release: the file is taken by a thread that sees this; pairs with `tell`.
        self.other.store(true, Ordering::Release);
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

    /// The file has the start set of a term, and a note says so.
    pub fn set_settled(&self, term: Term) {
        // Release: the note is on disk; pairs with `settled`.
        self.settled.store(term.bits(), Ordering::Release);
    }

    /// The term whose start set the file has.
    pub fn settled(&self) -> Term {
        // Acquire: pairs with `set_settled`.
        Term::from_bits(self.settled.load(Ordering::Acquire)).unwrap_or(Term::ZERO)
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
