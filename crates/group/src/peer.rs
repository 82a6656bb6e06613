//! This node's side of its relation to one other replica: a thread that asks what the replica's own thread
//! wants asked, and that, while this node leads, keeps the other in line with the start set and with all
//! that came after.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Nanos, NodeId};
use longarm_fabric::{Channel, Transport};
use longarm_host::{Mutex, Pause, now};
use longarm_replica::Event;
use longarm_wire::{Answer, Ask};

use super::push;
use crate::common::Log;
use crate::reign::Reign;
use crate::talk::{Mute, Talk, Way};

/// Sleep without anything to do.
const IDLE: Duration = Duration::from_millis(200);
/// Between two attempts to sync, at least and at most.
const RETRY_MIN: Duration = Duration::from_millis(2);
const RETRY_MAX: Duration = Duration::from_millis(500);
/// Questions that may wait: older ones have no meaning any more.
const ASKS_MAX: usize = 8;

/// What the replica's thread is told by all others.
pub(crate) struct Events {
    queue: Mutex<VecDeque<Event>>,
    channel: Channel,
}

impl Events {
    pub fn new(channel: Channel) -> Events {
        Events { queue: Mutex::default(), channel }
    }

    pub fn push(&self, event: Event) {
        self.queue.lock().push_back(event);
        self.channel.notify();
    }

    pub fn take(&self) -> Option<Event> {
        self.queue.lock().pop_front()
    }
}

/// What a peer's thread is to do.
pub(crate) struct Orders<Q> {
    asks: Mutex<VecDeque<Ask>>,
    reign: Mutex<Option<Arc<Reign<Q>>>>,
    pub pause: Arc<Pause>,
}

impl<Q> Default for Orders<Q> {
    fn default() -> Orders<Q> {
        Orders { asks: Mutex::default(), reign: Mutex::default(), pause: Arc::default() }
    }
}

impl<Q> Orders<Q> {
    /// Asks, if the other can be reached.
    pub fn ask(&self, ask: Ask) {
        let mut asks = self.asks.lock();
        if asks.len() == ASKS_MAX {
            asks.pop_front();
        }
        asks.push_back(ask);
        drop(asks);
        self.pause.poke();
    }

    /// Keeps the other in line with this reign, until it is over.
    pub fn keep_in_line(&self, reign: Option<Arc<Reign<Q>>>) {
        *self.reign.lock() = reign;
        self.pause.poke();
    }

    /// The next question that waits.
    pub fn next(&self) -> Option<Ask> {
        self.next_unless(|_| false)
    }

    /// The next question, unless it is to wait longer.
    pub fn next_unless(&self, waits: impl Fn(&Ask) -> bool) -> Option<Ask> {
        self.asks.lock().pop_front_if(|ask| !waits(ask))
    }

    fn reign(&self) -> Option<Arc<Reign<Q>>> {
        self.reign.lock().clone().filter(|reign| !reign.is_over())
    }
}

/// The thread.
pub(crate) struct Peer<T: Transport> {
    pub way: Way<T>,
    pub node: NodeId,
    pub orders: Arc<Orders<T::Qp>>,
    pub events: Arc<Events>,
    /// Bound on an answer.
    pub patience: Nanos,
    pub log: Log,
    pub talk: Option<Talk<T::Qp>>,
    /// Answers that are waited for.
    pub open: usize,
}

impl<T: Transport> Peer<T> {
    /// Works until stopped.
    pub fn run(mut self) {
        let mut retry = RETRY_MIN;
        let mut said = String::new();
        while !self.orders.pause.is_stopped() {
            if let Some(reign) = self.orders.reign() {
                let begun = now();
                let ended = push::keep_in_line(&mut self, &reign);
                // Whom it hands over to is asked to stand on the talk that is open.
                if ended.is_err() {
                    self.talk = None;
                }
                self.open = 0;
                self.report(&reign, ended, &mut said);
                retry = if now().since(begun) > Nanos::from_millis(1_000) { RETRY_MIN } else { retry };
                self.orders.pause.sleep_unless_poked(retry);
                retry = (retry * 2).min(RETRY_MAX);
                continue;
            }
            retry = RETRY_MIN;
            let spoke = self.speak();
            if spoke.is_err() {
                self.talk = None;
                self.open = 0;
            }
            match &mut self.talk {
                Some(talk) if self.open > 0 => talk.wait(Duration::from_millis(1)),
                _ => {
                    self.orders.pause.sleep_unless_poked(IDLE);
                }
            }
        }
    }

    fn report(&self, reign: &Reign<T::Qp>, ended: Result<(), Mute>, said: &mut String) {
        if reign.is_over() {
            return said.clear();
        }
        if let Err(Mute::Refused(promised)) = ended {
            let (term, node) = (reign.term, self.node);
            self.events.push(Event::Answered(node, Answer::Refused { term, promised }));
        }
        let text = match ended {
            Ok(()) => "it was let go".into(),
            Err(why) => why.to_string(),
        };
        if *said != text {
            (self.log)(&format!("node {} is not in sync: {text}", self.node));
            *said = text;
        }
    }

    /// Sends what is to be asked, and hands on what was answered.
    fn speak(&mut self) -> Result<(), Mute> {
        while let Some(ask) = self.orders.next() {
            // A talk that nobody listened to for long may be one with a process that is no more: the question
            // is not for it, and would be lost.
            if self.listen().is_err() {
                self.talk = None;
            }
            if self.talk.is_none() {
                self.open = 0;
            }
            self.talk()?.ask(&ask)?;
            self.open += usize::from(ask.wants_answer());
        }
        self.listen()
    }

    /// Hands on what was answered.
    fn listen(&mut self) -> Result<(), Mute> {
        let Some(talk) = &mut self.talk else { return Ok(()) };
        for answer in talk.answers()? {
            self.open = self.open.saturating_sub(1);
            self.events.push(Event::Answered(self.node, answer));
        }
        Ok(())
    }

    /// The talk, begun if it is not open.
    pub fn talk(&mut self) -> Result<&mut Talk<T::Qp>, Mute> {
        if self.talk.is_none() {
            self.talk = Some(self.way.talk()?);
        }
        Ok(self.talk.as_mut().expect("it was just begun"))
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::Term;

    use super::*;

    #[test]
    fn a_question_that_is_to_wait_stays_and_so_does_what_is_behind_it() {
        let (orders, term) = (Orders::<()>::default(), Term::new(2, NodeId(1)));
        let (serves, stand) = (Ask::Serves { term, since: Nanos(0) }, Ask::Stand { term });
        let waits = |ask: &Ask| *ask == stand;
        [&serves, &stand, &serves].into_iter().for_each(|ask| orders.ask(ask.clone()));
        assert_eq!(orders.next_unless(waits), Some(serves.clone()));
        assert_eq!(orders.next_unless(waits), None);
        assert_eq!(orders.next(), Some(stand.clone()));
        assert_eq!(orders.next_unless(waits), Some(serves));
        assert_eq!(orders.next(), None);
    }
}
