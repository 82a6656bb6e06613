use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use longarm_host::{Mutex, Pause, now, random, relax, sleep, spawn};

use super::*;

/// A log that tasks write.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    fn say(&self, text: impl Into<String>) {
        self.0.borrow_mut().push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

fn world() -> World {
    let world = World::new(1);
    world.add_machine(Drift::default());
    world
}

#[test]
fn sleepers_wake_in_the_order_of_their_times() {
    let (world, log) = (world(), Log::default());
    for ms in [30, 10, 20] {
        let log = log.clone();
        world.start(0, "sleeper", move || {
            sleep(Duration::from_millis(ms));
            log.say(format!("{} after {ms}", now().0 / 1_000_000));
        });
    }
    assert_eq!(world.run(Nanos::from_millis(15)), Stopped::Time);
    assert_eq!(log.take(), ["10 after 10"]);
    assert_eq!(world.run(SECOND), Stopped::Quiet);
    assert_eq!(log.take(), ["20 after 20", "30 after 30"]);
}

#[test]
fn a_poke_wakes_and_none_is_lost() {
    let (world, log) = (world(), Log::default());
    let pause = Arc::new(Pause::default());
    let (bed, said) = (pause.clone(), log.clone());
    world.start(0, "sleeper", move || {
        assert!(bed.sleep_unless_poked(Duration::from_secs(9)));
        said.say(format!("woken at {} ms", now().0 / 1_000_000));
        sleep(Duration::from_millis(5));
        assert!(bed.sleep_unless_poked(Duration::from_secs(9)), "poked while awake");
        said.say(format!("again at {} ms", now().0 / 1_000_000));
    });
    world.start(0, "poker", move || {
        for _ in 0..2 {
            sleep(Duration::from_millis(2));
            pause.poke();
        }
    });
    assert_eq!(world.run(SECOND), Stopped::Quiet);
    assert_eq!(log.take(), ["woken at 2 ms", "again at 7 ms"]);
}

#[test]
fn locks_and_joins_let_others_go_on() {
    let (world, log) = (world(), Log::default());
    let said = log.clone();
    world.start(0, "main", move || {
        let lock = Arc::new(Mutex::new(0));
        let (held, guard) = (lock.clone(), lock.lock());
        let thread = spawn("waits", move || *held.lock() += 1).expect("tasks are cheap");
        sleep(Duration::from_millis(1));
        drop(guard);
        thread.join().expect("no panic");
        said.say(format!("{} after {} ms", *lock.lock(), now().0 / 1_000_000));
    });
    assert_eq!(world.run(SECOND), Stopped::Quiet);
    assert_eq!(log.take(), ["1 after 1 ms"]);
}

#[test]
fn a_loop_that_waits_for_a_time_ends_and_events_come_between() {
    let (world, log) = (world(), Log::default());
    let (said, heard) = (log.clone(), log.clone());
    world.start(0, "spins", move || {
        let event = Box::new(move || heard.say("event"));
        longarm_host::world::entered().expect("in it").at(Nanos(5_000), event);
        while now() < Nanos(10_000) {
            relax();
        }
        said.say("spun");
    });
    assert_eq!(world.run(SECOND), Stopped::Quiet);
    assert_eq!(log.take(), ["event", "spun"]);
}

#[test]
fn a_paused_machine_stands_still_and_others_do_not() {
    let (world, log) = (world(), Log::default());
    let other = world.add_machine(Drift::default());
    for machine in [0, other] {
        let log = log.clone();
        world.start(machine, "task", move || {
            for _ in 0..2 {
                sleep(Duration::from_millis(10));
                log.say(format!("{machine} at {} ms", now().0 / 1_000_000));
            }
        });
    }
    world.run(Nanos::from_millis(5));
    world.pause(0, Nanos::from_millis(50));
    assert_eq!(world.run(SECOND), Stopped::Quiet);
    assert_eq!(log.take(), ["1 at 10 ms", "1 at 20 ms", "0 at 55 ms", "0 at 65 ms"]);
}

#[test]
fn clocks_of_machines_differ_and_sleeps_are_theirs() {
    let (world, log) = (World::new(1), Log::default());
    let fast = world.add_machine(Drift { offset: Nanos::from_millis(500), rate: 100_000 });
    let said = log.clone();
    world.start(fast, "task", move || {
        let (before, world) = (now(), longarm_host::world::entered().expect("in it"));
        sleep(Duration::from_millis(110));
        let gone = (now().since(before).0 / 1_000_000, world.time().0 / 1_000_000);
        said.say(format!("{} ms, here {}, there {}", before.0 / 1_000_000, gone.0, gone.1));
    });
    assert_eq!(world.run(SECOND), Stopped::Quiet);
    assert_eq!(log.take(), ["500 ms, here 110, there 100"]);
}

#[test]
fn a_crash_drops_what_tasks_held_and_nothing_of_them_goes_on() {
    let (world, log) = (world(), Log::default());
    let said = log.clone();
    world.start(0, "task", move || {
        struct Held(Log, Pause);
        impl Drop for Held {
            fn drop(&mut self) {
                self.1.sleep(Duration::from_secs(1));
                self.0.say("dropped");
            }
        }
        let held = Held(said.clone(), Pause::default());
        let thread = spawn("other", || sleep(Duration::from_secs(1))).expect("tasks are cheap");
        let _ = thread.join();
        held.0.say("went on");
    });
    world.run(Nanos::from_millis(1));
    world.crash(0);
    assert!(!world.is_up(0));
    assert_eq!(log.take(), ["dropped"]);
    world.restart(0);
    let said = log.clone();
    world.start(0, "next", move || said.say("next"));
    assert_eq!(world.run(SECOND), Stopped::Quiet);
    assert_eq!(log.take(), ["next"]);
}

#[test]
fn a_panic_stops_the_world_and_is_named() {
    let world = world();
    world.start(0, "unlucky", || panic!("it is {}", 13));
    assert_eq!(world.run(SECOND), Stopped::Panicked("unlucky".into(), "it is 13".into()));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed: u64| {
        let (world, log) = (World::new(seed), Log::default());
        for machine in 0..3u32 {
            let log = log.clone();
            let machine = world.add_machine(Drift { offset: Nanos(u64::from(machine)), rate: 0 });
            world.start(machine, "task", move || {
                for _ in 0..20 {
                    let [word] = random().expect("of the seed");
                    sleep(Duration::from_nanos(word % 10_000));
                    log.say(format!("{machine} {}", now().0));
                }
            });
        }
        assert_eq!(world.run(SECOND), Stopped::Quiet);
        (log.take(), world.steps())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}
