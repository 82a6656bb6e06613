//! The connections of a worker, and which of them may have something to do.
//!
//! The worker's channel tells by name which connections have news. So one that rests costs its memory alone:
//! it is looked at when the channel names it. (1) Over `tcp` the channel always tells, and a connection rests
//! as soon as it has nothing to do. (2) Over `shm` and `verbs` it tells once it was asked to, which costs the
//! peer a call of the system with its next request; a look costs a load. So a connection rests there after
//! many looks in vain, or a few sleeps of the worker, for which it is asked in any case. (3) In a simulated
//! world it tells no names, and each connection is looked at in every round.

use std::collections::HashMap;
use std::time::Duration;

use longarm_fabric::{Channel, QueuePair, Told};

use crate::connection::{Connection, Turn};
use crate::execute::Execution;
use crate::steer::{self, Steering, Strayed};

/// Looks in vain at a connection that the channel does not tell of by itself, before it rests.
const LOOKS: u32 = 4096;
/// As many of them counts a sleep of the worker: the connection was asked to tell the channel for that.
const LOOKS_A_SLEEP: u32 = LOOKS / 4;
/// Rounds between two looks at the channel while other connections keep the worker busy.
const ROUNDS: u32 = 64;

/// A connection, and how it is told of.
struct Held<Q> {
    connection: Connection<Q>,
    told: Option<Told>,
    /// It is in `active`.
    is_active: bool,
    /// Turns without anything to do.
    quiet: u32,
    /// Whether it seems to belong to another worker.
    strayed: Strayed,
}

/// The connections of a worker.
pub(crate) struct Connections<Q> {
    held: Vec<Option<Held<Q>>>,
    free: Vec<usize>,
    /// Where each is that has a name.
    named: HashMap<u64, usize>,
    /// Those that are looked at.
    active: Vec<usize>,
    /// Names that the channel told.
    ready: Vec<u64>,
    channel: Channel,
    rounds: u32,
    /// Where the next look for those that belong to other workers begins.
    looked: usize,
}

impl<Q: QueuePair> Connections<Q> {
    /// None yet; the channel tells of them.
    pub fn new(channel: Channel) -> Connections<Q> {
        let (held, free, named, active, ready) = Default::default();
        Connections { held, free, named, active, ready, channel, rounds: 0, looked: 0 }
    }

    /// Whether clients that are served by calls of the system may want the worker's core. One of shared
    /// memory is served sooner than a thread is switched.
    pub fn is_crowd(&self) -> bool {
        self.channel.drives() && self.named.len() > 1
    }

    /// Adds one, which is looked at in the next round.
    pub fn add(&mut self, connection: Connection<Q>) {
        let told = connection.told();
        let held = Some(Held { connection, told, is_active: true, quiet: 0, strayed: Strayed::default() });
        let at = match self.free.pop() {
            Some(at) => {
                self.held[at] = held;
                at
            }
            None => {
                self.held.push(held);
                self.held.len() - 1
            }
        };
        if let Some(told) = told {
            self.named.insert(told.name(), at);
        }
        self.active.push(at);
    }

