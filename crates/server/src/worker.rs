//! A worker: it polls its connections, executes, and answers. When there is nothing to do it looks while that
//! pays, then sleeps.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::QueuePair;
use longarm_host::{AdaptiveSpin, Offers, now};
use longarm_memory::Mapped;

use crate::connection::{BATCH, Connection, Turn};
use crate::connections::Connections;
use crate::execute::Execution;
use crate::shared::Shared;
use crate::steer::{self, Seat, Steering};
use crate::worker_inbox::WorkerInbox;
use longarm_engine::WorkerContext;
use longarm_group::Phase;
use longarm_group::{Pumped, Replicator};

/// The longest sleep; a missed wake-up is found then.
const SLEEP: Duration = Duration::from_millis(500);
/// The sleep while an answer waits for room, which no event may announce.
const SHORT_SLEEP: Duration = Duration::from_millis(1);
/// The sleep while a follower is behind and no client waits for it.
const BEHIND_SLEEP: Duration = Duration::from_millis(5);
/// How long a worker that ends sends what clients do not take at once.
const PATIENCE: Duration = Duration::from_millis(20);
/// Idle rounds between two looks at the clock.
const ROUNDS_A_LOOK: u32 = 32;
/// Rounds between two looks whether it is time to look at connections that belong to other workers.
const ROUNDS_A_STEERING: u32 = 64;

/// One worker's thread.
pub(crate) struct Worker<Q> {
    shared: Arc<Shared>,
    inbox: Arc<WorkerInbox<Q>>,
    /// The inboxes of all workers, and which of them is this one's.
    inboxes: Vec<Arc<WorkerInbox<Q>>>,
    own: usize,
    /// Rounds, and when the worker looks next which connections belong to others.
    rounds: u32,
    steers: Nanos,
    cores: usize,
    context: WorkerContext<Mapped>,
    connections: Connections<Q>,
    /// In a group: its stream's way to the followers.
    replicator: Option<Replicator<Q, Mapped>>,
    /// Whether written entries wait for followers.
    replicating: bool,
}

impl<Q: QueuePair> Worker<Q> {
    /// The worker with the inbox of this number.
    pub fn new(
        shared: Arc<Shared>,
        own: usize,
        inboxes: Vec<Arc<WorkerInbox<Q>>>,
        context: WorkerContext<Mapped>,
        mut replicator: Option<Replicator<Q, Mapped>>,
    ) -> Worker<Q> {
        let inbox = inboxes[own].clone();
        if let Some(replicator) = &mut replicator {
            replicator.sleep_on(inbox.channel.clone());
        }
        let connections = Connections::new(inbox.channel.clone());
        let (rounds, steers, replicating) = (0, Nanos(0), false);
        Worker {
            shared,
            inbox,
            inboxes,
            own,
            rounds,
            steers,
            cores: longarm_host::cores(),
            context,
            connections,
            replicator,
            replicating,
        }
    }

    /// Serves until the server closes.
    pub fn run(mut self) {
        let mut spin = AdaptiveSpin::new(Nanos(self.shared.options.spin.as_nanos() as u64));
        let (mut idle, mut offers) = (0u32, Offers::default());
        loop {
            match self.shared.core.phase() {
                Phase::Forming | Phase::Serving => self.steer(),
                Phase::Draining if self.inbox.pulse.is_drained() => {}
                Phase::Draining => self.drain(),
                Phase::Closing => return self.close(),
            }
            if self.connections.is_crowd() {
                offers.offer();
            }
            match self.round() {
                Turn::Busy | Turn::Gone => {
                    match idle {
                        0 => {}
                        // A reading of the clock would be a good part of what a request takes.
                        1..ROUNDS_A_LOOK if !self.inbox.channel.drives() => spin.end_at_once(),
                        _ => spin.end(now()),
                    }
                    idle = 0;
                }
                turn => {
                    idle += 1;
                    let looks = match idle {
                        1 => spin.begin(now(), Nanos(0)),
                        _ if !idle.is_multiple_of(ROUNDS_A_LOOK) => true,
                        // A worker over shared memory is looked for itself: it keeps its core.
                        _ => spin.looks_again(now()) && (!self.inbox.channel.drives() || spin.offer()),
                    };
                    if looks {
                        std::hint::spin_loop();
                        continue;
                    }
                    self.sleep(if turn == Turn::Waiting { SHORT_SLEEP } else { SLEEP });
                    idle = 0;
                }
            }
        }
    }

    /// Gives connections to the workers on whose cores their requests come in. In a group the entries of a
    /// client stay in one stream.
    fn steer(&mut self) {
        self.rounds = self.rounds.wrapping_add(1);
        let may = self.inboxes.len() > 1 && self.replicator.is_none() && self.inbox.channel.drives();
        if !may || !self.rounds.is_multiple_of(ROUNDS_A_STEERING) {
            return;
        }
        let time = now();
        if time < self.steers {
            return;
        }
        self.steers = time + steer::EVERY;
        let core = longarm_host::core();
        let mut seats: Vec<Seat> = self.inboxes.iter().map(|inbox| inbox.whereabouts.seen()).collect();
        seats[self.own].core = core;
        let (own, inboxes) = (&self.inbox, &self.inboxes);
        let mut steering = Steering::new(self.own, seats, self.cores);
        #[cfg(test)]
        self.wander(&mut steering);
        let seen = self.connections.steer(&mut steering, &|to| &inboxes[to].channel, &mut |to, moved| {
            // Relaxed: hints for spreading the load.
            own.pulse.load.fetch_sub(1, Ordering::Relaxed);
            inboxes[to].pulse.load.fetch_add(1, Ordering::Relaxed);
            inboxes[to].put(moved);
            // Relaxed: a figure of tests.
            #[cfg(test)]
            self.shared.moves.fetch_add(1, Ordering::Relaxed);
        });
        self.inbox.whereabouts.show(core, seen);
    }

