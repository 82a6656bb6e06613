//! Who leads: the life of a replica, as a value that is told what happens and says what to do (LoLKV 3.4).
//!
//! ```text
//!              suspects            a majority would            a majority reported,
//!  follower ----------> pre-candidate ---------> candidate    it holds the base
//!    ^  ^                    |                       |  ------------> installing
//!    |  |   leader seen, time over                   | time over         | start set
//!    |  +--------------------+-----------------------+                   v is here
//!    |  a higher term anywhere                                        forming
//!    +-------------------------- leader <--------------------------------+
//!    | adopt                               a majority is synced
//!  learner (lost its memory; first of all, if its disk says nothing: `blank.rs`)
//! ```
//! What each event does to each of them is drawn in full in `docs/generated/replica.md`, which a test writes.
//!
//! (1) *Promise*. `promised` only grows, and is on disk before anything rests on it (L2). A promise ends
//!     whatever this replica did in an older term, and is followed by the fence (L6, L7).
//! (2) *Report*. After the fence, and when no promise to a leader stands in the way any more (L8); never by
//!     a replica that lost its memory.
//! (3) *Start set* from a majority's reports, by sync term first (L1: `gather.rs`). Only a replica that is
//!     among the highest itself goes on.
//! (4) *Serve* only when a majority is synced (L1). All older leases are then over: each of those who
//!     reported had kept its promise to the end, and a lease needs a majority of promises.
//! (5) *Sync*. A replica takes the start set of a term it has promised; it counts when it has all of it, and
//!     all that it ever acknowledged in that term (rule ResyncAll).
//! (6) *Overwritten* is not *lost*. A replica that is being given another start set than its own, entry by
//!     entry, still has at any moment what every older term committed, as far as it ever had it: an entry
//!     has one place for ever, and each start set from which it is overwritten has all that was committed
//!     below, so that it writes there what is there. What differs is what was cut off in one of them. So it
//!     goes on to report as a holder of its old sync term until it adopts. If a younger term served, a
//!     majority has that, and such a report is not among the highest. If none did, what it yields is
//!     complete, and what the last term that served cut off is in neither start set.
//!     If it gave its memory up, the leader might be the only other one that has everything, and one loss
//!     of memory would lose data, or strand the group.
//! (7) A *mixture* is nobody else's start set: of its sync term only the name, and what was committed. One
//!     who leads from a mixture has no base in common with anybody, and gives everything to all; and a
//!     leader whose base is the old sync term gives everything to one who holds a mixture.
//! (8) Who forms and has no majority after an election's time without progress gives up, so that others, or
//!     itself, stand again.
//! (9) A leader that is asked to hands over (`transfer.rs`), or sees to another set of replicas
//!     (`change.rs`).

mod backoff;
mod blank;
mod change;
mod event;
mod past;
mod role;
mod stage;
mod transfer;

pub use event::{Action, Event, KeptMemory, Prepare};
pub use past::PersistentState;
pub use role::{LeadershipTransfer, Role, RoleKind};
pub use stage::{ChangeRequest, ChangeStage, MembershipChange};

use longarm_base::{Mutant, Nanos, NodeId, Term};
use longarm_wire::{Answer, Ask, Members, ReplicaReport};

use self::event::SyncFrom;
use self::past::{Blank, PromiseAnswer};
use crate::gather::{StartSet, start_set};
use crate::page::Beat;
use crate::timing::DOUBLINGS_MAX;
use crate::{Group, LeaderWatch, Nodes, Timing};

/// A replica's part in who leads.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Who counts: of one that stands or leads, in its term; else, as far as is known by now.
    group: Group,
    /// The same, with particulars.
    own: Members,
    /// The newest set of replicas that is known here.
    members: Members,
    /// Another that this leader sees to.
    change: Option<MembershipChange>,
    timing: Timing,
    /// The term promised, on disk.
    promised: Term,
    /// The highest term heard of.
    heard: Term,
    /// The term whose start set is here; `None` if the memory does not count.
    sync: Option<Term>,
    /// What is here may be part of that start set and part of others: a sync that overwrites it began, and
    /// did not end (rules 6 and 7).
    mixed: bool,
    /// The term it made itself ready to be synced in.
    ready: Option<Term>,
    role: Role,
    watch: LeaderWatch,
    /// What waits until the promise it needs is made.
    pending: Option<(NodeId, Ask)>,
    /// Elections in a row that it reported or stood in and that came to nothing, as far as it knows.
    failed_elections: u32,
    rng: u64,
    /// Whether it knows what it promised.
    blank: Blank,
}

