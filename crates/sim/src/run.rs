//! One run: a server and its clients under the faults of a scenario (safety), then all is healed and
//! everybody must come to an end (liveness; VERIFY 5.3). What clients saw is judged.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::sim::{Sim, Weather};
use longarm_history::{Evidence, History, Operation};
use longarm_index::hash::SlotKind;
use longarm_server::ServerOptions;

use crate::faults::{Fault, What};
use crate::judge::Judge;
use crate::notes::{Note, Notes};
use crate::operator::{Order, Orders};
use crate::replicas::Servers;
use crate::scenario::{Plan, SAFETY, Scenario};
use crate::workload::{Worker, look_at_all};
use crate::world::{Chance, Stopped, World};

/// Healed, everybody is done within this.
const LIVENESS: Nanos = Nanos::from_millis(60_000);
/// Nobody writes any more: replicas hold the same within this.
const CONVERGENCE: Nanos = Nanos::from_millis(20_000);
/// Where replicas change, a group has at least so many.
const FEWEST: usize = 3;
/// A look at who is done.
const LOOK: Nanos = Nanos::from_millis(20);
/// Steps of the exhaustive search, a key; what it cannot decide in so many is left to the other judges.
const SEARCH: u64 = 20_000;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Operations that were noted.
    pub operations: usize,
    /// Of them, in doubt.
    pub in_doubt: usize,
    /// Faults that struck.
    pub faults: u64,
    /// Steps of the world.
    pub steps: u64,
    /// Events that the judge of a group heard of; none if it was not told.
    pub events: u64,
    /// How long writes waited while leaders handed over or replicas changed.
    pub gaps: Vec<Nanos>,
    /// What was violated.
    pub violation: Option<String>,
}

/// Runs a seed of a scenario.
pub fn run(scenario: &Scenario, seed: u64) -> Report {
    play(&Plan::of(scenario, seed))
}

/// Runs a plan.
pub fn play(plan: &Plan) -> Report {
    Run::new(plan.clone(), Notes::default()).finish()
}

/// Runs a plan, and says what happened when. Operations are those that were judged.
pub fn watch(plan: &Plan) -> (Report, Vec<(Nanos, Note)>, Vec<Operation>) {
    let notes = Notes::taken();
    let mut run = Run::new(plan.clone(), notes.clone());
    let report = run.finish();
    let operations = run.history.borrow().operations().to_vec();
    (report, notes.take(), operations)
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
    history: Rc<RefCell<History>>,
    done: Rc<RefCell<u32>>,
    /// Of a group.
    judge: Option<Rc<RefCell<Judge>>>,
    /// What the last look at each key saw.
    left: Vec<Operation>,
    faults: u64,
    orders: Rc<RefCell<Orders>>,
    /// Nothing fails but what is wrong.
    calm: bool,
}

impl Run {
    fn new(plan: Plan, notes: Notes) -> Run {
        let (world, sim) = (World::new(plan.seed), Sim::new(plan.weather));
        let (history, done) = (Rc::default(), Rc::default());
        let fsync = Duration::from_nanos(plan.fsync.0);
        let options = options(&plan, &notes);
        let servers = Servers::new((plan.servers, plan.founders, plan.groups), options, plan.timing, fsync);
        let (down, ending, lost, left) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // Events do not say of which group they are.
        let judge = (plan.servers > 1 && plan.groups == 1).then(|| witness(&world, &plan));
        let (orders, calm) = (Rc::default(), plan.is_calm());
        let run = Run {
            world,
            sim,
            plan,
            notes,
            servers,
            down,
            ending,
            lost,
            history,
            done,
            judge,
            left,
            faults: 0,
            orders,
            calm,
        };
        for &clock in &run.plan.clocks {
            run.world.add_machine(clock);
        }
        run
    }

    fn finish(&mut self) -> Report {
        self.start();
        let lived = self.safety().and_then(|()| self.liveness());
        let history = self.history.borrow();
        let evidence = Evidence { history: &history, answers: &[], left: &self.left, steps: SEARCH };
        let judged = evidence.judge();
        Report {
            operations: judged.operations,
            in_doubt: judged.in_doubt,
            faults: self.faults,
            steps: self.world.steps(),
            events: self.judge.as_ref().map_or(0, |judge| judge.borrow().heard()),
            gaps: self.orders.borrow().gaps.clone(),
            violation: lived
                .err()
                .or_else(|| self.orders.borrow().wrong.clone())
                .or(judged.violation.map(|violation| violation.to_string())),
        }
    }

