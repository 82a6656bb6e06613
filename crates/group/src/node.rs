//! The replica's own thread: it takes events to the state machine, and carries out the actions that the
//! machine asks for.
//!
//! The thread carries out actions in order and does nothing else meanwhile, since the machine's answer to the
//! next event rests on them. Other threads do what takes long or waits for other replicas: questions,
//! catching up, heartbeats.

mod disk;
mod disk_handle;
mod hand_over;
mod lead;
mod leader_handle;
mod leave;
mod loss;
mod members;
mod nap;
mod order;
mod pace;
mod past;
mod peer_handle;
mod prepare;
mod recall;
mod standby;
mod standby_index;
mod transfer;

use std::collections::BTreeMap;
use std::sync::Arc;

use longarm_base::{Csn, Mutant, ReplicaId, Term};
use longarm_fabric::{Broken, Channel, Completions, Login, QueuePair, Transport};
use longarm_host::observe::{Observation as Seen, WATCHED, observe};
use longarm_host::{Mutex, Pause, Thread, now};
use longarm_memory::{Mapped, OwnedWords, Region, Words};
use longarm_ordered::Orders;
use longarm_replica::page::{self, Beat};
use longarm_replica::{Action, Basis, Event, Group, Machine, Role, RoleKind};
use longarm_wire::{Answer, Ask, PLACES_MAX, ReplicaReport, STREAMS_MAX};

use self::disk_handle::DiskHandle;
use self::leader_handle::LeaderHandle;
use self::past::Past;
use self::peer_handle::PeerHandle;
use self::standby_index::StandbyIndex;
use self::transfer::LeaderTransfer;
use super::install;
use crate::checked_arena::CheckedArena;
use crate::common::{CoreOptions, Lent};
use crate::events::Events;
use crate::held::Contents;
use crate::inbound::{Inbound, PeerRequests, twins};
use crate::leaving::Leave;
use crate::log::Notice;
use crate::options::GroupOptions;
use crate::options::StartError;
use crate::order_book::OrderBook;
use crate::scan::ArenaScan;
use crate::seed::Seed;
use crate::seldom::Seldom;
use crate::service::Service;
use crate::standing::{Leads, Standing};
use crate::stats::Stands;
use crate::takeover::{Step, Takeover};
use crate::vote_store::Promise;

/// A replica, as its own thread has it.
pub(crate) struct Node<T: Transport> {
    transport: Arc<T>,
    options: CoreOptions,
    /// What this replica proves to other replicas.
    login: Login,
    group_options: GroupOptions,
    machine: Machine,
    boot: u64,
    /// Names this start of the replica's process.
    life: u64,
    /// Names the store of its promise.
    origin: u64,
    arena: CheckedArena<Mapped>,
    lent: Arc<Lent>,
    page: Arc<Region>,
    service: Box<dyn Service<T::Qp>>,
    /// What is told to the replica's ordered index, if it keeps one.
    order: OrderBook<T::Qp>,
    inbound: Arc<Inbound<T::Qp>>,
    channel: Channel,
    events: Arc<Events>,
    peers: BTreeMap<ReplicaId, PeerHandle<T::Qp>>,
    /// The threads of former peers, which end by themselves.
    retired_peers: Vec<(ReplicaId, Thread)>,
    requests: Vec<PeerRequests<T::Qp>>,
    done: Completions,
    operators: Vec<PeerRequests<T::Qp>>,
    transfer: Option<LeaderTransfer<T::Qp>>,
    /// The transferee of the term that this replica led and gave up, with that term.
    transferee: Option<(Term, ReplicaId)>,
    leading: Option<LeaderHandle<T::Qp>>,
    /// What the replica found in its memory, which no leader has written to since.
    scan: Option<ArenaScan>,
    standby: StandbyIndex,
    /// The disk of the arena, if it has one.
    disk: Option<DiskHandle>,
    /// No version up to this one is drawn again.
    ceiling: Csn,
    /// The steps of the attempt to lead that is under way.
    takeover: Takeover,
    /// What the replica is, for other threads to read.
    told: Arc<Mutex<Standing>>,
    /// Keeps the log short while a pre-candidate is refused again and again.
    asking: Seldom,
    /// Whether it said that it waits in vain for a leader.
    said_lost: bool,
    leave: Arc<Mutex<Leave>>,
    stop: Arc<Pause>,
}

