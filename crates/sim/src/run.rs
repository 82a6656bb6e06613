//! One run: a server and its clients under the faults of a scenario (safety), then all is healed and
//! everybody must come to an end (liveness; VERIFY 5.3). What clients saw is judged.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::Address;
use longarm_fabric::sim::{Sim, Weather};
use longarm_history::{Evidence, History, Operation};
use longarm_index::hash::SlotKind;
use longarm_server::{Server, ServerOptions};

use crate::scenario::{Plan, Scenario};
use crate::workload::{Worker, look_at_all};
use crate::world::{Chance, Stopped, World};

/// Faults strike for at most so long; clients that are done earlier end it.
const SAFETY: Nanos = Nanos::from_millis(3_000);
/// Healed, everybody is done within this.
const LIVENESS: Nanos = Nanos::from_millis(60_000);
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

/// A server, for as long as its machine runs.
pub(crate) fn serve(sim: &Sim, options: ServerOptions) {
    let _server = Server::start_on(sim, options).expect("a server starts");
    loop {
        longarm_host::sleep(Duration::from_secs(1));
    }
}

struct Run {
    world: World,
    sim: Sim,
    plan: Plan,
    chance: Chance,
    address: Address,
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
        let address = Address::Sim("server".into());
        let run = Run { world, sim, plan, chance, address, history, done, left: Vec::new(), faults: 0 };
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
        let (sim, options) = (self.sim.clone(), self.options());
        self.world.start(0, "server", move || serve(&sim, options));
        for number in 1..=self.plan.clients {
            let worker = Worker {
                number,
                keys: self.plan.keys,
                operations: self.plan.operations,
                chance: Chance::new(self.chance.draw()),
                history: self.history.clone(),
                done: self.done.clone(),
            };
            let (sim, address) = (self.sim.clone(), self.address.clone());
            self.world.start(number, "client", move || worker.run(sim, &address));
        }
    }

    fn options(&self) -> ServerOptions {
        ServerOptions {
            addresses: vec![self.address.clone()],
            workers: self.plan.workers,
            memory: self.plan.memory,
            slots: if self.plan.inline { SlotKind::Inline64 } else { SlotKind::Pointer16 },
            expected_items: 64,
            spin: Duration::ZERO,
            ..ServerOptions::default()
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
            if self.plan.fault_every > Nanos(0) {
                self.strike();
            }
        }
        Ok(())
    }

    /// One fault.
    fn strike(&mut self) {
        self.faults += 1;
        let client = 1 + self.chance.below(u64::from(self.plan.clients)) as u32;
        let pause =
            self.plan.cut_most == Nanos(0) || self.plan.pause_most > Nanos(0) && self.chance.once_in(2);
        if pause {
            let whom = if self.chance.once_in(2) { 0 } else { client };
            let time = Nanos(self.chance.below(self.plan.pause_most.0));
            self.world.pause(whom, time);
            return;
        }
        let (from, to) = if self.chance.once_in(2) { (0, client) } else { (client, 0) };
        let both = self.chance.once_in(2);
        let (sim, time) = (self.sim.clone(), Nanos(self.chance.below(self.plan.cut_most.0)));
        sim.cut(from, to, true);
        if both {
            sim.cut(to, from, true);
        }
        self.world.after(time, move || {
            sim.cut(from, to, false);
            sim.cut(to, from, false);
        });
    }

    /// All is well again: everybody comes to an end, and what is there is looked at once more.
    fn liveness(&mut self) -> Result<(), String> {
        self.sim.set_weather(Weather::FINE);
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
        let (sim, address, keys) = (self.sim.clone(), self.address.clone(), self.plan.keys);
        let looked = Rc::new(RefCell::new(Vec::new()));
        let left = looked.clone();
        self.world.start(1, "last look", move || {
            let seen = look_at_all(&sim, &address, keys).expect("all is well");
            left.replace(seen);
        });
        self.go_on(self.world.time() + Nanos::from_millis(2_000))?;
        self.left = looked.take();
        if self.left.is_empty() {
            return Err("healed, and yet a get takes longer than two seconds (I20)".into());
        }
        let mut history = self.history.borrow_mut();
        self.left.iter().for_each(|look| history.push(look.clone()));
        Ok(())
    }
}
