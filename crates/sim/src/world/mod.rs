//! A world: its time, its machines, the tasks on them, and other events.
//!
//! (1) Time stands still while a task runs, but for what the task says it spent: each look at a clock and
//!     each idle poll costs some nanoseconds, so a loop that waits for the time to come ends.
//! (2) Tasks and events run in the order of the times at which they are due, then of their making. So nothing
//!     depends on addresses, hashes or the machine that simulates (I21).
//! (3) A task that spends the time until something else is due makes way for that.
//! (4) A paused machine's tasks do not run; what its NIC does belongs to no task, and goes on (L9).

mod machine;
mod preempts;
mod task;
#[cfg(test)]
mod tests;
mod witness;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use longarm_base::random::SplitMix64;
use longarm_base::{Nanos, UnixMillis};
use longarm_host::World as Host;
use longarm_host::observe::Observation;

pub use machine::{Drift, Machine};
use preempts::Preempts;
use task::{Ended, Task, Way};
pub use witness::{Witness, Witnessed};

/// The time that a look at a clock, and an idle poll, cost.
const LOOK: Nanos = Nanos(25);
const IDLE: Nanos = Nanos(100);
const SECOND: Nanos = Nanos::from_millis(1000);
/// Where every calendar begins: 2026-01-01.
const DAY: UnixMillis = UnixMillis(1_767_225_600_000);

/// Why a world stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The time until which the world was to run is over.
    Time,
    /// Nothing will ever happen again.
    Quiet,
    /// A task panicked: its name, and what it said.
    Panicked(String, String),
    /// The witness stopped the world at an event of this machine, so that the run can decide what becomes of
    /// it.
    Halted(u32),
}

/// What is due.
enum What {
    /// A task, by its number, goes on from a rest, by its number. Void if another event ended that rest
    /// before.
    Task(u64, u64),
    /// An event that belongs to no task.
    Event(Box<dyn FnOnce()>),
}

/// Something that is due at a time, and how many were made before it.
struct Due {
    time: Nanos,
    made: u64,
    what: What,
}

