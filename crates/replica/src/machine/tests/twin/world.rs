//! A world of replicas: real time, clocks that differ from it, messages, WRITEs, disks, faults.
//!
//! Everything that takes time is an event in one queue. A replica that waits for its disk, or is paused,
//! handles nothing, but WRITEs still land in its memory.

use std::collections::{BTreeMap, VecDeque};

use longarm_base::random::SplitMix64;
use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, Members};

use super::Rules;
use super::driver::{Conn, LeaderTerm, Write};
use super::judge::Judge;
use super::memory::Memory;
use crate::machine::tests::members;
use crate::page::Beat;
use crate::{Machine, PersistentState, StartSet, Timing};

pub const MS: u64 = 1_000_000;
pub const US: u64 = 1_000;

/// The times of the group. A hundredth of the promise is more than messages take.
pub const TIMING: Timing = Timing {
    heartbeat: Nanos::from_millis(50),
    suspect: Nanos::from_millis(150),
    promise: Nanos::from_millis(490),
    election: Nanos::from_millis(700),
};

/// The number of lines of a story that are shown.
const LINES: usize = 60;
/// How long there are faults, and how long a group may then take to become whole.
const CHAOS: u64 = 6_000 * MS;
const CALM: u64 = 12_000 * MS;

/// The random numbers of a seed.
pub struct Dice(SplitMix64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0.draw()
    }

    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.modulo(to - from)
    }

    pub fn hundred(&mut self, below: u64) -> bool {
        self.within(0, 100) < below
    }

    pub fn pick(&mut self, count: usize) -> usize {
        self.within(0, count as u64) as usize
    }
}

/// A clock that goes wrong by up to a hundredth, and began at another time.
#[derive(Clone, Copy)]
pub struct Clock {
    offset: u64,
    ppm: i64,
}

impl Clock {
    pub fn read(self, real: u64) -> Nanos {
        Nanos(self.offset + (real as i128 * (1_000_000 + i128::from(self.ppm)) / 1_000_000) as u64)
    }

    pub fn real(self, local: Nanos) -> u64 {
        let passed = i128::from(local.0.saturating_sub(self.offset));
        (passed * 1_000_000 / (1_000_000 + i128::from(self.ppm))) as u64
    }
}

/// An event that is going to happen.
#[derive(Clone, Debug)]
pub enum Event {
    Tick(usize),
    Ask { from: usize, to: usize, ask: Ask, conn: Option<usize> },
    Answer { from: usize, to: usize, answer: Answer, conn: Option<usize> },
    Disk { replica: usize, life: u32, saved: Saved, ok: bool },
    Fetched { replica: usize, life: u32, start: StartSet },
    Land { conn: usize, write: Write },
    Done { conn: usize, write: Write, ok: bool },
    Gone { from: usize, to: usize },
    Client,
    Operator,
    Fault,
    Mend { from: usize, to: usize },
    Resume(usize),
    Restart { replica: usize, memory: bool },
}

/// What a crash destroys besides the work under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loses {
    Nothing,
    Memory,
    /// The disk and the memory.
    Disk,
}

/// The write that is kept on disk.
#[derive(Clone, Debug)]
pub enum Saved {
    Promise(Term),
    Members(Members),
}

pub struct Node {
    pub machine: Machine,
    pub up: bool,
    pub paused: bool,
    /// Whether it waits for its disk.
    pub busy: bool,
    /// The answer of the disk while it was paused.
    pub said: Option<(Saved, bool)>,
    pub inbox: VecDeque<Event>,
    /// How often it started.
    pub life: u32,
    pub clock: Clock,
    /// The promised term on disk.
    pub disk: Term,
    /// The number that was drawn when the disk was new.
    origin: u64,
    /// Who may found the group, on disk.
    founders: Vec<(ReplicaId, u64)>,
    /// The replicas of the group, on disk.
    pub kept: Members,
    /// The replicas that its options name.
    first: Members,
    pub memory: Memory,
    /// Whether its memory was lost in a crash, and is not back yet.
    pub lost: bool,
    /// Whether it is being overwritten, or was in part, even if the machine does not say so.
    pub blended: bool,
    pub page: Beat,
    /// The page's word of a leader that hands over.
    pub released: Term,
    /// The term whose WRITEs land here.
    pub fence: Option<Term>,
    /// The connection on which each of the others last asked, and how far it came.
    pub heard_on: BTreeMap<usize, (usize, u8)>,
    pub installing: Option<Term>,
    pub leader_term: Option<LeaderTerm>,
}

