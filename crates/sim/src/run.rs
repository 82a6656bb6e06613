//! One run: servers and their clients under the faults of a scenario (safety). Then the run heals all that is
//! broken, and every client must come to an end (liveness; I20). Judges read what clients saw.

mod rest;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_base::random::SplitMix64;
use longarm_fabric::sim::Sim;
use longarm_history::Operation;
use longarm_index::hash::SlotKind;
use longarm_memory::recycling;
use longarm_server::{Eviction, ServerOptions};

use crate::faults::{Fault, What, calendars_apart};
use crate::judge::Judge;
use crate::notes::{Note, Notes};
use crate::operator::{self, Order, Orders};
use crate::plan::{Plan, SAFETY, TIGHT};
use crate::points::Blow;
use crate::replicas::{ClusterSize, Servers};
use crate::scenario::Scenario;
use crate::stumbles::Stumbles;
use crate::traps::Traps;
use crate::witness::witness;
use crate::workload::{Calendars, Noted, Worker};
use crate::world::{Stopped, World};

/// The time between two looks at which clients are done.
const LOOK: Nanos = Nanos::from_millis(20);
/// A machine that loses its power stands still for longer than until then.
const MARGIN: Nanos = Nanos::from_millis(1);
/// In one of so many seeds each replica is compared with its leader when it takes over a start set.
const LOOKED_AT: u64 = 4;

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of operations that clients noted.
    pub operations: usize,
    /// The number of these that are in doubt.
    pub in_doubt: usize,
    /// The number of these that are pages of scans.
    pub pages: usize,
    /// The number of pages that clients asked for in vain.
    pub no_page: usize,
    /// The number of pages that clients made themselves.
    pub walks: u64,
    /// The number of backups among the pages.
    pub backups: u64,
    /// The number of faults that struck.
    pub faults: u64,
    /// Steps of the world.
    pub steps: u64,
    /// Events that the judge of a group heard of; none if it was not told.
    pub events: u64,
    /// How long writes waited while leaders handed over or replicas changed.
    pub gaps: Vec<Nanos>,
    /// The first violation.
    pub violation: Option<String>,
}

/// Runs a seed of a scenario.
pub fn run(scenario: &Scenario, seed: u64) -> Report {
    play(&Plan::of(scenario, seed))
}

/// Runs a plan.
pub fn play(plan: &Plan) -> Report {
    // A run alone recycles memory, too, so that it knows as much of unwritten memory as one of many.
    recycling(|| Run::new(plan.clone(), Notes::default()).finish())
}

/// Runs a plan; returns its report, what happened when, and the operations that were judged.
pub fn watch(plan: &Plan) -> (Report, Vec<(Nanos, Note)>, Vec<Operation>) {
    let notes = Notes::taken();
    recycling(|| {
        let mut run = Run::new(plan.clone(), notes.clone());
        let report = run.finish();
        let operations = run.noted.borrow().plain.operations().to_vec();
        (report, notes.take(), operations)
    })
}

struct Run {
    world: World,
    sim: Sim,
    plan: Plan,
    notes: Notes,
    servers: Servers,
    /// Replicas that are down, and until when.
    down: Vec<(Nanos, u32)>,
    /// Replicas that are told to end, until when they may run at most, and how long they are down then.
    ending: Vec<(Nanos, u32, Nanos)>,
    /// Replicas that crashed and have not been synced again, as far as they say.
    lost: Vec<u32>,
    /// Those of the lost replicas whose disks were lost, too.
    blank: Vec<u32>,
    noted: Rc<RefCell<Noted>>,
    done: Rc<RefCell<u32>>,
    /// The judge of a group; none if there is no group, or more than one.
    judge: Option<Rc<RefCell<Judge>>>,
    faults: u64,
    orders: Rc<RefCell<Orders>>,
    traps: Rc<RefCell<Traps>>,
    /// The number of terms that began to serve.
    served: Rc<Cell<u32>>,
    /// How far calendars of servers are set from one another.
    apart: Nanos,
    /// Whether nothing goes wrong, so that each failure is a violation.
    calm: bool,
    /// Whether each write must have an answer, as nothing goes wrong, and no write waits for memory.
    all_are_answered: bool,
}

