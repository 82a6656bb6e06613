//! The driver around each machine, as in a server: it keeps promises on disk, fences, surveys, attaches
//! followers, WRITEs entries and heartbeats, counts completions. Duties that the machine leaves to its driver
//! are done here, and the rules that can be switched off are those of [`Rules`].

mod copies;
mod transfer;

use std::collections::BTreeMap;

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, Extent, Members, ReplicaReport};

use super::Rules;
use super::memory::STREAMS;
use super::world::{Event as Happening, MS, Saved, TIMING, World};
use crate::page::Beat;
use crate::{Action, Event, Gate, LeaderLease, RoleKind, StartSet, Timing};

/// The queue pairs: one for each stream, one for copies and one for heartbeats. Each is in order by itself.
const COPIES: usize = STREAMS;
const BEATS: usize = STREAMS + 1;

/// A leader's connection to a follower's memory, and the questions that belong to it.
pub struct Conn {
    leader: usize,
    follower: usize,
    leader_life: u32,
    follower_life: u32,
    term: Term,
    queues: [Queue; STREAMS + 2],
}

#[derive(Clone, Copy, Default)]
struct Queue {
    last: u64,
    broken: bool,
}

/// A one-sided WRITE.
#[derive(Clone, Copy, Debug)]
pub enum Write {
    Entry {
        stream: usize,
        position: u64,
    },
    Beat {
        beat: Beat,
        sent: Nanos,
    },
    /// Promises are taken back.
    Release,
    Copy {
        term: Term,
        stream: usize,
        from: u64,
        to: u64,
    },
    /// A place of an entry of an older term: the leader has the entry, or it has not.
    Place {
        term: Term,
        stream: usize,
        position: u64,
        there: bool,
    },
}

/// The state of a leader that forms and leads.
pub struct LeaderTerm {
    term: Term,
    start: StartSet,
    pub serves: bool,
    gates: Vec<Gate>,
    lease: LeaderLease,
    attached: BTreeMap<usize, Attached>,
    beats: u64,
    next_beat: Nanos,
    /// The moment that clients were last vouched for.
    vouched: Nanos,
    drain: Option<transfer::Drain>,
}

struct Attached {
    conn: usize,
    since: u64,
    stage: Stage,
    /// The lengths of the streams of the term when it began to be given them.
    given: Vec<u64>,
}

enum Stage {
    Asked,
    /// The WRITEs that are still to be copied, and how many are under way.
    Copying(Vec<Write>, usize),
    Adopting,
    Synced,
}

impl Rules {
    /// The times of the machines.
    pub fn timing(&self) -> Timing {
        let promise = if self.promise_kept { TIMING.promise } else { Nanos(0) };
        Timing { promise, ..TIMING }
    }

    /// The times of the leases: 490 ms less the drift, or 500 ms less the drift, which is the promise.
    fn lease_timing(&self) -> Timing {
        Timing { promise: if self.drift { TIMING.promise } else { Nanos::from_millis(500) }, ..TIMING }
    }
}

fn id(replica: usize) -> ReplicaId {
    ReplicaId(replica as u8)
}

impl World {
    pub fn tick(&mut self, replica: usize) {
        let page = self.replicas[replica].page;
        self.tell(replica, Event::Tick(page));
        if self.replicas[replica].released != Term::ZERO {
            self.tell(replica, Event::Released(self.replicas[replica].released));
        }
        self.lead_on(replica);
        self.drain(replica);
    }

    /// Tells the machine an event, and does what it says.
    fn tell(&mut self, replica: usize, event: Event) {
        let (now, mut todo) = (self.local(replica), Vec::new());
        self.replicas[replica].machine.handle(event, now, &mut todo);
        todo.into_iter().for_each(|action| self.act(replica, action));
    }