pub struct World {
    pub rules: Rules,
    pub dice: Dice,
    pub now: u64,
    count: u64,
    queue: BTreeMap<(u64, u64), Event>,
    pub replicas: Vec<Node>,
    cut: Vec<Vec<bool>>,
    pub conns: Vec<Conn>,
    pub judge: Judge,
    pub calm: bool,
    /// Whether operators want other replicas, too.
    pub changes: bool,
    /// Whether crashes take disks, too.
    disks_fail: bool,
    /// How long parts of a copy may take.
    pub slow: u64,
    /// Longest time between two faults.
    fault_most: u64,
    /// The last events, if a test wants to see them.
    pub trace: Option<VecDeque<String>>,
    pub events: u64,
    commits_before: u64,
}

impl World {
    pub fn new(seed: u64, rules: Rules) -> World {
        let mut dice = Dice(SplitMix64::new(seed));
        // In some worlds the replicas change: there are more than the group has.
        let changes = seed % 4 == 1;
        let founders = match seed % 8 {
            3 | 7 => 5,
            5 => 4,
            _ => 3,
        };
        let founders = members(&(0..founders).collect::<Vec<_>>());
        let size = if changes { 5 } else { founders.list.len() as u8 };
        let replicas: Vec<Node> =
            (0..size).map(|me| replica(ReplicaId(me), &founders, &rules, &mut dice)).collect();
        let cut = vec![vec![false; replicas.len()]; replicas.len()];
        let queue = BTreeMap::new();
        // In some worlds hardly any copy is finished between two faults.
        let slow = if seed % 8 >= 6 { 300 * MS } else { 30 * MS };
        let (judge, conns) = (Judge::default(), Vec::new());
        let mut world = World {
            rules,
            dice,
            now: 0,
            count: 0,
            queue,
            replicas,
            cut,
            conns,
            judge,
            calm: false,
            changes,
            disks_fail: seed % 8 == 2,
            slow,
            fault_most: 0,
            trace: None,
            events: 0,
            commits_before: 0,
        };
        (0..world.replicas.len()).for_each(|replica| world.after(US, Event::Tick(replica)));
        world.after(MS, Event::Client);
        world.after(800 * MS, Event::Fault);
        // In half of the worlds leaders are asked to hand over, in half of those with time to do it.
        if seed % 8 < 4 || changes {
            world.after(600 * MS, Event::Operator);
        }
        world.fault_most = if seed % 8 < 2 { 2_400 * MS } else { 300 * MS };
        world
    }

