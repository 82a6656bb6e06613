//! This node's side of its talk with one other replica: it asks what the replica's own thread wants asked,
//! and hands on what is answered.

use std::sync::Arc;

use longarm_base::{Nanos, NodeId};
use longarm_fabric::Transport;
use longarm_replica::Event;

use crate::events::Events;
use crate::log::Log;
use crate::orders::Orders;
use crate::talk::{Mute, Talk, Way};

/// Bound on fetching a start set, and on an answer of a replica.
pub(crate) const PATIENCE: Nanos = Nanos::from_millis(5_000);

/// The other replica, as it is spoken with.
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
    /// Sends what is to be asked, and hands on what was answered.
    pub fn speak(&mut self) -> Result<(), Mute> {
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
