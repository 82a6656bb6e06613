//! A leader hands over, on request: no replica waits for a time to pass, except that clients' leases end.
//!
//! ```text
//! leader                                          the transferee      followers
//! vouch no more; clients' leases end              (serves on meanwhile)
//! drain: take no new writes, answer those taken   has all of them
//! end the own lease; no heartbeat any more
//! release ------------------------------------->  free to report      free to report
//! step down
//! stand --------------------------------------->  stands: promise ->  report
//!                                                 install, form, serve
//! ```
//! (1) Promises to a leader protect leases: its own, and the clients' leases that rest on it. Only when the
//!     clients' leases have ended, and the leader has ended its own, it takes promises back (rules
//!     ReleaseAfter and ReleaseOwn of `docs/spec`). From then on it must not stay leader, whatever happens
//!     next.
//! (2) Before that nothing is lost by staying: the leader stays if the transferee falls behind, or time is
//!     over.
//! (3) Nothing else rests on any of it. Writes that were not drained are committed or not, as at the end of
//!     any term. A question that is lost, or a replica that dies, leaves an election after the usual times.
//! (4) A leader may hand over to itself, so that a new term begins (`change.rs`).
//! (5) Other replicas do not stand within an election's time: two candidates at a time hinder each other, and
//!     the one that was asked may have a slow disk.

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Ask, Stay};

use super::{Action, LeadershipTransfer, Machine, Role};

impl Machine {
    /// Begins a hand-over to the replica that an operator, or the replica itself, names.
    pub(super) fn begin_transfer(&mut self, to: ReplicaId, now: Nanos, todo: &mut Vec<Action>) {
        let (me, member) = (self.group.me(), self.group.members().has(to));
        let Role::Leading { synced, transfer } = &mut self.role else { return };
        let why = match transfer {
            _ if self.change.is_some() => Stay::Busy,
            Some(_) => Stay::Busy,
            None if to == me => Stay::Leads,
            None if !member => Stay::Stranger,
            None if !synced.has(to) => Stay::Behind,
            None => {
                let until = now + self.timing.promise + self.timing.election;
                *transfer = Some(LeadershipTransfer { to, until, released: false });
                return todo.push(Action::Drain(self.promised, to));
            }
        };
        todo.push(Action::Decline(why));
    }

    /// Ends a hand-over that is late or has lost its transferee. Called as time passes, and when a follower
    /// is lost.
    pub(super) fn tick_transfer(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let Role::Leading { synced, transfer: Some(LeadershipTransfer { to, until, released }) } = self.role
        else {
            return;
        };
        let why = match (released, synced.has(to), now >= until) {
            (true, _, true) => return self.give_up(now, todo),
            (false, false, _) => Stay::Behind,
            (false, true, true) => Stay::Late,
            _ => return,
        };
        self.role = Role::Leading { synced, transfer: None };
        todo.push(Action::Resume(why));
    }

    /// Notes that all work that was under way is done.
    pub(super) fn drained(&mut self, term: Term, now: Nanos, todo: &mut Vec<Action>) {
        let until = now + self.timing.suspect;
        match &mut self.role {
            Role::Leading { transfer: Some(transfer), .. } if !transfer.released && term == self.promised => {
                (transfer.until, transfer.released) = (until, true);
                todo.push(Action::Release(term, transfer.to));
            }
            _ => {}
        }
    }

    /// Notes that the leader of that term took promises back; another replica was asked to stand.
    pub(super) fn released(&mut self, term: Term, now: Nanos) {
        let idle = matches!(self.role, Role::Following { owes: false, .. } | Role::PreCandidate { .. });
        if self.watch.release(term) && idle {
            self.back_off(self.timing.election, now);
        }
    }

    /// Ends the term, once promises are taken back.
    pub(super) fn release_done(&mut self, term: Term, now: Nanos, todo: &mut Vec<Action>) {
        match self.role {
            Role::Leading { transfer: Some(LeadershipTransfer { to, released: true, .. }), .. }
                if term == self.promised =>
            {
                // First the term ends, so that no fence finds a connection of it.
                self.end_leader_term(todo);
                // It takes its own promise back, too: its lease is over.
                self.watch.release(term);
                if to == self.group.me() {
                    return self.stand(now, todo);
                }
                todo.push(Action::Ask(to, Ask::Stand { term }));
                self.back_off(self.timing.election, now);
            }
            _ => {}
        }
    }
}
