//! The queue pair: one end of a simulated connection.

use std::sync::Arc;
use std::time::Duration;

use longarm_host::world::entered;

use super::end::{Owned, SimEvent, SimSide};
use super::pair::SimConnection;
use crate::{
    Broken, Channel, Completion, Completions, Granted, Op, PostError, QueuePair, RECEIVES, SetupError, Ticket,
};

/// A queue pair of a simulated machine.
#[derive(Debug)]
pub struct SimQp {
    pair: Arc<SimConnection>,
    side: SimSide,
    landing: Vec<u8>,
    granted: Vec<Granted>,
    receives: Vec<Vec<u8>>,
    free: Vec<u16>,
    name: String,
}

impl SimQp {
    pub(super) fn new(
        pair: Arc<SimConnection>,
        side: SimSide,
        landing: u32,
        granted: Vec<Granted>,
        name: String,
    ) -> SimQp {
        let (landing, receives) = (vec![0; landing as usize], vec![Vec::new(); RECEIVES]);
        SimQp { pair, side, landing, granted, receives, free: (0..RECEIVES as u16).collect(), name }
    }

    fn take(&mut self, news: SimEvent) -> Completion {
        match news {
            SimEvent::Done { ticket, result, landed } => {
                if let Some((into, bytes)) = landed {
                    self.landing[into as usize..into as usize + bytes.len()].copy_from_slice(&bytes);
                }
                Completion::Done(ticket, result)
            }
            SimEvent::Arrived { imm, len } => {
                self.pair.with(1 - self.side, |peer| peer.arrivals -= 1);
                Completion::Arrived { imm, len }
            }
            SimEvent::Message(bytes) => {
                let buffer = self.free.pop().expect("the sender had credit for it");
                let len = bytes.len() as u32;
                self.receives[buffer as usize] = bytes;
                Completion::Message { buffer, len }
            }
        }
    }
}

impl QueuePair for SimQp {
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        self.pair.with(self.side, |end| end.broken.as_ref().map_or(Ok(()), |_| Err(PostError::Broken)))?;
        if !op.is_well_formed(self.landing.len()) {
            return Err(PostError::Malformed);
        }
        self.pair.post(self.side, Owned::of(op), ticket)
    }

    fn ring(&mut self) {
        self.pair.ring(self.side, false);
    }

    fn poll(&mut self, done: &mut Completions) -> usize {
        // A loop of polls takes time, in which something may come.
        if let Some(world) = entered() {
            world.relax();
        }
        let mut taken = 0;
        while done.room() > 0
            && let Some(news) = self.pair.with(self.side, |end| end.take_news())
        {
            done.push(self.take(news));
            taken += 1;
        }
        taken
    }

    fn landing(&self, at: u32, len: u32) -> &[u8] {
        &self.landing[at as usize..at as usize + len as usize]
    }

    fn message(&self, buffer: u16, len: u32) -> &[u8] {
        &self.receives[buffer as usize][..len as usize]
    }

    fn release(&mut self, buffer: u16) {
        assert!(!self.free.contains(&buffer), "buffer {buffer} is handed back twice");
        self.free.push(buffer);
        self.pair.with(1 - self.side, |peer| peer.messages -= 1);
    }

    fn arm(&mut self) -> bool {
        self.pair.with(self.side, |end| {
            end.armed = end.news.is_empty();
            !end.armed
        })
    }

    fn ready(&mut self) -> bool {
        self.ring();
        self.pair.with(self.side, |end| !end.news.is_empty())
    }

    fn wait(&mut self, timeout: Duration) {
        self.ring();
        let bed = self.pair.with(self.side, |end| end.news.is_empty().then(|| end.bed.clone()));
        if let Some(bed) = bed {
            bed.sleep(timeout);
        }
    }

    fn attend(&mut self, channel: &Channel) -> Result<(), SetupError> {
        self.pair.with(self.side, |end| end.bell = Some(channel.clone()));
        Ok(())
    }

    fn state(&self) -> Result<(), Broken> {
        self.pair.with(self.side, |end| end.broken.clone()).map_or(Ok(()), Err)
    }

    fn granted(&self) -> &[Granted] {
        &self.granted
    }

    fn revoke(&mut self) -> Result<(), SetupError> {
        self.pair.revoke(self.side);
        Ok(())
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

impl Drop for SimQp {
    fn drop(&mut self) {
        self.pair.ring(self.side, true);
    }
}
