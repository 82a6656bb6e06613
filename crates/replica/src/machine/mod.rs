//! Who leads: the life of a replica, as a value that is told events and returns actions (LoLKV 3.4).
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
//! `docs/generated/replica.md`, which a test writes, shows in full what each event does in each of these
//! roles.
//!
//! (1) *Promise*. `promised` only grows, and is on disk before anything rests on it (L2). A promise ends
//!     whatever this replica did in an older term, and the fence follows it (L6, L7).
//! (2) *Report*. A replica reports after the fence, and when no promise to a leader stands in the way any
//!     more (L8); a replica that lost its memory never reports.
//! (3) *Start set*. It is made from a majority's reports, by sync term first (L1: `gather.rs`). A candidate
//!     goes on only if it is among the replicas of the highest sync term itself.
//! (4) *Serve*. A leader serves only when a majority is synced (L1). All older leases are then over: each
//!     replica that reported had kept its promise to the end, and a lease needs a majority of promises.
//! (5) *Sync*. A replica takes the start set of a term that it has promised. It counts when it has all of it,
//!     and all that it ever acknowledged in that term (rule ResyncAll).
//! (6) *Overwritten* is not *lost*. A replica that is being given another start set than its own, entry by
//!     entry, still has at any moment what every older term committed, as far as it ever had it: an entry has
//!     one place for ever, and each start set from which the replica is overwritten has all that was
//!     committed below, so a WRITE there leaves committed bytes as they are. Only entries that one of the
//!     start sets cut off differ. So the replica continues to report as a holder of its old sync term until
//!     it adopts. If a younger term served, a majority has that term, and such a report is not among the
//!     highest. If none did, the start set from such a report is complete, and entries that the last serving
//!     term cut off are in neither start set. If the replica gave its memory up, the leader might be the only
//!     other replica that has everything, and one loss of memory would lose data, or strand the group.
//! (7) A *mixture* is no other replica's start set: it has only the name of its sync term, and what was
//!     committed. A leader that leads from a mixture has no base in common with other replicas, and gives
//!     everything to all. A leader whose base is the old sync term gives everything to a replica that holds a
//!     mixture.
//! (8) *Give up*. A replica that forms and has no majority after an election's time without progress gives
//!     up, so that another one, or itself, stands again.
//! (9) *On request* a leader hands over (`transfer.rs`), or changes the set of replicas (`change.rs`).

mod backoff;
mod blank;
mod change;
mod event;
mod past;
mod recall;
mod role;
mod stage;
mod transfer;

pub use event::{Action, Event, KeptMemory, Prepare};
pub use past::PersistentState;
pub use role::{LeadershipTransfer, Role, RoleKind};
pub use stage::{ChangeRequest, ChangeStage, MembershipChange};

use longarm_base::{Mutant, Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, Members, ReplicaReport};

use self::event::SyncFrom;
use self::past::{Blank, PromiseAnswer, Recalls};
use crate::gather::{StartSet, start_set};
use crate::recall::{Basis, Declined, start_from_disks};
use crate::timing::DOUBLINGS_MAX;
use crate::{Group, LeaderWatch, ReplicaSet, Timing};

/// The state of a replica in the question of who leads.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The replicas that count: for a candidate or leader, those of its term; else the newest set known here.
    group: Group,
    /// The same replicas, with their addresses.
    own: Members,
    /// The newest set of replicas that is known here.
    members: Members,
    /// The change of the set that this leader makes.
    change: Option<MembershipChange>,
    timing: Timing,
    /// The term promised, on disk.
    promised: Term,
    /// The highest term that it has heard of.
    heard: Term,
    /// The term whose start set is here; `None` if the memory does not count.
    sync: Option<Term>,
    /// Whether the memory may hold part of that start set and part of others: a sync that overwrites it
    /// began, and did not end (rules 6 and 7).
    mixed: bool,
    /// The term in which it has made itself ready to be synced.
    ready: Option<Term>,
    role: Role,
    watch: LeaderWatch,
    /// A question that waits until the promise that it needs is made.
    pending: Option<(ReplicaId, Ask)>,
    /// Elections in a row that it reported or stood in and that failed, as far as it knows.
    failed_elections: u32,
    rng: u64,
    /// Whether it knows what it promised.
    blank: Blank,
    /// What the election goes by in which it stands, or reports, or did so last.
    basis: Basis,
    recalls: Recalls,
}