impl<T: Transport> Node<T> {
    /// A replica over fresh memory, with the promise that its vote store kept.
    pub fn new(
        transport: Arc<T>,
        seed: Seed,
        service: Box<dyn Service<T::Qp>>,
        orders: Option<Arc<Orders<T::Qp>>>,
        inbound: Arc<Inbound<T::Qp>>,
        channel: Channel,
        chance: u64,
    ) -> Result<Node<T>, StartError> {
        let Seed { options, group: group_options, lent, page, login, .. } = seed;
        let me = group_options.check()?;
        let past = Past::read(&group_options, lent.arena.memory(), page.memory(), chance, &options.log)?;
        let (term, life) = (past.promise.term, chance.max(1));
        observe(|| Seen::Started { term });
        // The term that the replica promised before it was started again is open: its leader may sync it.
        let opened = inbound.fence(term);
        assert!(opened.is_ok(), "a door that nobody came through cannot be fenced: {opened:?}");
        let mut machine =
            Machine::new(me, past.state(), group_options.timing, chance, now()).with_mixture(past.kept.mixed);
        machine = machine.with_recall(group_options.elects_from_disks());
        if past.is_blank() {
            machine = machine.blank(life, group_options.first_rest());
        }
        let Past { promise: Promise { boot, origin, .. }, arena, kept, .. } = past;
        Ok(Node {
            told: Arc::new(Mutex::new(Standing::of(group_options.id, &machine))),
            disk: DiskHandle::of(&group_options, kept.disk, machine.sync()),
            events: Arc::new(Events::new(channel.clone())),
            peers: BTreeMap::new(),
            retired_peers: Vec::new(),
            asking: Seldom::default(),
            transport,
            standby: StandbyIndex::new(options.standby),
            options,
            login,
            group_options,
            machine,
            boot,
            life,
            origin,
            arena,
            lent,
            page,
            service,
            order: OrderBook::new(orders),
            inbound,
            channel,
            requests: Vec::new(),
            done: Completions::new(64),
            operators: Vec::new(),
            transfer: None,
            transferee: None,
            leading: None,
            scan: None,
            ceiling: kept.ceiling,
            takeover: Takeover::default(),
            said_lost: false,
            leave: Arc::default(),
            stop: Arc::default(),
        })
    }

    /// What tells other threads how the replica stands in its group.
    pub fn stands_of(&self) -> Stands {
        let told = self.told.clone();
        Arc::new(move || told.lock().stats())
    }

    /// A look at all that the replica holds.
    pub fn contents(&self) -> Contents {
        Contents::of(self.lent.arena.clone(), self.arena.sums.clone())
    }

    fn tell(&self) {
        let leads = |leader: &LeaderHandle<T::Qp>| {
            let engine = &leader.term.core.engine;
            let followers = leader.term.followers.lock();
            Leads {
                lease: engine.lease().since(now()),
                takeover: self.takeover.stats(),
                followers: followers.iter().map(|follower| follower.stats(engine.progress())).collect(),
            }
        };
        let standing = Standing::of(self.group_options.id, &self.machine);
        *self.told.lock() = Standing { leads: self.leading.as_ref().map(leads), ..standing };
    }

    /// Where the replica is told that it is to end.
    pub fn leave(&self) -> Arc<Mutex<Leave>> {
        self.leave.clone()
    }

    /// What ends the replica: the pause to stop, and the channel that wakes its thread.
    pub fn stopper(&self) -> (Arc<Pause>, Channel) {
        (self.stop.clone(), self.channel.clone())
    }