impl Machine {
    /// Replica `me`, which starts at `now` with what is left of its last life. `seed` spreads the moments at
    /// which replicas stand.
    pub fn new(me: NodeId, state: PersistentState, timing: Timing, seed: u64, now: Nanos) -> Machine {
        let PersistentState { members, promised, sync } = state;
        Machine {
            group: Group::of(me, &members),
            own: members.clone(),
            heard: promised.max(members.term),
            members,
            change: None,
            timing,
            promised,
            sync,
            mixed: false,
            ready: None,
            role: Role::Following { owes: false, backoff_until: now },
            watch: LeaderWatch::new(promised, now),
            pending: None,
            failed_elections: 0,
            rng: seed | 1,
            blank: Blank::default(),
        }
    }

    /// The term promised.
    pub fn promised(&self) -> Term {
        self.promised
    }

    /// When a leader was last heard of; before that, when this replica began.
    pub fn heard_leader(&self) -> Nanos {
        self.watch.changed()
    }

    /// The term whose start set is here, if the memory counts.
    pub fn sync(&self) -> Option<Term> {
        self.sync
    }

    /// Whether what is here is no more than what was committed before and in that term, and parts of other
    /// start sets. Whoever builds on it voids what is behind a hole.
    pub fn is_mixed(&self) -> bool {
        self.mixed
    }

    /// What it is at the moment.
    pub fn kind(&self) -> RoleKind {
        self.role.kind(self.sync)
    }

    /// What it is, with particulars.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Who counts here: of a replica that stands or leads, in its own term; else, as far as it knows.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The same, with their addresses.
    pub fn own(&self) -> &Members {
        &self.own
    }

    /// The newest set of replicas that is known here.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The change of that set that this leader sees to.
    pub fn change(&self) -> Option<&MembershipChange> {
        self.change.as_ref()
    }

    /// Handles an event at `now`; adds what is to be done to `todo`.
    pub fn handle(&mut self, event: Event, now: Nanos, todo: &mut Vec<Action>) {
        match event {
            Event::Tick(beat) => {
                self.watch.observe(beat, &self.timing, now);
                self.tick(now, todo);
            }
            Event::Asked(from, ask) => self.asked(from, ask, now, todo),
            Event::Answered(from, answer) => self.answered(from, answer, now, todo),
            Event::Promised(term) => self.promise_made(term, now, todo),
            Event::Unpromised(term) => self.promise_failed(term, now, todo),
            Event::Surveyed(report) => self.surveyed(report, now, todo),
            Event::Installed(term) => self.installed(term, now, todo),
            Event::NotInstalled(term) => {
                if term == self.promised && matches!(self.role, Role::Installing { .. }) {
                    // What is here may be half of it: it still is the base's start set and prefixes.
                    self.give_up(now, todo);
                }
            }
            Event::Lost(node) => {
                if let Role::Forming { synced, .. } | Role::Leading { synced, .. } = &mut self.role {
                    synced.remove(node);
                }
                self.tick_transfer(now, todo);
            }
            Event::Gone(node) => self.gone(node, now),
            Event::Released(term) => self.released(term, now),
            Event::HandOver(to) => self.begin_transfer(to, now, todo),
            Event::Drained(term) => self.drained(term, now, todo),
            Event::ReleaseDone(term) => self.release_done(term, now, todo),
            Event::ChangeMembers(request) => self.change_members(request, now, todo),
            Event::Kept(members) => self.kept(members, now, todo),
            Event::Unkept => self.not_kept(todo),
        }
    }

    /// What the page says, looked at after a fence and before that is reported here (L8).
    pub fn observe_beat(&mut self, beat: Beat, now: Nanos) {
        self.watch.observe(beat, &self.timing, now);
    }

    /// Sent a heartbeat, or is about to: the leader keeps the promise that it asks of others.
    pub fn beat(&mut self, now: Nanos) {
        if !Mutant::ReportAtOnce.is_on() {
            self.watch.touch(self.promised, now);
        }
    }