    /// Makes one turn of every connection; returns the most urgent of their results.
    fn round(&mut self) -> Turn {
        self.inbox.pulse.round();
        self.context.writer.seal_old();
        #[cfg(test)]
        self.hang();
        let new = self.inbox.connections.take();
        let mut busy = !new.is_empty();
        new.into_iter().for_each(|connection| self.connections.add(connection));
        let mut execution = Execution {
            shared: &self.shared,
            pulse: &self.inbox.pulse,
            context: &mut self.context,
            phase: self.shared.core.phase(),
        };
        let turn = self.connections.round(&mut execution, &mut |gone| leave(&self.inbox, gone));
        busy |= turn == Turn::Busy;
        busy |= self.replicate();
        match (busy, turn == Turn::Waiting || self.replicating) {
            (true, _) => Turn::Busy,
            (false, true) => Turn::Waiting,
            (false, false) => Turn::Idle,
        }
    }

    /// Sends new entries to the followers, and applies committed ones. Returns whether anything moved.
    fn replicate(&mut self) -> bool {
        let (Some(replicator), Some(stream)) = (&mut self.replicator, &mut self.context.stream) else {
            return false;
        };
        let pumped = replicator.pump(stream);
        self.replicating = pumped == Pumped::Waiting;
        let committed = stream.committed() > stream.applied();
        committed
            && self.shared.core.engine.apply_committed(&mut self.context, self.shared.core.timestamps()) > 0
            || pumped == Pumped::Busy
    }

    /// Asks to be woken by connections and followers, and sleeps unless one of them has something already.
    fn sleep(&mut self, mut limit: Duration) {
        self.inbox.pulse.set_sleeping(true);
        let mut news = false;
        if let (Some(replicator), Some(stream)) = (&mut self.replicator, &self.context.stream) {
            if self.replicating {
                news = replicator.arm(stream.written());
                limit = limit.min(SHORT_SLEEP);
            } else if replicator.is_behind(stream.written()) {
                // Completions of a follower that is behind need not wake this thread.
                limit = limit.min(BEHIND_SLEEP);
            }
        }
        let execution = Execution {
            shared: &self.shared,
            pulse: &self.inbox.pulse,
            context: &mut self.context,
            phase: self.shared.core.phase(),
        };
        news |= self.connections.arm(&execution, &mut |gone| leave(&self.inbox, gone));
        if !news {
            self.connections.wait(limit);
        }
        self.inbox.pulse.set_sleeping(false);
    }

    /// Executes every request that had arrived when the stop began: at most what fits the rings, so it ends.
    fn drain(&mut self) {
        let most = self.shared.options.ring_bytes / 64 / BATCH as u64 + 2;
        let mut quiet = 0;
        for _ in 0..most {
            if now() >= self.shared.core.deadline() || quiet == 2 {
                break;
            }
            quiet = if self.round() == Turn::Busy { 0 } else { quiet + 1 };
        }
        self.inbox.pulse.set_drained();
    }

    /// Tells clients that still ask that the server closes, sends the answers that are owed, and ends all
    /// connections.
    fn close(mut self) {
        self.inbox.pulse.set_drained();
        let mut quiet = 0;
        while quiet < 2 && now() < self.shared.core.deadline() {
            match self.round() {
                Turn::Busy => quiet = 0,
                Turn::Waiting => {
                    quiet = 0;
                    self.sleep(SHORT_SLEEP);
                }
                _ => quiet += 1,
            }
        }
        let left = self.shared.core.deadline().since(now());
        let patience = Duration::from_nanos(left.0).min(PATIENCE);
        self.connections.end(patience, &mut |gone| leave(&self.inbox, gone));
        if let Some(replicator) = &mut self.replicator {
            replicator.end();
        }
    }

    #[cfg(test)]
    fn wander(&self, steering: &mut Steering) {
        // Relaxed: a test sets it, and the worker sees it sooner or later.
        steering.wanders = self.shared.wanders.load(Ordering::Relaxed);
    }

    #[cfg(test)]
    fn hang(&self) {
        // Relaxed: a test sets it, and the worker sees it sooner or later.
        while self.shared.hang.load(Ordering::Relaxed) {
            longarm_host::relax();
        }
    }
}

fn leave<Q: QueuePair>(inbox: &WorkerInbox<Q>, connection: Connection<Q>) {
    connection.leave(now());
    // Relaxed: a hint for spreading the load.
    if inbox.pulse.load.fetch_sub(1, Ordering::Relaxed) == 1 {
        inbox.whereabouts.rest();
    }
}
