use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use longarm_base::Nanos;

use crate::{Mutex, Pause, now, random, relax, sleep, spawn, unix, world};

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_poke_before_the_sleep_is_not_lost_and_counts_once() {
    let pause = Pause::default();
    pause.poke();
    let begun = Instant::now();
    assert!(pause.sleep_unless_poked(LONG) && begun.elapsed() < LONG);
    assert!(!pause.sleep_unless_poked(Duration::ZERO));
}

#[test]
fn a_poke_and_a_stop_wake_a_sleeper() {
    let pause = Arc::new(Pause::default());
    let (bed, awake) = (pause.clone(), Arc::new(Pause::default()));
    let said = awake.clone();
    let sleeper = spawn("sleeper", move || {
        assert!(bed.sleep(LONG), "poked");
        said.poke();
        assert!(!bed.sleep(LONG), "stopped");
    });
    sleep(Duration::from_millis(1));
    pause.poke();
    relax();
    assert!(awake.sleep_unless_poked(LONG));
    pause.stop();
    assert!(sleeper.expect("a thread").join().is_ok() && pause.is_stopped());
}

#[test]
fn who_waits_for_something_looks_again_after_a_poke_and_ends_with_the_time_or_a_stop() {
    let (pause, there) = (Arc::new(Pause::default()), Arc::new(Mutex::new(None)));
    let until = now() + Nanos(LONG.as_nanos() as u64);
    assert_eq!(pause.wait_for(now(), || there.lock().take()), None::<u32>, "the time has come");
    let (bed, shown) = (pause.clone(), there.clone());
    let shower = spawn("shower", move || {
        bed.poke();
        *shown.lock() = Some(7);
        bed.poke();
    });
    assert_eq!(pause.wait_for(until, || there.lock().take()), Some(7));
    assert!(shower.expect("a thread").join().is_ok());
    pause.stop();
    assert_eq!(pause.wait_for(until, || there.lock().take()), None, "told to stop");
    *there.lock() = Some(8);
    assert_eq!(pause.wait_for(now(), || there.lock().take()), Some(8), "what is there is found");
    assert!(now() < until);
}

#[test]
fn locks_exclude() {
    let sum = Arc::new(Mutex::new(0u64));
    let add = || {
        let sum = sum.clone();
        spawn("adder", move || (0..1000).for_each(|_| *sum.lock() += 1)).expect("a thread")
    };
    for thread in [add(), add()] {
        thread.join().expect("no panic");
    }
    assert_eq!(*sum.lock(), 2000);
}

#[test]
fn a_panic_is_told_to_whoever_joins_and_kills_the_next_holder_of_its_lock() {
    let lock = Arc::new(Mutex::new(()));
    let held = lock.clone();
    let thread = spawn("panics", move || {
        let _guard = held.lock();
        panic!("on purpose");
    });
    assert!(thread.expect("a thread").join().is_err());
    assert!(std::panic::catch_unwind(|| drop(lock.lock())).is_err());
}

#[test]
fn a_lock_is_tried_and_what_its_dead_holder_left_is_made_as_new() {
    let lock = Arc::new(Mutex::new(1));
    let renewed = |value: &mut u32| *value = 9;
    let guard = lock.try_lock(renewed).expect("free");
    assert!(lock.try_lock(renewed).is_none() && *guard == 1);
    drop(guard);
    let held = lock.clone();
    let thread = spawn("panics", move || {
        *held.lock() = 2;
        let _guard = held.lock();
        panic!("on purpose");
    });
    assert!(thread.expect("a thread").join().is_err());
    assert_eq!(*lock.try_lock(renewed).expect("free"), 9);
    assert_eq!(*lock.lock(), 9, "and it is a lock as before");
}

#[test]
fn clocks_go_on_and_chance_does_not_repeat() {
    let (before, day) = (now(), unix());
    sleep(Duration::from_millis(2));
    assert!(now().since(before).0 >= 2_000_000 && unix() >= day);
    assert_ne!(random::<4>().expect("random"), random::<4>().expect("random"));
    assert!(!world::is_simulated());
}

#[test]
fn threads_outside_a_world_take_no_notice_of_it() {
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    spawn("other", move || {
        assert!(!world::is_simulated());
        // Relaxed: the join orders it.
        counted.fetch_add(1, Ordering::Relaxed);
    })
    .expect("a thread")
    .join()
    .expect("no panic");
    // Relaxed: as above.
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