impl Run {
    fn new(plan: Plan, notes: Notes) -> Run {
        let (world, sim) = (World::new(plan.seed), Sim::new(plan.weather));
        world.preempt(plan.preempts.then_some(plan.seed));
        let noted = Noted { evicts: plan.load.evicts, ..Noted::default() };
        let (noted, done) = (Rc::new(RefCell::new(noted)), Rc::default());
        let fsync = Duration::from_nanos(plan.fsync.0);
        let options = options(&plan, &notes);
        let size = ClusterSize { servers: plan.servers, founders: plan.founders, groups: plan.groups };
        let mut servers = Servers::new(size, options, plan.timing, fsync);
        servers.ordered = plan.ordered;
        servers.uneven |= plan.uneven;
        if let Some(disk) = plan.disk {
            servers.keep(disk, plan.seed);
        }
        if plan.persistent {
            servers.serve_from_memory(plan.seed);
        }
        let replicated = plan.servers > 1 || servers.keeps();
        let (down, ending, lost, blank) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // Events do not name their group, so the judge can watch only a single one.
        let judge = (replicated && plan.groups == 1).then(|| {
            let mut judge = Judge::new(plan.servers, plan.timing, &plan.clocks, plan.window());
            if plan.is_calm() {
                judge.be_prompt();
            }
            Rc::new(RefCell::new(judge))
        });
        let (orders, traps, calm) = (Rc::default(), Rc::default(), plan.is_calm());
        let all_are_answered = plan.is_calm() && plan.faults.is_empty() && plan.memory > TIGHT;
        let served = Rc::<Cell<u32>>::default();
        let apart = calendars_apart(&plan.faults);
        if replicated || plan.persistent || plan.ordered.any() {
            let (traps, served) = (Rc::clone(&traps), Rc::clone(&served));
            // The comparison reads all of two arenas, which takes a fifth of a run's time.
            let looks = plan.servers > 1 && plan.seed.is_multiple_of(LOOKED_AT);
            let adoptions = looks.then(|| servers.adoptions());
            let stumbles = plan.ordered.any().then(|| Stumbles::new(plan.seed));
            world.set_witness(witness(judge.clone(), traps, served, adoptions, stumbles));
        }
        let run = Run {
            world,
            sim,
            plan,
            notes,
            servers,
            down,
            ending,
            lost,
            blank,
            noted,
            done,
            judge,
            faults: 0,
            orders,
            traps,
            served,
            apart,
            calm,
            all_are_answered,
        };
        for &clock in &run.plan.clocks {
            run.world.add_machine(clock);
        }
        run
    }

    fn finish(&mut self) -> Report {
        self.start();
        let lived = self.safety().and_then(|()| self.liveness());
        let judged = self.noted.borrow().judge(self.calendars());
        let unanswered = (self.all_are_answered && judged.in_doubt > 0)
            .then(|| format!("nothing went wrong, and {} writes have no answer (I20)", judged.in_doubt));
        let no_page = (self.all_are_answered && judged.no_page > 0)
            .then(|| format!("nothing went wrong, and {} pages were not to be had (I20)", judged.no_page));
        Report {
            operations: judged.operations,
            in_doubt: judged.in_doubt,
            pages: judged.pages,
            no_page: judged.no_page,
            walks: judged.walks,
            backups: judged.backups,
            faults: self.faults,
            steps: self.world.steps(),
            events: self.judge.as_ref().map_or(0, |judge| judge.borrow().heard()),
            gaps: self.orders.borrow().gaps.clone(),
            violation: lived
                .err()
                .or_else(|| self.orders.borrow().wrong.clone())
                // What clients saw before a loss may be lost: then the judge that knows of it decides.
                .or(judged.violation.filter(|_| !self.gave_up()))
                .or(unanswered)
                .or(no_page),
        }
    }

    /// Whether writes may be lost that clients saw.
    fn gave_up(&self) -> bool {
        let alone = self.plan.servers == 1;
        let judge_knows = |judge: &Rc<RefCell<Judge>>| alone || judge.borrow().gave_up();
        self.plan.window().is_some() && self.judge.as_ref().is_none_or(judge_knows)
    }