    /// Sleeps until a connection may have something to do, or the worker is woken. What comes in on sockets
    /// is executed here. Whether there was anything.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let any = self.channel.wait_for(limit, &mut self.ready);
        for name in self.ready.drain(..) {
            // A connection may be told of before its worker has it: it is looked at when it comes.
            let Some(&at) = self.named.get(&name) else { continue };
            let held = self.held[at].as_mut().expect("a name is of a connection that is here");
            held.quiet = 0;
            if !held.is_active {
                held.is_active = true;
                self.active.push(at);
            }
        }
        any
    }

    /// Makes one turn of every connection that may have something to do; the most urgent of their results.
    /// Those that are over are given to `leave`.
    pub fn round(&mut self, execution: &mut Execution<'_>, leave: &mut impl FnMut(Connection<Q>)) -> Turn {
        self.rounds = self.rounds.wrapping_add(1);
        let rests = self.active.len() < self.named.len() && self.rounds.is_multiple_of(ROUNDS);
        let mut busy = (self.channel.drives() || rests) && self.wait(Duration::ZERO);
        let (mut waiting, mut index) = (false, 0);
        while let Some(&at) = self.active.get(index) {
            match self.turn(at, execution) {
                Turn::Busy => busy = true,
                Turn::Waiting => waiting = true,
                Turn::Idle if self.is_to_rest(at) => {
                    self.active.swap_remove(index);
                    continue;
                }
                Turn::Idle => {}
                Turn::Gone => {
                    leave(self.remove(index));
                    busy = true;
                    continue;
                }
            }
            index += 1;
        }
        match (busy, waiting) {
            (true, _) => Turn::Busy,
            (false, true) => Turn::Waiting,
            (false, false) => Turn::Idle,
        }
    }

    fn at(&mut self, at: usize) -> &mut Held<Q> {
        self.held[at].as_mut().expect("active ones are here")
    }

    fn turn(&mut self, at: usize, execution: &mut Execution<'_>) -> Turn {
        let Held { connection, told, quiet, .. } = self.at(at);
        match connection.turn(execution) {
            Turn::Idle => {
                *quiet += 1;
                // It may have been named because it broke. Others look at that now and then by themselves.
                let rests = matches!(told, Some(Told::Always(_)));
                if rests && !connection.stands(execution) { Turn::Gone } else { Turn::Idle }
            }
            turn => {
                *quiet = 0;
                turn
            }
        }
    }

    /// Whether one that has nothing to do rests from now on, until the channel names it.
    fn is_to_rest(&mut self, at: usize) -> bool {
        let Held { connection, told, is_active, quiet, .. } = self.at(at);
        let rests = match told {
            Some(Told::Always(_)) => true,
            // Asked for last, so that nothing comes unseen between.
            Some(Told::Armed(_)) => *quiet >= LOOKS && !connection.arm(),
            None => false,
        };
        *is_active = !rests;
        rests
    }

    fn remove(&mut self, index: usize) -> Connection<Q> {
        let at = self.active.swap_remove(index);
        self.release(at)
    }

    fn release(&mut self, at: usize) -> Connection<Q> {
        let held = self.held[at].take().expect("it is here");
        self.free.push(at);
        if let Some(told) = held.told {
            self.named.remove(&told.name());
        }
        held.connection
    }

    /// Looks where the requests of some connections came in, and gives those to `give` that belong to another
    /// worker, of which `channel` says where it waits. How many had requests since the look before, of all.
    pub fn steer<'c>(
        &mut self,
        steering: &mut Steering,
        channel: &dyn Fn(usize) -> &'c Channel,
        give: &mut dyn FnMut(usize, Connection<Q>),
    ) -> usize {
        let all = self.held.len();
        let looks = all.min(steer::LOOKS);
        let mut seen = 0;
        for _ in 0..looks {
            self.looked = (self.looked + 1) % all;
            let Some(Held { connection, strayed, .. }) = &mut self.held[self.looked] else { continue };
            let Some(core) = connection.came_in_on() else { continue };
            seen += 1;
            let to = steering.judge(strayed, core);
            if let Some(to) = to.filter(|to| connection.move_to(channel(*to))) {
                steering.moved(to);
                give(to, self.take(self.looked));
            }
        }
        seen * all / looks.max(1)
    }

    /// Takes a connection away, which rests or does not.
    fn take(&mut self, at: usize) -> Connection<Q> {
        match self.active.iter().position(|active| *active == at) {
            Some(index) => self.remove(index),
            None => self.release(at),
        }
    }

    /// Asks to be woken by each connection that is looked at; whether one of them has something already.
    /// Those that are over are given to `leave`. A connection that slept several times with the worker rests
    /// from now on: otherwise each wake-up of a worker would cost a look at all of them.
    pub fn arm(&mut self, execution: &Execution<'_>, leave: &mut impl FnMut(Connection<Q>)) -> bool {
        let (mut news, mut index) = (false, 0);
        while let Some(&at) = self.active.get(index) {
            let Held { connection, told, quiet, is_active, .. } = self.at(at);
            let has_news = connection.arm();
            news |= has_news;
            if !connection.stands(execution) {
                leave(self.remove(index));
                continue;
            }
            *quiet = quiet.saturating_add(LOOKS_A_SLEEP);
            if !has_news && told.is_some() && *quiet >= LOOKS {
                *is_active = false;
                self.active.swap_remove(index);
                continue;
            }
            index += 1;
        }
        news
    }

    /// Gives all to `leave`: the worker ends. What is on its way to their clients goes first, for at most
    /// `patience`.
    pub fn end(&mut self, patience: Duration, leave: &mut impl FnMut(Connection<Q>)) {
        self.held.drain(..).flatten().for_each(|held| leave(held.connection));
        (self.free, self.named, self.active) = Default::default();
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
