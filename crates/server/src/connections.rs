//! The connections of a worker, and which of them have something to do.
//!
//! The worker's channel tells by name which connections of some transports have news: only those are looked
//! at, so a connection that rests costs its memory alone. Connections of other transports have no names; the
//! worker looks at each in every round, which takes a load from memory.

use std::collections::HashMap;
use std::time::Duration;

use longarm_fabric::{Channel, QueuePair};

use crate::connection::{Connection, Turn};
use crate::execute::Execution;

/// A connection that has a name.
struct Named<Q> {
    connection: Connection<Q>,
    /// It is in `active`.
    is_active: bool,
}

/// The connections of a worker.
pub(crate) struct Connections<Q> {
    /// Those without a name.
    polled: Vec<Connection<Q>>,
    named: HashMap<u64, Named<Q>>,
    /// The names of those that have something to do, or may have.
    active: Vec<u64>,
    /// Names that the channel told.
    ready: Vec<u64>,
    channel: Channel,
}

impl<Q: QueuePair> Connections<Q> {
    /// None yet; the channel tells of those with names.
    pub fn new(channel: Channel) -> Connections<Q> {
        let (polled, named, active, ready) = Default::default();
        Connections { polled, named, active, ready, channel }
    }

    /// Whether clients that are served by calls of the system may want the worker's core. One of shared
    /// memory is served sooner than a thread is switched.
    pub fn is_crowd(&self) -> bool {
        self.named.len() > 1
    }

    /// Adds one, which is looked at in the next round.
    pub fn add(&mut self, connection: Connection<Q>) {
        match connection.token() {
            None => self.polled.push(connection),
            Some(token) => {
                self.named.insert(token, Named { connection, is_active: true });
                self.active.push(token);
            }
        }
    }

    /// Sleeps until a connection may have something to do, or the worker is woken. What comes in on sockets
    /// is executed here. Whether there was anything.
    pub fn wait(&mut self, limit: Duration) -> bool {
        self.channel.wait_for(limit, &mut self.ready)
    }

    /// Makes one turn of every connection that may have something to do; the most urgent of their results.
    /// Those that are over are given to `leave`.
    pub fn round(&mut self, execution: &mut Execution<'_>, leave: &mut impl FnMut(Connection<Q>)) -> Turn {
        let mut busy = self.channel.drives() && self.wait(Duration::ZERO);
        let (mut waiting, mut at) = (false, 0);
        while at < self.polled.len() {
            match self.polled[at].turn(execution) {
                Turn::Idle => {}
                Turn::Busy => busy = true,
                Turn::Waiting => waiting = true,
                Turn::Gone => {
                    leave(self.polled.swap_remove(at));
                    busy = true;
                    continue;
                }
            }
            at += 1;
        }
        self.take_ready();
        at = 0;
        while at < self.active.len() {
            match self.turn_active(at, execution) {
                Turn::Busy => busy = true,
                Turn::Waiting => waiting = true,
                Turn::Idle => {
                    self.rest(at);
                    continue;
                }
                Turn::Gone => {
                    let gone = self.named.remove(&self.active.swap_remove(at)).expect("it was just active");
                    leave(gone.connection);
                    busy = true;
                    continue;
                }
            }
            at += 1;
        }
        match (busy, waiting) {
            (true, _) => Turn::Busy,
            (false, true) => Turn::Waiting,
            (false, false) => Turn::Idle,
        }
    }

    /// Those that the channel named have something to do.
    fn take_ready(&mut self) {
        for token in self.ready.drain(..) {
            // A connection may be told of before its worker has it: it is looked at when it comes.
            if let Some(named) = self.named.get_mut(&token).filter(|named| !named.is_active) {
                named.is_active = true;
                self.active.push(token);
            }
        }
    }

    fn turn_active(&mut self, at: usize, execution: &mut Execution<'_>) -> Turn {
        let Named { connection, .. } = self.named.get_mut(&self.active[at]).expect("active ones are there");
        match connection.turn(execution) {
            // It may have been named because it broke.
            Turn::Idle if !connection.stands(execution) => Turn::Gone,
            turn => turn,
        }
    }

    /// One has nothing to do until the channel names it.
    fn rest(&mut self, at: usize) {
        let token = self.active.swap_remove(at);
        self.named.get_mut(&token).expect("active ones are there").is_active = false;
    }

    /// Asks to be woken by each connection that was looked at; whether one of them has something already.
    /// Those that are over are given to `leave`.
    pub fn arm(&mut self, execution: &Execution<'_>, leave: &mut impl FnMut(Connection<Q>)) -> bool {
        let mut news = false;
        let mut at = 0;
        while at < self.polled.len() {
            news |= self.polled[at].arm();
            if self.polled[at].stands(execution) {
                at += 1;
            } else {
                leave(self.polled.swap_remove(at));
            }
        }
        let Connections { named, active, .. } = self;
        news | active.iter().any(|token| named.get_mut(token).is_some_and(|named| named.connection.arm()))
    }

    /// Gives all to `leave`: the worker ends. What is on its way to their clients goes first, for at most
    /// `patience`.
    pub fn end(&mut self, patience: Duration, leave: &mut impl FnMut(Connection<Q>)) {
        self.polled.drain(..).for_each(&mut *leave);
        self.named.drain().for_each(|(_, named)| leave(named.connection));
        self.active.clear();
        let steps = patience.as_millis();
        for step in 0..=steps {
            if !self.channel.drives() {
                break;
            }
            self.wait(if step < steps { Duration::from_millis(1) } else { Duration::ZERO });
        }
        self.channel.end();
    }
}