    /// How far the calendars of leaders may have been off.
    fn calendars(&self) -> Calendars {
        // Each leader may set its calendar forward by two milliseconds, and by what clocks drift in a promise
        // (decision 16).
        let each = 2_000_000 + self.plan.timing.promise.0 / 50;
        let early = Nanos(u64::from(self.served.get()) * each) + self.apart;
        Calendars { early, stands: self.apart > Nanos(0) }
    }

    fn start(&mut self) {
        for server in 0..self.plan.servers {
            self.world.start(server, "server", self.servers.body(&self.sim, server));
        }
        for (number, &taste) in (1..).zip(&self.plan.tastes) {
            // A client that a reduction left out keeps its machine, so that the others keep their numbers.
            if self.plan.idle.contains(&number) {
                continue;
            }
            let worker = Worker {
                number,
                clients: self.plan.clients,
                keys: self.plan.keys,
                operations: self.plan.operations,
                load: self.plan.load.clone(),
                chance: SplitMix64::new(taste),
                noted: self.noted.clone(),
                done: self.done.clone(),
            };
            let (sim, topology) = (self.sim.clone(), self.servers.topology());
            let machine = self.plan.servers - 1 + number;
            self.world.start(machine, "client", move || worker.run(&sim, topology));
        }
    }

    fn all_done(&self) -> bool {
        *self.done.borrow() == self.plan.running()
    }

    /// Lets the world go on until `until`; an error if it stopped for another reason, or broke a rule.
    fn go_on(&mut self, until: Nanos) -> Result<(), String> {
        let mut stopped = self.world.run(until);
        while let Stopped::Halted(machine) = stopped {
            self.spring(machine);
            stopped = self.world.run(until);
        }
        if let Some(violation) =
            self.judge.iter().find_map(|judge| judge.borrow().violation().map(String::from))
        {
            return Err(violation);
        }
        match stopped {
            Stopped::Time | Stopped::Halted(_) => Ok(()),
            // The only server is down, and no client wants anything any more.
            Stopped::Quiet if self.all_done() => Ok(()),
            Stopped::Quiet => Err("nothing will ever happen again: a deadlock".into()),
            Stopped::Panicked(task, text) => Err(format!("{task} panicked: {text}")),
        }
    }

    /// Lets faults strike until none is left, the time is over, or all clients are done.
    fn safety(&mut self) -> Result<(), String> {
        let faults = std::mem::take(&mut self.plan.faults);
        let mut faults = faults.into_iter().peekable();
        while self.world.time() < SAFETY && !self.all_done() {
            let now = self.world.time();
            let next = self.down.iter().map(|(until, _)| *until).chain(faults.peek().map(|fault| fault.at));
            let next = next.chain(self.ending.iter().map(|(until, ..)| *until));
            self.go_on(next.fold(now + LOOK, Nanos::min).max(now))?;
            self.turn_off(self.world.time());
            self.restart(self.world.time());
            while let Some(fault) = faults.next_if(|fault| fault.at <= self.world.time()) {
                self.strike(&fault);
            }
        }
        Ok(())
    }

    /// Strikes a replica that came to a point at which a trap was set.
    fn spring(&mut self, server: u32) {
        let Some(fault) = self.traps.borrow_mut().take() else { return };
        let What::Trap { blow, .. } = fault.what else { return };
        let strikes = match blow {
            Blow::Pause(time) => {
                self.world.pause(server, time);
                true
            }
            Blow::Crash(time) => {
                let loses = self.is_to_lose(server);
                if loses {
                    self.lose(server, time);
                }
                loses
            }
            Blow::Fail { within, time } => {
                let loses = self.is_to_lose(server);
                if loses {
                    self.world.pause(server, within + MARGIN);
                    self.ending.push((self.world.time() + within, server, time));
                }
                loses
            }
            Blow::Stall(_) => unreachable!("the world stalls a thread by itself"),
        };
        if strikes {
            self.notes.add(self.world.time(), || Note::Sprung(server, fault));
        }
    }

    /// Takes the memory of replicas that were told to end, once they have ended or their time is over.
    fn turn_off(&mut self, now: Nanos) {
        let servers = &self.servers;
        let is_over =
            |(until, server, _): &mut (Nanos, u32, Nanos)| *until <= now || servers.has_ended(*server);
        let over: Vec<_> = self.ending.extract_if(.., is_over).collect();
        over.into_iter().for_each(|(_, server, time)| self.lose(server, time));
    }

