//! The entries of one worker between writing and application: written, replicated, committed, applied (LoLKV
//! 3.3.2: creation, replication, application).
//!
//! (1) Positions count from zero in each term; each entry below `written` is whole in the arena.
//! (2) Entries are applied in order of position, and only once they are committed.
//! (3) An answer is sent when its position is applied: [`ProgressWords::is_applied`], from any thread.
//! (4) An entry that is being moved is not moved again before the copy is applied ([`Stream::is_moving`]). So
//!     the youngest copy of a version is the one that counts, for every replica that restores from the arena
//!     (`newest.rs`).
//! (5) The progress of the stream stands in memory that followers may READ ([`longarm_store::progress`]). Its
//!     `low` is at most the csn of each entry that is written and not applied, from before that csn is drawn:
//!     all csns below it are stable (M9, M10).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use longarm_base::{Csn, EntryRef, Mutant};
use longarm_host::observe::{Observation, observe};
use longarm_memory::{Hash, OwnedWords};
use longarm_store::Writer;
use longarm_store::progress::ProgressWords;

use crate::stripes::Stripe;

/// Entries that may be written and not applied. There is room for all requests that the clients of a worker
/// may have open at once, and the number is small enough to do no harm.
pub const UNAPPLIED_MAX: u64 = 8192;
/// Entries kept for followers that are behind. A follower further behind is let go and synced anew.
pub const KEPT_MAX: usize = 4 * UNAPPLIED_MAX as usize;

/// A position of one of the leader's streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPosition {
    /// The stream.
    pub stream: u16,
    /// The position in the stream.
    pub position: u64,
}

/// What applying an entry does to the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexChange {
    /// Gives the key this entry's value.
    Store {
        /// The hash of the key.
        hash: Hash,
        /// The stripe, which the write holds until then.
        stripe: Stripe,
    },
    /// Removes the key.
    Remove {
        /// The hash of the key.
        hash: Hash,
        /// The stripe, which the write holds until then.
        stripe: Stripe,
    },
    /// Makes the slot that names exactly this place name the copy.
    Move {
        /// The hash of the key.
        hash: Hash,
        /// The entry that was copied.
        from: EntryRef,
    },
    /// Replaces an entry that no slot names by its copy.
    Replace {
        /// The entry that was copied.
        from: EntryRef,
        /// Its version.
        csn: Csn,
    },
}

impl IndexChange {
    /// The hash of the key whose slot it changes.
    pub fn hash(self) -> Option<Hash> {
        match self {
            IndexChange::Store { hash, .. }
            | IndexChange::Remove { hash, .. }
            | IndexChange::Move { hash, .. } => Some(hash),
            IndexChange::Replace { .. } => None,
        }
    }

    /// The place of the entry that it copies.
    fn from(self) -> Option<EntryRef> {
        match self {
            IndexChange::Move { from, .. } | IndexChange::Replace { from, .. } => Some(from),
            IndexChange::Store { .. } | IndexChange::Remove { .. } => None,
        }
    }

    fn is_write(self) -> bool {
        matches!(self, IndexChange::Store { .. } | IndexChange::Remove { .. })
    }

    /// The hash of a client's write, and whether the key then has a value.
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
    /// Its place.
    pub place: EntryRef,
    /// Its version.
    pub csn: Csn,
    /// The change when it is applied.
    pub change: IndexChange,
}

/// What a thread writes entries of its stream with.
pub(crate) struct StreamWriter<'a, M: OwnedWords> {
    pub writer: &'a mut Writer<M>,
    pub stream: &'a mut Stream,
}

/// The worker's side of its stream.
#[derive(Debug)]
pub struct Stream {
    /// The number of the stream, of this leader.
    pub number: u16,
    /// The part that other threads see.
    pub progress: Arc<ProgressWords>,
    /// Entries from position `first` on.
    kept: VecDeque<Written>,
    first: u64,
    applied: u64,
    committed: u64,
    /// Places of the entries that it copies and whose copies are not applied yet.
    moving: BTreeSet<u64>,
}

impl Stream {
    /// A stream in which nothing is written.
    pub fn new(number: u16, progress: Arc<ProgressWords>) -> Stream {
        let (kept, moving) = Default::default();
        Stream { number, progress, kept, first: 0, applied: 0, committed: 0, moving }
    }

    /// The number of written positions: all below are written.
    #[inline]
    pub fn written(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// The number of applied positions: all below are applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// The number of committed positions: all below are committed, as the gate says.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Notes that all positions below are committed, before any of them is applied.
    pub fn set_committed(&mut self, below: u64) {
        if below != self.committed {
            self.committed = below;
            if !Mutant::CommitLate.is_on() {
                self.progress.set_committed(below);
            }
        }
    }

    /// Whether no further entry may be written for now.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.written() - self.applied >= UNAPPLIED_MAX || self.kept.len() >= KEPT_MAX + UNAPPLIED_MAX as usize
    }

    /// Announces a write, before a csn above `counter` is drawn for an entry of this stream.
    #[inline]
    pub fn announce(&self, counter: Csn) {
        if self.progress.low().is_none() {
            // Before the draw, which is an AcqRel step of the counter; see (5).
            self.progress.set_low(Some(Csn(counter.0 + 1)));
        }
    }

    /// Appends a finished entry; returns its position.
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
        self.progress.wrote(position, written.place.offset);
        position
    }

    /// Whether a copy of the entry at this place is written and not applied yet.
    pub fn is_moving(&self, place: EntryRef) -> bool {
        self.moving.contains(&place.offset)
    }

    /// The entry at a position, if it is kept.
    #[inline]
    pub fn at(&self, position: u64) -> Option<&Written> {
        self.kept.get(usize::try_from(position.checked_sub(self.first)?).ok()?)
    }

    /// The next entry that is committed and not applied.
    #[inline]
    pub fn next_to_apply(&self) -> Option<Written> {
        self.to_apply(0).copied()
    }

    /// The entry so many positions after the next to apply, if it is committed as well.
    #[inline]
    pub fn to_apply(&self, after: u64) -> Option<&Written> {
        let position = self.applied + after;
        if position < self.committed { self.at(position) } else { None }
    }

    /// Counts the next entry as applied.
    #[inline]
    pub fn set_applied(&mut self) {
        observe(|| Observation::Applied { stream: self.number, position: self.applied });
        if let Some(from) = self.at(self.applied).and_then(|applied| applied.change.from()) {
            self.moving.remove(&from.offset);
        }
        self.applied += 1;
        // Moves keep their csn, and are no writes under way.
        let left = (self.applied..self.written()).filter_map(|position| self.at(position));
        let low = left.filter(|left| left.change.is_write()).map(|next| next.csn).next();
        if Mutant::CommitLate.is_on() {
            self.progress.set_committed(self.applied);
        }
        self.progress.set_applied(self.applied, low);
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
