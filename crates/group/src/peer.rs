//! The thread that speaks with one other replica: it asks what the replica's own thread wants asked,
//! and hands on what is answered.

use std::sync::Arc;

use longarm_base::{Nanos, NodeId};
use longarm_fabric::Transport;
use longarm_replica::Event;

use crate::events::Events;
use crate::log::Log;
use crate::peer_channel::{PeerAddress, PeerChannel, PeerError};
use crate::peer_commands::PeerCommands;

/// Bound on fetching a start set, and on an answer of a replica.
pub(crate) const PATIENCE: Nanos = Nanos::from_millis(5_000);

/// The other replica, as it is spoken with.
pub(crate) struct Peer<T: Transport> {
    pub address: PeerAddress<T>,
    pub node: NodeId,
    pub commands: Arc<PeerCommands<T::Qp>>,
    pub events: Arc<Events>,
    /// Bound on an answer.
    pub patience: Nanos,
    pub log: Log,
    pub channel: Option<PeerChannel<T::Qp>>,
    /// Answers that are waited for.
    pub open: usize,
}

impl<T: Transport> Peer<T> {
    /// Sends what is to be asked, and hands on what was answered.
    pub fn speak(&mut self) -> Result<(), PeerError> {
        while let Some(ask) = self.commands.next() {
            // A channel that nobody listened to for long may be one with a process that is no more: the
            // question is not for it, and would be lost.
            if self.listen().is_err() {
                self.channel = None;
            }
            if self.channel.is_none() {
                self.open = 0;
            }
            self.channel()?.ask(&ask)?;
            self.open += usize::from(ask.wants_answer());
        }
        self.listen()
    }

    /// Hands on what was answered.
    fn listen(&mut self) -> Result<(), PeerError> {
        let Some(channel) = &mut self.channel else { return Ok(()) };
        for answer in channel.answers()? {
            self.open = self.open.saturating_sub(1);
            self.events.push(Event::Answered(self.node, answer));
        }
        Ok(())
    }

    /// The channel, begun if it is not open.
    pub fn channel(&mut self) -> Result<&mut PeerChannel<T::Qp>, PeerError> {
        if self.channel.is_none() {
            self.channel = Some(self.address.channel()?);
        }
        Ok(self.channel.as_mut().expect("it was just begun"))
    }
}
