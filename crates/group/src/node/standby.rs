//! The growth of a follower's standby index while its leader lives, so that little is left to do when the
//! leader is lost.

use std::sync::Arc;

use longarm_base::{Nanos, Term};
use longarm_fabric::Transport;
use longarm_host::{idle, now};
use longarm_index::control::Control;
use longarm_memory::{Budget, Mapped, OwnedWords, Words};
use longarm_replica::{RoleKind, page};

use super::Node;
use longarm_engine::EngineOptions;
use longarm_engine::recover::Standby;
use longarm_engine::session;

/// How long a follower that could not begin a standby index waits before it tries again.
const AGAIN: Nanos = Nanos::from_millis(1_000);

impl<T: Transport> Node<T> {
    /// Takes a little more into the standby index, while the replica follows.
    pub(super) fn advance_standby(&mut self) {
        let Some(sync) = self.machine.sync() else { return };
        let now = now();
        if !self.standby.pace.is_due(now) || self.standby.barred || self.machine.kind() != RoleKind::Follower
        {
            return;
        }
        let floors = self.floors();
        let written = floors.iter().sum();
        if self.standby.pace.may_rest(now, written) {
            return;
        }
        let bytes = self.standby.pace.step(now, written, idle);
        let told = self.page.memory().load(page::ITEMS);
        let outgrown = self.standby.index.as_ref().and_then(|standby| standby.outgrown(told));
        // If there was no memory for as many, it is not begun for them again and again.
        if let Some(items) = outgrown.filter(|&items| items > self.standby.items) {
            self.standby.index = None;
            self.standby.items = items;
        }
        if self.standby.index.is_none() {
            self.standby.index = self.begin_standby(told);
        }
        let aged = session::aged(&self.told_ages(), self.options.keep());
        match &mut self.standby.index {
            Some(standby) => {
                standby.forget_aged(aged);
                let all = standby.look(&self.arena.sums, sync, &floors, bytes);
                self.standby.pace.looked(all, written);
                let begun = longarm_host::now();
                if self.standby.huge.is_due(begun, written) && standby.populate_arena(&self.arena.sums) {
                    self.standby.huge.took(begun, longarm_host::now());
                    self.standby.pace.looked(false, written);
                }
            }
            None => self.standby.pace.wait(now + AGAIN),
        }
    }

    fn begin_standby(&self, found: u64) -> Option<Standby<Mapped>> {
        let options = EngineOptions {
            // More are to come.
            found_items: (found + found / 4).max(self.standby.items),
            populate: false,
            ..self.term_options().engine(self.group_options.hash_key, Some(Term::ZERO))
        };
        // The memory may hold an index of an earlier term of this replica, or one that was too small.
        self.lent.index.memory().discard(0, self.lent.index.bytes());
        let (index, arena) = (self.lent.index.memory().clone(), self.arena.memory.clone());
        let control = Control::of(self.lent.control.memory().clone(), self.arena.sums.clone());
        let budget = Arc::new(Budget::new(self.options.memory));
        let standby = Standby::new(index, arena, control, self.arena.sums.clone(), budget, &options);
        standby.inspect_err(|error| self.log(&format!("there is no standby index: {error}"))).ok()
    }
}
