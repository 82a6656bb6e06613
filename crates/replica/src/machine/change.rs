//! Another set of replicas, one more or one less at a time (M14).
//!
//! ```text
//! leader of t, with its replicas K                     the others
//! [one more: sync it; it does not count]
//! keep (t, K) ------------------------------------->   on disk
//!                                           <-------   kept, by a majority of K
//! keep (t, K with one more or one less) ----------->   on disk
//!                                           <-------   kept, by majorities of both
//! hand over (`transfer.rs`)                            the next term has the new set
//! ```
//! (1) *A term has one set of replicas*, from its candidate's first question to its end: promises, start set,
//!     acknowledgements and leases are counted over it. So a set takes effect with the next term, and no
//!     count mixes two sets.
//! (2) *A candidate takes the newest set that it knows of*, whether or not a majority has kept it. Sets are
//!     ordered by the term whose leader named them; in one term the changed set is newer than the set of the
//!     term. No replica promises to a candidate that knows of an older set than itself (rule Newest of
//!     `docs/spec/Membership.tla`); it answers with the set that it knows instead.
//! (3) *First its own.* Before a leader names the next set, a majority has kept the set of its own term,
//!     under that term (rule Confirm). A set that an older leader named, and few replicas heard, is then
//!     older for that majority. Without this rule two sets that each differ by one replica from a third could
//!     be used side by side (Raft's bug of changes of one server).
//! (4) *One at a time* (rule Single): a majority of one set and a majority of the next have a replica in
//!     common.
//! (5) A replica that joins is synced first, and then counts from the first moment on. A replica that was
//!     removed is told so when it asks, and stands no more.
//! (6) *To a follower*, whose index is ready (decision 14): a leader that follows itself scans all of its
//!     memory first, and no client is served meanwhile. It does so only if no follower is in sync and has
//!     kept the set, except the one that joins, which has not indexed what it was given.
//! (7) A set that others may have kept cannot be taken back: from the second question on the leader continues
//!     until the change is done, or it leads no more.

use longarm_base::{Mutant, Nanos, ReplicaId};
use longarm_wire::{Ask, Deny, MEMBERS_MAX, Members};

use super::{Action, ChangeRequest, ChangeStage, LeadershipTransfer, Machine, MembershipChange, Role};
use crate::{Group, ReplicaSet};

impl Machine {
    /// Takes a newer set than the one that is known here; `true` if it is one.
    pub(super) fn learn(&mut self, members: &Members) -> bool {
        let newer = members.is_newer(&self.members);
        if newer {
            self.members = members.clone();
            self.heard = self.heard.max(members.term);
            self.regroup();
        }
        newer
    }

    /// Takes the newest set, unless this replica stands or leads.
    pub(super) fn regroup(&mut self) {
        if matches!(self.role, Role::Following { .. } | Role::PreCandidate { .. }) {
            self.take_newest();
        }
    }

    /// Counts by the newest set from now on.
    pub(super) fn take_newest(&mut self) {
        self.group = Group::of(self.group.me(), &self.members);
        self.own = self.members.clone();
    }

    /// Keeps a set for the leader of the promised term.
    pub(super) fn keep(&mut self, from: ReplicaId, members: Members, todo: &mut Vec<Action>) {
        if self.members.is_newer(&members) {
            return todo.push(self.tell_members(from));
        }
        self.pending = Some((from, Ask::Members { members: members.clone() }));
        todo.push(Action::Keep(members));
    }

    /// Notes that a set is on disk here: for the leader that asked, or as the leader.
    pub(super) fn kept(&mut self, members: Members, now: Nanos, todo: &mut Vec<Action>) {
        self.learn(&members);
        let (term, changed) = (members.term, members.changed);
        match self.pending.take() {
            Some((from, _)) => todo.push(Action::Answer(from, longarm_wire::Answer::Kept { term, changed })),
            None if term == self.promised => self.agrees(self.group.me(), changed, now, todo),
            None => {}
        }
    }

    /// Notes that a set could not be kept.
    pub(super) fn not_kept(&mut self, todo: &mut Vec<Action>) {
        if let Some((from, ask)) = self.pending.take() {
            todo.push(self.refuse(from, ask.term()));
        }
    }