    /// A follower took some of what the leader gives it: who forms is not to give up yet, however much there
    /// is to be given. `at` is when that was.
    pub fn progress(&mut self, at: Nanos) {
        let election = self.election();
        if let Role::Forming { until, .. } = &mut self.role {
            *until = (*until).max(at + election);
        }
        self.change.iter_mut().for_each(|change| change.progress(at + election));
    }

    /// When the promise is over that its report waits for. Nobody is served meanwhile: whoever drives the
    /// machine ticks then, and not when it would have looked anyway.
    pub fn reports_at(&self) -> Option<Nanos> {
        let waits =
            matches!(self.role, Role::Following { owes: true, .. } | Role::Gathering { own: None, .. });
        waits.then(|| self.watch.free_at(&self.timing))
    }

    fn tick(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        self.tick_promise_queries(now, todo);
        let (free, suspects) =
            (self.watch.is_free(&self.timing, now), self.watch.suspects(&self.timing, now));
        let may_stand = self.may_stand();
        match &mut self.role {
            Role::Following { owes: true, .. } if free => todo.push(Action::Survey),
            Role::Following { owes: false, backoff_until }
                if suspects && now >= *backoff_until && may_stand =>
            {
                self.pre_vote(now, todo);
            }
            Role::PreCandidate { .. } if !suspects => self.follow(false, now),
            Role::PreCandidate { until, .. } if now >= *until => self.back_off(Nanos(0), now),
            Role::Gathering { own: None, until, .. } if free && now < *until => todo.push(Action::Survey),
            Role::Gathering { until, .. } | Role::Forming { until, .. } if now >= *until => {
                self.give_up(now, todo);
            }
            _ => {
                self.tick_transfer(now, todo);
                self.tick_change(now, todo);
            }
        }
    }

    /// Whoever has no memory that counts may not, nor who is none of the replicas.
    fn may_stand(&self) -> bool {
        self.sync.is_some() && self.members.has(self.group.me())
    }

    /// Asks whether others would report too: a replica that is merely cut off from the leader must not end
    /// the leader's term (Raft's pre-vote).
    fn pre_vote(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let Some(term) = self.next_term() else { return };
        let yes = Nodes::only(self.group.me());
        self.role = Role::PreCandidate { term, yes, until: now + self.timing.suspect + self.jitter() };
        for node in self.group.others() {
            todo.push(Action::Ask(node, Ask::PreVote { term, members: self.own.clone() }));
        }
        self.stand_if_wanted(now, todo);
    }

    fn stand_if_wanted(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let Role::PreCandidate { yes, .. } = self.role else { return };
        if self.group.is_majority(yes) {
            self.stand(now, todo);
        }
    }

    fn stand(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let Some(term) = self.next_term() else { return };
        let until = now + self.election() + self.jitter();
        self.take_newest();
        self.role = Role::Gathering { own: None, reports: Vec::new(), until };
        todo.push(Action::Promise(term));
    }

    /// A term of this node above all it has heard of.
    fn next_term(&self) -> Option<Term> {
        self.promised.max(self.heard).next_of(self.group.me())
    }

