//! How long a thread looks for what it waits for before it sleeps: adaptive spinning, as the halt polling of
//! hypervisors. A wake-up takes longer than many a wait, but a thread that looks keeps a core from others.
//!
//! (1) A thread looks while looking has lately paid: once two waits outlast the bound, waits sleep at once,
//!     and one in many looks again. The more of these are in vain, the fewer there are.
//! (2) It looks while it has a core to itself: once the core is taken from it, it sleeps at once for some
//!     milliseconds, and for twice as long if that happens again soon.
//! (3) Nobody need set anything: the bound is the longest time for which it ever pays to look.

use longarm_base::Nanos;

use crate::now;

/// Looks between two readings of the clock.
const LOOKS: u32 = 8;
/// Waits in vain, one after the other, from which on a wait sleeps at once.
const MISSES: u32 = 2;
/// The waits that sleep between two that look, while looking does not pay: at first, and at most.
const SLEEPS: u32 = 16;
const SLEEPS_MAX: u32 = 512;
/// The same where what is looked for mostly comes at once, when whoever makes it has a core.
const SLEEPS_SHORT: u32 = 4;
/// Between two looks goes so much time at most, unless the core is taken from the thread.
const TAKEN: Nanos = Nanos::from_micros(50);
/// What takes less time than this to come is looked for whoever wants the core: to let another thread have it
/// and to get it back takes longer.
const SWITCH: Nanos = Nanos::from_micros(4);
/// So much of [`WITHIN`] is taken from a thread before it rests. Others want the core for slices of
/// milliseconds; an interrupt, or the machine below a virtual one, takes less. Two threads that came to share
/// a core by chance part before.
const LOST: Nanos = Nanos::from_millis(5);
const WITHIN: Nanos = Nanos::from_millis(20);
/// For how long a thread sleeps at once after its core was taken from it: at first, and at most.
const REST: Nanos = Nanos::from_millis(2);
const REST_MAX: Nanos = Nanos::from_millis(256);

/// What a thread knows of its waits.
#[derive(Clone, Debug)]
pub struct AdaptiveSpin {
    /// The longest time to look, and the same in this wait.
    bound: Nanos,
    within: Nanos,
    /// Waits in vain since one paid.
    misses: u32,
    /// Waits that sleep before the next one looks.
    sleeps: u32,
    sleeps_next: u32,
    /// How long waits took that paid to look, of late.
    paid: Nanos,
    /// When the core was taken from the thread last, since when that is summed, and for how long it was.
    taken: Nanos,
    since: Nanos,
    lost: Nanos,
    /// Until when the thread sleeps at once, and for how long if its core is taken again.
    rest_until: Nanos,
    rest: Nanos,
    /// When the wait began, and when it looked last.
    begun: Nanos,
    looked: Nanos,
    /// This wait sleeps, or has slept.
    sleeps_now: bool,
}

impl AdaptiveSpin {
    /// Looks for at most `bound`; never, if that is zero.
    pub fn new(bound: Nanos) -> AdaptiveSpin {
        AdaptiveSpin {
            bound,
            within: bound,
            misses: 0,
            sleeps: 0,
            sleeps_next: SLEEPS,
            paid: SWITCH,
            taken: Nanos(0),
            since: Nanos(0),
            lost: Nanos(0),
            rest_until: Nanos(0),
            rest: REST,
            begun: Nanos(0),
            looked: Nanos(0),
            sleeps_now: true,
        }
    }

    /// A wait begins, for what takes so long to make at least: looks for it as long as that pays. Whether
    /// `ready` said that it is there; if not, the thread sleeps now.
    #[inline]
    pub fn look(&mut self, begun: Nanos, work: Nanos, mut ready: impl FnMut() -> bool) -> bool {
        let mut looks = self.begin(begun, work);
        while looks {
            for _ in 0..LOOKS {
                if ready() {
                    self.end(now());
                    return true;
                }
                std::hint::spin_loop();
            }
            looks = self.looks_again(now());
        }
        false
    }

