//! A follower's standby index: what it has of the arena, and what the follower may look at.

use longarm_base::{Mutant, Term};
use longarm_engine::recover::Standby;
use longarm_memory::{Mapped, SumKey};
use longarm_replica::{KeptMemory, Prepare};
use longarm_store::{HugePace, Settled};

use super::pace::Pace;
use crate::common::KeepUp;

/// How far a follower is with its standby index.
pub(super) struct StandbyIndex {
    pub index: Option<Standby<Mapped>>,
    /// Whether a leader is bringing the follower into sync, or back: then the follower looks at nothing more
    /// before all that the leader pushes has landed.
    pub barred: bool,
    pub pace: Pace,
    pub huge: HugePace,
    /// What is settled while there is no index: nothing.
    nothing: Settled,
    /// The number of items for which the index was begun anew, as it was too small; 0 if it was not.
    pub items: u64,
}

impl StandbyIndex {
    /// No index yet, of a follower that keeps up as it is told.
    pub fn new(keep_up: KeepUp) -> StandbyIndex {
        StandbyIndex {
            index: None,
            barred: false,
            pace: Pace::new(keep_up),
            huge: HugePace::default(),
            nothing: Settled::default(),
            items: 0,
        }
    }

    /// What the follower need not look at again.
    pub fn settled(&self) -> &Settled {
        self.index.as_ref().map_or(&self.nothing, |standby| &standby.settled)
    }

    /// Keeps the index if it stays true while a leader overwrites the arena, and drops it otherwise. No
    /// leader writes to the arena at this moment.
    pub fn keep(&mut self, prepare: &Prepare, sums: &SumKey) {
        let stays = match prepare.kept {
            KeptMemory::Term => true,
            KeptMemory::Base => !self.settled().is_beyond(prepare.base, &prepare.cuts),
            // Some entries that are here will be replaced, and some were never committed.
            KeptMemory::Other | KeptMemory::Nothing => false,
        };
        if !stays {
            (self.index, self.items) = (None, 0);
        }
        if let Some(standby) = &mut self.index {
            standby.settle(sums);
        }
        // Until the leader has written, what is here may never have been committed: streams are cut, and the
        // lines of segments are replaced. What is indexed meanwhile would go with its segment, and older
        // copies with it. A follower that holds the start set of this very term is given segments, too, that
        // it had let go of: what it finds there meanwhile is overwritten, and by its superseded bits the
        // index counts.
        let cut = prepare.kept != KeptMemory::Term;
        self.barred = !(cut && Mutant::PassUncut.is_on() || !cut && Mutant::LookMeanwhile.is_on()) || !stays;
    }

    /// Goes on in the term of a leader whose pushes have landed: what is here counts in that term.
    pub fn go_on(&mut self, term: Term) {
        self.barred = false;
        if let Some(standby) = &mut self.index {
            standby.settled.go_on(term);
        }
    }

    /// Takes the index for a new leader: over a start set of that base which is here without a gap, and is
    /// cut there. Over one that has gaps nobody leads with a standby index.
    pub fn take(&mut self, sums: &SumKey, whole: Option<(Term, &[u64])>) -> Option<Standby<Mapped>> {
        let index = self.index.take();
        self.items = 0;
        whole.and_then(|(base, cuts)| index?.finish(sums, base, cuts))
    }
}
