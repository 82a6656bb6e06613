//! Followers, and how long each lets others try before it stands.

use longarm_base::{Nanos, ReplicaId, Term};

use super::{Action, Machine, Role};
use crate::timing::DOUBLINGS_MAX;

impl Machine {
    pub(super) fn follow(&mut self, owes: bool, now: Nanos) {
        let backoff_until = match self.role {
            Role::Following { backoff_until, .. } => backoff_until,
            _ => now,
        };
        self.role = Role::Following { owes, backoff_until };
        self.take_newest();
    }

    /// The start set of the promised term is here, as its leader says.
    pub(super) fn adopt(&mut self, adopt: Action, now: Nanos, todo: &mut Vec<Action>) {
        let term = self.promised;
        // The candidate for which it rested is there.
        self.role = Role::Following { owes: false, backoff_until: now };
        self.failed_elections = 0;
        self.watch.touch(term, now);
        if self.sync != Some(term) {
            (self.sync, self.mixed) = (Some(term), false);
            todo.push(adopt);
        }
        todo.push(Action::CaughtUp(term));
    }

    /// Ends the wait for a replica whose process is gone: for a leader's next heartbeat and, after a report,
    /// for the candidate to lead. The next tick does the rest.
    pub(super) fn gone(&mut self, replica: ReplicaId, now: Nanos) {
        self.watch.lose(replica);
        if let Role::Following { owes: false, backoff_until } = &mut self.role
            && self.promised.leader() == replica
        {
            *backoff_until = (*backoff_until).min(now);
        }
    }

    /// The candidate of the promised term has its majority, and says that it installs the start set: that is
    /// as good as a leader's heartbeat. An installation may take longer than an election. A replica that
    /// stood meanwhile would end the term, and would itself have to install as much.
    pub(super) fn await_install(&mut self, term: Term, now: Nanos) {
        self.watch.touch(term, now);
        if let Role::Following { owes: false, backoff_until } = &mut self.role {
            *backoff_until = (*backoff_until).max(now + self.timing.election);
        }
    }

    /// The longest that a candidate tells others that it installs, and that they wait for it therefore.
    pub fn installation_limit(&self) -> Nanos {
        Nanos(self.timing.election.0.saturating_mul(1 << DOUBLINGS_MAX))
    }

    /// Lets others try before it stands again.
    pub(super) fn back_off(&mut self, more: Nanos, now: Nanos) {
        let backoff_until = now + more + self.timing.suspect + self.jitter();
        self.role = Role::Following { owes: false, backoff_until };
        self.take_newest();
    }

    pub(super) fn give_up(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        if !matches!(self.role, Role::Leading { .. }) {
            self.failed_elections = (self.failed_elections + 1).min(DOUBLINGS_MAX);
        }
        self.end_leader_term(todo);
        self.back_off(Nanos(0), now);
    }

    /// The time that this election may take.
    pub(super) fn election(&self) -> Nanos {
        Nanos(self.timing.election.0.saturating_mul(1 << self.failed_elections))
    }

    /// A random time, so that replicas do not stand in step.
    pub(super) fn jitter(&mut self) -> Nanos {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        Nanos(self.rng % (self.timing.suspect.0 + 1))
    }
}
