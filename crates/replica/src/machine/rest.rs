//! Followers, and how long each lets others try before it stands.

use longarm_base::{Nanos, NodeId};

use super::{Action, Machine, Role};
use crate::timing::DOUBLINGS_MAX;

impl Machine {
    pub(super) fn follow(&mut self, owes: bool, now: Nanos) {
        let rest = match self.role {
            Role::Following { rest, .. } => rest,
            _ => now,
        };
        self.role = Role::Following { owes, rest };
        self.take_newest();
    }

    /// Ends the wait for a replica whose process is gone: for a leader's next heartbeat and, after a report,
    /// for the candidate to lead. The next tick does the rest.
    pub(super) fn gone(&mut self, node: NodeId, now: Nanos) {
        self.watch.lose(node);
        if let Role::Following { owes: false, rest } = &mut self.role
            && self.promised.node() == node
        {
            *rest = (*rest).min(now);
        }
    }

    /// Lets others try before it stands again.
    pub(super) fn rest(&mut self, more: Nanos, now: Nanos) {
        let rest = now + more + self.timing.suspect + self.spread();
        self.role = Role::Following { owes: false, rest };
        self.take_newest();
    }

    pub(super) fn give_up(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        if !matches!(self.role, Role::Leading { .. }) {
            self.vain = (self.vain + 1).min(DOUBLINGS_MAX);
        }
        self.end_reign(todo);
        self.rest(Nanos(0), now);
    }

    /// The time that this election may take.
    pub(super) fn election(&self) -> Nanos {
        Nanos(self.timing.election.0.saturating_mul(1 << self.vain))
    }

    /// A random time, so that replicas do not stand in step.
    pub(super) fn spread(&mut self) -> Nanos {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        Nanos(self.chance % (self.timing.suspect.0 + 1))
    }
}
