//! A replica whose disk holds no promise. Either it never ran, or it ran and lost what it promised (L2). It
//! cannot tell, so it asks all the others, and takes no part in anything before it knows.
//!
//! (1) *All of them*, not a majority: the replica to which it promised is one of them, and may be the only
//!     one that knows. Each answer names the replicas of the group, as far as it is known, and those are
//!     asked too.
//! (2) *Some replica has promised.* Then this replica ran before, or it is late. It promises the highest term
//!     that any of them has, which is not below what it may have forgotten, since a candidate promises its
//!     own term before it asks others. From then on it is a replica that lost its memory, and is synced.
//!     Answers that came before the promise was heard of do not count for this: one of the replicas may have
//!     founded since, see (4).
//! (3) *None has*, twice in a row, and no store of a promise was lost in between: each has an *origin*, a
//!     number that is drawn when the store is made, and stays the same over restarts. Then there was a
//!     moment, when the second round began, at which no store had a promise. Nothing that any of these
//!     replicas remembers was ever committed, and the empty memory is all there is: this replica founds the
//!     group.
//! (4) A replica that has founded says so to all whose stores were there at that moment, with no more in them
//!     than its own. A replica whose store is still that one, and has no promise, may found at any time: it
//!     never acknowledged anything. Otherwise the first replica that promises a term would keep the others
//!     from voting in it. So each promise is kept with the founders, until the replica keeps the start set of
//!     a later term: if all lose their power at once, they found the group again.
//! (5) A replica that is to be added knows no others, and is synced by a leader whose set does not contain
//!     it: it does not count there. If the set contains it, it was a replica before, and asks first.

use longarm_base::{Mutant, Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask};

use super::past::{Blank, PromiseAnswer};
use super::{Action, Machine, Role};
use crate::ReplicaSet;

impl Machine {
    /// The same machine, with a disk that holds no promise. `life` names this start among all starts that it
    /// ever had, and is drawn. When it has founded the group, it lets another replica stand first for
    /// `backoff`.
    pub fn blank(mut self, life: u64, backoff: Nanos) -> Machine {
        let asks = !self.blank.founded;
        self.blank = Blank { asks, life, backoff, ..self.blank };
        self.sync = (!asks).then_some(Term::ZERO);
        if Mutant::FoundAnyway.is_on() && !self.members.list.is_empty() {
            (self.blank.asks, self.sync) = (false, Some(Term::ZERO));
        }
        self
    }

    /// Who may found the group, each with its origin; empty if this replica has not founded. This is kept
    /// with what it promises until a later start set is kept.
    pub fn founders(&self) -> Vec<(ReplicaId, u64)> {
        let all = || self.blank.origins.iter().map(|(&replica, &origin)| (replica, origin)).collect();
        if self.blank.founded { all() } else { Vec::new() }
    }

    /// If it is still to learn what it promised: the replicas that have not answered.
    pub fn awaits(&self) -> Option<Vec<ReplicaId>> {
        let blank = &self.blank;
        blank.asks.then(|| self.peers().filter(|replica| !blank.said.contains_key(replica)).collect())
    }

    /// Whether it may not take the start set of a term, because it is one of the replicas, and asks first.
    pub(super) fn must_ask_first(&self) -> bool {
        self.blank.asks && self.members.has(self.group.me())
    }

    /// Whether an answer is for this start, and still waited for.
    pub(super) fn is_life(&self, life: u64) -> bool {
        self.blank.asks && self.blank.life == life
    }

    fn peers(&self) -> impl Iterator<Item = ReplicaId> {
        let me = self.group.me();
        self.members.list.iter().map(|member| member.replica).filter(move |replica| *replica != me)
    }

    /// Ends the asking: it has promised a term, so it knows its promise.
    pub(super) fn knows_promise(&mut self) {
        self.blank.asks = false;
    }

