//! A world: its time, its machines, the tasks on them, and whatever else happens at some time.
//!
//! (1) Time stands still while a task runs, but for what the task says it spent: each look at a clock and
//!     each idle poll costs some nanoseconds, so a loop that waits for the time to come ends.
//! (2) What is due runs in the order of its time, then of its making: nothing depends on addresses, hashes or
//!     the machine that simulates (I21).
//! (3) A task that spent more than the time until the next thing that is due makes way for it.
//! (4) A paused machine's tasks do not run; what its NIC does is no task's and goes on (L9).

mod machine;
mod task;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use longarm_base::random::SplitMix64;
use longarm_base::{Nanos, UnixMillis};
use longarm_host::World as Host;
use longarm_host::observe::Observation;

pub use machine::{Drift, Machine};
use task::{Ended, Task, Way};

/// What a look at a clock, and an idle poll, cost.
const LOOK: Nanos = Nanos(25);
const IDLE: Nanos = Nanos(100);
const SECOND: Nanos = Nanos::from_millis(1000);
/// Where every calendar begins: 2026-01-01.
const DAY: UnixMillis = UnixMillis(1_767_225_600_000);

/// Why a world stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The time was over.
    Time,
    /// Nothing will ever happen again.
    Quiet,
    /// A task panicked: its name, and what it said.
    Panicked(String, String),
    /// A machine came to where its witness wanted to be asked what becomes of it.
    Halted(u32),
}

/// What is due.
enum What {
    /// This task goes on from this rest of its; void if something else ended that before.
    Task(u64, u64),
    /// Something that is no task's.
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
    /// Of a heap the greatest comes first, of a world what is due first.
    fn cmp(&self, other: &Due) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// What the world knows of a task, by its number. Those of tasks that are over stay, and hold little.
struct Known {
    name: Box<str>,
    machine: u32,
    life: Life,
    /// Times that it rested. What was to wake it from an earlier rest is void.
    rests: u64,
    /// The bed it is parked in.
    bed: Option<usize>,
    /// Tasks that wait for its end.
    joiners: Vec<u64>,
}

/// How far a task is.
enum Life {
    /// It waits.
    Resting(Task),
    /// It runs; this is its way out.
    Running(Way),
    /// It ended, or panicked, and nobody has joined it yet.
    Over { panicked: bool },
    /// Nobody will ask for it any more, or its machine crashed.
    Gone,
}

struct State {
    time: Nanos,
    made: u64,
    queue: BinaryHeap<Due>,
    known: Vec<Known>,
    /// Tasks that are parked, in the order of their numbers: there are few.
    parked: Vec<u64>,
    machines: Vec<Machine>,
    running: Option<u64>,
    chance: SplitMix64,
    /// What clocks show to destructors of crashed tasks: every wait is over soon.
    afterlife: Nanos,
    /// Things that were done.
    steps: u64,
    witness: Option<Witness>,
    /// The machine on whose account the world is to stop.
    halted: Option<u32>,
}

/// Who is told what happens: when, and on which machine. If it says so, the world stops before anything else
/// happens: somebody decides what becomes of the machine.
pub type Witness = Rc<dyn Fn(Nanos, u32, &Observation) -> bool>;

/// A world. It ends when this is dropped, and everything in it.
pub struct World(Rc<RefCell<State>>);

/// The same world as its tasks see it. Those that wait hold it, so it may not be what keeps them alive.
struct Inside(Rc<RefCell<State>>);

impl Drop for World {
    fn drop(&mut self) {
        let machines = self.0.borrow().machines.len() as u32;
        (0..machines).for_each(|machine| self.crash(machine));
        // Events may hold what asks the world when it is dropped.
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
            halted: None,
        })))
    }

    /// From now on this one is told what happens.
    pub fn set_witness(&self, witness: Witness) {
        self.0.borrow_mut().witness = Some(witness);
    }

    /// One more machine; returns its number.
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

    /// After so long something happens that is no task's.
    pub fn after(&self, time: Nanos, event: impl FnOnce() + 'static) {
        let mut state = self.0.borrow_mut();
        let time = state.time + time;
        state.push(time, What::Event(Box::new(event)));
    }

    /// Things that were done so far: tasks that went on, and events.
    pub fn steps(&self) -> u64 {
        self.0.borrow().steps
    }

    /// The machine's CPUs do nothing for so long.
    pub fn pause(&self, machine: u32, time: Nanos) {
        let mut state = self.0.borrow_mut();
        let until = state.time + time;
        let machine = &mut state.machines[machine as usize];
        machine.paused_until = machine.paused_until.max(until);
    }

    /// Somebody sets the machine's calendar, so many milliseconds ahead of what is right; behind, if
    /// negative.
    pub fn set_calendar(&self, machine: u32, ahead: i64) {
        self.0.borrow_mut().machines[machine as usize].set_ahead = ahead;
    }

    /// The machine is gone, with its tasks and its memory. Returns when what its tasks held is dropped, none
    /// of which can do anything any more.
    pub fn crash(&self, machine: u32) {
        let gone = {
            let mut state = self.0.borrow_mut();
            state.machines[machine as usize].up = false;
            let running = state.running.map(|running| state.of(running).machine);
            assert!(running != Some(machine), "nobody crashes itself");
            let of = |id: &u64| state.of(*id).machine == machine;
            let gone: Vec<u64> = (0..state.known.len() as u64).filter(of).collect();
            gone.into_iter().filter_map(|id| state.forget(id)).collect::<Vec<_>>()
        };
        // Their destructors ask the world for this and that.
        self.enter(|| drop(gone));
    }

    /// Does something in the world that no task does: time and chance are the world's.
    pub fn enter<R>(&self, act: impl FnOnce() -> R) -> R {
        longarm_host::world::enter(Rc::new(Inside(self.0.clone())), act)
    }

    /// After a crash: the machine runs again, with nothing on it.
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
    /// Lets the others go on until the running task is woken.
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

    /// The running task spent some time; who is due before goes first.
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

    /// When something is due next, which is then the first of the queue.
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

    /// Its rest is over, and whatever else was to end it is void.
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

    /// A task that will not go on.
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
        // One, two or four: what many threads do at once is done by one alone elsewhere.
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
            // What a crashed machine's tasks leave behind tells nothing any more.
            _ => running(),
        };
        let time = state.time;
        drop(state);
        let halts = machine.filter(|&machine| witness(time, machine, &event));
        let Some(machine) = halts.filter(|_| !matches!(event, Observation::Landed { .. })) else { return };
        {
            let mut state = self.0.borrow_mut();
            let Some(running) = state.running else { return };
            state.halted = Some(machine);
            state.wake_at(running, time);
        }
        self.rest();
    }
}
