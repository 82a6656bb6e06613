//! The driver around each machine, as in a server: it keeps promises on disk, fences, surveys, attaches
//! followers, WRITEs entries and heartbeats, counts completions. Duties that the machine leaves to its driver
//! are done here, and the rules that can be switched off are those of [`Rules`].

mod copies;
mod transfer;

use std::collections::BTreeMap;

use longarm_base::{Nanos, NodeId, Term};
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

fn id(node: usize) -> NodeId {
    NodeId(node as u8)
}

impl World {
    pub fn tick(&mut self, node: usize) {
        let page = self.nodes[node].page;
        self.tell(node, Event::Tick(page));
        if self.nodes[node].released != Term::ZERO {
            self.tell(node, Event::Released(self.nodes[node].released));
        }
        self.lead_on(node);
        self.drain(node);
    }

    /// Tells the machine an event, and does what it says.
    fn tell(&mut self, node: usize, event: Event) {
        let (now, mut todo) = (self.local(node), Vec::new());
        self.nodes[node].machine.handle(event, now, &mut todo);
        todo.into_iter().for_each(|action| self.act(node, action));
    }

    fn act(&mut self, node: usize, action: Action) {
        if self.trace.is_some() {
            self.note(|| format!("{node}: {action:?}"));
        }
        match action {
            Action::Promise(term) => self.write_disk(node, Saved::Promise(term)),
            Action::Keep(members) => self.write_disk(node, Saved::Members(members)),
            // A joining replica is attached as long as the machine says so (`reign`).
            Action::Enlist(_) | Action::Dismiss(_) | Action::Deny(_) => {}
            Action::Agreed(members) => self.judge.agrees(&members),
            Action::Survey => {
                let report = self.survey(node);
                self.tell(node, Event::Surveyed(report));
            }
            Action::Ask(to, ask) => {
                self.send(Happening::Ask { from: node, to: usize::from(to.0), ask, conn: None });
            }
            Action::Answer(to, answer) => self.answer(node, to, answer),
            Action::Prepare(prepare) => self.prepare(node, prepare),
            Action::Adopt { .. } => {
                (self.nodes[node].lost, self.nodes[node].blended) = (false, false);
                self.check_sync(node);
            }
            Action::Install(start) => {
                self.nodes[node].installing = Some(start.term);
                let delay = self.delay() + self.delay();
                let life = self.nodes[node].life;
                self.after(delay, Happening::Fetched { node, life, start });
            }
            Action::Form(_) => {
                self.lead_on(node);
                if !self.rules.serve_synced {
                    let term = self.nodes[node].machine.promised();
                    let others: Vec<NodeId> = self.nodes[node].machine.group().others().collect();
                    for other in others {
                        self.tell(node, Event::Answered(other, Answer::Synced { term }));
                    }
                }
            }
            Action::Serve(term) => {
                let own = self.nodes[node].machine.own().clone();
                self.judge.serves(id(node), &own, term, self.now);
                if let Some(leader_term) = &mut self.nodes[node].leader_term {
                    leader_term.serves = true;
                }
            }
            Action::Drain(_, to) => self.begin_drain(node, to),
            Action::Decline(_) => {}
            Action::Resume(_) => self.end_drain(node),
            Action::Release(term, to) => self.release(node, term, to),
            Action::StepDown(_) => {
                self.nodes[node].leader_term = None;
                self.nodes[node].installing = None;
            }
        }
    }

    fn write_disk(&mut self, node: usize, saved: Saved) {
        self.nodes[node].busy = true;
        let ok = self.calm || !self.dice.hundred(6);
        let delay = self.delay() * 3;
        let life = self.nodes[node].life;
        self.after(delay, Happening::Disk { node, life, saved, ok });
    }

    /// Handles the end of a write to disk. After a promise it fences; then it tells the machine.
    pub fn disk_said(&mut self, node: usize, saved: Saved, ok: bool) {
        match saved {
            Saved::Promise(term) if ok => {
                self.nodes[node].fence = Some(term);
                self.check_promise(node, term);
                self.tell(node, Event::Promised(term));
            }
            Saved::Promise(term) => {
                if self.dice.hundred(50) {
                    self.nodes[node].fence = None;
                }
                self.tell(node, Event::Unpromised(term));
            }
            Saved::Members(members) if ok => self.tell(node, Event::Kept(members)),
            Saved::Members(_) => self.tell(node, Event::Unkept),
        }
    }