    /// Runs until stopped.
    pub fn run(mut self) {
        if let Some(others) = self.machine.awaits().filter(|_| self.group().others().next().is_some()) {
            let others: Vec<_> = others.iter().map(ReplicaId::to_string).collect();
            self.log(&format!(
                "replica {}: its disk says of no promise, so it has no part in the group until it has heard \
                 from each of the others ({})",
                self.group().me(),
                others.join(", ")
            ));
        }
        self.update_peers();
        while !self.stop.is_stopped() {
            self.hear();
            self.hear_operators();
            self.go_on_leaving();
            self.leave_a_failed_disk();
            self.advance_standby();
            self.tell();
            self.say_if_lost();
            self.scan_before_it_reports();
            self.channel.wait(self.nap());
        }
        self.leave_at_last();
        if self.leading.is_some() {
            self.step_down(false);
        }
        self.disk = None;
        self.part_with_all();
    }

    /// The replicas that count in the term for which this one stands or which it leads; else the replicas of
    /// the group, as far as this one knows.
    fn group(&self) -> Group {
        *self.machine.group()
    }

    /// Logs a change of role. A pre-candidate that is refused goes back and forth between two roles, so only
    /// a few such lines a second are logged.
    fn say_role(&mut self, before: RoleKind, after: RoleKind) {
        let asks = |kind| matches!(kind, RoleKind::Follower | RoleKind::Learner | RoleKind::PreCandidate);
        let withheld = if asks(before) && asks(after) { self.asking.admit(now()) } else { Some(0) };
        let more = match withheld {
            None => return,
            Some(0) => String::new(),
            Some(count) => format!("; {count} such changes were not logged"),
        };
        let (replica, term) = (self.group().me(), self.machine.promised());
        self.log(&format!("replica {replica}: {before} is {after} (term {term}){more}"));
    }

    fn tell_of(&self, notice: Notice, line: &str) {
        self.options.log.tell(notice, line);
    }

    fn log(&self, line: &str) {
        self.options.log.say(line);
    }

    /// Handles everything that has happened since the last call.
    fn hear(&mut self) {
        for requests in self.inbound.new_requests(self.requests.len()) {
            // Questions on an older connection of the same replica have no meaning any more. The end of that
            // connection must not end a sync that the replica has begun anew.
            self.requests.retain(|older| older.replica != requests.replica);
            self.requests.push(requests);
        }
        self.inbound.tidy();
        self.hear_disk();
        self.tick();
        if let Some(term) = Term::from_bits(self.page.memory().load(page::RELEASED))
            && term != Term::ZERO
        {
            self.handle(Event::Released(term));
        }
        while let Some(event) = self.events.take() {
            self.handle(event);
        }
        let mut at = 0;
        while at < self.requests.len() {
            match self.requests[at].hear(&mut self.done, &self.channel, Ask::decode) {
                Ok(asks) => {
                    let (replica, life) = (self.requests[at].replica, self.requests[at].life);
                    for ask in asks {
                        // From then on the term is in use: a process that starts anew takes a younger term.
                        let takes = matches!(ask, Ask::Promise { .. } | Ask::Sync { .. });
                        if takes && !self.inbound.is_owner(ask.term(), replica, life) {
                            self.log(&format!("{}: one of them is not heard", twins(replica)));
                            continue;
                        }
                        self.asked(replica, ask);
                    }
                    at += 1;
                }
                Err(why) => {
                    let requests = self.requests.swap_remove(at);
                    if !why.is_empty() {
                        self.log(&format!("a talk ended: {why}"));
                    }
                    if matches!(requests.qp.state(), Err(Broken::PeerLost(_))) {
                        self.handle(Event::Gone(requests.replica));
                        self.tick();
                    }
                }
            }
        }
    }

    fn tick(&mut self) {
        self.handle(Event::Tick(Beat(self.page.memory().load(page::BEAT))));
    }

    fn asked(&mut self, replica: ReplicaId, ask: Ask) {
        match ask {
            Ask::Fetch { term, stream, from } if self.owes(term, replica) => {
                self.tell_places(replica, stream, from)
            }
            ask => {
                if let Ask::Serves { term, since } = ask {
                    self.heard_of_leader(replica, term, since);
                }
                self.handle(Event::Asked(replica, ask));
            }
        }
    }

