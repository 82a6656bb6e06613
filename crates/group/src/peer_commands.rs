//! What the replica's own thread has the thread of a peer do.

use std::collections::VecDeque;
use std::sync::Arc;

use longarm_base::{Nanos, Term};
use longarm_host::{Mutex, Pause};
use longarm_wire::Ask;

use crate::leader_term::LeaderTerm;

/// The number of questions that may wait. If there are more, the oldest have no meaning any more.
const ASKS_MAX: usize = 8;

/// The installation of a start set, which keeps the replica's own thread busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Installation {
    pub term: Term,
    /// The time between two words about it to a peer, and when no more are sent.
    pub every: Nanos,
    pub until: Nanos,
}

/// The commands for the thread of a peer.
pub(crate) struct PeerCommands<Q> {
    asks: Mutex<VecDeque<Ask>>,
    leader_term: Mutex<Option<Arc<LeaderTerm<Q>>>>,
    installation: Mutex<Option<Installation>>,
    pub pause: Arc<Pause>,
}

impl<Q> Default for PeerCommands<Q> {
    fn default() -> PeerCommands<Q> {
        PeerCommands {
            asks: Mutex::default(),
            leader_term: Mutex::default(),
            installation: Mutex::default(),
            pause: Arc::default(),
        }
    }
}

impl<Q> PeerCommands<Q> {
    /// Has the thread send a question, if it can reach the peer.
    pub fn ask(&self, ask: Ask) {
        let mut asks = self.asks.lock();
        if asks.len() == ASKS_MAX {
            asks.pop_front();
        }
        asks.push_back(ask);
        drop(asks);
        self.pause.poke();
    }

    /// Has the thread catch the peer up with this term, and keep it caught up until the term is over.
    pub fn keep_caught_up(&self, leader_term: Option<Arc<LeaderTerm<Q>>>) {
        *self.leader_term.lock() = leader_term;
        self.pause.poke();
    }

    /// Has the thread tell the peer of this installation until it is told of another, or of none.
    pub fn tell_of_installation(&self, installation: Option<Installation>) {
        *self.installation.lock() = installation;
        if installation.is_some() {
            self.pause.poke();
        }
    }

    /// The installation that the replica's own thread is busy with.
    pub fn installation(&self) -> Option<Installation> {
        *self.installation.lock()
    }

    /// Takes the next question that waits.
    pub fn next(&self) -> Option<Ask> {
        self.next_unless(|_| false)
    }

    /// Takes the next question, unless that one is to wait longer.
    pub fn next_unless(&self, waits: impl Fn(&Ask) -> bool) -> Option<Ask> {
        self.asks.lock().pop_front_if(|ask| !waits(ask))
    }

    /// The term that this replica leads, unless it is over.
    pub fn leader_term(&self) -> Option<Arc<LeaderTerm<Q>>> {
        self.leader_term.lock().clone().filter(|leader_term| !leader_term.is_over())
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::ReplicaId;

    use super::*;

    #[test]
    fn a_question_that_is_to_wait_stays_and_so_does_what_is_behind_it() {
        let (commands, term) = (PeerCommands::<()>::default(), Term::new(2, ReplicaId(1)));
        let (serves, stand) = (Ask::Serves { term, since: Nanos(0) }, Ask::Stand { term });
        let waits = |ask: &Ask| *ask == stand;
        [&serves, &stand, &serves].into_iter().for_each(|ask| commands.ask(ask.clone()));
        assert_eq!(commands.next_unless(waits), Some(serves.clone()));
        assert_eq!(commands.next_unless(waits), None);
        assert_eq!(commands.next(), Some(stand.clone()));
        assert_eq!(commands.next_unless(waits), Some(serves));
        assert_eq!(commands.next(), None);
    }
}