    fn act(&mut self, replica: usize, action: Action) {
        if self.trace.is_some() {
            self.note(|| format!("{replica}: {action:?}"));
        }
        match action {
            Action::Promise(term) => self.write_disk(replica, Saved::Promise(term)),
            Action::Keep(members) => self.write_disk(replica, Saved::Members(members)),
            // A joining replica is attached as long as the machine says so (`reign`).
            Action::Enlist(_) | Action::Dismiss(_) | Action::Deny(_) => {}
            // What a replica looks at ahead of time is the driver's affair.
            Action::CaughtUp(_) => {}
            Action::Agreed(members) => self.judge.agrees(&members),
            Action::Survey(_) => {
                let report = self.survey(replica);
                self.tell(replica, Event::Surveyed(report));
            }
            Action::Ask(to, ask) => {
                self.send(Happening::Ask { from: replica, to: usize::from(to.0), ask, conn: None });
            }
            Action::Answer(to, answer) => self.answer(replica, to, answer),
            Action::Prepare(prepare) => self.prepare(replica, prepare),
            Action::Adopt { .. } => {
                (self.replicas[replica].lost, self.replicas[replica].blended) = (false, false);
                self.check_sync(replica);
            }
            Action::Install(start) => {
                self.replicas[replica].installing = Some(start.term);
                let delay = self.delay() + self.delay();
                let life = self.replicas[replica].life;
                self.after(delay, Happening::Fetched { replica, life, start });
            }
            Action::Form(_) => {
                self.lead_on(replica);
                if !self.rules.serve_synced {
                    let term = self.replicas[replica].machine.promised();
                    let others: Vec<ReplicaId> = self.replicas[replica].machine.group().others().collect();
                    for other in others {
                        self.tell(replica, Event::Answered(other, Answer::Synced { term }));
                    }
                }
            }
            Action::Serve(term) => {
                let own = self.replicas[replica].machine.own().clone();
                self.judge.serves(id(replica), &own, term, self.now);
                if let Some(leader_term) = &mut self.replicas[replica].leader_term {
                    leader_term.serves = true;
                }
            }
            Action::Drain(_, to) => self.begin_drain(replica, to),
            Action::Decline(_) => {}
            Action::Resume(_) => self.end_drain(replica),
            Action::Release(term, to) => self.release(replica, term, to),
            Action::StepDown(_) => {
                self.replicas[replica].leader_term = None;
                self.replicas[replica].installing = None;
            }
        }
    }

    fn write_disk(&mut self, replica: usize, saved: Saved) {
        self.replicas[replica].busy = true;
        let ok = self.calm || !self.dice.hundred(6);
        let delay = self.delay() * 3;
        let life = self.replicas[replica].life;
        self.after(delay, Happening::Disk { replica, life, saved, ok });
    }

    /// Handles the end of a write to disk. After a promise it fences; then it tells the machine.
    pub fn disk_said(&mut self, replica: usize, saved: Saved, ok: bool) {
        match saved {
            Saved::Promise(term) if ok => {
                self.replicas[replica].fence = Some(term);
                self.check_promise(replica, term);
                self.tell(replica, Event::Promised(term));
            }
            Saved::Promise(term) => {
                if self.dice.hundred(50) {
                    self.replicas[replica].fence = None;
                }
                self.tell(replica, Event::Unpromised(term));
            }
            Saved::Members(members) if ok => self.tell(replica, Event::Kept(members)),
            Saved::Members(_) => self.tell(replica, Event::Unkept),
        }
    }

    fn survey(&self, replica: usize) -> ReplicaReport {
        let replica = &self.replicas[replica];
        let sync = replica.machine.sync().unwrap_or_default();
        let extent = |stream| Extent { floor: 0, len: replica.memory.len(sync, stream) };
        let streams = if sync == Term::ZERO { 0 } else { STREAMS };
        ReplicaReport { sync, reclaimed: 0, unix: 0, disk: None, streams: (0..streams).map(extent).collect() }
    }

