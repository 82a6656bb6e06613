//! How long a thread looks for what it waits for before it sleeps: adaptive spinning, as the halt polling of
//! hypervisors. A wake-up takes longer than many a wait, but a thread that looks keeps a core from others.
//!
//! (1) A thread looks while looking has lately paid: once two waits outlast the bound, waits sleep at once,
//!     and one in many looks again. The more of these are in vain, the fewer there are.
//! (2) It looks while it has a core to itself: once the core is taken from it, it sleeps at once for some
//!     milliseconds, and for twice as long if that happens again soon.
//! (3) Where waits take longer than to switch threads (a socket), it offers the core now and then, and at
//!     each look when it tries again after (2) or another thread has taken the core. If others take it twice
//!     in a row, it sleeps as after (2): those that wait for the core would wait for the end of its slice,
//!     milliseconds. The first tries, and one in some, go on for longer, offering all the while: two threads
//!     that share a core while another one is idle are parted by the scheduler only if both go on.
//! (4) Nobody need set anything: the bound is the longest time for which it ever pays to look.

use longarm_base::Nanos;

use crate::now;
use crate::offers::DEAR;
use crate::rest::Rest;
use crate::world::is_simulated;

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
/// An offer that takes so long was taken: another thread had the core meanwhile.
const ACCEPTED: Nanos = Nanos::from_micros(2);
/// Offers in a row that are taken before the thread rests: an interrupt looks like one. One that costs a
/// slice is enough, as there is a thread that does not rest.
const ACCEPTED_MAX: u32 = 2;
/// The time between two offers of a thread that keeps its core.
const OFFERS: Nanos = Nanos::from_millis(1);
/// The first tries, and one in so many, end only after offers were taken for so long: longer than the tick at
/// which the scheduler parts threads.
const FIRST: u32 = 4;
const PATIENT: u32 = 8;
const SPELL: Nanos = Nanos::from_millis(10);
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
    /// When the core was offered last, offers in a row that were taken, since when, and how often the thread
    /// has rested since it kept its core.
    offered: Nanos,
    accepted: u32,
    spell: Nanos,
    rests: u32,
    /// The thread sleeps at once until this is over.
    rest: Rest,
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
            offered: Nanos(0),
            accepted: 0,
            spell: Nanos(0),
            rests: 0,
            rest: Rest::new(REST, REST_MAX),
            begun: Nanos(0),
            looked: Nanos(0),
            sleeps_now: true,
        }
    }

    /// A wait begins, for what takes so long to make at least: looks for it as long as that pays, and offers
    /// the core between looks if `offers`. Whether `ready` said that it is there; if not, the thread sleeps
    /// now.
    #[inline]
    pub fn look(&mut self, begun: Nanos, work: Nanos, offers: bool, mut ready: impl FnMut() -> bool) -> bool {
        let mut looks = self.begin(begun, work);
        // What is there before the wait begins says nothing of how long waits are: where a thread is woken by
        // what this one sends, and takes its core, the answer comes before the call returns.
        if looks && ready() {
            return true;
        }
        while looks {
            for _ in 0..LOOKS {
                if ready() {
                    self.end(now());
                    return true;
                }
                std::hint::spin_loop();
            }
            looks = self.looks_again(now()) && (!offers || self.offer());
        }
        false
    }

    /// A wait begins, for what takes so long to make at least. Whether to look; if not, the thread sleeps
    /// now.
    pub fn begin(&mut self, now: Nanos, work: Nanos) -> bool {
        (self.begun, self.looked) = (now, now);
        self.within = self.bound + work;
        let mut looks = self.bound > Nanos(0) && self.rest.is_over(now);
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
        if !self.rest.is_over(now) {
            self.sleeps_now = true;
        } else if now.since(self.begun) >= self.within {
            self.missed();
            self.sleeps_now = true;
        }
        !self.sleeps_now
    }

    /// After a look in vain: offers the core, if that is due; whether to look again. If not, the thread
    /// sleeps now. In a simulated world each thread has a core.
    #[inline]
    pub fn offer(&mut self) -> bool {
        if !self.offers_now() || is_simulated() {
            return true;
        }
        std::thread::yield_now();
        self.offered(now())
    }

    /// Whether an offer is due at the look that was just made.
    fn offers_now(&self) -> bool {
        let is_due = self.accepted > 0 || self.looked.since(self.offered) >= OFFERS;
        is_due || !self.keeps(self.looked)
    }

    /// Whether it has kept its core for longer than it rested, and than it takes to see that it does not.
    fn keeps(&self, now: Nanos) -> bool {
        self.rest.over_for(now) > self.rest.next().max(Nanos(4 * WITHIN.0))
    }

    /// An offer ended now, that began when it was looked last.
    fn offered(&mut self, now: Nanos) -> bool {
        let time = now.since(self.looked);
        (self.looked, self.offered) = (now, now);
        if time < ACCEPTED {
            self.accepted = 0;
            return true;
        }
        if self.accepted == 0 {
            self.spell = now;
        }
        (self.taken, self.accepted) = (now, self.accepted.saturating_add(1));
        let is_patient = self.rests < FIRST || self.rests.is_multiple_of(PATIENT);
        let is_over = !is_patient || now.since(self.spell) >= SPELL;
        if (self.accepted >= ACCEPTED_MAX && is_over) || time >= DEAR {
            self.rest(now);
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
        if self.lost >= LOST {
            self.rest(now);
        }
    }

    /// Others want the core: sleeps at once for a while.
    fn rest(&mut self, now: Nanos) {
        (self.lost, self.accepted) = (Nanos(0), 0);
        if self.keeps(now) {
            self.rest.forget();
            self.rests = 0;
        }
        self.rests = self.rests.wrapping_add(1);
        self.rest.begin(now);
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

    /// A wait of 40 microseconds that looks every few, in which an offer takes as long as `take` says;
    /// whether it slept.
    fn offers(spin: &mut AdaptiveSpin, now: &mut Nanos, mut take: impl FnMut() -> Nanos) -> bool {
        let begun = *now;
        let mut looks = spin.begin(*now, Nanos(0));
        while looks && now.since(begun) < Nanos::from_micros(40) {
            *now = *now + Nanos::from_micros(3);
            looks = spin.looks_again(*now);
            if looks && spin.offers_now() {
                *now = *now + take();
                looks = spin.offered(*now);
            }
        }
        if looks {
            spin.end(*now);
        }
        *now = *now + STEP;
        !looks
    }

    const FREE: Nanos = Nanos(200);
    const OTHERS: Nanos = Nanos::from_micros(15);

    #[test]
    fn a_core_that_others_take_when_it_is_offered_is_left_to_them_soon() {
        let (mut spin, mut now) = (AdaptiveSpin::new(BOUND), Nanos::from_millis(1_000));
        let mut made = 0;
        let mut interrupts = || {
            made += 1;
            if made % 2 == 0 { FREE } else { OTHERS }
        };
        assert!((0..10_000).all(|_| !offers(&mut spin, &mut now, &mut interrupts)));
        let mut rested = Vec::new();
        for rests in 0..20 {
            let tried = now;
            while !offers(&mut spin, &mut now, || OTHERS) {}
            let took = now.since(tried);
            let patient = rests < FIRST || rests % PATIENT == 0;
            let most = if patient { SPELL + Nanos::from_millis(2) } else { Nanos::from_micros(80) };
            assert!(took < most && patient == (took >= SPELL), "{rests}: {took:?}");
            let began = now;
            while !spin.begin(now, Nanos(0)) {
                now = now + Nanos::from_micros(10);
            }
            rested.push(now.since(began).0 / 1_000_000);
        }
        assert!(rested.is_sorted() && rested[0] <= 2 && rested[19] >= 200, "{rested:?}");
        // Nobody wants it any more.
        let began = now;
        assert!((0..20_000).all(|_| !offers(&mut spin, &mut now, || FREE)));
        assert!(now.since(began) > Nanos::from_millis(500));
        assert!((0..10_000).all(|_| !offers(&mut spin, &mut now, &mut interrupts)));
    }

    #[test]
    fn an_offer_that_costs_a_slice_is_the_last_for_a_while() {
        let (mut spin, mut now) = (AdaptiveSpin::new(BOUND), Nanos::from_millis(1_000));
        while !offers(&mut spin, &mut now, || Nanos::from_millis(3)) {}
        assert!(now < Nanos::from_millis(1_005) && !spin.begin(now, Nanos(0)));
    }

    #[test]
    fn what_is_there_at_once_says_nothing_of_waits() {
        let mut spin = AdaptiveSpin::new(BOUND);
        let mut now = Nanos::from_millis(1);
        let mut looked = 0;
        for wait in 0..20_000 {
            now = now + Nanos::from_micros(400);
            if wait % 8 > 0 {
                spin.look(now, Nanos(0), false, || true);
                continue;
            }
            if spin.begin(now, Nanos(0)) {
                looked += 1;
                while spin.looks_again(now) {
                    now = now + STEP;
                }
            }
        }
        assert!(looked < 100, "{looked} of 2500 waits were looked for in vain");
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