    fn asked(&mut self, from: NodeId, ask: Ask, now: Nanos, todo: &mut Vec<Action>) {
        let term = ask.term();
        self.watch.find(from);
        self.heard = self.heard.max(term);
        if let Some(theirs) = ask.members() {
            // Who syncs has the promises of its term already.
            let newer = self.members.is_newer(theirs) && !Mutant::OldMembers.is_on();
            if newer && !matches!(ask, Ask::Sync { .. }) {
                return todo.push(self.tell_members(from));
            }
            self.learn(theirs);
        }
        let rightful = self.is_rightful(from, &ask);
        match ask {
            Ask::PreVote { term, .. } => {
                let yes = rightful
                    && term > self.promised
                    && self.sync.is_some()
                    && !self.role.is_elected()
                    && self.watch.suspects(&self.timing, now);
                todo.push(Action::Answer(from, Answer::PreVote { term, yes }));
            }
            // For whoever waits to hear of a leader; nothing rests on it.
            Ask::Serves { .. } => {}
            Ask::Forgot { life, round } => self.answer_promise_query(from, life, round, todo),
            _ if !rightful || term < self.promised => todo.push(self.refuse(from, term)),
            // Not if its memory was lost (L2).
            Ask::Promise { .. } if self.sync.is_none() => todo.push(self.refuse(from, term)),
            Ask::Sync { .. } if self.must_ask_first() => todo.push(self.refuse(from, term)),
            Ask::Promise { .. } | Ask::Sync { .. } if term > self.promised => {
                self.end_leader_term(todo);
                self.follow(false, now);
                self.pending = Some((from, ask));
                todo.push(Action::Promise(term));
            }
            // The report waits for a tick, which brings what the page says after the fence (L8): a heartbeat
            // that landed since the last tick is not known yet.
            Ask::Promise { .. } => self.follow(true, now),
            Ask::Members { members } if term == self.promised => self.keep(from, members, todo),
            Ask::Sync { base, cuts, streams, .. } => {
                self.make_ready(from, term, SyncFrom { base, cuts, streams }, now, todo);
            }
            Ask::Adopt { reclaimed, floors, .. } if self.ready == Some(term) && term == self.promised => {
                // The candidate that it rested for is there.
                self.role = Role::Following { owes: false, backoff_until: now };
                self.failed_elections = 0;
                self.watch.touch(term, now);
                if self.sync != Some(term) {
                    (self.sync, self.mixed) = (Some(term), false);
                    todo.push(Action::Adopt { term, reclaimed, floors });
                }
                todo.push(Action::Answer(from, Answer::Synced { term }));
            }
            // Asked by its leader if it is in sync; by a candidate if it has more.
            Ask::Stand { .. }
                if term == self.promised
                    && self.may_stand()
                    && (self.sync == Some(term) || self.ready.is_none()) =>
            {
                self.stand(now, todo);
            }
            Ask::Fetch { .. } | Ask::Adopt { .. } | Ask::Stand { .. } | Ask::Members { .. } => {
                todo.push(self.refuse(from, term))
            }
        }
    }

    /// Whether one may speak for the term of its question: it is that node's, and the node is a replica.
    fn is_rightful(&self, from: NodeId, ask: &Ask) -> bool {
        let term = ask.term();
        // A leader that is to be no replica any more is one until its term ends. So is one that the newest
        // set known here does not have, if this replica counts in its term: it has the promises of a majority
        // of the set before, so nobody agreed on the newer one.
        let counts = |members: &Members| members.has(from) && members.has(self.group.me());
        let leads = matches!(ask, Ask::Sync { members, .. } if counts(members));
        let known = self.members.has(from) || term == self.promised || leads;
        term.node() == from && known && from != self.group.me()
    }

    /// The leader of the promised term is to write here.
    fn make_ready(
        &mut self,
        from: NodeId,
        term: Term,
        SyncFrom { base, cuts, streams }: SyncFrom,
        now: Nanos,
        todo: &mut Vec<Action>,
    ) {
        self.follow(false, now);
        self.watch.touch(term, now);
        self.ready = Some(term);
        let kept = match self.sync {
            None => KeptMemory::Nothing,
            Some(sync) if sync == term => KeptMemory::Term,
            Some(sync) if sync == base && !self.mixed => KeptMemory::Base,
            Some(_) => KeptMemory::Other,
        };
        self.mixed |= kept == KeptMemory::Other;
        let prepare = Prepare { leader: from, term, base, cuts, streams, kept };
        todo.push(Action::Prepare(prepare));
    }

    fn refuse(&self, to: NodeId, term: Term) -> Action {
        Action::Answer(to, Answer::Refused { term, promised: self.promised })
    }

    fn answered(&mut self, from: NodeId, answer: Answer, now: Nanos, todo: &mut Vec<Action>) {
        match answer {
            Answer::PreVote { term, yes: true } => {
                if let Role::PreCandidate { term: asked, yes, .. } = &mut self.role
                    && *asked == term
                {
                    yes.add(from);
                }
                self.stand_if_wanted(now, todo);
            }
            Answer::Report { term, report } if term == self.promised => {
                if let Role::Gathering { reports, .. } = &mut self.role
                    && reports.iter().all(|(node, _)| *node != from)
                {
                    reports.push((from, report));
                    self.decide(now, todo);
                }
            }
            Answer::Synced { term } if term == self.promised => self.add_synced(from, now, todo),
            Answer::Kept { term, changed } if term == self.promised => self.agrees(from, changed, now, todo),
            Answer::Members { members } => {
                let asks = matches!(self.role, Role::PreCandidate { .. } | Role::Gathering { .. });
                if self.learn(&members) && asks {
                    // Once more, with those.
                    self.follow(false, now);
                }
            }
            Answer::Known { life, round, promised, own, founders, members } if self.is_life(life) => {
                let known = PromiseAnswer { round, own, promised, founders, members };
                self.promise_answered(from, known, now, todo);
            }
            Answer::Refused { promised, .. } => {
                self.heard = self.heard.max(promised);
                let leads = matches!(self.role, Role::Gathering { .. }) || self.role.is_elected();
                if promised > self.promised && leads {
                    self.give_up(now, todo);
                }
            }
            _ => {}
        }
    }