    fn survey(&self, node: usize) -> ReplicaReport {
        let node = &self.nodes[node];
        let sync = node.machine.sync().unwrap_or_default();
        let extent = |stream| Extent { floor: 0, len: node.memory.len(sync, stream) };
        let streams = if sync == Term::ZERO { 0 } else { STREAMS };
        ReplicaReport { sync, reclaimed: 0, unix: 0, streams: (0..streams).map(extent).collect() }
    }

    fn answer(&mut self, node: usize, to: NodeId, answer: Answer) {
        let to = usize::from(to.0);
        let of_conn = matches!(answer, Answer::Ready { .. } | Answer::Synced { .. });
        let conn = self.nodes[node].heard_on.get(&to).map(|&(conn, _)| conn).filter(|_| of_conn);
        self.send(Happening::Answer { from: node, to, answer, conn });
    }

    /// Handles what was delivered.
    pub fn handle(&mut self, node: usize, event: Happening) {
        match event {
            Happening::Ask { from, ask, conn, .. } => {
                if let Some(conn) = conn {
                    // Each connection brings each question once, in order.
                    let asked = (conn, u8::from(matches!(ask, Ask::Adopt { .. })));
                    let is_next = self.nodes[node].heard_on.get(&from).is_none_or(|&known| asked > known);
                    let same = self.conns[conn].follower_life == self.nodes[node].life;
                    if self.rules.own_connection && !(is_next && same) {
                        return;
                    }
                    self.nodes[node].heard_on.insert(from, asked);
                }
                let ask = self.as_heard(node, ask);
                self.tell(node, Event::Asked(id(from), ask));
            }
            Happening::Answer { from, answer, conn, .. } => self.answered(node, from, answer, conn),
            Happening::Fetched { life, start, .. } => {
                if life == self.nodes[node].life && self.nodes[node].installing == Some(start.term) {
                    self.fetched(node, start);
                }
            }
            Happening::Done { conn, write, ok } => self.completed(node, conn, write, ok),
            Happening::Gone { from, .. } => self.tell(node, Event::Gone(id(from))),
            _ => unreachable!("{event:?} is not delivered"),
        }
    }

    /// Fetches from each holder, cuts, and is the base of a new term.
    fn fetched(&mut self, node: usize, start: StartSet) {
        self.nodes[node].installing = None;
        let term = start.term;
        for (stream, cut) in start.cuts.iter().enumerate() {
            let holder = usize::from(cut.holder.0);
            let there = &self.nodes[holder];
            let reached = !self.is_cut(node, holder) && !self.is_cut(holder, node) && there.up;
            let has = there.memory.len(start.base, stream) >= cut.len;
            if holder != node && !(reached && has && there.fence == Some(term)) {
                return self.tell(node, Event::NotInstalled(term));
            }
            for position in 0..cut.len {
                self.nodes[node].memory.put(start.base, stream, position);
            }
            self.nodes[node].memory.cut(start.base, stream, cut.len);
        }
        self.nodes[node].memory.forget_after(start.base);
        if start.mixed {
            self.nodes[node].memory.close();
        }
        self.nodes[node].blended = false;
        self.judge.installed(term, self.nodes[node].memory.before(term));
        let group = *self.nodes[node].machine.group();
        let mut gates = vec![Gate::new(group); STREAMS];
        if !self.rules.sync_gate {
            gates.iter_mut().for_each(|gate| group.others().for_each(|other| gate.set_synced(other, true)));
        }
        self.nodes[node].leader_term = Some(LeaderTerm {
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
        self.tell(node, Event::Installed(term));
    }

    // The duties of a leader.

    /// Sends heartbeats, and takes care of followers that are not attached, or stuck.
    fn lead_on(&mut self, node: usize) {
        let now = self.local(node);
        let machine = &self.nodes[node].machine;
        let joins = machine.change().and_then(|change| change.joins);
        let others: Vec<usize> = machine.group().others().chain(joins).map(|it| usize::from(it.0)).collect();
        let others: Vec<usize> = others.into_iter().filter(|&other| other < self.nodes.len()).collect();
        let Some(leader_term) = &mut self.nodes[node].leader_term else { return };
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
                self.tell(node, Event::Beat(now));
            }
            conns.into_iter().for_each(|conn| self.post(conn, Write::Beat { beat, sent: now }));
        }
        slow.into_iter().for_each(|other| self.detach(node, other));
        for other in others {
            let Some(leader_term) = &self.nodes[node].leader_term else { return };
            if !leader_term.attached.contains_key(&other) {
                self.attach(node, other);
            }
        }
    }

