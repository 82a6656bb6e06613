//! One worker's entries between their writing and their end: written, replicated, committed, applied
//! (LoLKV 3.3.2: creation, replication, application).
//!
//! (1) Positions count from zero in each term; what was written below `written` is whole in the arena.
//! (2) Entries are applied in order of position, and only once they are committed.
//! (3) An answer goes out when its position is applied: [`Progress::is_applied`], from any thread.
//! (4) An entry that is being moved is not moved again before the copy is applied ([`Stream::is_moving`]). So
//!     of the copies of a version the youngest is the one that counts, whoever puts that together from the
//!     arena (`newest.rs`).
//! (5) `low` is at most the csn of each entry that is written and not applied, from before that csn is drawn:
//!     the stable point is what is below all of them (M9, M10).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::{Csn, EntryRef};
use longarm_host::observe::{Observation, observe};
use longarm_memory::{Hash, OwnedWords};
use longarm_store::Writer;

use crate::stripes::Stripe;

/// Entries that may be written and not applied: more than all clients of a worker may ask for at once would
/// fit, fewer than would hurt.
pub const UNAPPLIED_MAX: u64 = 8192;
/// Entries kept for followers that are behind. One that is further behind is let go and synced anew.
pub const KEPT_MAX: usize = 4 * UNAPPLIED_MAX as usize;

/// A position of one of the leader's streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPosition {
    /// Which stream.
    pub stream: u16,
    /// The position in it.
    pub position: u64,
}

/// What applying an entry does to the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexChange {
    /// The key has this entry's value.
    Store {
        /// Of the key.
        hash: Hash,
        /// Which the write holds until then.
        stripe: Stripe,
    },
    /// The key is gone.
    Remove {
        /// Of the key.
        hash: Hash,
        /// Which the write holds until then.
        stripe: Stripe,
    },
    /// The slot that names exactly this place names the copy.
    Move {
        /// Of the key.
        hash: Hash,
        /// What was copied.
        from: EntryRef,
    },
    /// The copy replaces an entry that no slot names.
    Replace {
        /// What was copied.
        from: EntryRef,
        /// Its version.
        csn: Csn,
    },
}

impl IndexChange {
    /// Of the key whose slot it changes.
    pub fn hash(self) -> Option<Hash> {
        match self {
            IndexChange::Store { hash, .. }
            | IndexChange::Remove { hash, .. }
            | IndexChange::Move { hash, .. } => Some(hash),
            IndexChange::Replace { .. } => None,
        }
    }

    /// Where the entry stands that it copies.
    fn from(self) -> Option<EntryRef> {
        match self {
            IndexChange::Move { from, .. } | IndexChange::Replace { from, .. } => Some(from),
            IndexChange::Store { .. } | IndexChange::Remove { .. } => None,
        }
    }

    fn is_write(self) -> bool {
        matches!(self, IndexChange::Store { .. } | IndexChange::Remove { .. })
    }

    /// The key that a client's write is of, and whether it then has a value.
    fn write(self) -> Option<(u64, bool)> {
        match self {
            IndexChange::Store { hash, .. } => Some((hash.0, true)),
            IndexChange::Remove { hash, .. } => Some((hash.0, false)),
            IndexChange::Move { .. } | IndexChange::Replace { .. } => None,
        }
    }
}

/// An entry that is written.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Where it stands.
    pub place: EntryRef,
    /// Its version.
    pub csn: Csn,
    /// What applying it does.
    pub change: IndexChange,
}

/// What other threads may know of a stream. Its worker writes it.
#[derive(Debug, Default)]
pub struct Progress {
    applied: AtomicU64,
    written: AtomicU64,
    /// Zero: nothing is under way.
    low: AtomicU64,
}

impl Progress {
    /// Whether the entry at this position is applied.
    pub fn is_applied(&self, position: u64) -> bool {
        // Acquire: what was applied is in the index; pairs with `Stream::set_applied`.
        self.applied.load(Ordering::Acquire) > position
    }

    /// All positions below this are applied.
    pub fn applied(&self) -> u64 {
        // Acquire: as in `is_applied`.
        self.applied.load(Ordering::Acquire)
    }

    /// All positions below this are written.
    pub fn written(&self) -> u64 {
        // Acquire: those entries are whole in the arena; pairs with `Stream::push`.
        self.written.load(Ordering::Acquire)
    }