    fn promise_made(&mut self, term: Term, now: Nanos, todo: &mut Vec<Action>) {
        assert!(term > self.promised, "a promise of {term} after one of {}", self.promised);
        self.promised = term;
        self.heard = self.heard.max(term);
        self.ready = None;
        self.knows_promise();
        if let Some((from, ask)) = self.pending.take() {
            return self.asked(from, ask, now, todo);
        }
        if term.node() == self.group.me() && matches!(self.role, Role::Gathering { .. }) {
            // Its own report waits for a tick, too.
            for node in self.group.others() {
                todo.push(Action::Ask(node, Ask::Promise { term, members: self.own.clone() }));
            }
        }
    }

    fn promise_failed(&mut self, term: Term, now: Nanos, todo: &mut Vec<Action>) {
        // What is on disk now is not known: the term itself is never used.
        self.heard = self.heard.max(term);
        if let Some((from, _)) = self.pending.take() {
            todo.push(self.refuse(from, term));
        }
        self.back_off(Nanos(0), now);
    }

    fn surveyed(&mut self, report: ReplicaReport, now: Nanos, todo: &mut Vec<Action>) {
        match &mut self.role {
            Role::Following { owes, .. } if *owes => {
                *owes = false;
                let term = self.promised;
                // The candidate has this long to become leader.
                let backoff_until = now + self.election() + self.jitter();
                self.failed_elections = (self.failed_elections + 1).min(DOUBLINGS_MAX);
                self.role = Role::Following { owes: false, backoff_until };
                todo.push(Action::Answer(term.node(), Answer::Report { term, report }));
            }
            Role::Gathering { own, .. } => {
                *own = Some(report);
                self.decide(now, todo);
            }
            _ => {}
        }
    }

    /// With the reports of a majority: the start set.
    fn decide(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let Role::Gathering { own: Some(own), reports, .. } = &self.role else { return };
        let me = self.group.me();
        let reported = reports.iter().map(|(node, _)| *node).chain([me]).collect();
        if !self.group.is_majority(reported) {
            return;
        }
        match start_set(self.promised, me, own, reports) {
            Ok(start) => {
                let start = StartSet { mixed: self.mixed, ..start };
                self.role = Role::Installing { start: start.clone() };
                todo.push(Action::Install(start));
            }
            // One who may lead is to stand. It rests for an election, having reported; and so do others,
            // which may not lead either and could stand before it again and again.
            Err(node) => {
                todo.push(Action::Ask(node, Ask::Stand { term: self.promised }));
                self.back_off(self.timing.election + self.timing.suspect, now);
            }
        }
    }

    fn installed(&mut self, term: Term, now: Nanos, todo: &mut Vec<Action>) {
        if term != self.promised || !matches!(self.role, Role::Installing { .. }) {
            return;
        }
        (self.sync, self.mixed) = (Some(term), false);
        self.watch.touch(term, now);
        let until = now + self.election() + self.jitter();
        self.role = Role::Forming { synced: Nodes::NONE, until };
        todo.push(Action::Form(term));
        self.add_synced(self.group.me(), now, todo);
    }

    /// One more is synced.
    fn add_synced(&mut self, node: NodeId, now: Nanos, todo: &mut Vec<Action>) {
        match &mut self.role {
            Role::Leading { synced, .. } => {
                synced.add(node);
                self.joined(node, now, todo);
            }
            Role::Forming { synced, .. } => {
                synced.add(node);
                let synced = *synced;
                if self.group.is_majority(synced) {
                    self.role = Role::Leading { synced, transfer: None };
                    self.failed_elections = 0;
                    todo.push(Action::Serve(self.promised));
                }
            }
            _ => {}
        }
    }

    fn end_leader_term(&mut self, todo: &mut Vec<Action>) {
        if self.role.is_elected() {
            todo.push(Action::StepDown(self.promised));
        }
        self.change = None;
    }
}

#[cfg(test)]
mod tests;
