//! One run: a server and its clients under the faults of a scenario (safety), then all is healed and
//! everybody must come to an end (liveness; VERIFY 5.3). What clients saw is judged.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::sim::{Sim, Weather};
use longarm_history::{Evidence, History, Operation};
use longarm_index::hash::SlotKind;
use longarm_server::{OrderError, ServerOptions, Stay};

use crate::faults::{Fault, What};
use crate::judge::Judge;
use crate::notes::{Note, Notes};
use crate::replicas::Servers;
use crate::scenario::{Plan, SAFETY, Scenario};
use crate::workload::{Worker, look_at_all};
use crate::world::{Chance, Stopped, World};

/// Healed, everybody is done within this.
const LIVENESS: Nanos = Nanos::from_millis(60_000);
/// Nobody writes any more: replicas hold the same within this.
const CONVERGENCE: Nanos = Nanos::from_millis(20_000);
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
    /// How long writes waited while leaders handed over, of those that did.
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

/// What became of an operator's orders.
#[derive(Debug, Default)]
struct Orders {
    /// One is under way.
    open: bool,
    gaps: Vec<Nanos>,
    /// One that failed where nothing else fails.
    wrong: Option<String>,
}

impl Run {
    fn new(plan: Plan, notes: Notes) -> Run {
        let (world, sim) = (World::new(plan.seed), Sim::new(plan.weather));
        let (history, done) = (Rc::default(), Rc::default());
        let fsync = Duration::from_nanos(plan.fsync.0);
        let options = options(&plan, &notes);
        let servers = Servers::new((plan.servers, plan.groups), options, plan.timing, fsync);
        let (down, lost, left) = (Vec::new(), Vec::new(), Vec::new());
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
            self.go_on(next.fold(now + LOOK, Nanos::min).max(now))?;
            self.restart(self.world.time());
            while let Some(fault) = faults.next_if(|fault| fault.at <= self.world.time()) {
                self.strike(&fault);
            }
        }
        Ok(())
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
            What::Crash { server, time } => self.crash(*server, *time),
            What::Move { to, rest } => self.move_leader(*to, *rest),
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

    /// A replica loses its memory, unless as many have as a group can bear.
    fn crash(&mut self, server: u32, time: Nanos) -> bool {
        let down = |server: u32| self.down.iter().any(|(_, down)| *down == server);
        self.lost.retain(|&lost| down(lost) || !self.servers.is_synced(lost));
        let bearable = (self.plan.servers as usize - 1) / 2;
        let again = self.lost.contains(&server);
        if down(server) || (!again && self.lost.len() >= bearable) {
            return false;
        }
        if !again {
            self.lost.push(server);
        }
        self.world.enter(|| self.sim.machine_down(server));
        self.world.crash(server);
        self.down.push((self.world.time() + time, server));
        true
    }

    /// An operator, who has a machine of its own, wants a replica to lead, whichever leads now.
    fn move_leader(&mut self, to: u32, rest: Nanos) -> bool {
        if std::mem::replace(&mut self.orders.borrow_mut().open, true) {
            self.faults -= 1;
            return false;
        }
        let (orders, order) = (self.orders.clone(), self.servers.move_leader(&self.sim, to));
        let calm = self.calm;
        self.world.start(self.plan.servers + self.plan.clients, "operator", move || {
            let outcome = order();
            longarm_host::sleep(Duration::from_nanos(rest.0));
            let mut orders = orders.borrow_mut();
            orders.open = false;
            match outcome {
                Ok(moved) if u32::from(moved.leader.0) == to || !calm => {
                    orders.gaps.push(Nanos(moved.gap.as_nanos() as u64));
                }
                // It may not have been synced yet.
                Err(OrderError::Stays(_, Stay::Leads | Stay::Behind)) => {}
                other if calm => orders.wrong = Some(format!("node {to} was to lead: {other:?}")),
                _ => {}
            }
        });
        true
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
