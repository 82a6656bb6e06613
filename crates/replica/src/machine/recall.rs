//! An election from what is on disk, of a group whose replicas acknowledge from memory and keep their data on
//! disks behind it (D6).
//!
//! ```text
//!  learner, with a disk                              all the others
//!  [no leader for a while]
//!  would you report for a term of mine? ----------->  no leader is heard here, either
//!                                  yes, by all <---
//!  promise it, and report what is on disk ---------->  promised, and fenced
//!                              reports, of all <---
//!  installs what its disk has, or asks the replica with the best disk to stand
//! ```
//! (1) A replica that lost its memory does not vote in elections from memory: a write that it acknowledged
//!     may be on no disk.
//! (2) *All* replicas report, not a majority: one that is missing may have more in memory. Only an operator
//!     knows that it will never come back, and may say that a majority is enough.
//! (3) Each report follows a promise and a fence. So at the moment of the last report nothing of an older
//!     term can be acknowledged any more, and no memory that the reports do not speak of can come to count.
//! (4) A replica that has its memory reports what is on its disk, too. If too few have theirs, and this one's
//!     disk is the start set, it gives up what only its memory has, as all others have lost the like of it.
//! (5) A replica that a leader is giving its start set is not ready: its memory is not what its disk has.

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, NoRecall, Recall};

use super::past::Recalls;
use super::{Action, Machine, Role};
use crate::ReplicaSet;
use crate::recall::{Basis, Declined};

impl Machine {
    /// The same machine; `possible`: replicas have disks, and acknowledge from memory.
    pub fn with_recall(self, possible: bool) -> Machine {
        Machine { recalls: Recalls { possible, ..self.recalls }, ..self }
    }

    /// What the election goes by in which this replica stands, or reports, or did so last.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// If this replica waits to lead, or have another lead, from disks: the replicas that it has not heard.
    pub fn awaits_disks(&self) -> Option<ReplicaSet> {
        let missing = || self.group.others().filter(|replica| !self.recalls.heard.has(*replica)).collect();
        self.has_lost_memory().then(missing)
    }

    /// Whether it is one of the replicas, and knows what it promised, and its memory does not count.
    fn has_lost_memory(&self) -> bool {
        self.sync.is_none() && self.may_recall()
    }

    fn may_recall(&self) -> bool {
        self.recalls.possible && !self.blank.asks && self.members.has(self.group.me())
    }

    /// Whether it is time to ask the others for an election from disks: those that have their memory had
    /// the time to elect one of them.
    pub(super) fn is_to_recall(&self, now: Nanos) -> bool {
        self.has_lost_memory() && now >= self.heard_leader() + self.timing.election
    }

    /// Asks all others whether they would report.
    pub(super) fn canvass_disks(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        self.recalls.heard = ReplicaSet::only(self.group.me());
        self.canvass(Basis::Disks { lossy: false }, now, todo);
    }

    /// Why this replica does not stand with what is on its disk, if an operator asks for that now.
    pub fn rests(&self, now: Nanos) -> Option<NoRecall> {
        let idle = matches!(self.role, Role::Following { owes: false, .. } | Role::PreCandidate { .. });
        match () {
            () if !self.recalls.possible => Some(NoRecall::Needless),
            () if self.blank.asks => Some(NoRecall::Blank),
            () if self.role.is_elected() || !self.watch.suspects(&self.timing, now) => Some(NoRecall::Led),
            () if !idle || !self.members.has(self.group.me()) => Some(NoRecall::Busy),
            () => None,
        }
    }

    /// An operator has this replica stand, and accepts that others are missing.
    pub(super) fn recall(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        if self.rests(now).is_none() {
            self.basis = Basis::Disks { lossy: true };
            self.stand(now, todo);
        }
    }

    /// Hears a question of an election from disks; `rightful`: the asker may speak for its term.
    pub(super) fn asked_to_recall(
        &mut self,
        from: ReplicaId,
        ask: Ask,
        rightful: bool,
        now: Nanos,
        todo: &mut Vec<Action>,
    ) {
        let Ask::Recall { term, recall, .. } = ask else { return };
        let may = rightful && self.may_recall();
        match recall {
            Recall::PreVote => {
                let free = !self.role.is_elected() && self.watch.suspects(&self.timing, now);
                let yes = may && free && term > self.promised;
                todo.push(Action::Answer(from, Answer::PreVote { term, yes }));
            }
            _ if !may || term < self.promised => todo.push(self.refuse(from, term)),
            Recall::Promise if term > self.promised => self.promise_first(from, ask, now, todo),
            Recall::Promise => {
                self.basis = Basis::Disks { lossy: false };
                self.follow(true, now);
            }
            Recall::Stand { lossy } if term == self.promised && self.ready.is_none() => {
                self.basis = Basis::Disks { lossy };
                self.stand(now, todo);
            }
            Recall::Stand { .. } => {}
        }
    }

    /// The question by which the other replicas are asked to promise a term of this one.
    pub(super) fn promise_question(&self, term: Term) -> Ask {
        let members = self.own.clone();
        match self.basis {
            Basis::Memory => Ask::Promise { term, members },
            Basis::Disks { .. } => Ask::Recall { term, members, recall: Recall::Promise },
        }
    }

    /// The question whether the other replicas would.
    pub(super) fn pre_vote_question(&self, term: Term) -> Ask {
        let members = self.own.clone();
        match self.basis {
            Basis::Memory => Ask::PreVote { term, members },
            Basis::Disks { .. } => Ask::Recall { term, members, recall: Recall::PreVote },
        }
    }

    /// By the reports this replica may not lead now. One that may is asked to stand. This one rests for an
    /// election, having reported. Other replicas, which may not lead either and could stand before it again
    /// and again, rest for as long.
    pub(super) fn decline(&mut self, why: Declined, now: Nanos, todo: &mut Vec<Action>) {
        let (me, term) = (self.group.me(), self.promised);
        match (why, self.basis) {
            (Declined::Memory(replica), _) if replica == me => return self.back_off(Nanos(0), now),
            (Declined::Memory(replica), _) => todo.push(Action::Ask(replica, Ask::Stand { term })),
            (Declined::Disk(replica), Basis::Disks { lossy }) => {
                let members = self.own.clone();
                let stand = Ask::Recall { term, members, recall: Recall::Stand { lossy } };
                todo.push(Action::Ask(replica, stand));
            }
            (Declined::Disk(_) | Declined::Nobody, _) => {}
        }
        self.back_off(self.timing.election + self.timing.suspect, now);
    }
}