    fn answer(&mut self, replica: usize, to: ReplicaId, answer: Answer) {
        let to = usize::from(to.0);
        let of_conn = matches!(answer, Answer::Ready { .. } | Answer::Synced { .. });
        let conn = self.replicas[replica].heard_on.get(&to).map(|&(conn, _)| conn).filter(|_| of_conn);
        self.send(Happening::Answer { from: replica, to, answer, conn });
    }

    /// Handles what was delivered.
    pub fn handle(&mut self, replica: usize, event: Happening) {
        match event {
            Happening::Ask { from, ask, conn, .. } => {
                if let Some(conn) = conn {
                    // Each connection brings each question once, in order.
                    let asked = (conn, u8::from(matches!(ask, Ask::Adopt { .. })));
                    let is_next =
                        self.replicas[replica].heard_on.get(&from).is_none_or(|&known| asked > known);
                    let same = self.conns[conn].follower_life == self.replicas[replica].life;
                    if self.rules.own_connection && !(is_next && same) {
                        return;
                    }
                    self.replicas[replica].heard_on.insert(from, asked);
                }
                let ask = self.as_heard(replica, ask);
                self.tell(replica, Event::Asked(id(from), ask));
            }
            Happening::Answer { from, answer, conn, .. } => self.answered(replica, from, answer, conn),
            Happening::Fetched { life, start, .. } => {
                if life == self.replicas[replica].life
                    && self.replicas[replica].installing == Some(start.term)
                {
                    self.fetched(replica, start);
                }
            }
            Happening::Done { conn, write, ok } => self.completed(replica, conn, write, ok),
            Happening::Gone { from, .. } => self.tell(replica, Event::Gone(id(from))),
            _ => unreachable!("{event:?} is not delivered"),
        }
    }

    /// Fetches from each holder, cuts, and is the base of a new term.
    fn fetched(&mut self, replica: usize, start: StartSet) {
        self.replicas[replica].installing = None;
        let term = start.term;
        for (stream, cut) in start.cuts.iter().enumerate() {
            let holder = usize::from(cut.holder.0);
            let there = &self.replicas[holder];
            let reached = !self.is_cut(replica, holder) && !self.is_cut(holder, replica) && there.up;
            let has = there.memory.len(start.base, stream) >= cut.len;
            if holder != replica && !(reached && has && there.fence == Some(term)) {
                return self.tell(replica, Event::NotInstalled(term));
            }
            for position in 0..cut.len {
                self.replicas[replica].memory.put(start.base, stream, position);
            }
            self.replicas[replica].memory.cut(start.base, stream, cut.len);
        }
        self.replicas[replica].memory.forget_after(start.base);
        if start.mixed {
            self.replicas[replica].memory.close();
        }
        self.replicas[replica].blended = false;
        self.judge.installed(term, self.replicas[replica].memory.before(term));
        let group = *self.replicas[replica].machine.group();
        let mut gates = vec![Gate::new(group); STREAMS];
        if !self.rules.sync_gate {
            gates.iter_mut().for_each(|gate| group.others().for_each(|other| gate.set_synced(other, true)));
        }
        self.replicas[replica].leader_term = Some(LeaderTerm {
            term,
            start,
            serves: false,
            gates,
            lease: LeaderLease::new(group, &self.rules.lease_timing()),
            attached: BTreeMap::new(),
            beats: 0,
            next_beat: Nanos(0),
            vouched: Nanos(0),
            drain: None,
        });
        self.tell(replica, Event::Installed(term));
    }

    // The duties of a leader.

