//! What a follower does while all is well, so that little is left to do when its leader is lost.

use std::sync::Arc;

use longarm_base::{Mutant, Nanos, Term};
use longarm_fabric::Transport;
use longarm_host::{idle, now};
use longarm_index::control::Control;
use longarm_memory::{Budget, Mapped, OwnedWords, SumKey, Words};
use longarm_replica::{Kept, Prepare, RoleKind, page};
use longarm_store::Settled;

use super::Node;
use super::pace::Pace;
use longarm_engine::EngineOptions;
use longarm_engine::recover::Ahead;

/// How long it waits before it tries again to begin.
const AGAIN: Nanos = Nanos::from_millis(1_000);

/// How far it is.
#[derive(Default)]
pub(super) struct LookAhead {
    index: Option<Ahead<Mapped>>,
    /// What is here is about to be replaced, or cut: nothing more is looked at before it counts.
    barred: bool,
    pace: Pace,
    /// What to compare with where nothing is known.
    nothing: Settled,
    /// Items that an index was too small for.
    items: u64,
}

impl LookAhead {
    /// What need not be looked at again.
    pub fn settled(&self) -> &Settled {
        self.index.as_ref().map_or(&self.nothing, |ahead| &ahead.settled)
    }

    /// A leader is about to write here.
    pub fn keep(&mut self, prepare: &Prepare) {
        let stays = match prepare.kept {
            Kept::Term => true,
            Kept::Base => !self.settled().is_beyond(prepare.base, &prepare.cuts),
            // Of what is here some will be replaced, and some was never agreed on.
            Kept::Other | Kept::Nothing => false,
        };
        if !stays {
            self.index = None;
        }
        // Until it has, what is here is what nobody agreed on: streams are cut, and the lines of segments are
        // replaced. What was indexed meanwhile would go with its segment, and older copies with it.
        self.barred = prepare.kept != Kept::Term && !Mutant::PassUncut.is_on() || !stays;
    }

    /// It has written, and what is here counts in its term.
    pub fn go_on(&mut self, term: Term) {
        self.barred = false;
        if let Some(ahead) = &mut self.index {
            ahead.settled.go_on(term);
        }
    }

    /// For a new leader, over the start set of that base, which is here, and is cut there.
    pub fn take(&mut self, sums: &SumKey, start: (Term, &[u64])) -> Option<Ahead<Mapped>> {
        self.index.take().and_then(|ahead| ahead.finish(sums, start))
    }
}

impl<T: Transport> Node<T> {
    /// Looks a little further, while it follows.
    pub(super) fn look_ahead(&mut self) {
        let Some(sync) = self.machine.sync() else { return };
        let now = now();
        if !self.ahead.pace.is_due(now) || self.ahead.barred || self.machine.kind() != RoleKind::Follower {
            return;
        }
        let floors = self.floors();
        let bytes = self.ahead.pace.step(now, floors.iter().sum(), idle);
        if let Some(items) = self.ahead.index.as_ref().and_then(Ahead::outgrown) {
            self.ahead.index = None;
            self.ahead.items = items;
        }
        if self.ahead.index.is_none() {
            self.ahead.index = self.begin_ahead();
        }
        match &mut self.ahead.index {
            Some(ahead) => ahead.look(&self.sums, (sync, &floors), bytes),
            None => self.ahead.pace.wait(now + AGAIN),
        }
    }

    fn begin_ahead(&self) -> Option<Ahead<Mapped>> {
        let found = self.page.memory().load(page::ITEMS);
        let options = EngineOptions {
            // More are to come.
            found_items: (found + found / 4).max(self.ahead.items),
            populate: false,
            ..self.term_options().engine(self.group_options.hash_key, Some(Term::ZERO))
        };
        // An index of an earlier term of ours, or one that was too small.
        self.lent.index.memory().discard(0, self.lent.index.bytes());
        let memory = (self.lent.index.memory().clone(), self.lent.arena.memory().clone());
        let control = Control::of(self.lent.control.memory().clone(), self.sums.clone());
        let budget = Arc::new(Budget::new(self.options.memory));
        let ahead = Ahead::new(memory, control, self.sums.clone(), budget, &options);
        ahead.inspect_err(|error| self.log(&format!("nothing is restored ahead: {error}"))).ok()
    }
}
