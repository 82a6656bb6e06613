//! Flat combining (Hendler, Incze, Shavit and Tzafrir, SPAA 2010): whoever holds the connection executes what
//! all others want of it, as one batch. This file has the queue, the role of the holder, its hand-over and
//! the wake-ups; what a batch does is its user's ([`Combined`]).
//!
//! (1) The role is a lock that is tried and never waited for. A thread that finds it free, and nobody in the
//!     queue, does what it wants itself ([`Combiner::alone`]).
//! (2) Else the thread joins the queue, tries once more, and sleeps. It is woken when its operation has an
//!     outcome, or when it is called to take the role.
//! (3) No wake-up is lost. A joiner counts itself in `waiting` before it tries the lock; a holder leaves the
//!     lock before it reads `waiting`; a fence stands between the two steps of each. So one of them sees the
//!     other: the joiner gets the role, or the holder serves the queue or calls the first of it. Whoever is
//!     called and finds the role taken may sleep on, since that holder will look, too.
//! (4) The queue is served from its front, and whoever comes joins it while it is not empty. So nobody is
//!     overtaken for ever.
//! (5) A holder leaves the role before it wakes those whose operations it executed: they find the connection
//!     free, and whoever is there first executes what came meanwhile. Else all of them would join the queue
//!     again, and each operation would cost a sleep.
//! (6) A holder serves others for some rounds and a bounded time. Then it calls the first of the queue.
//! (7) A thread may ask for the role instead of an operation ([`Combiner::turn`]): then what is behind it in
//!     the queue waits.
//! (8) An operation that is taken out of the queue ends with an outcome, also if the holder panics: the batch
//!     says so when it is dropped. The next holder makes the connection anew then.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, MutexGuard};

use longarm_base::Nanos;
use longarm_host::{AdaptiveSpin, Mutex, Signal, now};

/// The rounds that a thread serves the queue in a row, its own operation's included. It begins none of them
/// once it has served for so long.
const ROUNDS: u32 = 4;
const SERVES: Nanos = Nanos::from_millis(1);

/// What the signal of a thread in the queue shows.
const WAITS: u32 = 0;
const CALLED: u32 = 1;
const DONE: u32 = 2;

#[cfg(test)]
thread_local! {
    /// Whether this thread runs the tasks of a shuttle test.
    pub(super) static SCHEDULED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A step before which tests let other threads run.
#[inline(always)]
fn step() {
    #[cfg(test)]
    if SCHEDULED.get() {
        longarm_host::relax();
    }
}

/// What threads share, one at a time.
pub(super) trait Combined {
    /// What a thread asks for.
    type Operation;
    /// What becomes of it.
    type Outcome;

    /// Executes all operations of the batch, and gives each its outcome.
    fn execute(&mut self, batch: &Batch<Self::Operation, Self::Outcome>);

    /// A thread panicked while it had this: makes it as new.
    fn renew(&mut self);
}

/// Why an operation has no outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unserved {
    /// Its time was over before anybody began it, and nobody will.
    NotBegun,
    /// Its time was over while it was executed.
    Begun,
    /// Whoever executed it panicked.
    Died,
}

/// Where an operation stands.
enum Stage<O, R> {
    Queued(O),
    /// Of a thread that asks for the role.
    Turn,
    Begun,
    Done(R),
    Died,
    /// Nobody waits for the outcome any more.
    Left,
}

/// A thread in the queue.
struct Waiter<O, R> {
    signal: Signal,
    /// It asks for the role.
    turn: bool,
    stage: Mutex<Stage<O, R>>,
}

impl<O, R> Waiter<O, R> {
    fn end(&self, stage: Stage<O, R>) {
        step();
        let mut now = self.stage.lock();
        if matches!(*now, Stage::Begun) {
            *now = stage;
        }
    }

    /// The outcome of an operation that has one.
    fn outcome(&self) -> Result<R, Unserved> {
        step();
        match std::mem::replace(&mut *self.stage.lock(), Stage::Left) {
            Stage::Done(outcome) => Ok(outcome),
            Stage::Died => Err(Unserved::Died),
            Stage::Begun => Err(Unserved::Begun),
            Stage::Queued(_) | Stage::Turn | Stage::Left => Err(Unserved::NotBegun),
        }
    }
}

struct Queue<O, R> {
    waiters: VecDeque<Arc<Waiter<O, R>>>,
    /// Shows 1 once there is room; `None` if nobody waits for that.
    room: Option<Arc<Signal>>,
}

impl<O, R> Queue<O, R> {
    /// Some left: whoever waits for room is woken.
    fn has_room(&mut self) {
        if let Some(room) = self.room.take() {
            room.set(1);
        }
    }
}

/// Operations that are executed together.
pub(super) struct Batch<O, R> {
    entries: Vec<Entry<O, R>>,
}