    /// Runs until something is wrong, or until the group is whole after the faults.
    pub fn run(&mut self) -> Result<(), String> {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.now = at;
            self.events += 1;
            if let Some(trace) = &mut self.trace
                && !matches!(event, Event::Tick(_) | Event::Client)
            {
                trace.push_back(format!("{:>10} {event:?}", at / US));
                trace.drain(..trace.len().saturating_sub(LINES));
            }
            if !self.calm && at > CHAOS {
                self.calm_down();
            }
            self.happen(event);
            if let Some(wrong) = self.judge.wrong.take() {
                return Err(wrong);
            }
            if self.calm && self.is_whole() {
                return Ok(());
            }
            if at > CHAOS + CALM {
                return Err("Liveness: all is well, and nobody leads".into());
            }
        }
        Err("nothing more happens".into())
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push_back(format!("{:>10}    {}", now / US, text()));
        }
    }

    pub fn after(&mut self, delay: u64, event: Event) {
        self.count += 1;
        self.queue.insert((self.now + delay, self.count), event);
    }

    pub fn local(&self, replica: usize) -> Nanos {
        self.replicas[replica].clock.read(self.now)
    }

    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut[from][to]
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick(replica) => {
                let delay = self.dice.within(2 * MS, 9 * MS);
                self.after(delay, Event::Tick(replica));
                if self.acts(replica) {
                    self.tick(replica);
                }
            }
            Event::Ask { from, to, .. } | Event::Answer { from, to, .. } => {
                if !self.cut[from][to] {
                    self.deliver(to, event);
                }
            }
            Event::Disk { replica, life, saved, ok } if self.replicas[replica].life == life => {
                if ok || self.dice.hundred(50) {
                    self.save(replica, &saved);
                }
                self.replicas[replica].said = Some((saved, ok));
                self.go_on(replica);
            }
            Event::Fetched { replica, .. } => self.deliver(replica, event),
            Event::Gone { to, .. } => self.deliver(to, event),
            Event::Land { conn, write } => self.land(conn, write),
            Event::Done { conn, write, ok } => self.done(conn, write, ok),
            Event::Client => {
                let delay = self.dice.within(2 * MS, 20 * MS);
                self.after(delay, Event::Client);
                self.client();
            }
            Event::Operator if !self.calm => {
                let delay = self.dice.within(50 * MS, 800 * MS);
                self.after(delay, Event::Operator);
                self.operate();
            }
            Event::Fault if !self.calm => {
                let delay = self.dice.within(20 * MS, self.fault_most);
                self.after(delay, Event::Fault);
                self.fault();
            }
            Event::Mend { from, to } => self.cut[from][to] = false,
            Event::Resume(replica) => {
                self.replicas[replica].paused = false;
                self.go_on(replica);
            }
            Event::Restart { replica, memory } if !self.replicas[replica].up => self.restart(replica, memory),
            Event::Disk { .. } | Event::Fault | Event::Operator | Event::Restart { .. } => {}
        }
    }

    /// Whether the replica does anything at the moment.
    pub fn acts(&self, replica: usize) -> bool {
        let replica = &self.replicas[replica];
        replica.up && !replica.paused && !replica.busy
    }

    /// Delivers an event; an event that has to wait does.
    pub fn deliver(&mut self, replica: usize, event: Event) {
        if self.replicas[replica].up {
            self.replicas[replica].inbox.push_back(event);
            self.go_on(replica);
        }
    }

    fn go_on(&mut self, replica: usize) {
        if !self.replicas[replica].up || self.replicas[replica].paused {
            return;
        }
        if let Some((saved, ok)) = self.replicas[replica].said.take() {
            self.replicas[replica].busy = false;
            self.disk_said(replica, saved, ok);
        }
        while self.acts(replica) {
            let Some(event) = self.replicas[replica].inbox.pop_front() else { return };
            self.handle(replica, event);
        }
    }

    /// Sends a message, which may be lost, late, or come twice.
    pub fn send(&mut self, event: Event) {
        if let Event::Ask { from, to, .. } | Event::Answer { from, to, .. } = event
            && (self.cut[from][to] || !self.calm && self.dice.hundred(3))
        {
            return;
        }
        if self.dice.hundred(6) {
            let late = self.dice.within(0, 400 * MS);
            self.after(late, event.clone());
        }
        let delay = self.delay();
        self.after(delay, event);
    }

    pub fn delay(&mut self) -> u64 {
        match self.dice.within(0, 100) {
            0..3 => self.dice.within(MS, 60 * MS),
            3..15 => self.dice.within(200 * US, 4 * MS),
            _ => self.dice.within(10 * US, 200 * US),
        }
    }

    fn fault(&mut self) {
        let size = self.replicas.len();
        let leader = self.replicas.iter().position(|replica| replica.leader_term.is_some());
        let victim = leader.filter(|_| self.dice.hundred(50)).unwrap_or_else(|| self.dice.pick(size));
        let other = (victim + 1 + self.dice.pick(size - 1)) % size;
        let long = if self.dice.hundred(30) { 30 } else { 1_200 };
        let long = self.dice.within(MS, long * MS);
        match self.dice.within(0, 100) {
            0..15 => self.cut_off(victim, other, long),
            15..30 => {
                self.cut_off(victim, other, long);
                self.cut_off(other, victim, long);
            }
            30..45 => {
                for other in (0..size).filter(|&other| other != victim) {
                    self.cut_off(victim, other, long);
                    self.cut_off(other, victim, long);
                }
            }
            45..75 if !self.replicas[victim].paused => {
                self.replicas[victim].paused = true;
                self.after(long, Event::Resume(victim));
                self.note(|| format!("{victim} is paused"));
            }
            75..85 => self.crash(victim, Loses::Nothing),
            _ if self.disks_fail && self.dice.hundred(50) => self.crash(victim, Loses::Disk),
            _ => self.crash(victim, Loses::Memory),
        }
    }

    fn cut_off(&mut self, from: usize, to: usize, long: u64) {
        self.cut[from][to] = true;
        self.after(long, Event::Mend { from, to });
        self.breaks(from, to);
        self.note(|| format!("cut: {from} to {to}"));
    }

    /// Breaks a connection. The other side notices at once, or later, or never.
    fn breaks(&mut self, from: usize, to: usize) {
        let noticed = match self.dice.within(0, 10) {
            0..5 => self.dice.within(0, MS),
            5..8 => self.dice.within(0, 400 * MS),
            _ => return,
        };
        self.after(noticed, Event::Gone { from, to });
    }

    /// Crashes a replica. At most a minority is without memory at any time, of any set of replicas that a
    /// replica knows of.
    fn crash(&mut self, replica: usize, loses: Loses) {
        let loses = if self.bears(replica) { loses } else { Loses::Nothing };
        let memory = loses == Loses::Nothing;
        if !self.replicas[replica].up || self.replicas[replica].machine.sync().is_none() && memory {
            return;
        }
        self.note(|| format!("{replica} crashes, and loses: {loses:?}"));
        let delay = self.dice.within(MS, 300 * MS);
        self.after(delay, Event::Restart { replica, memory });
        (0..self.replicas.len())
            .filter(|&other| other != replica)
            .for_each(|other| self.breaks(replica, other));
        let seed = self.dice.next();
        let replica = &mut self.replicas[replica];
        (replica.up, replica.busy, replica.said) = (false, false, None);
        replica.life += 1;
        replica.inbox.clear();
        replica.heard_on.clear();
        (replica.fence, replica.leader_term, replica.installing) = (None, None, None);
        if !memory {
            (replica.lost, replica.blended) = (true, false);
            replica.memory.clear();
            (replica.page, replica.released) = (Beat::default(), Term::ZERO);
            if !self.rules.persist_promise {
                replica.disk = Term::ZERO;
            }
            if loses == Loses::Disk {
                (replica.disk, replica.kept) = (Term::ZERO, replica.first.clone());
                (replica.origin, replica.founders) = (seed, Vec::new());
                self.judge.forgot(replica.machine.group().me());
            }
            // From now on it is counted as one without memory.
            let state = replica.keeps(None);
            replica.machine = Machine::new(replica.machine.group().me(), state, TIMING, seed, Nanos(0));
        }
    }

    fn restart(&mut self, replica: usize, memory: bool) {
        let now = if self.rules.boot_wait { self.local(replica) } else { Nanos(0) };
        let seed = self.dice.next();
        let votes = self.rules.amnesiac_votes && !memory;
        let timing = self.rules.timing();
        let starts = &mut self.replicas[replica];
        let held = if votes { Some(Term::ZERO) } else { starts.machine.sync() };
        let mixed = starts.machine.mixed;
        let state = starts.keeps(held);
        starts.machine = Machine::new(starts.machine.group().me(), state, timing, seed, now);
        starts.machine.mixed = mixed;
        let asks = self.rules.blank_asks && self.rules.persist_promise;
        if starts.disk == Term::ZERO && held.is_none() && asks {
            starts.machine = starts.machine.clone().blank(seed, Nanos(0));
        }
        starts.up = true;
        self.check_promise(replica, self.replicas[replica].machine.promised());
    }

    /// Whether the group may lose this replica's memory, too.
    fn bears(&self, replica: usize) -> bool {
        let lost = |at: usize| at == replica || self.replicas[at].lost;
        let known = |it: &Node| {
            let next = it.machine.change().map(|change| change.next.list.clone());
            [it.machine.members().list.clone(), it.machine.own().list.clone(), next.unwrap_or_default()]
        };
        let sets: Vec<_> = self.replicas.iter().flat_map(known).collect();
        let all: Vec<_> =
            (0..self.replicas.len()).map(|replica| members(&[replica as u8]).list.remove(0)).collect();
        sets.iter().filter(|set| set.contains(&all[replica])).all(|set| {
            set.iter().filter(|member| lost(usize::from(member.replica.0))).count() <= (set.len() - 1) / 2
        })
    }

    fn save(&mut self, replica: usize, saved: &Saved) {
        let kept = self.rules.members_kept;
        let replica = &mut self.replicas[replica];
        match saved {
            Saved::Promise(term) => {
                replica.disk = *term;
                replica.founders = match replica.machine.sync() {
                    Some(sync) if sync > Term::ZERO => Vec::new(),
                    _ => replica.machine.founders(),
                };
                if kept {
                    replica.kept = replica.machine.members().clone();
                }
            }
            Saved::Members(members) if kept => replica.kept = members.clone(),
            Saved::Members(_) => {}
        }
    }

    /// Restores all links, and runs all replicas.
    fn calm_down(&mut self) {
        self.note(|| "calm".into());
        (self.calm, self.slow) = (true, 30 * MS);
        self.cut.iter_mut().flatten().for_each(|cut| *cut = false);
        for replica in 0..self.replicas.len() {
            self.replicas[replica].paused = false;
            self.go_on(replica);
        }
        self.commits_before = self.judge.commits;
    }

    /// Whether a leader serves, all others are synced, and something was committed since.
    fn is_whole(&self) -> bool {
        let Some(leader) =
            self.replicas.iter().find(|replica| replica.leader_term.as_ref().is_some_and(|r| r.serves))
        else {
            return false;
        };
        let term = leader.machine.promised();
        let all = leader.machine.group().members();
        let synced = |at: ReplicaId| self.replicas.get(usize::from(at.0)).is_none_or(|it| it.holds(term));
        let others = all.iter().all(synced) && leader.machine.change().is_none();
        others && self.judge.commits > self.commits_before
    }
}