    /// Starts replicas again that have been down for their time.
    fn restart(&mut self, now: Nanos) {
        let (due, down) = self.down.iter().partition(|(until, _)| *until <= now);
        self.down = down;
        let due: Vec<(Nanos, u32)> = due;
        for (_, server) in due {
            self.world.restart(server);
            self.world.enter(|| self.sim.machine_up(server));
            self.world.start(server, "server", self.servers.body(&self.sim, server));
            self.notes.add(self.world.time(), || Note::Up(server));
        }
    }

    /// Lets a fault strike. A fault that cannot be now, such as a crash too many, does nothing.
    fn strike(&mut self, fault: &Fault) {
        self.faults += 1;
        let struck = match &fault.what {
            What::Pause { whom, time } => {
                self.world.pause(*whom, *time);
                true
            }
            What::Cut { server, others, to, from, time } => {
                others.iter().for_each(|&other| self.cut(*server, other, *to, *from, *time));
                true
            }
            What::Crash { server, time } => {
                let loses = self.is_to_lose(*server);
                if loses {
                    self.lose(*server, *time);
                }
                loses
            }
            What::Power { time } => self.lose_all(*time, self.plan.spared(*time)),
            What::Rot { server, seed } => {
                let rots = !self.is_down(*server) && self.servers.rot(*server, *seed);
                if rots {
                    self.judge.iter().for_each(|judge| judge.borrow_mut().rotted());
                }
                rots
            }
            What::Reformat { server, time } => {
                self.forget_the_synced();
                // One at a time, as files that are between two start sets count as lost (power-five, seed
                // 1839207521281).
                let alone = self.blank.iter().all(|blank| blank == server);
                let loses = alone && !self.servers.has_mixture(*server) && self.is_to_lose(*server);
                if loses {
                    self.lose(*server, *time);
                    self.servers.reformat(*server);
                    self.judge.iter().for_each(|judge| judge.borrow_mut().reformatted(*server));
                    self.blank.push(*server);
                }
                loses
            }
            What::End { server, within, time } => {
                let loses = self.is_to_lose(*server);
                if loses {
                    self.servers.end(*server);
                    self.ending.push((self.world.time() + *within, *server, *time));
                }
                loses
            }
            What::Strand { but, time } => self.strand(*but, *time),
            What::Slow { server, others, by, time } => {
                others.iter().for_each(|&other| self.slow(*server, other, *by, *time));
                true
            }
            What::Trap { point, passes, .. } => {
                self.traps.borrow_mut().set(fault.clone(), *point, *passes);
                true
            }
            What::SetCalendar { server, ahead } => {
                self.world.set_calendar(*server, *ahead);
                true
            }
            What::Move { to, rest } => self.order(Some(Order::Lead(*to)), *rest),
            What::Change { node, rest } => self.order(self.change(*node), *rest),
        };
        if struck {
            self.notes.add(self.world.time(), || Note::Fault(fault.clone()));
        }
    }

    fn cut(&self, server: u32, other: u32, to: bool, from: bool, time: Nanos) {
        self.sim.cut(server, other, to);
        self.sim.cut(other, server, from);
        let sim = self.sim.clone();
        self.world.after(time, move || {
            sim.cut(server, other, false);
            sim.cut(other, server, false);
        });
    }

    /// Cuts the leader off from all other servers but one. The leader is the first server that says it leads.
    fn strand(&self, but: Option<u32>, time: Nanos) -> bool {
        let leads = |&node: &u32| self.servers.told(node).role == "leader";
        let Some(leader) = (0..self.plan.servers).find(leads) else { return false };
        let others = (0..self.plan.servers).filter(|&other| other != leader && Some(other) != but);
        others.for_each(|other| self.cut(leader, other, true, true, time));
        true
    }

    fn slow(&self, server: u32, other: u32, by: Nanos, time: Nanos) {
        let set = move |sim: &Sim, by| {
            sim.slow(server, other, by);
            sim.slow(other, server, by);
        };
        set(&self.sim, by);
        let sim = self.sim.clone();
        self.world.after(time, move || set(&sim, Nanos(0)));
    }

