//! Every step in an order that shuttle chooses: who sleeps for ever is a deadlock there, and what is executed
//! twice, not at all, or beside something else is seen. Then what needs no schedule.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Mutex as Shared;
use std::time::{Duration, Instant};

use longarm_base::UnixMillis;
use longarm_host::{World, world};

use super::*;

const NEVER: Nanos = Nanos(u64::MAX);

/// Operations are numbers, and so are outcomes: ten times as much.
#[derive(Default)]
struct Log {
    executed: Vec<u32>,
    busy: bool,
    renewed: u32,
}

const PANICS: u32 = 999;

impl Log {
    fn one(&mut self, number: u32) -> u32 {
        assert!(!std::mem::replace(&mut self.busy, true), "one at a time");
        step();
        assert!(number != PANICS, "on purpose");
        self.executed.push(number);
        self.busy = false;
        number * 10
    }
}

impl Combined for Log {
    type Operation = u32;
    type Outcome = u32;

    fn execute(&mut self, batch: &Batch<u32, u32>) {
        for (i, number) in batch.operations().copied().enumerate() {
            let outcome = self.one(number);
            batch.end(i, outcome);
        }
    }

    fn renew(&mut self) {
        self.busy = false;
        self.renewed += 1;
    }
}

/// A world whose tasks are those of shuttle. Its time stands still until it is set.
#[derive(Default)]
struct Tasks {
    time: Cell<u64>,
    beds: RefCell<HashMap<usize, Vec<shuttle::thread::Thread>>>,
}

impl Tasks {
    /// The time has come, and wakes all.
    fn set(&self, time: u64) {
        self.time.set(time);
        let all: Vec<_> = self.beds.borrow().values().flatten().cloned().collect();
        all.iter().for_each(shuttle::thread::Thread::unpark);
    }
}

impl World for Tasks {
    fn now(&self) -> Nanos {
        Nanos(self.time.get())
    }
    fn park(&self, bed: usize, until: Nanos) -> bool {
        if self.now() < until {
            let this = shuttle::thread::current();
            self.beds.borrow_mut().entry(bed).or_default().push(this.clone());
            shuttle::thread::park();
            let mut beds = self.beds.borrow_mut();
            beds.entry(bed).or_default().retain(|other| other.id() != this.id());
        }
        true
    }
    fn unpark(&self, bed: usize) {
        // To unpark is a step, before which others may park.
        let parked: Vec<_> = self.beds.borrow().get(&bed).cloned().unwrap_or_default();
        parked.iter().for_each(shuttle::thread::Thread::unpark);
    }
    fn relax(&self) {
        shuttle::thread::yield_now();
    }
    fn unix(&self) -> UnixMillis {
        UnixMillis(0)
    }
    fn spawn(&self, _: &str, _: Box<dyn FnOnce()>) -> u64 {
        unreachable!("nobody is started")
    }
    fn join(&self, _: u64) -> bool {
        unreachable!("nobody is joined")
    }
    fn is_over(&self, _: u64) -> bool {
        unreachable!("nobody is joined")
    }
    fn draw(&self) -> u64 {
        unreachable!("nothing is drawn")
    }
    fn machine(&self) -> u32 {
        0
    }
    fn time(&self) -> Nanos {
        self.now()
    }
    fn at(&self, _: Nanos, _: Box<dyn FnOnce()>) {
        unreachable!("there are no NICs")
    }
}

/// Runs it under many schedules.
fn scheduled(times: usize, scenario: impl Fn() + Send + Sync + Copy + 'static) {
    let tasks: Rc<dyn World> = Rc::new(Tasks::default());
    SCHEDULED.set(true);
    world::enter(tasks, || {
        let config = shuttle::Config::new();
        let random = shuttle::scheduler::RandomScheduler::new(times);
        shuttle::Runner::new(random, config.clone()).run(scenario);
        let pct = shuttle::scheduler::PctScheduler::new(3, times);
        shuttle::Runner::new(pct, config).run(scenario);
    });
    SCHEDULED.set(false);
}