    /// Sends heartbeats, and takes care of followers that are not attached, or stuck.
    fn lead_on(&mut self, replica: usize) {
        let now = self.local(replica);
        let machine = &self.replicas[replica].machine;
        let joins = machine.change().and_then(|change| change.joins);
        let others: Vec<usize> = machine.group().others().chain(joins).map(|it| usize::from(it.0)).collect();
        let others: Vec<usize> = others.into_iter().filter(|&other| other < self.replicas.len()).collect();
        let Some(leader_term) = &mut self.replicas[replica].leader_term else { return };
        let (real, mut beat) = (self.now, None);
        if now >= leader_term.next_beat {
            leader_term.next_beat = now + TIMING.heartbeat;
            leader_term.beats += 1;
            beat = Some(Beat::new(leader_term.term, leader_term.beats));
        }
        let stuck = |attached: &Attached| {
            matches!(attached.stage, Stage::Asked | Stage::Adopting) && real > attached.since + 80 * MS
        };
        let slow = leader_term.attached.iter().filter(|(_, attached)| stuck(attached));
        let slow: Vec<usize> = slow.map(|(&other, _)| other).collect();
        let open = |attached: &Attached| !matches!(attached.stage, Stage::Asked);
        let conns = leader_term.attached.values().filter(|&attached| open(attached));
        let conns: Vec<usize> = conns.map(|attached| attached.conn).collect();
        if let Some(beat) = beat {
            if self.rules.leader_promises {
                self.tell(replica, Event::Beat(now));
            }
            conns.into_iter().for_each(|conn| self.post(conn, Write::Beat { beat, sent: now }));
        }
        slow.into_iter().for_each(|other| self.detach(replica, other));
        for other in others {
            let Some(leader_term) = &self.replicas[replica].leader_term else { return };
            if !leader_term.attached.contains_key(&other) {
                self.attach(replica, other);
            }
        }
    }

    fn attach(&mut self, replica: usize, other: usize) {
        let conn = self.conns.len();
        let (leader_life, follower_life) = (self.replicas[replica].life, self.replicas[other].life);
        let since = self.now;
        let Some(leader_term) = &mut self.replicas[replica].leader_term else { return };
        let (term, queues) = (leader_term.term, [Queue::default(); STREAMS + 2]);
        self.conns.push(Conn { leader: replica, follower: other, leader_life, follower_life, term, queues });
        leader_term.attached.insert(other, Attached { conn, since, stage: Stage::Asked, given: Vec::new() });
        let cuts = leader_term.start.cuts.iter().map(|cut| cut.len).collect();
        let base = leader_term.start.common();
        let members = self.replicas[replica].machine.own().clone();
        let ask = Ask::Sync { term, base, cuts, streams: STREAMS as u16, members };
        self.send(Happening::Ask { from: replica, to: other, ask, conn: Some(conn) });
    }

    fn detach(&mut self, replica: usize, other: usize) {
        let gated = self.rules.sync_gate;
        let Some(leader_term) = &mut self.replicas[replica].leader_term else { return };
        leader_term.attached.remove(&other);
        if gated {
            leader_term.gates.iter_mut().for_each(|gate| gate.set_synced(id(other), false));
        }
        self.tell(replica, Event::Lost(id(other)));
    }

    fn answered(&mut self, replica: usize, from: usize, answer: Answer, conn: Option<usize>) {
        if let Some(conn) = conn
            && self.rules.own_connection
        {
            let attached = self.replicas[replica]
                .leader_term
                .as_ref()
                .and_then(|leader_term| leader_term.attached.get(&from));
            if attached.is_none_or(|attached| attached.conn != conn) {
                return;
            }
        }
        let ready =
            if let Answer::Ready { term, held } = &answer { Some((*term, held.clone())) } else { None };
        let synced = if let Answer::Synced { term } = answer { Some(term) } else { None };
        let answer = self.changed(replica, answer);
        self.tell(replica, Event::Answered(id(from), answer));
        if let Some((term, held)) = ready {
            self.begin_copy(replica, from, term, &held);
        }
        let Some(leader_term) = &mut self.replicas[replica].leader_term else { return };
        let Some(attached) = leader_term.attached.get_mut(&from) else { return };
        if synced == Some(leader_term.term) && matches!(attached.stage, Stage::Adopting) {
            attached.stage = Stage::Synced;
            for (gate, given) in leader_term.gates.iter_mut().zip(&attached.given) {
                gate.ack(id(from), *given);
                gate.set_synced(id(from), true);
            }
            self.count(replica);
        }
    }