    fn attach(&mut self, node: usize, other: usize) {
        let conn = self.conns.len();
        let (leader_life, follower_life) = (self.nodes[node].life, self.nodes[other].life);
        let since = self.now;
        let Some(leader_term) = &mut self.nodes[node].leader_term else { return };
        let (term, queues) = (leader_term.term, [Queue::default(); STREAMS + 2]);
        self.conns.push(Conn { leader: node, follower: other, leader_life, follower_life, term, queues });
        leader_term.attached.insert(other, Attached { conn, since, stage: Stage::Asked, given: Vec::new() });
        let cuts = leader_term.start.cuts.iter().map(|cut| cut.len).collect();
        let base = leader_term.start.common();
        let members = self.nodes[node].machine.own().clone();
        let ask = Ask::Sync { term, base, cuts, streams: STREAMS as u16, members };
        self.send(Happening::Ask { from: node, to: other, ask, conn: Some(conn) });
    }

    fn detach(&mut self, node: usize, other: usize) {
        let gated = self.rules.sync_gate;
        let Some(leader_term) = &mut self.nodes[node].leader_term else { return };
        leader_term.attached.remove(&other);
        if gated {
            leader_term.gates.iter_mut().for_each(|gate| gate.set_synced(id(other), false));
        }
        self.tell(node, Event::Lost(id(other)));
    }

    fn answered(&mut self, node: usize, from: usize, answer: Answer, conn: Option<usize>) {
        if let Some(conn) = conn
            && self.rules.own_connection
        {
            let attached =
                self.nodes[node].leader_term.as_ref().and_then(|leader_term| leader_term.attached.get(&from));
            if attached.is_none_or(|attached| attached.conn != conn) {
                return;
            }
        }
        let ready =
            if let Answer::Ready { term, held } = &answer { Some((*term, held.clone())) } else { None };
        let synced = if let Answer::Synced { term } = answer { Some(term) } else { None };
        let answer = self.changed(node, answer);
        self.tell(node, Event::Answered(id(from), answer));
        if let Some((term, held)) = ready {
            self.begin_copy(node, from, term, &held);
        }
        let Some(leader_term) = &mut self.nodes[node].leader_term else { return };
        let Some(attached) = leader_term.attached.get_mut(&from) else { return };
        if synced == Some(leader_term.term) && matches!(attached.stage, Stage::Adopting) {
            attached.stage = Stage::Synced;
            for (gate, given) in leader_term.gates.iter_mut().zip(&attached.given) {
                gate.ack(id(from), *given);
                gate.set_synced(id(from), true);
            }
            self.count(node);
        }
    }