    fn start(&mut self) {
        for server in 0..self.plan.servers {
            self.world.start(server, "server", self.servers.body(&self.sim, server));
        }
        for (number, &taste) in (1..).zip(&self.plan.tastes) {
            // A plan may have been reduced: its machine stays, so that others keep their numbers.
            if self.plan.idle.contains(&number) {
                continue;
            }
            let worker = Worker {
                number,
                keys: self.plan.keys,
                operations: self.plan.operations,
                chance: Chance::new(taste),
                history: self.history.clone(),
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
    fn go_on(&self, until: Nanos) -> Result<(), String> {
        let stopped = self.world.run(until);
        if let Some(violation) =
            self.judge.iter().find_map(|judge| judge.borrow().violation().map(String::from))
        {
            return Err(violation);
        }
        match stopped {
            Stopped::Time => Ok(()),
            Stopped::Quiet => Err("nothing will ever happen again: a deadlock".into()),
            Stopped::Panicked(task, text) => Err(format!("{task} panicked: {text}")),
        }
    }

    /// Faults strike until they are over, the time is, or all clients are done.
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

    /// Replicas that were told to end lose their memory once they have, or when their time has come.
    fn turn_off(&mut self, now: Nanos) {
        let servers = &self.servers;
        let is_over =
            |(until, server, _): &mut (Nanos, u32, Nanos)| *until <= now || servers.has_ended(*server);
        let over: Vec<_> = self.ending.extract_if(.., is_over).collect();
        over.into_iter().for_each(|(_, server, time)| self.lose(server, time));
    }

    /// Starts replicas again whose time has come.
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

    /// One fault. What cannot be now, such as a crash too many, is nothing.
    fn strike(&mut self, fault: &Fault) {
        self.faults += 1;
        let struck = match &fault.what {
            What::Pause { whom, time } => {
                self.world.pause(*whom, *time);
                true
            }
            What::Cut { server, others, to, from, time } => {
                others.iter().for_each(|&other| self.cut((*server, other), (*to, *from), *time));
                true
            }
            What::Crash { server, time } => {
                let loses = self.is_to_lose(*server);
                if loses {
                    self.lose(*server, *time);
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
            What::Move { to, rest } => self.order(Some(Order::Lead(*to)), *rest),
            What::Change { node, rest } => self.order(self.change(*node), *rest),
        };
        if struck {
            self.notes.add(self.world.time(), || Note::Fault(fault.clone()));
        }
    }

    fn cut(&self, (server, other): (u32, u32), (to, from): (bool, bool), time: Nanos) {
        self.sim.cut(server, other, to);
        self.sim.cut(other, server, from);
        let sim = self.sim.clone();
        self.world.after(time, move || {
            sim.cut(server, other, false);
            sim.cut(other, server, false);
        });
    }

    /// A replica is about to lose its memory, unless as many have as a group can bear.
    fn is_to_lose(&mut self, server: u32) -> bool {
        let down = |server: u32| {
            let ending = self.ending.iter().map(|(_, ending, _)| *ending);
            self.down.iter().map(|(_, down)| *down).chain(ending).any(|it| it == server)
        };
        self.lost.retain(|&lost| down(lost) || !self.servers.is_synced(lost));
        let again = self.lost.contains(&server);
        if down(server) || (!again && !self.can_bear(server)) {
            return false;
        }
        if !again {
            self.lost.push(server);
        }
        true
    }

    /// A replica loses its memory.
    fn lose(&mut self, server: u32, time: Nanos) {
        self.world.enter(|| self.sim.machine_down(server));
        self.world.crash(server);
        self.down.push((self.world.time() + time, server));
    }

    /// Whether the group goes on if this replica, too, loses its memory, whoever its replicas are by now.
    fn can_bear(&self, server: u32) -> bool {
        let sets = self.servers.possible();
        let counts = |node: &u32| {
            sets.iter().flatten().chain(&self.orders.borrow().may_be_added()).any(|it| it == node)
        };
        // Where replicas change there may be one less in no time.
        let fewest = if self.plan.founders < self.plan.servers { FEWEST } else { self.plan.servers as usize };
        !counts(&server) || self.lost.iter().filter(|&lost| counts(lost)).count() < (fewest - 1) / 2
    }

    /// What an operator says who would have a node be a replica if it is none, and none if it is one.
    fn change(&self, node: u32) -> Option<Order> {
        let (sets, unsure) = (self.servers.possible(), self.orders.borrow().unsure);
        let is_one = sets.last().is_some_and(|newest| newest.contains(&node));
        let enough = sets.iter().all(|set| set.len() > FEWEST);
        unsure.or(if is_one { enough.then_some(Order::Remove(node)) } else { Some(Order::Add(node)) })
    }

    /// An operator, who has a machine of its own, says something, unless he is busy.
    fn order(&mut self, order: Option<Order>, rest: Nanos) -> bool {
        let Some(order) = order.filter(|&order| self.orders.borrow().may_give(order)) else {
            self.faults -= 1;
            return false;
        };
        let how = (self.servers.tools(&self.sim), rest, self.calm);
        let given = Orders::give(&self.orders, order, how);
        self.world.start(self.plan.servers + self.plan.clients, "operator", given);
        true
    }

    /// Replicas are those that the operator was told they are.
    fn are_as_told(&self) -> Result<(), String> {
        let (orders, sets) = (self.orders.borrow(), self.servers.possible());
        match &orders.told {
            Some(told) if orders.unsure.is_none() && sets.last() != Some(told) => {
                Err(format!("M14: the operator was told that the replicas are {told:?}, and {sets:?} may be"))
            }
            _ => Ok(()),
        }
    }

    /// Replicas come to hold the same, some time.
    fn converge(&self) -> Result<(), String> {
        let begun = self.world.time();
        loop {
            match self.servers.agree() {
                Ok(()) => return Ok(()),
                Err(apart) if self.world.time().since(begun) > CONVERGENCE => return Err(apart),
                Err(_) => self.go_on(self.world.time() + LOOK)?,
            }
        }
    }

    /// All is well again: everybody comes to an end, and what is there is looked at once more.
    fn liveness(&mut self) -> Result<(), String> {
        self.notes.add(self.world.time(), || Note::Healed);
        self.sim.set_weather(Weather::FINE);
        self.turn_off(Nanos(u64::MAX));
        self.restart(Nanos(u64::MAX));
        let begun = self.world.time();
        while !self.all_done() {
            let now = self.world.time() + LOOK;
            if now.since(begun) > LIVENESS {
                let done = *self.done.borrow();
                return Err(format!(
                    "healed, and yet {done} of {} clients are done (I20)",
                    self.plan.running()
                ));
            }
            self.go_on(now)?;
        }
        let (sim, topology, keys) = (self.sim.clone(), self.servers.topology(), self.plan.keys);
        let looked = Rc::new(RefCell::new(Vec::new()));
        let left = looked.clone();
        self.world.start(self.plan.servers, "last look", move || {
            let seen = look_at_all(&sim, topology, keys).expect("all is well");
            left.replace(seen);
        });
        self.go_on(self.world.time() + Nanos::from_millis(2_000))?;
        self.left = looked.take();
        if self.left.is_empty() {
            return Err("healed, and yet a get takes longer than two seconds (I20)".into());
        }
        if self.plan.servers > 1 {
            self.converge()?;
            self.are_as_told()?;
        }
        let mut history = self.history.borrow_mut();
        self.left.iter().for_each(|look| history.push(look.clone()));
        Ok(())
    }
}

/// A judge who is told what happens.
fn witness(world: &World, plan: &Plan) -> Rc<RefCell<Judge>> {
    let judge = Rc::new(RefCell::new(Judge::new(plan.servers, plan.timing, &plan.clocks)));
    let (hears, shown) = (judge.clone(), std::env::var("LONGARM_SIM_LOG").is_ok_and(|log| log == "events"));
    world.set_witness(Rc::new(move |time, machine, event| {
        if shown {
            eprintln!("{:>12} {machine}: {event:?}", time.0);
        }
        hears.borrow_mut().hear(time, machine, event);
    }));
    judge
}

fn options(plan: &Plan, notes: &Notes) -> ServerOptions {
    ServerOptions {
        workers: plan.workers,
        memory: plan.memory,
        slots: if plan.inline { SlotKind::Inline64 } else { SlotKind::Pointer16 },
        expected_items: 64,
        spin: Duration::ZERO,
        log: notes.log(),
        ..ServerOptions::default()
    }
}