fn no_spin() -> AdaptiveSpin {
    AdaptiveSpin::new(Nanos(0))
}

/// As a client does: alone if that is possible.
fn ask(combiner: &Combiner<Log>, number: u32, until: Nanos) -> Result<u32, Unserved> {
    match combiner.alone() {
        Some(mut held) => Ok(held.one(number)),
        None => combiner.perform(number, until, &mut no_spin()),
    }
}

/// The numbers that were executed, when all is over: nobody is left in the queue.
fn executed(combiner: &Combiner<Log>) -> Vec<u32> {
    // Relaxed: all tasks were joined.
    assert_eq!(combiner.waiting.load(Ordering::Relaxed), 0);
    assert!(combiner.queue.lock().waiters.is_empty());
    let mut held = combiner.alone().expect("nobody has it");
    held.executed.sort_unstable();
    held.executed.clone()
}

/// Threads that ask for operations, and some for the role; a queue of so many.
fn all_are_served(most: usize) {
    let combiner = Arc::new(Combiner::new(Log::default(), most));
    let tasks: Vec<_> = (0..4u32)
        .map(|task| {
            let combiner = combiner.clone();
            shuttle::thread::spawn(move || {
                for round in 0..3 {
                    let number = task * 3 + round;
                    if number % 5 == 4 {
                        let mut held = combiner.turn(NEVER, &mut no_spin()).expect("its turn comes");
                        held.one(number);
                    } else {
                        assert_eq!(ask(&combiner, number, NEVER), Ok(number * 10));
                    }
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join().expect("served"));
    assert_eq!(executed(&combiner), Vec::from_iter(0..12));
}

#[test]
fn no_wake_up_and_no_operation_is_lost() {
    scheduled(1_500, || all_are_served(16));
}

#[test]
fn whoever_waits_for_room_in_the_queue_gets_it() {
    scheduled(1_500, || all_are_served(1));
}

/// The time of some operations is over at any step: what was not begun is never executed, and whoever is
/// called and leaves the queue calls another, as those that have time wait for that.
fn some_are_late() {
    let tasks = Rc::new(Tasks::default());
    world::enter(tasks.clone(), || {
        let combiner = Arc::new(Combiner::new(Log::default(), 2));
        let ask = |number: u32| {
            let combiner = combiner.clone();
            let until = if number < 2 { Nanos(10) } else { NEVER };
            shuttle::thread::spawn(move || (number, ask(&combiner, number, until)))
        };
        let asked: Vec<_> = (0..4).map(ask).collect();
        let turned = {
            let combiner = combiner.clone();
            shuttle::thread::spawn(move || combiner.turn(Nanos(10), &mut no_spin()).is_ok())
        };
        for _ in 0..12 {
            step();
        }
        tasks.set(10);
        let outcomes: Vec<_> = asked.into_iter().map(|task| task.join().expect("no panic")).collect();
        turned.join().expect("no panic");
        let executed = executed(&combiner);
        for (number, outcome) in outcomes {
            let times = executed.iter().filter(|done| **done == number).count();
            match outcome {
                Ok(outcome) => assert_eq!((outcome, times), (number * 10, 1)),
                Err(Unserved::NotBegun) => assert_eq!(times, 0, "{number} was given up"),
                Err(Unserved::Begun) => assert_eq!(times, 1),
                Err(Unserved::Died) => panic!("nobody died"),
            }
        }
    });
}

#[test]
fn what_is_late_is_out_of_the_queue_or_was_begun() {
    scheduled(1_500, some_are_late);
}

/// Each batch brings another operation into the queue.
struct Endless {
    queue: Option<&'static Combiner<Endless>>,
    places: Vec<Place<'static, Endless>>,
    batches: u32,
}

impl Combined for Endless {
    type Operation = ();
    type Outcome = ();

    fn execute(&mut self, batch: &Batch<(), ()>) {
        self.batches += 1;
        (0..batch.operations().len()).for_each(|i| batch.end(i, ()));
        let combiner = self.queue.expect("set");
        self.places.push(combiner.join(Stage::Queued(()), NEVER).expect("room"));
    }

    fn renew(&mut self) {}
}

#[test]
fn a_holder_hands_the_role_over() {
    let endless = Endless { queue: None, places: Vec::new(), batches: 0 };
    let combiner: &'static Combiner<Endless> = Box::leak(Box::new(Combiner::new(endless, 16)));
    combiner.hold().expect("free").queue = Some(combiner);
    combiner.perform((), NEVER, &mut no_spin()).expect("served");
    let mut held = combiner.hold().expect("it was left");
    assert!((1..=ROUNDS).contains(&held.batches), "{} batches", held.batches);
    let last = held.places.pop().expect("one is left");
    assert_eq!(last.waiter.signal.get(), CALLED, "somebody is to go on");
    // The place leaves the queue without the role, which is held here.
    drop(last);
    held.places.iter_mut().for_each(|place| place.gone = true);
}

#[test]
fn an_operation_whose_time_is_over_in_the_queue_is_not_executed() {
    let combiner = Combiner::new(Log::default(), 16);
    let held = combiner.alone().expect("free");
    assert!(combiner.alone().is_none(), "taken");
    std::thread::scope(|scope| {
        let late = || combiner.perform(1, now() + Nanos::from_millis(3), &mut no_spin());
        assert_eq!(scope.spawn(late).join().expect("no panic"), Err(Unserved::NotBegun));
        let late = || combiner.turn(now() + Nanos::from_millis(3), &mut no_spin()).is_err();
        assert!(scope.spawn(late).join().expect("no panic"));
    });
    drop(held);
    assert_eq!(executed(&combiner), [0u32; 0]);
}

#[test]
fn a_full_queue_is_waited_for_no_longer_than_the_time() {
    let combiner = Combiner::new(Log::default(), 2);
    let held = combiner.alone().expect("free");
    let places = [1, 2].map(|number| combiner.join(Stage::Queued(number), NEVER).expect("room"));
    let full = combiner.join(Stage::Queued(3), now() + Nanos::from_millis(3));
    assert_eq!(full.err(), Some(Unserved::NotBegun));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| combiner.perform(4, now() + Nanos::from_millis(20_000), &mut no_spin()));
        longarm_host::sleep(Duration::from_millis(2));
        // A place that is given up is room, too.
        let [first, _second] = places;
        drop(first);
        longarm_host::sleep(Duration::from_millis(2));
        drop(held);
        assert_eq!(waits.join().expect("no panic"), Ok(40));
    });
    assert_eq!(executed(&combiner), [2, 4]);
}

/// Threads ask at the same time, and some of what they ask for panics whoever executes it.
#[test]
fn a_panic_of_a_holder_reaches_nobody_else() {
    let combiner = Combiner::new(Log::default(), 16);
    let begun = Instant::now();
    let (panicked, died) = (Shared::new(0), Shared::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (combiner, panicked, died) = (&combiner, &panicked, &died);
            scope.spawn(move || {
                for round in 0..50 {
                    let number = if round % 10 == 9 { PANICS } else { thread * 50 + round };
                    let until = now() + Nanos::from_millis(20_000);
                    match catch_unwind(AssertUnwindSafe(|| ask(combiner, number, until))) {
                        Ok(Ok(outcome)) => assert_eq!(outcome, number * 10),
                        Ok(Err(why)) => {
                            assert_eq!(why, Unserved::Died);
                            *died.lock().expect("no panic") += 1;
                        }
                        Err(_) => *panicked.lock().expect("no panic") += 1,
                    }
                }
            });
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits in vain");
    let (panicked, died) = (*panicked.lock().expect("no panic"), *died.lock().expect("no panic"));
    let executed = executed(&combiner);
    assert!(executed.windows(2).all(|pair| pair[0] < pair[1]), "each once");
    assert!((1..=20).contains(&panicked) && executed.len() >= 180 - died, "{panicked} {died}");
    let renewed = combiner.alone().expect("free").renewed;
    assert!(renewed >= 1 && renewed <= panicked);
}