    /// Without the rule, no replica checks which of two sets of replicas is newer.
    fn as_heard(&self, node: usize, ask: Ask) -> Ask {
        let own = self.nodes[node].machine.members();
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
    fn changed(&self, node: usize, answer: Answer) -> Answer {
        match answer {
            Answer::Report { term, report } if !self.rules.base_only => {
                let sync = self.nodes[node].machine.sync().unwrap_or_default();
                let streams = if sync == report.sync { report.streams } else { Vec::new() };
                Answer::Report { term, report: ReplicaReport { sync, reclaimed: 0, unix: 0, streams } }
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
        let there = &self.nodes[follower];
        let open = there.fence == Some(term) || !self.rules.fence;
        let ok = there.up && there.life == follower_life && open && !self.is_cut(leader, follower);
        if ok {
            let there = &mut self.nodes[follower];
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
        if self.nodes[leader].life == leader_life {
            self.deliver(leader, Happening::Done { conn, write, ok });
        }
    }

    fn completed(&mut self, node: usize, conn: usize, write: Write, ok: bool) {
        let Conn { follower, term, .. } = self.conns[conn];
        let (now, clock, real) = (self.local(node), self.nodes[node].clock, self.now);
        let Some(leader_term) =
            self.nodes[node].leader_term.as_mut().filter(|leader_term| leader_term.term == term)
        else {
            return;
        };
        let current = leader_term.attached.get(&follower).is_some_and(|attached| attached.conn == conn);
        match write {
            Write::Release => self.released(node, follower),
            _ if !ok && current => self.detach(node, follower),
            _ if !ok => {}
            Write::Entry { stream, position } => {
                leader_term.gates[stream].ack(id(follower), position + 1);
                self.count(node);
            }
            Write::Beat { sent, .. } => {
                leader_term.lease.renew(id(follower), sent);
                if leader_term.keeps_lease(&self.rules) {
                    self.judge.leases(term, clock.real(leader_term.lease.end(now)), real);
                }
                self.vouch(node);
            }
            Write::Copy { .. } | Write::Place { .. } if current => {
                self.tell(node, Event::Pushed(now));
                self.copy_on(node, follower);
            }
            Write::Copy { .. } | Write::Place { .. } => {}
        }
    }

    /// Counts what is committed by now.
    fn count(&mut self, node: usize) {
        let memory = &self.nodes[node].memory;
        let written: Vec<u64> = match &self.nodes[node].leader_term {
            Some(leader_term) => (0..STREAMS).map(|stream| memory.len(leader_term.term, stream)).collect(),
            None => return,
        };
        let Some(leader_term) = &mut self.nodes[node].leader_term else { return };
        for (stream, gate) in leader_term.gates.iter_mut().enumerate() {
            self.judge.commits(leader_term.term, stream, gate.committed(written[stream]));
        }
    }

    /// Lets a client write or read somewhere.
    pub fn client(&mut self) {
        let node = self.dice.pick(self.nodes.len());
        let node = self
            .nodes
            .iter()
            .position(|n| n.leader_term.is_some())
            .filter(|_| self.dice.hundred(60))
            .unwrap_or(node);
        if !self.acts(node) || self.nodes[node].machine.kind() != RoleKind::Leader {
            return;
        }
        let now = self.local(node);
        let stream = self.dice.pick(STREAMS);
        let Some(leader_term) = &self.nodes[node].leader_term else { return };
        let term = leader_term.term;
        if now < leader_term.lease.end(now) && leader_term.keeps_lease(&self.rules) {
            self.judge.reads(term);
        }
        if leader_term.holds_writes() {
            return;
        }
        let open = leader_term.attached.values().filter(|attached| !matches!(attached.stage, Stage::Asked));
        let conns: Vec<usize> = open.map(|attached| attached.conn).collect();
        let position = self.nodes[node].memory.len(term, stream);
        self.nodes[node].memory.put(term, stream, position);
        conns.into_iter().for_each(|conn| self.post(conn, Write::Entry { stream, position }));
        self.count(node);
    }

    /// Checks a promise. Without the rule, only the consequences are to be seen, not that the rule is off.
    pub fn check_promise(&mut self, node: usize, term: Term) {
        if self.rules.persist_promise {
            self.judge.promised(id(node), term, self.nodes[node].disk);
        }
    }

    fn check_sync(&mut self, node: usize) {
        if self.nodes[node].blended {
            return;
        }
        let Some(sync) = self.nodes[node].machine.sync() else { return };
        let leader = &self.nodes[usize::from(sync.node().0)];
        // Entries that were cut off there since may be on their way.
        let has_all = leader.machine.sync() == Some(sync) && leader.machine.promised() == sync;
        let leader = has_all.then_some(&leader.memory);
        self.judge.synced(id(node), sync, &self.nodes[node].memory, leader);
    }
}

fn queue_of(write: Write) -> usize {
    match write {
        Write::Entry { stream, .. } => stream,
        Write::Copy { .. } | Write::Place { .. } => COPIES,
        Write::Beat { .. } | Write::Release => BEATS,
    }
}