impl Machine {
    /// Replica `me`, which starts at `now` with what is left of its last life. `seed` spreads the moments at
    /// which replicas stand.
    pub fn new(me: ReplicaId, state: PersistentState, timing: Timing, seed: u64, now: Nanos) -> Machine {
        let PersistentState { members, promised, sync, origin, founders } = state;
        let (founded, origins) = (!founders.is_empty(), founders.into_iter().collect());
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
            blank: Blank { origin, founded, origins, ..Blank::default() },
            basis: Basis::Memory,
            recalls: Recalls::default(),
        }
    }

    /// The same machine; `mixed`: the memory was read from a disk that was being given another start set than
    /// that of its sync term.
    pub fn with_mixture(self, mixed: bool) -> Machine {
        Machine { mixed, ..self }
    }

    /// The term promised.
    pub fn promised(&self) -> Term {
        self.promised
    }

    /// When a leader was last heard of; if none was yet, when this replica began.
    pub fn heard_leader(&self) -> Nanos {
        self.watch.changed()
    }

    /// The term whose start set is here, if the memory counts.
    pub fn sync(&self) -> Option<Term> {
        self.sync
    }

    /// Whether the memory holds no more than what was committed before and in that term, and parts of other
    /// start sets. A leader that builds on it voids the entries behind a hole.
    pub fn is_mixed(&self) -> bool {
        self.mixed
    }

    /// The kind of its present role.
    pub fn kind(&self) -> RoleKind {
        self.role.kind(self.sync)
    }

    /// Its present role.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The replicas that count here: for a candidate or leader, those of its own term; else the newest set
    /// known.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The same replicas, with their addresses.
    pub fn own(&self) -> &Members {
        &self.own
    }

    /// The newest set of replicas that is known here.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The change of that set that this leader makes.
    pub fn change(&self) -> Option<&MembershipChange> {
        self.change.as_ref()
    }

    /// Handles an event at `now`; adds the actions to `todo`.
    pub fn handle(&mut self, event: Event, now: Nanos, todo: &mut Vec<Action>) {
        match event {
            Event::Tick(beat) => {
                self.watch.observe(beat, &self.timing, now);
                self.tick(now, todo);
            }
            Event::Looked(beat) => self.watch.observe(beat, &self.timing, now),
            Event::Beat(at) => self.beat(at),
            Event::Pushed(at) => self.pushed(at),
            Event::Asked(from, ask) => self.asked(from, ask, now, todo),
            Event::Answered(from, answer) => self.answered(from, answer, now, todo),
            Event::Promised(term) => self.promise_made(term, now, todo),
            Event::Unpromised(term) => self.promise_failed(term, now, todo),
            Event::Surveyed(report) => self.surveyed(report, now, todo),
            Event::Installed(term) => self.installed(term, now, todo),
            Event::NotInstalled(term) => {
                if term == self.promised && matches!(self.role, Role::Installing { .. }) {
                    // The memory may hold half of it: it still is the base's start set and prefixes.
                    self.give_up(now, todo);
                }
            }
            Event::Lost(replica) => {
                if let Role::Forming { synced, .. } | Role::Leading { synced, .. } = &mut self.role {
                    synced.remove(replica);
                }
                self.tick_transfer(now, todo);
            }
            Event::Gone(replica) => self.gone(replica, now),
            Event::Released(term) => self.released(term, now),
            Event::HandOver(to) => self.begin_transfer(to, now, todo),
            Event::Drained(term) => self.drained(term, now, todo),
            Event::ReleaseDone(term) => self.release_done(term, now, todo),
            Event::ChangeMembers(request) => self.change_members(request, now, todo),
            Event::Kept(members) => self.kept(members, now, todo),
            Event::Unkept => self.not_kept(todo),
            Event::Recall => self.recall(now, todo),
        }
    }

    fn beat(&mut self, at: Nanos) {
        if self.role.is_elected() && !Mutant::ReportAtOnce.is_on() {
            self.watch.touch(self.promised, at);
        }
    }

    fn pushed(&mut self, at: Nanos) {
        let election = self.election();
        if let Role::Forming { until, .. } = &mut self.role {
            *until = (*until).max(at + election);
        }
        self.change.iter_mut().for_each(|change| change.progress(at + election));
    }

    /// When the promise ends that its report waits for. No client is served meanwhile, so the driver ticks at
    /// that moment, and not at its next regular look.
    pub fn reports_at(&self) -> Option<Nanos> {
        let waits =
            matches!(self.role, Role::Following { owes: true, .. } | Role::Gathering { own: None, .. });
        waits.then(|| self.watch.free_at(&self.timing))
    }

    fn tick(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        self.tick_promise_queries(now, todo);
        let (free, suspects) =
            (self.watch.is_free(&self.timing, now), self.watch.suspects(&self.timing, now));
        let (may_stand, is_to_recall) = (self.may_stand(), self.is_to_recall(now));
        let survey = Action::Survey(self.basis);
        match &mut self.role {
            Role::Following { owes: true, .. } if free => todo.push(survey),
            Role::Following { owes: false, backoff_until } if suspects && now >= *backoff_until => {
                if may_stand {
                    self.canvass(Basis::Memory, now, todo);
                } else if is_to_recall {
                    self.canvass_disks(now, todo);
                }
            }
            Role::PreCandidate { .. } if !suspects => self.follow(false, now),
            Role::PreCandidate { until, .. } if now >= *until => self.back_off(Nanos(0), now),
            Role::Gathering { own: None, until, .. } if free && now < *until => todo.push(survey),
            Role::Gathering { until, .. } | Role::Forming { until, .. } if now >= *until => {
                self.give_up(now, todo);
            }
            _ => {
                self.tick_transfer(now, todo);
                self.tick_change(now, todo);
            }
        }
    }

    /// Whether it may stand: it has memory that counts, and is one of the replicas.
    fn may_stand(&self) -> bool {
        self.sync.is_some() && self.members.has(self.group.me())
    }

    /// Asks whether others would report too: a replica that is merely cut off from the leader must not end
    /// the leader's term (Raft's pre-vote).
    fn canvass(&mut self, basis: Basis, now: Nanos, todo: &mut Vec<Action>) {
        let Some(term) = self.next_term() else { return };
        self.basis = basis;
        let yes = ReplicaSet::only(self.group.me());
        self.role = Role::PreCandidate { term, yes, until: now + self.timing.suspect + self.jitter() };
        for replica in self.group.others() {
            todo.push(Action::Ask(replica, self.pre_vote_question(term)));
        }
        self.stand_if_wanted(now, todo);
    }

    fn stand_if_wanted(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let Role::PreCandidate { yes, .. } = self.role else { return };
        if self.basis.is_enough(&self.group, yes) {
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

    /// The next term of this replica, above all that it has heard of.
    fn next_term(&self) -> Option<Term> {
        self.promised.max(self.heard).next_of(self.group.me())
    }

    fn asked(&mut self, from: ReplicaId, ask: Ask, now: Nanos, todo: &mut Vec<Action>) {
        let term = ask.term();
        self.watch.find(from);
        self.heard = self.heard.max(term);
        if let Some(theirs) = ask.members() {
            // A leader that syncs has the promises of its term already.
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
            // For a driver that waits to hear of a leader; no decision rests on it.
            Ask::Serves { .. } => {}
            Ask::Forgot { life, round } => self.answer_promise_query(from, life, round, todo),
            Ask::Recall { .. } => self.asked_to_recall(from, ask, rightful, now, todo),
            _ if !rightful || term < self.promised => todo.push(self.refuse(from, term)),
            // A replica that lost its memory does not promise (L2).
            Ask::Promise { .. } if self.sync.is_none() => todo.push(self.refuse(from, term)),
            Ask::Sync { .. } if self.must_ask_first() => todo.push(self.refuse(from, term)),
            Ask::Promise { .. } | Ask::Sync { .. } if term > self.promised => {
                self.promise_first(from, ask, now, todo);
            }
            // The report waits for a tick, which brings the state of the page after the fence (L8): a
            // heartbeat that landed since the last tick is not known yet.
            Ask::Promise { .. } => {
                self.basis = Basis::Memory;
                self.follow(true, now);
            }
            Ask::Installs { .. } if term == self.promised => self.await_install(term, now),
            Ask::Members { members } if term == self.promised => self.keep(from, members, todo),
            Ask::Sync { base, cuts, streams, .. } => {
                self.make_ready(from, term, SyncFrom { base, cuts, streams }, now, todo);
            }
            Ask::Adopt { reclaimed, floors, .. } if self.ready == Some(term) && term == self.promised => {
                self.adopt(Action::Adopt { term, reclaimed, floors }, now, todo);
                todo.push(Action::Answer(from, Answer::Synced { term }));
            }
            // Its leader asks it if it is in sync; a candidate asks it if it has more.
            Ask::Stand { .. }
                if term == self.promised
                    && self.may_stand()
                    && (self.sync == Some(term) || self.ready.is_none()) =>
            {
                self.basis = Basis::Memory;
                self.stand(now, todo);
            }
            // Whoever lost its memory hears of a term that it did not promise.
            Ask::Installs { .. } => {}
            Ask::Fetch { .. } | Ask::Adopt { .. } | Ask::Stand { .. } | Ask::Members { .. } => {
                todo.push(self.refuse(from, term))
            }
        }
    }

    /// Promises the term of a question, and hears it then.
    fn promise_first(&mut self, from: ReplicaId, ask: Ask, now: Nanos, todo: &mut Vec<Action>) {
        self.end_leader_term(todo);
        self.follow(false, now);
        let term = ask.term();
        self.pending = Some((from, ask));
        todo.push(Action::Promise(term));
    }

    /// Whether a replica may speak for the term of its question: the term is its own, and it is of the group.
    fn is_rightful(&self, from: ReplicaId, ask: &Ask) -> bool {
        let term = ask.term();
        // A leader that is being removed is a replica until its term ends. So is a leader that the newest set
        // known here does not contain, if this replica counts in its term: it has the promises of a majority
        // of the set before, so the newer set was not agreed on.
        let counts = |members: &Members| members.has(from) && members.has(self.group.me());
        let leads = matches!(ask, Ask::Sync { members, .. } if counts(members));
        let known = self.members.has(from) || term == self.promised || leads;
        term.leader() == from && known && from != self.group.me()
    }

    /// Makes the memory ready for the leader of the promised term.
    fn make_ready(
        &mut self,
        from: ReplicaId,
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

    fn refuse(&self, to: ReplicaId, term: Term) -> Action {
        Action::Answer(to, Answer::Refused { term, promised: self.promised })
    }

    fn answered(&mut self, from: ReplicaId, answer: Answer, now: Nanos, todo: &mut Vec<Action>) {
        match answer {
            Answer::PreVote { term, yes: true } => {
                if let Role::PreCandidate { term: asked, yes, .. } = &mut self.role
                    && *asked == term
                {
                    yes.add(from);
                    self.recalls.heard.add(from);
                }
                self.stand_if_wanted(now, todo);
            }
            Answer::Report { term, report } if term == self.promised => {
                if let Role::Gathering { reports, .. } = &mut self.role
                    && reports.iter().all(|(replica, _)| *replica != from)
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
                    // It canvasses once more, with those.
                    self.follow(false, now);
                }
            }
            Answer::Known { life, round, promised, origin, founders, members } if self.is_life(life) => {
                let known = PromiseAnswer { round, promised, origin, founders, members };
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
        if term.leader() == self.group.me() && matches!(self.role, Role::Gathering { .. }) {
            // Its own report waits for a tick, too.
            for replica in self.group.others() {
                todo.push(Action::Ask(replica, self.promise_question(term)));
            }
        }
    }

    fn promise_failed(&mut self, term: Term, now: Nanos, todo: &mut Vec<Action>) {
        // The content of the disk is now unknown, so the term itself is never used.
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
                todo.push(Action::Answer(term.leader(), Answer::Report { term, report }));
            }
            Role::Gathering { own, .. } => {
                *own = Some(report);
                self.decide(now, todo);
            }
            _ => {}
        }
    }

    /// Decides on the start set, once enough replicas have reported.
    fn decide(&mut self, now: Nanos, todo: &mut Vec<Action>) {
        let Role::Gathering { own: Some(own), reports, .. } = &self.role else { return };
        let me = self.group.me();
        let reported = reports.iter().map(|(replica, _)| *replica).chain([me]).collect();
        if !self.basis.is_enough(&self.group, reported) {
            return;
        }
        let found = match self.basis {
            Basis::Memory => start_set(self.promised, me, own, reports)
                .map(|start| StartSet { mixed: self.mixed, ..start })
                .map_err(Declined::Memory),
            Basis::Disks { lossy } => start_from_disks(self.promised, &self.group, own, reports, lossy),
        };
        match found {
            Ok(start) => {
                if start.disk.is_some() {
                    // What only its memory has is given up.
                    (self.sync, self.mixed) = (None, false);
                }
                self.role = Role::Installing { start: start.clone() };
                todo.push(Action::Install(start));
            }
            Err(why) => self.decline(why, now, todo),
        }
    }

    fn installed(&mut self, term: Term, now: Nanos, todo: &mut Vec<Action>) {
        if term != self.promised || !matches!(self.role, Role::Installing { .. }) {
            return;
        }
        (self.sync, self.mixed) = (Some(term), false);
        self.watch.touch(term, now);
        let until = now + self.election() + self.jitter();
        self.role = Role::Forming { synced: ReplicaSet::NONE, until };
        todo.push(Action::Form(term));
        self.add_synced(self.group.me(), now, todo);
    }

    /// Counts one more replica as synced.
    fn add_synced(&mut self, replica: ReplicaId, now: Nanos, todo: &mut Vec<Action>) {
        match &mut self.role {
            Role::Leading { synced, .. } => {
                synced.add(replica);
                self.joined(replica, now, todo);
            }
            Role::Forming { synced, .. } => {
                synced.add(replica);
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
