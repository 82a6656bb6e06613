//! The side of a peer's thread that speaks with the peer: it sends the questions of the replica's own thread,
//! and hands the answers on to that thread.

use std::sync::Arc;

use longarm_base::{Nanos, ReplicaId};
use longarm_fabric::Transport;
use longarm_replica::Event;

use crate::events::Events;
use crate::log::Log;
use crate::peer_channel::{PeerAddress, PeerChannel, PeerError};
use crate::peer_commands::PeerCommands;

/// The bound on fetching a start set, and on an answer of a replica.
pub(crate) const PATIENCE: Nanos = Nanos::from_millis(5_000);

/// A peer, as the thread that speaks with it has it.
pub(crate) struct Peer<T: Transport> {
    pub address: PeerAddress<T>,
    pub replica: ReplicaId,
    pub commands: Arc<PeerCommands<T::Qp>>,
    pub events: Arc<Events>,
    /// The bound on an answer.
    pub patience: Nanos,
    pub log: Log,
    pub channel: Option<PeerChannel<T::Qp>>,
    /// The number of answers that the thread waits for.
    pub open: usize,
    /// When it last told the peer of an installation.
    pub told: Nanos,
}

impl<T: Transport> Peer<T> {
    /// Sends the questions that wait, and hands on the answers that have come.
    pub fn speak(&mut self) -> Result<(), PeerError> {
        while let Some(ask) = self.commands.next() {
            // The other end of a channel that was long unused may be a process that is gone: then the
            // question would be lost.
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

    /// Hands on the answers that have come.
    fn listen(&mut self) -> Result<(), PeerError> {
        let Some(channel) = &mut self.channel else { return Ok(()) };
        for answer in channel.answers()? {
            self.open = self.open.saturating_sub(1);
            self.events.push(Event::Answered(self.replica, answer));
        }
        Ok(())
    }

    /// The channel to the peer, which is opened if it is not open.
    pub fn channel(&mut self) -> Result<&mut PeerChannel<T::Qp>, PeerError> {
        if self.channel.is_none() {
            self.channel = Some(self.address.channel()?);
        }
        Ok(self.channel.as_mut().expect("it was just begun"))
    }
}
