//! A leader hands over, on request: no replica waits for a time to pass, but clients' leases end.
//!
//! ```text
//! leader                                          the other           followers
//! vouch no more; clients' leases end              (serves on meanwhile)
//! drain: take no new writes, answer those taken   has all of them
//! end the own lease; no heartbeat any more
//! release ------------------------------------->  free to report      free to report
//! step down
//! stand --------------------------------------->  stands: promise ->  report
//!                                                 install, form, serve
//! ```
//! (1) What was promised to a leader protects leases: its own, and those of clients that rest on it. Only
//!     when the clients' have ended, and it has ended its own, it takes promises back (rules ReleaseAfter
//!     and ReleaseOwn of `docs/spec`). From then on it must not stay, whatever comes of the rest.
//! (2) Before that nothing is lost by staying: it does so if the other falls behind, or time is over.
//! (3) Nothing else rests on any of it. Writes that were not drained are committed or not, as at the end of
//!     any term; a question that is lost, or a replica that dies, leaves an election after the usual times.
//! (4) A leader may hand over to itself: so that a new term begins (`change.rs`).
//! (5) Others do not stand within an election's time: two candidates at a time hinder each other, and the one
//!     that was asked may have a slow disk.

use longarm_base::{Nanos, NodeId, Term};
use longarm_wire::{Ask, Stay};

use super::{Action, LeadershipTransfer, Machine, Role};

impl Machine {
    /// Somebody wants another to lead.
    pub(super) fn begin_transfer(&mut self, to: NodeId, now: Nanos, todo: &mut Vec<Action>) {
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

    /// Time has passed, or a follower is lost.
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

    /// All that was under way has come to an end.
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

    /// The leader of that term has taken back what it was promised, and somebody was asked to stand.
    pub(super) fn released(&mut self, term: Term, now: Nanos) {
        let idle = matches!(self.role, Role::Following { owes: false, .. } | Role::PreCandidate { .. });
        if self.watch.release(term) && idle {
            self.back_off(self.timing.election, now);
        }
    }

    /// Promises are taken back.
    pub(super) fn release_done(&mut self, term: Term, now: Nanos, todo: &mut Vec<Action>) {
        match self.role {
            Role::Leading { transfer: Some(LeadershipTransfer { to, released: true, .. }), .. }
                if term == self.promised =>
            {
                // First, so that no fence finds a connection of this term's.
                self.end_leader_term(todo);
                // Its own promise, too: its lease is over.
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