    /// At most the csn of each entry under way; `None` if there is none.
    pub fn low(&self) -> Option<Csn> {
        // Acquire: read after the csn counter, see (5).
        match self.low.load(Ordering::Acquire) {
            0 => None,
            low => Some(Csn(low)),
        }
    }
}

/// What a thread writes entries of its stream with.
pub(crate) struct StreamWriter<'a, M: OwnedWords> {
    pub writer: &'a mut Writer<M>,
    pub stream: &'a mut Stream,
}

/// The worker's side of its stream.
#[derive(Debug)]
pub struct Stream {
    /// Which stream of the leader.
    pub number: u16,
    /// What other threads see of it.
    pub progress: Arc<Progress>,
    /// From position `first` on.
    kept: VecDeque<Written>,
    first: u64,
    applied: u64,
    /// All below are committed, as the gate says.
    pub committed: u64,
    /// Where the entries stand that it copies and that no applied copy has replaced yet.
    moving: BTreeSet<u64>,
}

impl Stream {
    /// One in which nothing is written.
    pub fn new(number: u16, progress: Arc<Progress>) -> Stream {
        let (kept, moving) = Default::default();
        Stream { number, progress, kept, first: 0, applied: 0, committed: 0, moving }
    }

    /// All positions below this are written.
    #[inline]
    pub fn written(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// All positions below this are applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Whether no further entry may be written for now.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.written() - self.applied >= UNAPPLIED_MAX || self.kept.len() >= KEPT_MAX + UNAPPLIED_MAX as usize
    }

    /// Before a csn above `counter` is drawn for an entry of this stream.
    #[inline]
    pub fn announce(&self, counter: Csn) {
        // Relaxed: only this thread stores it.
        if self.progress.low.load(Ordering::Relaxed) == 0 {
            // Release: before the draw, which is an AcqRel step of the counter; see (5).
            self.progress.low.store(counter.0 + 1, Ordering::Release);
        }
    }

    /// An entry was finished at the next position, which this returns.
    #[inline]
    pub fn push(&mut self, written: Written) -> u64 {
        let position = self.written();
        observe(|| {
            let Written { csn, change, .. } = written;
            Observation::Wrote { stream: self.number, position, csn, write: change.write() }
        });
        if let Some(from) = written.change.from() {
            self.moving.insert(from.offset);
        }
        self.kept.push_back(written);
        // Release: the entry is whole; pairs with `Progress::written`.
        self.progress.written.store(position + 1, Ordering::Release);
        position
    }

    /// Whether a copy of the entry there is written and not applied yet.
    pub fn is_moving(&self, place: EntryRef) -> bool {
        self.moving.contains(&place.offset)
    }

    /// The entry at a position that is kept.
    #[inline]
    pub fn at(&self, position: u64) -> Option<&Written> {
        self.kept.get(usize::try_from(position.checked_sub(self.first)?).ok()?)
    }

    /// The next entry that is committed and not applied.
    #[inline]
    pub fn next_to_apply(&self) -> Option<Written> {
        self.to_apply(0).copied()
    }

    /// The one that comes so many after it, if that is committed as well.
    #[inline]
    pub fn to_apply(&self, after: u64) -> Option<&Written> {
        let position = self.applied + after;
        if position < self.committed { self.at(position) } else { None }
    }

    /// That entry is applied.
    #[inline]
    pub fn set_applied(&mut self) {
        observe(|| Observation::Applied { stream: self.number, position: self.applied });
        if let Some(from) = self.at(self.applied).and_then(|applied| applied.change.from()) {
            self.moving.remove(&from.offset);
        }
        self.applied += 1;
        // Moves keep their csn, and are no writes under way.
        let left = (self.applied..self.written()).filter_map(|position| self.at(position));
        let low = left.filter(|left| left.change.is_write()).map(|next| next.csn.0).next().unwrap_or(0);
        // Release: as in `announce`.
        self.progress.low.store(low, Ordering::Release);
        // Release: the index has it; pairs with `Progress::is_applied`.
        self.progress.applied.store(self.applied, Ordering::Release);
    }

    /// Forgets entries that are applied and that no follower waits for: those below `posted`.
    pub fn forget(&mut self, posted: u64) {
        let until = posted.min(self.applied);
        while self.first < until {
            self.kept.pop_front();
            self.first += 1;
        }
    }

    /// The first position that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }
}