    /// Without the rule, no replica checks which of two sets of replicas is newer.
    fn as_heard(&self, replica: usize, ask: Ask) -> Ask {
        let own = self.replicas[replica].machine.members();
        let same = |members: Members| Members { term: own.term, changed: own.changed, ..members };
        match ask {
            Ask::Promise { term, members } if !self.rules.newest => {
                Ask::Promise { term, members: same(members) }
            }
            Ask::PreVote { term, members } if !self.rules.newest => {
                Ask::PreVote { term, members: same(members) }
            }
            ask => ask,
        }
    }

    /// Without the rule, a report of another sync term makes up the majority, and does not forbid to lead.
    fn changed(&self, replica: usize, answer: Answer) -> Answer {
        match answer {
            Answer::Report { term, report } if !self.rules.base_only => {
                let sync = self.replicas[replica].machine.sync().unwrap_or_default();
                let streams = if sync == report.sync { report.streams } else { Vec::new() };
                Answer::Report {
                    term,
                    report: ReplicaReport { sync, reclaimed: 0, unix: 0, disk: None, streams },
                }
            }
            other => other,
        }
    }

    /// Posts a WRITE.
    fn post(&mut self, conn: usize, write: Write) {
        // Copies are slow: reading what is to be copied takes time.
        let slow = matches!(write, Write::Copy { .. } | Write::Place { .. }) && self.dice.hundred(30);
        let delay = self.delay() / 4 + if slow { self.dice.within(0, self.slow) } else { 0 };
        let queue = &mut self.conns[conn].queues[queue_of(write)];
        queue.last = (self.now + delay).max(queue.last + 1);
        let delay = queue.last - self.now;
        self.after(delay, Happening::Land { conn, write });
    }

    /// Lands a WRITE, whatever the follower's processor does.
    pub fn land(&mut self, conn: usize, write: Write) {
        let Conn { leader, follower, follower_life, term, queues, .. } = self.conns[conn];
        if queues[queue_of(write)].broken {
            return;
        }
        let there = &self.replicas[follower];
        let open = there.fence == Some(term) || !self.rules.fence;
        let ok = there.up && there.life == follower_life && open && !self.is_cut(leader, follower);
        if ok {
            let there = &mut self.replicas[follower];
            match write {
                Write::Entry { stream, position } => there.memory.put(term, stream, position),
                Write::Beat { beat, .. } => there.page = beat,
                Write::Release => there.released = term,
                Write::Copy { term, stream, from, to } => {
                    (from..to).for_each(|position| there.memory.put(term, stream, position));
                }
                Write::Place { term, stream, position, there: true } => {
                    there.memory.put(term, stream, position);
                }
                Write::Place { term, stream, position, .. } => there.memory.void(term, stream, position),
            }
            self.check_sync(follower);
        }
        let delay = if ok { self.delay() / 4 } else { 10 * MS };
        self.conns[conn].queues[queue_of(write)].broken = !ok;
        self.after(delay, Happening::Done { conn, write, ok });
    }

    /// Delivers a completion; one that cannot arrive ends the connection.
    pub fn done(&mut self, conn: usize, write: Write, ok: bool) {
        let Conn { leader, follower, leader_life, .. } = self.conns[conn];
        if ok && self.is_cut(follower, leader) {
            self.conns[conn].queues[queue_of(write)].broken = true;
            return self.after(10 * MS, Happening::Done { conn, write, ok: false });
        }
        if self.replicas[leader].life == leader_life {
            self.deliver(leader, Happening::Done { conn, write, ok });
        }
    }