    /// A wait begins, for what takes so long to make at least. Whether to look; if not, the thread sleeps
    /// now.
    pub fn begin(&mut self, now: Nanos, work: Nanos) -> bool {
        (self.begun, self.looked) = (now, now);
        self.within = self.bound + work;
        let mut looks = self.bound > Nanos(0) && now >= self.rest_until;
        if looks && self.misses >= MISSES {
            looks = self.sleeps == 0;
            self.sleeps = self.sleeps.saturating_sub(1);
        }
        self.sleeps_now = !looks;
        looks
    }

    /// It looked in vain: whether to look again. If not, the thread sleeps now.
    pub fn looks_again(&mut self, now: Nanos) -> bool {
        let since = now.since(self.looked);
        self.looked = now;
        if self.sleeps_now {
            return false;
        }
        if since >= TAKEN {
            self.taken(now, since);
        }
        if now < self.rest_until {
            self.sleeps_now = true;
        } else if now.since(self.begun) >= self.within {
            self.missed();
            self.sleeps_now = true;
        }
        !self.sleeps_now
    }

    /// What it waited for was there before the clock was looked at again.
    #[inline]
    pub fn end_at_once(&mut self) {
        if !self.sleeps_now {
            self.found(Some(Nanos(0)));
        }
    }

    /// What it waited for is there.
    pub fn end(&mut self, now: Nanos) {
        if self.sleeps_now {
            return;
        }
        let since = now.since(self.looked);
        if since >= TAKEN {
            self.taken(now, since);
        }
        // What passed while another thread had the core says nothing of what was waited for.
        self.found((self.taken < self.begun).then(|| now.since(self.begun)));
    }

    /// It paid to look, and took so long if that is known.
    fn found(&mut self, time: Option<Nanos>) {
        (self.misses, self.sleeps_next) = (0, SLEEPS);
        if let Some(time) = time {
            self.paid = Nanos((7 * self.paid.0 + time.0) / 8);
        }
    }

    fn missed(&mut self) {
        self.misses = (self.misses + 1).min(MISSES);
        if self.misses == MISSES {
            self.sleeps = if self.paid < SWITCH { SLEEPS_SHORT } else { self.sleeps_next };
            self.sleeps_next = (2 * self.sleeps_next).min(SLEEPS_MAX);
        }
    }