struct Entry<O, R> {
    operation: O,
    waiter: Arc<Waiter<O, R>>,
}

impl<O, R> Batch<O, R> {
    /// The operations, by number.
    pub(super) fn operations(&self) -> impl ExactSizeIterator<Item = &O> {
        self.entries.iter().map(|entry| &entry.operation)
    }

    /// The outcome of an operation, by number.
    pub(super) fn end(&self, number: usize, outcome: R) {
        self.entries[number].waiter.end(Stage::Done(outcome));
    }
}

/// Wakes all. An operation without an outcome was lost in a panic.
impl<O, R> Drop for Batch<O, R> {
    fn drop(&mut self) {
        for Entry { waiter, .. } in &self.entries {
            waiter.end(Stage::Died);
            waiter.signal.set(DONE);
        }
    }
}

/// The place of a thread, as the queue has it.
type Own<C> = Arc<Waiter<<C as Combined>::Operation, <C as Combined>::Outcome>>;

/// What the front of the queue is.
enum Next<O, R> {
    Batch(Batch<O, R>),
    /// The turn of whoever looks.
    Own,
    /// Nobody, or the turn of another thread.
    Other,
}

/// A connection that many threads use.
#[repr(align(128))]
pub(super) struct Combiner<C: Combined> {
    role: Mutex<C>,
    /// The length of the queue.
    waiting: AtomicUsize,
    queue: Mutex<Queue<C::Operation, C::Outcome>>,
    /// The most threads in the queue.
    most: usize,
}

/// The role. Whoever drops it calls the first of the queue.
pub(super) struct Held<'a, C: Combined> {
    combiner: &'a Combiner<C>,
    /// `None` once it is left.
    guard: Option<MutexGuard<'a, C>>,
}

impl<C: Combined> Deref for Held<'_, C> {
    type Target = C;

    #[inline]
    fn deref(&self) -> &C {
        self.guard.as_ref().expect("held until it is dropped")
    }
}

impl<C: Combined> DerefMut for Held<'_, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut C {
        self.guard.as_mut().expect("held until it is dropped")
    }
}

impl<C: Combined> Held<'_, C> {
    /// Leaves the role; whether somebody waits, for whom this thread is to do something.
    #[inline]
    fn leave(&mut self) -> bool {
        step();
        self.guard = None;
        step();
        // SeqCst: pairs with the fence of `join`, as (3) has it.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        self.combiner.waiting.load(Ordering::Relaxed) > 0
    }
}

impl<C: Combined> Drop for Held<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if self.guard.is_some() && self.leave() {
            self.combiner.go_on();
        }
    }
}

/// A thread's place in the queue. Whoever drops it leaves the queue, also if that thread panics.
struct Place<'a, C: Combined> {
    combiner: &'a Combiner<C>,
    waiter: Own<C>,
    /// It is out of the queue.
    gone: bool,
}

impl<C: Combined> Place<'_, C> {
    /// Leaves the queue, if it is in it.
    fn leave(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        step();
        let mut queue = self.combiner.queue.lock();
        if let Some(at) = queue.waiters.iter().position(|waiter| Arc::ptr_eq(waiter, &self.waiter)) {
            queue.waiters.remove(at);
            // Relaxed: as in `join`.
            self.combiner.waiting.fetch_sub(1, Ordering::Relaxed);
            queue.has_room();
            drop(queue);
            // This thread may have been called: then another one is.
            self.combiner.call();
        }
    }
}