    fn completed(&mut self, replica: usize, conn: usize, write: Write, ok: bool) {
        let Conn { follower, term, .. } = self.conns[conn];
        let (now, clock, real) = (self.local(replica), self.replicas[replica].clock, self.now);
        let Some(leader_term) =
            self.replicas[replica].leader_term.as_mut().filter(|leader_term| leader_term.term == term)
        else {
            return;
        };
        let current = leader_term.attached.get(&follower).is_some_and(|attached| attached.conn == conn);
        match write {
            Write::Release => self.released(replica, follower),
            _ if !ok && current => self.detach(replica, follower),
            _ if !ok => {}
            Write::Entry { stream, position } => {
                leader_term.gates[stream].ack(id(follower), position + 1);
                self.count(replica);
            }
            Write::Beat { sent, .. } => {
                leader_term.lease.renew(id(follower), sent);
                if leader_term.keeps_lease(&self.rules) {
                    self.judge.leases(term, clock.real(leader_term.lease.end(now)), real);
                }
                self.vouch(replica);
            }
            Write::Copy { .. } | Write::Place { .. } if current => {
                self.tell(replica, Event::Pushed(now));
                self.copy_on(replica, follower);
            }
            Write::Copy { .. } | Write::Place { .. } => {}
        }
    }

    /// Counts what is committed by now.
    fn count(&mut self, replica: usize) {
        let memory = &self.replicas[replica].memory;
        let written: Vec<u64> = match &self.replicas[replica].leader_term {
            Some(leader_term) => (0..STREAMS).map(|stream| memory.len(leader_term.term, stream)).collect(),
            None => return,
        };
        let Some(leader_term) = &mut self.replicas[replica].leader_term else { return };
        for (stream, gate) in leader_term.gates.iter_mut().enumerate() {
            self.judge.commits(leader_term.term, stream, gate.committed(written[stream]));
        }
    }

    /// Lets a client write or read somewhere.
    pub fn client(&mut self) {
        let replica = self.dice.pick(self.replicas.len());
        let replica = self
            .replicas
            .iter()
            .position(|n| n.leader_term.is_some())
            .filter(|_| self.dice.hundred(60))
            .unwrap_or(replica);
        if !self.acts(replica) || self.replicas[replica].machine.kind() != RoleKind::Leader {
            return;
        }
        let now = self.local(replica);
        let stream = self.dice.pick(STREAMS);
        let Some(leader_term) = &self.replicas[replica].leader_term else { return };
        let term = leader_term.term;
        if now < leader_term.lease.end(now) && leader_term.keeps_lease(&self.rules) {
            self.judge.reads(term);
        }
        if leader_term.holds_writes() {
            return;
        }
        let open = leader_term.attached.values().filter(|attached| !matches!(attached.stage, Stage::Asked));
        let conns: Vec<usize> = open.map(|attached| attached.conn).collect();
        let position = self.replicas[replica].memory.len(term, stream);
        self.replicas[replica].memory.put(term, stream, position);
        conns.into_iter().for_each(|conn| self.post(conn, Write::Entry { stream, position }));
        self.count(replica);
    }

    /// Checks a promise. Without the rule, only the consequences are to be seen, not that the rule is off.
    pub fn check_promise(&mut self, replica: usize, term: Term) {
        if self.rules.persist_promise {
            self.judge.promised(id(replica), term, self.replicas[replica].disk);
        }
    }

    fn check_sync(&mut self, replica: usize) {
        if self.replicas[replica].blended {
            return;
        }
        let Some(sync) = self.replicas[replica].machine.sync() else { return };
        let leader = &self.replicas[usize::from(sync.leader().0)];
        // Entries that were cut off there since may be on their way.
        let has_all = leader.machine.sync() == Some(sync) && leader.machine.promised() == sync;
        let leader = has_all.then_some(&leader.memory);
        self.judge.synced(id(replica), sync, &self.replicas[replica].memory, leader);
    }
}

fn queue_of(write: Write) -> usize {
    match write {
        Write::Entry { stream, .. } => stream,
        Write::Copy { .. } | Write::Place { .. } => COPIES,
        Write::Beat { .. } | Write::Release => BEATS,
    }
}
