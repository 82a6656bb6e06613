//! The thread that attends to one peer: it sends the questions that the replica's own thread has for the
//! peer. While this replica leads, it catches the peer up with the start set and with all that came after.

use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::Transport;
use longarm_host::now;
use longarm_replica::Event;
use longarm_wire::{Answer, Ask};

use crate::catch_up;
use crate::leader_term::LeaderTerm;
use crate::log::Notice;
use crate::peer::Peer;
use crate::peer_channel::PeerError;
use crate::peer_commands::Installation;

/// How long the thread sleeps when it has nothing to do.
const IDLE: Duration = Duration::from_millis(200);
/// The shortest and the longest time between two attempts to sync the peer.
const RETRY_MIN: Duration = Duration::from_millis(2);
const RETRY_MAX: Duration = Duration::from_millis(500);

impl<T: Transport> Peer<T> {
    /// Works until the replica's own thread stops it.
    pub fn run(mut self) {
        let mut retry = RETRY_MIN;
        let mut said = String::new();
        while !self.commands.pause.is_stopped() {
            if let Some(leader_term) = self.commands.leader_term() {
                let begun = now();
                let ended = catch_up::keep_caught_up(&mut self, &leader_term);
                // A leader that hands over asks the transferee to stand, on the channel that is still open.
                if ended.is_err() {
                    self.channel = None;
                }
                self.open = 0;
                self.report(&leader_term, ended, &mut said);
                retry = if now().since(begun) > Nanos::from_millis(1_000) { RETRY_MIN } else { retry };
                self.commands.pause.sleep_unless_poked(retry);
                retry = (retry * 2).min(RETRY_MAX);
                continue;
            }
            retry = RETRY_MIN;
            let installation = self.commands.installation().filter(|it| now() < it.until);
            let spoke = self.speak().and_then(|()| self.tell_of(installation));
            if spoke.is_err() {
                self.channel = None;
                self.open = 0;
            }
            match &mut self.channel {
                Some(channel) if self.open > 0 => channel.wait(Duration::from_millis(1)),
                _ => {
                    let every = installation.map_or(IDLE, |it| Duration::from_nanos(it.every.0));
                    self.commands.pause.sleep_unless_poked(every.min(IDLE));
                }
            }
        }
    }

    /// Tells the peer of an installation: the replica's own thread, which is busy with it, says nothing.
    fn tell_of(&mut self, installation: Option<Installation>) -> Result<(), PeerError> {
        let due = |it: &Installation| now().since(self.told) >= it.every;
        if let Some(Installation { term, .. }) = installation.filter(due) {
            self.told = now();
            self.channel()?.ask(&Ask::Installs { term })?;
        }
        Ok(())
    }

    fn report(&self, leader_term: &LeaderTerm<T::Qp>, ended: Result<(), PeerError>, said: &mut String) {
        if leader_term.is_over() {
            return said.clear();
        }
        if let Err(PeerError::Refused(promised)) = ended {
            let (term, replica) = (leader_term.term, self.replica);
            self.events.push(Event::Answered(replica, Answer::Refused { term, promised }));
        }
        let text = match ended {
            Ok(()) => "it was let go".into(),
            Err(why) => why.to_string(),
        };
        if *said != text {
            self.log.tell(Notice::NotInSync, &format!("replica {} is not in sync: {text}", self.replica));
            *said = text;
        }
    }
}
