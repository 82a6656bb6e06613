//! One run: a server and its clients under the faults of a scenario (safety), then all is healed and
//! everybody must come to an end (liveness; VERIFY 5.3). What clients saw is judged.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::sim::{Sim, Weather};
use longarm_history::{Evidence, History, Operation};
use longarm_index::hash::SlotKind;
use longarm_server::{Log, ServerOptions};

use crate::replicas::Servers;
use crate::scenario::{Plan, Scenario};
use crate::workload::{Worker, look_at_all};
use crate::world::{Chance, Stopped, World};

/// Faults strike for at most so long; clients that are done earlier end it.
const SAFETY: Nanos = Nanos::from_millis(3_000);
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
    /// What was violated.
    pub violation: Option<String>,
}

/// Runs a seed of a scenario.
pub fn run(scenario: &Scenario, seed: u64) -> Report {
    let mut chance = Chance::new(seed);
    let plan = Plan::draw(scenario, &mut chance);
    Run::new(plan, chance).finish()
}

struct Run {
    world: World,
    sim: Sim,
    plan: Plan,
    chance: Chance,
    servers: Servers,
    /// Replicas that are down, and until when.
    down: Vec<(Nanos, u32)>,
    /// Replicas that crashed and have not been synced again, as far as they say.
    lost: Vec<u32>,
    history: Rc<RefCell<History>>,
    done: Rc<RefCell<u32>>,
    /// What the last look at each key saw.
    left: Vec<Operation>,
    faults: u64,
}

impl Run {
    fn new(plan: Plan, mut chance: Chance) -> Run {
        let (world, sim) = (World::new(chance.draw()), Sim::new(plan.weather));
        let (history, done) = (Rc::default(), Rc::default());
        let fsync = Duration::from_nanos(plan.fsync.0);
        let servers = Servers::new((plan.servers, plan.groups), options(&plan), plan.timing, fsync);
        let (down, lost, left) = (Vec::new(), Vec::new(), Vec::new());
        let run = Run { world, sim, plan, chance, servers, down, lost, history, done, left, faults: 0 };
        for &clock in &run.plan.clocks {
            run.world.add_machine(clock);
        }
        run
    }

    fn finish(mut self) -> Report {
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
            violation: lived.err().or(judged.violation.map(|violation| violation.to_string())),
        }
    }

    fn start(&mut self) {
        for server in 0..self.plan.servers {
            self.world.start(server, "server", self.servers.body(&self.sim, server));
        }
        for number in 1..=self.plan.clients {
            let worker = Worker {
                number,
                keys: self.plan.keys,
                operations: self.plan.operations,
                chance: Chance::new(self.chance.draw()),
                history: self.history.clone(),
                done: self.done.clone(),
            };
            let (sim, topology) = (self.sim.clone(), self.servers.topology());
            let machine = self.plan.servers - 1 + number;
            self.world.start(machine, "client", move || worker.run(&sim, topology));
        }
    }

    fn all_done(&self) -> bool {
        *self.done.borrow() == self.plan.clients
    }

    /// Lets the world go on until `until`; an error if it stopped for another reason.
    fn go_on(&self, until: Nanos) -> Result<(), String> {
        match self.world.run(until) {
            Stopped::Time => Ok(()),
            Stopped::Quiet => Err("nothing will ever happen again: a deadlock".into()),
            Stopped::Panicked(task, text) => Err(format!("{task} panicked: {text}")),
        }
    }

    fn safety(&mut self) -> Result<(), String> {
        let mut now = Nanos(0);
        while now < SAFETY && !self.all_done() {
            let pause = match self.plan.fault_every {
                Nanos(0) => LOOK,
                Nanos(every) => Nanos(self.chance.below(2 * every) + 1),
            };
            now = now + pause;
            self.go_on(now)?;
            self.restart(now);
            if self.plan.fault_every > Nanos(0) {
                self.strike();
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
        }
    }

    /// One fault.
    fn strike(&mut self) {
        self.faults += 1;
        let kinds = [self.plan.pause_most > Nanos(0), self.plan.cut_most > Nanos(0), self.plan.crashes];
        let kinds: Vec<_> = (0..3).filter(|&kind| kinds[kind]).collect();
        match kinds[self.chance.below(kinds.len() as u64) as usize] {
            0 => self.pause(),
            1 => self.cut(),
            _ => self.crash(),
        }
    }

    fn any_server(&mut self) -> u32 {
        self.chance.below(u64::from(self.plan.servers)) as u32
    }

    fn any_client(&mut self) -> u32 {
        self.plan.servers + self.chance.below(u64::from(self.plan.clients)) as u32
    }

    fn pause(&mut self) {
        let whom = if self.chance.once_in(2) { self.any_server() } else { self.any_client() };
        let time = Nanos(self.chance.below(self.plan.pause_most.0));
        self.world.pause(whom, time);
    }

    /// Between a server and a client, two servers, or a server and all others.
    fn cut(&mut self) {
        let server = self.any_server();
        let others: Vec<u32> = match self.chance.below(3) {
            0 if self.plan.servers > 1 => (0..self.plan.servers).filter(|&other| other != server).collect(),
            1 if self.plan.servers > 1 => vec![(server + 1 + self.any_server()) % self.plan.servers],
            _ => vec![self.any_client()],
        };
        let (to, from) = (self.chance.below(3) != 0, self.chance.below(3) != 0);
        let time = Nanos(self.chance.below(self.plan.cut_most.0));
        for other in others.into_iter().filter(|&other| other != server) {
            self.sim.cut(server, other, to || !from);
            self.sim.cut(other, server, from);
            let sim = self.sim.clone();
            self.world.after(time, move || {
                sim.cut(server, other, false);
                sim.cut(other, server, false);
            });
        }
    }

    /// A replica loses its memory, unless as many have as a group can bear.
    fn crash(&mut self) {
        let server = self.any_server();
        let down = |server: u32| self.down.iter().any(|(_, down)| *down == server);
        self.lost.retain(|&lost| down(lost) || !self.servers.is_synced(lost));
        let bearable = (self.plan.servers as usize - 1) / 2;
        let again = self.lost.contains(&server);
        if down(server) || (!again && self.lost.len() >= bearable) {
            return;
        }
        if !again {
            self.lost.push(server);
        }
        self.world.enter(|| self.sim.machine_down(server));
        self.world.crash(server);
        let time = Nanos(self.chance.below(40_000_000));
        self.down.push((self.world.time() + time, server));
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
        self.sim.set_weather(Weather::FINE);
        self.restart(Nanos(u64::MAX));
        let begun = self.world.time();
        while !self.all_done() {
            let now = self.world.time() + LOOK;
            if now.since(begun) > LIVENESS {
                let done = *self.done.borrow();
                return Err(format!(
                    "healed, and yet {done} of {} clients are done (I20)",
                    self.plan.clients
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

fn options(plan: &Plan) -> ServerOptions {
    ServerOptions {
        workers: plan.workers,
        memory: plan.memory,
        slots: if plan.inline { SlotKind::Inline64 } else { SlotKind::Pointer16 },
        expected_items: 64,
        spin: Duration::ZERO,
        log: log(),
        ..ServerOptions::default()
    }
}

/// What servers say goes nowhere, but for who wants to follow one seed.
fn log() -> Log {
    match std::env::var_os("LONGARM_SIM_LOG") {
        None => Arc::new(|_| {}),
        Some(_) => Arc::new(|line: &str| {
            let time = longarm_host::world::entered().map_or(Nanos(0), |world| world.time());
            eprintln!("{:>12} {line}", time.0);
        }),
    }
}