    /// Whether this replica owes entries to a candidate: only to the candidate of the promised term.
    fn owes(&self, term: Term, replica: ReplicaId) -> bool {
        term == self.machine.promised() && term.leader() == replica
    }

    fn tell_places(&mut self, replica: ReplicaId, stream: u16, from: u64) {
        let Some(sync) = self.machine.sync() else { return };
        let mut entries = install::places(&self.arena, sync, self.streams(), stream, from);
        entries.truncate(PLACES_MAX);
        self.answer(replica, &Answer::Places { entries });
    }

    fn answer(&mut self, replica: ReplicaId, answer: &Answer) {
        let Some(requests) = self.requests.iter_mut().find(|requests| requests.replica == replica) else {
            return;
        };
        requests.say(&answer.encode());
    }

    fn handle(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let (before, blank) = (self.machine.kind(), self.machine.awaits().is_some());
            let mut todo = Vec::new();
            if let Some(leader) = &self.leading {
                self.machine.handle(Event::Beat(leader.term.beat()), now(), &mut todo);
                self.machine.handle(Event::Pushed(leader.term.pushed()), now(), &mut todo);
            }
            self.machine.handle(event, now(), &mut todo);
            let after = self.machine.kind();
            if before != after {
                let stands = matches!(after, RoleKind::PreCandidate | RoleKind::Candidate);
                if stands && before != RoleKind::PreCandidate {
                    self.takeover.note(Step::Heard, self.machine.heard_leader());
                    self.takeover.note(Step::Suspected, now());
                }
                self.say_role(before, after);
            }
            if blank && self.machine.awaits().is_none() {
                self.log(&format!("replica {}: it knows what it promised", self.group().me()));
            }
            self.update_peers();
            for action in todo {
                if let Some(event) = self.act(action) {
                    events.push(event);
                }
            }
            self.say_who_leads();
        }
    }

    fn say_who_leads(&self) {
        let leader = match self.machine.role() {
            Role::Leading { .. } | Role::Forming { .. } => Some(self.group().me()),
            Role::Following { .. } => self.likely_leader(),
            _ => None,
        };
        let leader = leader.map(|replica| (replica, self.address_of(replica)));
        self.inbound.set_leader(leader);
    }

    fn act(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Promise(term) => {
                self.takeover.note(Step::Wanted, now());
                let promised = self.promise(term);
                self.takeover.note(Step::Promised, now());
                return Some(promised);
            }
            Action::Survey(basis) => {
                self.takeover.note(Step::Free, now());
                let report = if basis == Basis::Memory { self.survey() } else { self.survey_disk() };
                return Some(Event::Surveyed(report));
            }
            Action::Ask(replica, ask) => {
                if let Some(peer) = self.peers.get(&replica) {
                    peer.commands.ask(ask);
                }
            }
            Action::Keep(members) => return Some(self.keep(members)),
            // `update_peers` has done so.
            Action::Enlist(_) | Action::Dismiss(_) => {}
            Action::Deny(why) => self.deny(why),
            Action::Agreed(members) => self.agreed(members),
            Action::Answer(replica, Answer::Synced { term }) => self.say_synced(replica, term),
            Action::Answer(replica, answer) => self.answer(replica, &answer),
            Action::Prepare(prepare) => self.prepare(&prepare),
            Action::Adopt { term, reclaimed, floors } => {
                self.set_floors(if Mutant::AdoptBare.is_on() { &[] } else { &floors });
                self.page.memory().store(page::RECLAIMED, reclaimed);
                observe(|| Seen::Adopted { term });
            }
            Action::CaughtUp(term) => {
                self.standby.go_on(term);
                self.order_to_follow(term);
                self.disk_to_follow(term);
            }
            Action::Install(start) => {
                self.takeover.note(Step::Gathered, now());
                return Some(self.install(&start));
            }
            Action::Form(_) => {
                self.takeover.note(Step::Installed, now());
                let leader_term = self.leading.as_ref().map(|leader| leader.term.clone());
                leader_term.iter().for_each(|leader_term| leader_term.state.lock().form());
                self.peers.values().for_each(|it| it.commands.keep_caught_up(leader_term.clone()));
            }
            Action::Serve(term) => self.serve(term),
            Action::Drain(_, to) => self.drain(to),
            Action::Decline(why) | Action::Resume(why) => self.stay(why),
            Action::Release(_, to) => self.release(to),
            Action::StepDown(_) => self.step_down(true),
        }
        None
    }

    fn promise(&mut self, term: Term) -> Event {
        self.scan = None;
        self.rest_disk();
        let promise = self.to_keep(term, self.machine.members().clone());
        let kept = match Mutant::ForgetPromise.is_on() {
            false => self.group_options.vote_store.store(&promise).map_err(|error| error.to_string()),
            true => Ok(()),
        };
        if kept.is_ok() {
            observe(|| Seen::Promised { term });
        }
        let fenced = kept.and_then(|()| self.inbound.fence(term).map_err(|error| error.to_string()));
        match fenced {
            Ok(()) => {
                observe(|| Seen::Fenced { term });
                if WATCHED {
                    self.arena.check_lines();
                }
                // The machine sees a heartbeat that landed before the fence before it reports (L8).
                let beat = Beat(self.page.memory().load(page::BEAT));
                self.machine.handle(Event::Looked(beat), now(), &mut Vec::new());
                Event::Promised(term)
            }
            Err(error) => {
                self.log(&format!("term {term} cannot be promised: {error}"));
                Event::Unpromised(term)
            }
        }
    }

    /// The number of streams that this replica writes when it leads: one a worker, and maintenance has one.
    fn streams(&self) -> usize {
        self.options.workers + 1
    }

    /// The floors of all streams that there may be: another leader may have more workers.
    fn floors(&self) -> Vec<u64> {
        let at = |stream: usize| self.page.memory().load(page::floor_at(stream));
        (0..STREAMS_MAX).map(at).collect()
    }

    fn clear_floors(&self) {
        self.set_floors(&[]);
    }

    /// Notes these floors in the page. A stream that is not among them has a floor of zero.
    fn set_floors(&self, floors: &[u64]) {
        for stream in 0..STREAMS_MAX {
            self.page.memory().store(page::floor_at(stream), floors.get(stream).copied().unwrap_or(0));
        }
    }

    fn scan(&self, sync: Term) -> ArenaScan {
        ArenaScan::new(&self.arena, sync, self.floors(), self.standby.settled())
    }

    /// The given scan, if it is of that term; else a new one.
    fn scan_unless(&self, scan: Option<ArenaScan>, sync: Term) -> ArenaScan {
        scan.filter(|scan| scan.is_of(sync)).unwrap_or_else(|| self.scan(sync))
    }

    /// Scans the memory while the replica waits for its older promise to run out. After the fence nothing in
    /// the memory changes, so the replica will report what it finds now.
    fn scan_before_it_reports(&mut self) {
        let from_memory = self.machine.basis() == Basis::Memory;
        let waits = self.machine.reports_at().is_some() && from_memory && self.scan.is_none();
        if let Some(sync) = self.machine.sync().filter(|_| waits) {
            self.scan = Some(self.scan(sync));
        }
    }

    fn survey(&mut self) -> ReplicaReport {
        // Memory that a leader overwrites holds nothing that counts; the machine knows what to report of it.
        let unix = self.page.memory().load(page::UNIX);
        let Some(sync) = self.machine.sync() else {
            return ReplicaReport { unix, ..ReplicaReport::default() };
        };
        let scan = self.scan.take();
        let scan = self.scan_unless(scan, sync);
        let reclaimed = self.page.memory().load(page::RECLAIMED);
        let report = scan.report(reclaimed, unix, self.streams());
        observe(|| {
            let lens = report.streams.iter().map(|extent| extent.len).collect();
            let (term, mixed) = (self.machine.promised(), self.machine.is_mixed());
            Seen::Reported { term, sync, lens, reclaimed, mixed }
        });
        self.scan = Some(scan);
        report
    }
}