impl Due {
    fn key(&self) -> (Nanos, u64) {
        (self.time, self.made)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    /// Reverses the order, because a heap gives the greatest first, and a world needs what is due first.
    fn cmp(&self, other: &Due) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// What the world knows of a task, by its number. It stays when the task is over, and holds little then.
struct Known {
    name: Box<str>,
    machine: u32,
    life: Life,
    /// The number of its rests. An event that was to end an earlier rest is void.
    rests: u64,
    /// The bed that it is parked in.
    bed: Option<usize>,
    /// The tasks that wait for its end.
    joiners: Vec<u64>,
}

/// The state of a task.
enum Life {
    /// The task waits.
    Resting(Task),
    /// The task runs; this is its way out.
    Running(Way),
    /// The task ended, or panicked, and no task has joined it yet.
    Over { panicked: bool },
    /// The task was joined, or its machine crashed.
    Gone,
}

struct State {
    time: Nanos,
    made: u64,
    queue: BinaryHeap<Due>,
    known: Vec<Known>,
    /// The parked tasks, in the order of their numbers. There are few.
    parked: Vec<u64>,
    machines: Vec<Machine>,
    running: Option<u64>,
    chance: SplitMix64,
    /// The time that clocks show to destructors of crashed tasks. It runs fast, so that every wait is over
    /// soon.
    afterlife: Nanos,
    /// The number of tasks that went on, and of events.
    steps: u64,
    witness: Option<Witness>,
    /// What draws which tasks lose their cores, if any do.
    preempts: Option<Preempts>,
    /// The machine on whose account the world is to stop.
    halted: Option<u32>,
}

/// A world. It ends with everything in it when this is dropped.
pub struct World(Rc<RefCell<State>>);

/// The same world as its tasks see it. Tasks that wait hold it, so it must not keep them alive.
struct Inside(Rc<RefCell<State>>);

impl Drop for World {
    fn drop(&mut self) {
        let machines = self.0.borrow().machines.len() as u32;
        (0..machines).for_each(|machine| self.crash(machine));
        // Events may hold values whose destructors ask the world.
        let queue = std::mem::take(&mut self.0.borrow_mut().queue);
        self.enter(|| drop(queue));
    }
}

impl World {
    /// An empty world of a seed.
    pub fn new(seed: u64) -> World {
        World(Rc::new(RefCell::new(State {
            time: Nanos(0),
            made: 0,
            queue: BinaryHeap::new(),
            known: Vec::new(),
            parked: Vec::new(),
            machines: Vec::new(),
            running: None,
            chance: SplitMix64::new(seed),
            afterlife: Nanos(0),
            steps: 0,
            witness: None,
            preempts: None,
            halted: None,
        })))
    }

    /// Sets the witness, which is told what happens from now on.
    pub fn set_witness(&self, witness: Witness) {
        self.0.borrow_mut().witness = Some(witness);
    }

    /// Whether tasks lose their cores to others now and then, where they look at the clock: by what seed.
    pub fn preempt(&self, by: Option<u64>) {
        self.0.borrow_mut().preempts = by.map(Preempts::new);
    }

    /// Adds a machine; returns its number.
    pub fn add_machine(&self, drift: Drift) -> u32 {
        let mut state = self.0.borrow_mut();
        state.machines.push(Machine::new(drift));
        state.machines.len() as u32 - 1
    }

    /// Starts a task on a machine.
    pub fn start(&self, machine: u32, name: &str, body: impl FnOnce() + 'static) -> u64 {
        self.0.borrow_mut().spawn(machine, name, Box::new(body))
    }

    /// The time now.
    pub fn time(&self) -> Nanos {
        self.0.borrow().time
    }

    /// Has an event, which belongs to no task, happen after so long.
    pub fn after(&self, time: Nanos, event: impl FnOnce() + 'static) {
        let mut state = self.0.borrow_mut();
        let time = state.time + time;
        state.push(time, What::Event(Box::new(event)));
    }

    /// The number of tasks that went on so far, and of events.
    pub fn steps(&self) -> u64 {
        self.0.borrow().steps
    }

    /// Has a machine's CPUs do nothing for so long.
    pub fn pause(&self, machine: u32, time: Nanos) {
        let mut state = self.0.borrow_mut();
        let until = state.time + time;
        let machine = &mut state.machines[machine as usize];
        machine.paused_until = machine.paused_until.max(until);
    }

    /// Sets a machine's calendar, so many milliseconds ahead of the right time; behind, if negative.
    pub fn set_calendar(&self, machine: u32, ahead: i64) {
        self.0.borrow_mut().machines[machine as usize].set_ahead = ahead;
    }

    /// Crashes a machine: its tasks and its memory are gone. Returns when everything that its tasks held is
    /// dropped. None of these tasks can do anything any more.
    pub fn crash(&self, machine: u32) {
        let gone = {
            let mut state = self.0.borrow_mut();
            state.machines[machine as usize].up = false;
            let running = state.running.map(|running| state.of(running).machine);
            assert!(running != Some(machine), "nobody crashes itself");
            // Who holds a lock gives it back before others want it.
            let struck = state.machines[machine as usize].struck.take();
            let of = |id: &u64| state.of(*id).machine == machine;
            let gone: Vec<u64> = struck.into_iter().chain((0..state.known.len() as u64).filter(of)).collect();
            gone.into_iter().filter_map(|id| state.forget(id)).collect::<Vec<_>>()
        };
        // The destructors of these tasks may ask the world for its time.
        self.enter(|| drop(gone));
    }

    /// Does something in the world that no task does: time and chance are the world's.
    pub fn enter<R>(&self, act: impl FnOnce() -> R) -> R {
        longarm_host::world::enter(Rc::new(Inside(self.0.clone())), act)
    }

    /// Has a crashed machine run again, with nothing on it.
    pub fn restart(&self, machine: u32) {
        self.0.borrow_mut().machines[machine as usize].up = true;
    }

    /// Whether the machine runs.
    pub fn is_up(&self, machine: u32) -> bool {
        self.0.borrow().machines[machine as usize].up
    }

    /// Lets the world go on until this time.
    pub fn run(&self, until: Nanos) -> Stopped {
        self.enter(|| {
            loop {
                match self.step(until) {
                    None => {}
                    Some(stopped) => return stopped,
                }
            }
        })
    }

    fn step(&self, until: Nanos) -> Option<Stopped> {
        let mut state = self.0.borrow_mut();
        if let Some(machine) = state.halted.take() {
            return Some(Stopped::Halted(machine));
        }
        let Some(time) = state.next() else { return Some(Stopped::Quiet) };
        if time > until {
            state.time = until;
            return Some(Stopped::Time);
        }
        let due = state.queue.pop().expect("something is due");
        state.time = state.time.max(time);
        state.steps += 1;
        match due.what {
            What::Event(event) => {
                drop(state);
                event();
                None
            }
            What::Task(id, _) => {
                let task = state.begin(id)?;
                drop(state);
                self.go_on(id, task)
            }
        }
    }

    fn go_on(&self, id: u64, mut task: Task) -> Option<Stopped> {
        let ended = task.run();
        let mut state = self.0.borrow_mut();
        state.running = None;
        match ended {
            None => {
                state.of_mut(id).life = Life::Resting(task);
                None
            }
            Some(ended) => state.end(id, ended),
        }
    }
}

impl Inside {
    /// Has the running task lose its core before it looks at the clock, if it is drawn: what it knows may be
    /// out of date by then. (After that look the judge would take a decision to be as late as its effect.)
    fn preempt(&self) {
        {
            let mut state = self.0.borrow_mut();
            let Some(running) = state.running else { return };
            let Some(time) = state.preempts.as_mut().and_then(Preempts::draw) else { return };
            let until = state.time + time;
            state.wake_at(running, until);
        }
        self.rest();
    }

    /// Lets the other tasks go on until the running task is woken.
    fn rest(&self) {
        let way = {
            let state = self.0.borrow();
            let Some(running) = state.running else { return };
            match &state.of(running).life {
                Life::Running(way) => way.clone(),
                _ => unreachable!("it runs"),
            }
        };
        way.out();
    }

    /// Charges the running task some time. A task that is due before that is over goes first.
    fn spend(&self, time: Nanos) {
        {
            let mut state = self.0.borrow_mut();
            let Some(running) = state.running else { return };
            let spent = state.time + time;
            let paused = state.paused(running) > state.time;
            match state.next() {
                Some(next) if next <= spent || paused => state.wake_at(running, spent),
                None if paused => state.wake_at(running, spent),
                _ => {
                    state.time = spent;
                    return;
                }
            }
        }
        self.rest();
    }
}

impl State {
    fn push(&mut self, time: Nanos, what: What) {
        self.made += 1;
        self.queue.push(Due { time: time.max(self.time), made: self.made, what });
    }

    fn of(&self, task: u64) -> &Known {
        &self.known[task as usize]
    }

    fn of_mut(&mut self, task: u64) -> &mut Known {
        &mut self.known[task as usize]
    }

    /// When a task or an event is due next, which is then the first of the queue.
    fn next(&mut self) -> Option<Nanos> {
        while let Some(due) = self.queue.peek() {
            match due.what {
                What::Task(task, rest) if self.of(task).rests != rest => drop(self.queue.pop()),
                _ => return Some(due.time),
            }
        }
        None
    }

    fn spawn(&mut self, machine: u32, name: &str, body: Box<dyn FnOnce()>) -> u64 {
        assert!(self.machines[machine as usize].up, "a machine that is down starts nothing");
        let (id, life) = (self.known.len() as u64, Life::Resting(Task::new(body)));
        let (rests, bed, joiners) = (0, None, Vec::new());
        self.known.push(Known { name: name.into(), machine, life, rests, bed, joiners });
        self.wake_at(id, self.time);
        id
    }

    fn paused(&self, task: u64) -> Nanos {
        self.machines[self.of(task).machine as usize].paused_until
    }

    fn wake_at(&mut self, task: u64, time: Nanos) {
        let rest = self.of(task).rests;
        self.push(time, What::Task(task, rest));
    }

    /// Takes a task that is due, unless its machine is paused.
    fn begin(&mut self, id: u64) -> Option<Task> {
        let until = self.paused(id);
        if until > self.time {
            self.wake_at(id, until);
            return None;
        }
        self.get_up(id);
        self.running = Some(id);
        let known = self.of_mut(id);
        match std::mem::replace(&mut known.life, Life::Gone) {
            Life::Resting(task) => {
                known.life = Life::Running(task.way());
                Some(task)
            }
            _ => unreachable!("who is due rests"),
        }
    }

    /// Ends a task's rest; any other event that was to end it is void.
    fn get_up(&mut self, id: u64) {
        let known = self.of_mut(id);
        known.rests += 1;
        if known.bed.take().is_some() {
            self.parked.retain(|&parked| parked != id);
        }
    }

    fn end(&mut self, id: u64, ended: Ended) -> Option<Stopped> {
        let known = self.of_mut(id);
        known.life = Life::Over { panicked: ended.is_err() };
        let name = std::mem::take(&mut known.name);
        for joiner in std::mem::take(&mut known.joiners) {
            if matches!(self.of(joiner).life, Life::Resting(_)) {
                self.wake_at(joiner, self.time);
            }
        }
        let what = ended.err()?;
        let text = what.downcast_ref::<String>().cloned();
        let text = text.or_else(|| what.downcast_ref::<&str>().map(ToString::to_string));
        Some(Stopped::Panicked(name.into(), text.unwrap_or_else(|| "something that is no text".into())))
    }

    /// Takes a task that will not go on, so that the caller drops it.
    fn forget(&mut self, id: u64) -> Option<Task> {
        self.get_up(id);
        match std::mem::replace(&mut self.of_mut(id).life, Life::Gone) {
            Life::Resting(task) => Some(task),
            over => {
                self.of_mut(id).life = over;
                None
            }
        }
    }
}

impl Host for Inside {
    fn now(&self) -> Nanos {
        self.preempt();
        self.spend(LOOK);
        let mut state = self.0.borrow_mut();
        match state.running {
            Some(task) => state.machines[state.of(task).machine as usize].clock(state.time),
            None => {
                state.afterlife = state.afterlife + SECOND;
                state.afterlife
            }
        }
    }

    fn unix(&self) -> UnixMillis {
        let now = self.now();
        let state = self.0.borrow();
        let machine = state.running.map(|task| &state.machines[state.of(task).machine as usize]);
        let millis = machine.map_or((now.0 / 1_000_000) as i64, |machine| machine.calendar(now));
        UnixMillis(DAY.0.saturating_add_signed(millis))
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce()>) -> u64 {
        let machine = self.machine();
        self.0.borrow_mut().spawn(machine, name, body)
    }

    fn join(&self, task: u64) -> bool {
        loop {
            {
                let mut state = self.0.borrow_mut();
                if let Life::Over { panicked } = state.of(task).life {
                    state.of_mut(task).life = Life::Gone;
                    return panicked;
                }
                // While a crash drops what a task held, nothing waits.
                let Some(running) = state.running else { return false };
                state.of_mut(task).joiners.push(running);
            }
            self.rest();
        }
    }

    fn is_over(&self, task: u64) -> bool {
        matches!(self.0.borrow().of(task).life, Life::Over { .. } | Life::Gone)
    }

    fn park(&self, bed: usize, until: Nanos) -> bool {
        {
            let mut state = self.0.borrow_mut();
            let Some(running) = state.running else { return false };
            state.of_mut(running).bed = Some(bed);
            let at = state.parked.partition_point(|&parked| parked < running);
            state.parked.insert(at, running);
            let time = state.machines[state.of(running).machine as usize].when(until);
            state.wake_at(running, time);
        }
        self.rest();
        true
    }

    fn unpark(&self, bed: usize) {
        let mut state = self.0.borrow_mut();
        let time = state.time;
        for at in 0..state.parked.len() {
            let sleeper = state.parked[at];
            if state.of(sleeper).bed == Some(bed) {
                state.wake_at(sleeper, time);
            }
        }
    }

    fn relax(&self) {
        self.spend(IDLE);
    }

    fn draw(&self) -> u64 {
        self.0.borrow_mut().chance.draw()
    }

    fn machine(&self) -> u32 {
        let state = self.0.borrow();
        let running = state.running.expect("only a task asks where it is");
        state.of(running).machine
    }

    fn cores(&self) -> usize {
        // Machines have one, two or four cores, so that code runs with many threads and with one alone.
        1 << (self.machine() % 3)
    }

    fn time(&self) -> Nanos {
        self.0.borrow().time
    }

    fn at(&self, time: Nanos, event: Box<dyn FnOnce()>) {
        self.0.borrow_mut().push(time, What::Event(event));
    }

    fn observe(&self, event: Observation) {
        let state = self.0.borrow();
        let Some(witness) = state.witness.clone() else { return };
        let running = || state.running.map(|running| state.of(running).machine);
        let machine = match event {
            Observation::Landed { into, .. } => Some(into),
            // Destructors of a crashed machine's tasks are on no machine, and the witness hears nothing of
            // them.
            _ => running(),
        };
        let time = state.time;
        drop(state);
        let Some(machine) = machine else { return };
        let witnessed = witness(time, machine, &event);
        if witnessed == Witnessed::GoesOn || matches!(event, Observation::Landed { .. }) {
            return;
        }
        {
            let mut state = self.0.borrow_mut();
            let Some(running) = state.running else { return };
            match witnessed {
                Witnessed::Stalls(stall) => state.wake_at(running, time + stall),
                _ => {
                    state.halted = Some(machine);
                    state.machines[machine as usize].struck = Some(running);
                    state.wake_at(running, time);
                }
            }
        }
        self.rest();
    }
}
