//! What a follower does while all is well, so that little is left to do when its leader is lost.

use std::sync::Arc;

use longarm_base::{Nanos, Term};
use longarm_fabric::Transport;
use longarm_host::{idle, now};
use longarm_index::control::Control;
use longarm_memory::{Budget, Mapped, OwnedWords, Words};
use longarm_replica::{RoleKind, page};

use super::Node;
use longarm_engine::EngineOptions;
use longarm_engine::recover::Ahead;

/// How long it waits before it tries again to begin.
const AGAIN: Nanos = Nanos::from_millis(1_000);

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