    /// Begins a change of the replicas that an operator wants.
    pub(super) fn change_members(&mut self, request: ChangeRequest, now: Nanos, todo: &mut Vec<Action>) {
        let Role::Leading { synced, transfer } = &self.role else { return };
        let mut next = Members { term: self.promised, changed: true, list: self.own.list.clone() };
        let replica = match &request {
            ChangeRequest::Add(member) => member.replica,
            ChangeRequest::Remove(replica) => *replica,
        };
        let denied = match &request {
            _ if self.change.is_some() || transfer.is_some() => Some(Deny::Busy),
            ChangeRequest::Add(_) if next.has(replica) => Some(Deny::Member),
            ChangeRequest::Add(_) if next.list.len() >= MEMBERS_MAX => Some(Deny::Full),
            ChangeRequest::Remove(_) if !next.has(replica) => Some(Deny::Stranger),
            ChangeRequest::Remove(_) if next.list.len() == 1 => Some(Deny::Last),
            _ => None,
        };
        let joins = match request {
            ChangeRequest::Add(member) => {
                next.list.push(member);
                Some(replica)
            }
            ChangeRequest::Remove(_) => {
                next.list.retain(|member| member.replica != replica);
                None
            }
        };
        // The remaining replicas must be able to continue.
        let after = Group::of(self.group.me(), &next);
        let in_sync = synced.iter().chain(joins).collect();
        let denied = denied.or_else(|| (!after.is_majority(in_sync)).then_some(Deny::Behind));
        if let Some(why) = denied {
            return todo.push(Action::Deny(why));
        }
        let (stage, until) = (ChangeStage::Joining, now + self.timing.election);
        let member = next.list.iter().find(|member| Some(member.replica) == joins).cloned();
        self.change = Some(MembershipChange { next, joins, stage, until, again: now });
        match member {
            Some(member) => todo.push(Action::Enlist(member)),
            None => self.confirm(now, todo),
        }
    }

    /// Notes that a replica is synced; if it is the joining one, the change continues.
    pub(super) fn joined(&mut self, replica: ReplicaId, now: Nanos, todo: &mut Vec<Action>) {
        let waits =
            |change: &MembershipChange| change.stage == ChangeStage::Joining && change.joins == Some(replica);
        if self.change.as_ref().is_some_and(waits) {
            self.confirm(now, todo);
        }
    }

    fn confirm(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        if let Some(change) = &mut self.change {
            change.stage = ChangeStage::Confirming(ReplicaSet::NONE);
            change.until = now + self.timing.election;
        }
        self.ask_members(now, todo);
    }

    /// Asks the replicas that have not kept the set to keep it; this one keeps it last, since that takes
    /// time.
    fn ask_members(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let Some(change) = &mut self.change else { return };
        let Some((members, by)) = change.asked(&self.own, self.promised) else { return };
        change.again = now + self.timing.suspect;
        let both = self.own.list.iter().chain(&change.next.list).map(|member| member.replica);
        let both: ReplicaSet = both.filter(|&replica| !by.has(replica)).collect();
        let me = self.group.me();
        for replica in both.iter().filter(|&replica| replica != me) {
            todo.push(Action::Ask(replica, Ask::Members { members: members.clone() }));
        }
        if both.has(me) {
            todo.push(Action::Keep(members));
        }
    }

    /// Notes that a replica has kept the set that this leader, in its term, asked it to keep.
    pub(super) fn agrees(&mut self, replica: ReplicaId, changed: bool, now: Nanos, todo: &mut Vec<Action>) {
        let Some(change) = &mut self.change else { return };
        let after = Group::of(self.group.me(), &change.next);
        match &mut change.stage {
            ChangeStage::Confirming(by) if !changed => {
                by.add(replica);
                if self.group.is_majority(*by) {
                    change.stage = ChangeStage::Proposing(ReplicaSet::NONE);
                    self.ask_members(now, todo);
                }
            }
            ChangeStage::Proposing(by) if changed => {
                by.add(replica);
                let agreed = self.group.is_majority(*by) && after.is_majority(*by);
                if agreed || Mutant::AgreeAlone.is_on() {
                    change.stage = ChangeStage::Agreed(*by);
                    todo.push(Action::Agreed(change.next.clone()));
                    self.end_term(now, todo);
                }
            }
            _ => {}
        }
    }

    /// Gives a late change up, and repeats questions, as time passes.
    pub(super) fn tick_change(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let Some(change) = &self.change else { return };
        let (late, again) = (now >= change.until, now >= change.again);
        match change.stage {
            ChangeStage::Joining | ChangeStage::Confirming(_) if late => {
                todo.extend(change.joins.map(Action::Dismiss));
                todo.push(Action::Deny(Deny::Late));
                self.change = None;
            }
            ChangeStage::Confirming(_) | ChangeStage::Proposing(_) if again => self.ask_members(now, todo),
            ChangeStage::Agreed(_) if again => self.end_term(now, todo),
            _ => {}
        }
    }

    /// Ends this term, since the next one has the new set, without losing time.
    fn end_term(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let Role::Leading { synced, transfer: transfer @ None } = &mut self.role else { return };
        let Some(change) = &mut self.change else { return };
        let ChangeStage::Agreed(by) = change.stage else { return };
        change.again = now + self.timing.suspect;
        let me = self.group.me();
        let can = |replica: &ReplicaId| synced.has(*replica) && by.has(*replica) || *replica == me;
        let transferees = change.next.list.iter().map(|member| member.replica).filter(can);
        // Several changes in a row each have another transferee, whose index was built since it last led.
        let late =
            |&replica: &ReplicaId| (Some(replica) == change.joins, replica == me, replica < me, replica);
        if let Some(to) = transferees.min_by_key(late) {
            let until = now + self.timing.promise + self.timing.election;
            *transfer = Some(LeadershipTransfer { to, until, released: false });
            todo.push(Action::Drain(self.promised, to));
        }
    }

    pub(super) fn tell_members(&self, to: ReplicaId) -> Action {
        Action::Answer(to, longarm_wire::Answer::Members { members: self.members.clone() })
    }
}