    /// Notes that a replica is about to lose its memory; `false` if as many have as a group can bear.
    fn is_to_lose(&mut self, server: u32) -> bool {
        self.forget_the_synced();
        if self.servers.outlive_power() {
            // It would not start: memory is what it can be repaired from.
            return !self.is_down(server) && !self.servers.is_rotten(server);
        }
        let again = self.lost.contains(&server);
        if self.is_down(server) || (!again && !self.can_bear(server)) {
            return false;
        }
        if !again {
            self.lost.push(server);
        }
        true
    }

    /// Whether a replica is down, or about to be.
    fn is_down(&self, server: u32) -> bool {
        let ending = self.ending.iter().map(|(_, ending, _)| *ending);
        self.down.iter().map(|(_, down)| *down).chain(ending).any(|it| it == server)
    }

    /// Forgets lost replicas that are in sync again.
    fn forget_the_synced(&mut self) {
        let (mut lost, mut blank) = (std::mem::take(&mut self.lost), std::mem::take(&mut self.blank));
        let lacks = |server: &u32| self.is_down(*server) || !self.servers.is_synced(*server);
        lost.retain(lacks);
        blank.retain(lacks);
        (self.lost, self.blank) = (lost, blank);
    }

    /// Takes a replica's memory, and takes the replica down for a time.
    fn lose(&mut self, server: u32, time: Nanos) {
        self.world.enter(|| self.sim.machine_down(server));
        self.servers.lose_memory_power(server);
        self.world.crash(server);
        self.servers.lose_power(server);
        self.down.push((self.world.time() + time, server));
    }

    /// All replicas lose their power, but for one that is spared. Whether one had it.
    fn lose_all(&mut self, time: Nanos, spared: Option<u32>) -> bool {
        let loses = |server: &u32| !self.is_down(*server) && Some(*server) != spared;
        let up: Vec<_> = (0..self.plan.servers).filter(loses).collect();
        let later = |server: &u32| Nanos(time.0 * (4 + u64::from(*server)) / 4);
        up.iter().for_each(|server| self.lose(*server, later(server)));
        !up.is_empty()
    }

    /// Whether the group goes on if this replica, too, loses its memory, whichever set of replicas it has.
    fn can_bear(&self, server: u32) -> bool {
        let sets = self.servers.possible();
        let counts = |node: &u32| {
            sets.iter().flatten().chain(&self.orders.borrow().may_be_added()).any(|it| it == node)
        };
        let begun = self.servers.has_begun();
        let is_lost = |node: &u32| self.lost.contains(node) || begun && !self.servers.is_synced(*node);
        let lost = (0..self.plan.servers).filter(|node| *node != server && is_lost(node) && counts(node));
        !counts(&server) || lost.count() < (self.plan.fewest() - 1) / 2
    }

    /// The order that makes a node a replica if it is none, and none if it is one. A change whose outcome is
    /// unknown comes first.
    fn change(&self, node: u32) -> Option<Order> {
        let (sets, unsure) = (self.servers.possible(), self.orders.borrow().unsure);
        let is_one = sets.last().is_some_and(|newest| newest.contains(&node));
        let enough = sets.iter().all(|set| set.len() > self.plan.fewest());
        unsure.or(if is_one { enough.then_some(Order::Remove(node)) } else { Some(Order::Add(node)) })
    }

    /// Has the operator, who has a machine of its own, give an order, unless an earlier one is under way.
    fn order(&mut self, order: Option<Order>, rest: Nanos) -> bool {
        let Some(order) = order.filter(|&order| self.orders.borrow().may_give(order)) else {
            self.faults -= 1;
            return false;
        };
        let tools = self.servers.tools(&self.sim, 0);
        let given = Orders::give(&self.orders, order, tools, rest, self.calm);
        self.world.start(self.plan.servers + self.plan.clients, "operator", given);
        true
    }
}

fn options(plan: &Plan, notes: &Notes) -> ServerOptions {
    ServerOptions {
        workers: plan.workers,
        memory: plan.memory,
        slots: if plan.inline { SlotKind::Inline64 } else { SlotKind::Pointer16 },
        discipline: plan.discipline,
        eviction: if plan.load.evicts { Eviction::Lru } else { Eviction::None },
        expected_items: plan.load.expected,
        spin: Duration::ZERO,
        keep_sessions: plan.keep,
        kept_share: plan.kept_share,
        peers: operator::peers(),
        log: notes.log(),
        ..ServerOptions::default()
    }
}