impl<C: Combined> Drop for Place<'_, C> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<C: Combined> Combiner<C> {
    /// A queue of at most so many threads.
    pub(super) fn new(shared: C, most: usize) -> Combiner<C> {
        let queue = Queue { waiters: VecDeque::new(), room: None };
        Combiner { role: Mutex::new(shared), waiting: AtomicUsize::new(0), queue: Mutex::new(queue), most }
    }

    /// The role, if it is free and nobody waits.
    #[inline]
    pub(super) fn alone(&self) -> Option<Held<'_, C>> {
        step();
        // Relaxed: whoever joins behind this look is served when this thread leaves.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        self.hold()
    }

    #[inline]
    fn hold(&self) -> Option<Held<'_, C>> {
        step();
        let guard = self.role.try_lock(Combined::renew)?;
        Some(Held { combiner: self, guard: Some(guard) })
    }

    /// Has an operation executed, by this thread or another, beside those of others. It begins before `until`
    /// or not at all.
    pub(super) fn perform(
        &self,
        operation: C::Operation,
        until: Nanos,
        spin: &mut AdaptiveSpin,
    ) -> Result<C::Outcome, Unserved> {
        let mut own = self.join(Stage::Queued(operation), until)?;
        loop {
            self.serve();
            if own.waiter.signal.get() == DONE {
                own.gone = true;
                return own.waiter.outcome();
            }
            if !wait(&own.waiter, until, spin) {
                own.leave();
                return own.waiter.outcome();
            }
        }
    }

    /// The role, when it is this thread's turn, if that comes before `until`.
    pub(super) fn turn(&self, until: Nanos, spin: &mut AdaptiveSpin) -> Result<Held<'_, C>, Unserved> {
        let mut own = self.join(Stage::Turn, until)?;
        loop {
            if let Some(held) = self.hold()
                && let Some(held) = self.lead(held, &own.waiter)
            {
                own.gone = true;
                return Ok(held);
            }
            if !wait(&own.waiter, until, spin) {
                return Err(Unserved::NotBegun);
            }
        }
    }

    /// Joins the queue; waits for room in it.
    fn join(&self, stage: Stage<C::Operation, C::Outcome>, until: Nanos) -> Result<Place<'_, C>, Unserved> {
        let turn = matches!(stage, Stage::Turn);
        let waiter = Arc::new(Waiter { signal: Signal::new(WAITS), turn, stage: Mutex::new(stage) });
        loop {
            step();
            let mut queue = self.queue.lock();
            if queue.waiters.len() < self.most {
                queue.waiters.push_back(waiter.clone());
                // Relaxed: the fence orders it for holders, the lock for who takes.
                self.waiting.fetch_add(1, Ordering::Relaxed);
                break;
            }
            let room = queue.room.get_or_insert_default().clone();
            drop(queue);
            step();
            if !room.wait_while(0, until) {
                return Err(Unserved::NotBegun);
            }
        }
        step();
        // SeqCst: pairs with the fence of whoever leaves the role, as (3) has it.
        fence(Ordering::SeqCst);
        Ok(Place { combiner: self, waiter, gone: false })
    }

    /// What a thread does that left the role while others wait.
    #[cold]
    fn go_on(&self) {
        // A thread that panics serves nobody.
        if std::thread::panicking() { self.call() } else { self.serve() }
    }

    /// Serves the queue for some rounds, if nobody else does.
    fn serve(&self) {
        let begun = now();
        for _ in 0..ROUNDS {
            let Some(mut held) = self.hold() else { return };
            let taken = self.take(None);
            if let Next::Batch(batch) = &taken {
                held.execute(batch);
            }
            let others_wait = held.leave();
            let served = matches!(taken, Next::Batch(_));
            drop(taken);
            if !others_wait {
                return;
            }
            if !served || now().since(begun) >= SERVES {
                break;
            }
        }
        self.call();
    }

    /// Serves the queue as its holder up to the turn of `own`.
    fn lead<'a>(&self, mut held: Held<'a, C>, own: &Own<C>) -> Option<Held<'a, C>> {
        loop {
            match self.take(Some(own)) {
                Next::Own => return Some(held),
                Next::Other => return None,
                Next::Batch(batch) => held.execute(&batch),
            }
        }
    }

    /// Takes operations out of the queue, up to a thread that asks for the role.
    fn take(&self, own: Option<&Own<C>>) -> Next<C::Operation, C::Outcome> {
        step();
        let mut queue = self.queue.lock();
        let (mut entries, mut gone) = (Vec::new(), 0);
        while let Some(front) = queue.waiters.pop_front_if(|front| !front.turn) {
            gone += 1;
            step();
            let mut stage = front.stage.lock();
            // It leaves the queue before it gives its operation up, so that is there.
            if let Stage::Queued(operation) = std::mem::replace(&mut *stage, Stage::Begun) {
                drop(stage);
                entries.push(Entry { operation, waiter: front });
            }
        }
        let mut next = Next::Other;
        if gone > 0 {
            next = Next::Batch(Batch { entries });
        } else if let Some(own) = own
            && queue.waiters.pop_front_if(|front| Arc::ptr_eq(front, own)).is_some()
        {
            (gone, next) = (1, Next::Own);
        }
        if gone > 0 {
            // Relaxed: as in `join`.
            self.waiting.fetch_sub(gone, Ordering::Relaxed);
            queue.has_room();
        }
        next
    }

    /// Calls the first of the queue to take the role.
    #[cold]
    fn call(&self) {
        step();
        let front = self.queue.lock().waiters.front().cloned();
        step();
        if let Some(front) = front {
            front.signal.replace(WAITS, CALLED);
        }
    }
}

/// Waits until it is done or called, at most until then; whether it was.
fn wait<O, R>(own: &Waiter<O, R>, until: Nanos, spin: &mut AdaptiveSpin) -> bool {
    step();
    let news = || own.signal.get() != WAITS;
    let came = spin.look(now(), Nanos(0), false, news) || own.signal.wait_while(WAITS, until);
    step();
    own.signal.replace(CALLED, WAITS);
    came
}

#[cfg(test)]
mod tests;