    /// The core was taken from the thread for so long, until now.
    fn taken(&mut self, now: Nanos, time: Nanos) {
        self.taken = now;
        if self.paid < SWITCH {
            return;
        }
        if now.since(self.since) > WITHIN {
            (self.since, self.lost) = (now, Nanos(0));
        }
        self.lost = self.lost + time;
        if self.lost < LOST {
            return;
        }
        self.lost = Nanos(0);
        // It kept its core for longer than it rested, and than it takes to see that it does not.
        if now.since(self.rest_until) > self.rest.max(Nanos(4 * WITHIN.0)) {
            self.rest = REST;
        }
        self.rest_until = now + self.rest;
        self.rest = (self.rest + self.rest).min(REST_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Nanos = Nanos::from_micros(50);

    /// A thread that waits in simulated time.
    struct Waiter {
        spin: AdaptiveSpin,
        now: Nanos,
        looked: Nanos,
    }

    impl Waiter {
        fn new() -> Waiter {
            let spin = AdaptiveSpin::new(BOUND);
            Waiter { spin, now: Nanos::from_millis(1_000), looked: Nanos(0) }
        }

        /// Waits so long; two looks are `step` apart. Whether it slept.
        fn wait(&mut self, time: Nanos, step: Nanos) -> bool {
            let (begun, ends) = (self.now, self.now + time);
            let mut looks = self.spin.begin(self.now, Nanos(0));
            while looks && self.now < ends {
                self.now = self.now + step;
                if self.now < ends {
                    looks = self.spin.looks_again(self.now);
                }
            }
            self.looked = self.looked + self.now.since(begun);
            if looks {
                self.spin.end(self.now);
            }
            self.now = self.now.max(ends);
            !looks
        }

        fn waits(&mut self, count: u32, time: Nanos, step: Nanos) -> u32 {
            (0..count).map(|_| u32::from(self.wait(time, step))).sum()
        }
    }

    const STEP: Nanos = Nanos::from_micros(1);

    #[test]
    fn short_waits_are_looked_for() {
        assert_eq!(Waiter::new().waits(10_000, Nanos::from_micros(9), STEP), 0);
    }

    #[test]
    fn long_waits_sleep_and_little_time_goes_into_looking() {
        let mut waiter = Waiter::new();
        let began = waiter.now;
        assert_eq!(waiter.waits(20_000, Nanos::from_micros(400), STEP), 20_000);
        let share = 1e2 * waiter.looked.0 as f64 / waiter.now.since(began).0 as f64;
        assert!(share < 0.1, "{share} % of the time");
    }

    #[test]
    fn it_learns_that_waits_are_short_within_milliseconds_after_a_long_time_too() {
        let mut waiter = Waiter::new();
        waiter.waits(20_000, Nanos::from_micros(400), STEP);
        let changed = waiter.now;
        while waiter.wait(Nanos::from_micros(20), STEP) {}
        assert!(waiter.now.since(changed) < Nanos::from_millis(15), "{:?}", waiter.now.since(changed));
        assert_eq!(waiter.waits(1_000, Nanos::from_micros(20), STEP), 0);
    }

    #[test]
    fn one_long_wait_changes_nothing() {
        let mut waiter = Waiter::new();
        for _ in 0..100 {
            assert_eq!(waiter.waits(10, Nanos::from_micros(9), STEP), 0);
            assert!(waiter.wait(Nanos::from_millis(3), STEP), "it looks no longer than the bound");
        }
    }

    #[test]
    fn a_thread_whose_core_is_taken_sleeps_and_tries_less_and_less_often() {
        let mut waiter = Waiter::new();
        // Each look takes as long as another thread has the core.
        let (taken, short) = (Nanos::from_millis(3), Nanos::from_micros(9));
        let mut rests = Vec::new();
        for _ in 0..10 {
            let before = (0..9).take_while(|_| !waiter.wait(taken, taken)).count();
            assert!((1..=3).contains(&before), "{before} slices");
            let began = waiter.now;
            while waiter.wait(short, STEP) {}
            rests.push(waiter.now.since(began).0 / 1_000_000);
        }
        assert!(rests.is_sorted() && rests[0] <= 2 && rests[9] >= 200, "{rests:?}");
        // With a core of its own it is as at first.
        assert_eq!(waiter.waits(100_000, short, STEP), 0);
        waiter.waits(2, taken, taken);
        let began = waiter.now;
        while waiter.wait(short, STEP) {}
        assert!(waiter.now.since(began) < Nanos::from_millis(4));
    }

    #[test]
    fn what_comes_sooner_than_a_thread_is_switched_is_looked_for_all_the_same() {
        let mut waiter = Waiter::new();
        let taken = Nanos::from_millis(3);
        for _ in 0..100 {
            assert_eq!(waiter.waits(1_000, Nanos::from_micros(1), STEP), 0);
            assert!(!waiter.wait(taken, taken));
        }
    }

    #[test]
    fn a_core_that_is_taken_now_and_then_is_no_reason() {
        let mut waiter = Waiter::new();
        let interrupt = Nanos::from_micros(100);
        for _ in 0..50 {
            assert_eq!(waiter.waits(50, Nanos::from_micros(9), STEP), 0);
            assert!(!waiter.wait(interrupt, interrupt));
        }
        let slice = Nanos::from_millis(3);
        for _ in 0..50 {
            assert_eq!(waiter.waits(3_000, Nanos::from_micros(9), STEP), 0);
            assert!(!waiter.wait(slice, slice));
        }
    }

    #[test]
    fn without_a_bound_it_always_sleeps() {
        let mut spin = AdaptiveSpin::new(Nanos(0));
        assert!((0..1_000).all(|n| !spin.begin(Nanos(n), Nanos(0))));
    }

    #[test]
    fn what_takes_time_to_make_is_looked_for_as_much_longer() {
        let mut spin = AdaptiveSpin::new(BOUND);
        let begun = Nanos::from_millis(1);
        let looks = |spin: &mut AdaptiveSpin, work| {
            let mut now = begun;
            let mut looks = spin.begin(now, work);
            while looks {
                now = now + STEP;
                looks = spin.looks_again(now);
            }
            now.since(begun)
        };
        assert_eq!(looks(&mut spin, Nanos(0)), BOUND);
        assert_eq!(looks(&mut AdaptiveSpin::new(BOUND), BOUND), BOUND + BOUND);
    }
}