impl Node {
    /// What it starts with, and this memory.
    fn keeps(&self, sync: Option<Term>) -> PersistentState {
        let (members, founders) = (self.kept.clone(), self.founders.clone());
        PersistentState { members, promised: self.disk, sync, origin: self.origin, founders }
    }

    /// Whether the replica runs, and holds the start set of that term.
    fn holds(&self, term: Term) -> bool {
        self.up && self.machine.sync() == Some(term)
    }
}

fn replica(me: ReplicaId, founders: &Members, rules: &Rules, dice: &mut Dice) -> Node {
    let founder = founders.has(me);
    let kept = if founder { founders.clone() } else { Members::default() };
    let ppm = match dice.pick(4) {
        0 => -10_000,
        1 => 10_000,
        _ => dice.within(0, 20_001) as i64 - 10_000,
    };
    let clock = Clock { offset: dice.within(100_000 * MS, 200_000 * MS), ppm };
    let life = dice.next();
    let state = PersistentState { members: kept.clone(), origin: life, ..PersistentState::default() };
    let machine = Machine::new(me, state, rules.timing(), life, clock.read(0));
    let machine = machine.blank(life, Nanos(0));
    Node {
        machine,
        up: true,
        paused: false,
        busy: false,
        said: None,
        inbox: VecDeque::new(),
        life: 0,
        clock,
        disk: Term::ZERO,
        origin: life,
        founders: Vec::new(),
        first: kept.clone(),
        kept,
        memory: Memory::default(),
        lost: !founder,
        blended: false,
        page: Beat::default(),
        released: Term::ZERO,
        fence: None,
        heard_on: BTreeMap::new(),
        installing: None,
        leader_term: None,
    }
}
