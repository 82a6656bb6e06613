//! Breaks things on purpose, the same way for the same seed and the same calls.

use std::collections::VecDeque;
use std::time::Duration;

use longarm_base::limits::QUEUE_DEPTH;
use longarm_base::random::SplitMix64;

use super::pass_through;
use crate::{Broken, Completion, Completions, Op, PostError, QueuePair, SetupError, Ticket, WorkError};

/// What goes wrong, and how often. Rates are in 1/65536.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Where the randomness starts.
    pub seed: u64,
    /// Posts refused with [`PostError::Full`].
    pub full: u16,
    /// Completions held back (and all behind them) for a while.
    pub delay: u16,
    /// For at most so many polls.
    pub delay_polls: u32,
    /// READs at which the connection is cut: that one and all outstanding are flushed.
    pub cut_reads: u16,
    /// The post (counted from 0) at which the connection is cut.
    pub cut_at: Option<u64>,
    /// The arrival (counted from 0) that is told with another immediate.
    pub garble_at: Option<u64>,
}

/// A queue pair that fails. After a cut it no longer touches the one inside, whose peer notices when this is
/// dropped.
#[derive(Debug)]
pub struct Faulty<Q> {
    inner: Q,
    faults: Faults,
    random: SplitMix64,
    posts: u64,
    arrivals: u64,
    cut: bool,
    /// Polls until what is held may go on.
    pause: u32,
    held: VecDeque<Completion>,
    scratch: Completions,
    /// Posted and not known to be complete, oldest first, to be flushed by a cut.
    outstanding: VecDeque<Ticket>,
}

impl<Q: QueuePair> Faulty<Q> {
    /// Late news of a revoked peer is no news; what became of our own requests still is.
    fn forget_news(&mut self) {
        self.held.retain(|completion| matches!(completion, Completion::Done(..)));
    }

    /// Lets `inner` fail as `faults` says.
    pub fn new(inner: Q, faults: Faults) -> Faulty<Q> {
        Faulty {
            inner,
            faults,
            random: SplitMix64::new(faults.seed),
            posts: 0,
            arrivals: 0,
            cut: false,
            pause: 0,
            held: VecDeque::with_capacity(2 * QUEUE_DEPTH),
            scratch: Completions::new(QUEUE_DEPTH),
            outstanding: VecDeque::with_capacity(QUEUE_DEPTH + 1),
        }
    }

    fn strikes(&mut self, rate: u16) -> bool {
        rate > 0 && self.random.draw() & 0xffff < u64::from(rate)
    }

    fn posted(&mut self, ticket: Ticket) {
        // Silent requests leave no trace when they succeed; only the newest can still be outstanding.
        if self.outstanding.len() == QUEUE_DEPTH {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back(ticket);
    }

    fn completed(&mut self, ticket: Ticket) {
        while self.outstanding.pop_front().is_some_and(|first| first != ticket) {}
    }

    fn cut(&mut self) {
        self.cut = true;
        let flushed = |ticket| Completion::Done(ticket, Err(WorkError::Flushed));
        self.held.extend(self.outstanding.drain(..).map(flushed));
    }

    /// Takes what the inner queue pair has, as long as it can be held.
    fn refill(&mut self) {
        if self.cut || self.held.len() >= QUEUE_DEPTH {
            return;
        }
        let mut scratch = std::mem::replace(&mut self.scratch, Completions::new(0));
        self.inner.poll(&mut scratch);
        for mut completion in scratch.drain() {
            match &mut completion {
                Completion::Done(ticket, _) => self.completed(*ticket),
                Completion::Arrived { imm, .. } => {
                    *imm ^= u32::from(self.faults.garble_at == Some(self.arrivals));
                    self.arrivals += 1;
                }
                Completion::Message { .. } => {}
            }
            self.held.push_back(completion);
        }
        self.scratch = scratch;
    }
}

impl<Q: QueuePair> QueuePair for Faulty<Q> {
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        if self.cut {
            return Err(PostError::Broken);
        }
        let number = self.posts;
        self.posts += 1;
        if self.strikes(self.faults.full) {
            return Err(PostError::Full);
        }
        let cut_read = matches!(op, Op::Read { .. }) && self.strikes(self.faults.cut_reads);
        if cut_read || self.faults.cut_at == Some(number) {
            self.posted(ticket);
            self.cut();
            return Ok(());
        }
        self.inner.post(op, ticket)?;
        self.posted(ticket);
        Ok(())
    }

    fn poll(&mut self, done: &mut Completions) -> usize {
        self.refill();
        if self.pause > 0 {
            self.pause -= 1;
            return 0;
        }
        let room = done.room();
        while done.room() > 0 && !self.held.is_empty() {
            if self.faults.delay_polls > 0 && self.strikes(self.faults.delay) {
                self.pause = 1 + self.random.modulo(u64::from(self.faults.delay_polls)) as u32;
                break;
            }
            done.push(self.held.pop_front().expect("checked"));
        }
        room - done.room()
    }

    fn arm(&mut self) -> bool {
        !self.held.is_empty() || (!self.cut && self.inner.arm())
    }

    fn ready(&mut self) -> bool {
        !self.held.is_empty() || (!self.cut && self.inner.ready())
    }

    fn wait(&mut self, timeout: Duration) {
        if self.held.is_empty() && !self.cut {
            self.inner.wait(timeout)
        }
    }

    fn state(&self) -> Result<(), Broken> {
        match self.cut {
            true => Err(Broken::PeerLost("cut by an injected fault".into())),
            false => self.inner.state(),
        }
    }

    fn revoke(&mut self) -> Result<(), SetupError> {
        self.inner.revoke()?;
        self.forget_news();
        Ok(())
    }

    fn heed_fence(&mut self) {
        self.inner.heed_fence();
    }

    fn fence(&mut self) -> Result<(), SetupError> {
        self.inner.fence()?;
        self.forget_news();
        Ok(())
    }

    pass_through!(ring landing message release granted);

    fn describe(&self) -> String {
        format!("faulty {}", self.inner.describe())
    }
}