    /// Asks on, as time passes.
    pub(super) fn tick_promise_queries(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        if !self.must_ask_first() {
            return;
        }
        let missing = self.awaits().unwrap_or_default();
        if self.blank.round > 0 && now < self.blank.again {
            return;
        }
        // All have answered, and the promise could not be kept: it asks once more.
        if self.blank.round == 0 || missing.is_empty() {
            return self.begin_round(now, todo);
        }
        self.blank.again = now + self.timing.suspect;
        self.blank.returned = ReplicaSet::NONE;
        todo.extend(missing.into_iter().map(|replica| self.ask_for_promise(replica)));
    }

    fn begin_round(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        self.blank.round += 1;
        self.blank.said.clear();
        self.blank.again = now + self.timing.suspect;
        self.blank.returned = ReplicaSet::NONE;
        todo.extend(self.peers().map(|replica| self.ask_for_promise(replica)));
        self.count_answers(now, todo);
    }

    fn ask_for_promise(&self, replica: ReplicaId) -> Action {
        Action::Ask(replica, Ask::Forgot { life: self.blank.life, round: self.blank.round })
    }

    /// Answers a replica whose disk holds no promise.
    pub(super) fn answer_promise_query(
        &mut self,
        from: ReplicaId,
        life: u64,
        round: u64,
        todo: &mut Vec<Action>,
    ) {
        let blank = &self.blank;
        let (promised, origin, members) = (self.promised, blank.origin, self.members.clone());
        let founders = self.founders();
        todo.push(Action::Answer(from, Answer::Known { life, round, promised, origin, founders, members }));
        let waits = self.must_ask_first() && blank.round > 0 && !blank.said.contains_key(&from);
        // That replica was absent when it was asked, and is there now.
        if waits && self.peers().any(|replica| replica == from) && !blank.returned.has(from) {
            self.blank.returned.add(from);
            todo.push(self.ask_for_promise(from));
        }
    }

    /// Hears what a replica has promised, and its origin; if that replica has founded, also who may.
    pub(super) fn promise_answered(
        &mut self,
        from: ReplicaId,
        known: PromiseAnswer,
        now: Nanos,
        todo: &mut Vec<Action>,
    ) {
        let PromiseAnswer { round, promised, origin, founders, members } = known;
        self.heard = self.heard.max(promised);
        self.learn(&members);
        let same = || self.members.replicas() == members.replicas();
        // Files that differ would make two groups of one.
        let differs = self.members.term == Term::ZERO && promised == Term::ZERO && !same();
        if round != self.blank.round || differs || !self.peers().any(|replica| replica == from) {
            return;
        }
        if founders.contains(&(self.group.me(), self.blank.origin)) {
            self.blank.origins = founders.into_iter().collect();
            return self.found(now);
        }
        self.blank.said.insert(from, (origin, promised));
        self.count_answers(now, todo);
    }

    fn count_answers(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let all_said = self.awaits().is_some_and(|missing| missing.is_empty());
        if !all_said {
            return;
        }
        let said = &self.blank.said;
        let highest = said.values().map(|&(_, promised)| promised).max().unwrap_or_default();
        let me = (self.group.me(), self.blank.origin);
        let origins = said.iter().map(|(&replica, &(origin, _))| (replica, origin)).chain([me]).collect();
        if highest > Term::ZERO && !self.blank.warned {
            // An answer may be older than the founding, which spared this replica, so all are asked once
            // more.
            self.blank.warned = true;
            self.begin_round(now, todo);
        } else if highest > Term::ZERO {
            todo.push(Action::Promise(highest));
        } else if self.blank.round > 1 && origins == self.blank.origins {
            self.found(now);
        } else {
            self.blank.origins = origins;
            self.begin_round(now, todo);
        }
    }

    /// Founds the group: its empty memory is all there ever was.
    fn found(&mut self, now: Nanos) {
        (self.blank.asks, self.blank.founded) = (false, true);
        self.sync = Some(Term::ZERO);
        // Other replicas found at about the same moment.
        let backoff_until = now + self.blank.backoff + self.jitter();
        self.role = Role::Following { owes: false, backoff_until };
    }
}
