//! What a follower's standby index has of its arena, and what it may look at.

use longarm_base::{Mutant, Term};
use longarm_engine::recover::Standby;
use longarm_memory::{Mapped, SumKey};
use longarm_replica::{KeptMemory, Prepare};
use longarm_store::Settled;

use super::pace::Pace;

/// How far a follower is with its standby index.
#[derive(Default)]
pub(super) struct StandbyIndex {
    pub index: Option<Standby<Mapped>>,
    /// What is here is about to be replaced, or cut: nothing more is looked at before it counts.
    pub barred: bool,
    pub pace: Pace,
    /// What to compare with where nothing is known.
    nothing: Settled,
    /// Items that an index was too small for.
    pub items: u64,
}

impl StandbyIndex {
    /// What need not be looked at again.
    pub fn settled(&self) -> &Settled {
        self.index.as_ref().map_or(&self.nothing, |standby| &standby.settled)
    }

    /// A leader is about to write here.
    pub fn keep(&mut self, prepare: &Prepare) {
        let stays = match prepare.kept {
            KeptMemory::Term => true,
            KeptMemory::Base => !self.settled().is_beyond(prepare.base, &prepare.cuts),
            // Of what is here some will be replaced, and some was never agreed on.
            KeptMemory::Other | KeptMemory::Nothing => false,
        };
        if !stays {
            self.index = None;
        }
        // Until it has, what is here is what nobody agreed on: streams are cut, and the lines of segments are
        // replaced. What was indexed meanwhile would go with its segment, and older copies with it.
        self.barred = prepare.kept != KeptMemory::Term && !Mutant::PassUncut.is_on() || !stays;
    }

    /// It has written, and what is here counts in its term.
    pub fn go_on(&mut self, term: Term) {
        self.barred = false;
        if let Some(standby) = &mut self.index {
            standby.settled.go_on(term);
        }
    }

    /// For a new leader, over the start set of that base, which is here, and is cut there.
    pub fn take(&mut self, sums: &SumKey, base: Term, cuts: &[u64]) -> Option<Standby<Mapped>> {
        self.index.take().and_then(|standby| standby.finish(sums, base, cuts))
    }
}
