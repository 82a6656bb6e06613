//! The leader's heart. It tells followers that the leader lives. Their acknowledgements tell it how long the
//! leader's own workers, and clients, may trust what they see (M6, M7).
//!
//! (1) No heartbeat is sent while a worker makes no progress (L21): then followers elect another leader. A
//!     replica without others does not renew its lease then.
//! (2) The leader's lease begins before the heartbeat is sent, and counts once a majority has the heartbeat.
//! (3) The heart vouches to clients from the moment on which the leader's lease rests, not from the present:
//!     a client's lease is as long as the leader's, and so ends with it.
//! (4) A follower that acknowledges nothing for long is let go.
//! (5) While the leader hands over (`node/hand_over.rs`), the heart lets the clients' leases run out, and
//!     then takes the followers' promises back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_fabric::{Completion, Completions, Op, QueuePair, Ticket};
use longarm_host::Pause;
use longarm_host::observe::{Observation as Seen, ReplicaStep, observe, reach};
use longarm_replica::page::{self, Beat, HeartbeatPayload};
use longarm_replica::{Event, Group, LeaderLease, LeaderState, Timing};
use longarm_wire::PAGE_REGION;

use crate::events::Events;
use crate::follower::Follower;
use crate::leader_term::LeaderTerm;
use crate::liveness::Liveness;

/// The number of heartbeats without an acknowledgement after which a follower is let go.
const UNANSWERED: usize = 64;
/// The ticket of the words that take a promise back.
const RELEASE: Ticket = Ticket(0);
/// The time between two looks at whether those words landed.
const RELEASING: Duration = Duration::from_micros(100);

/// The heart's connection to a follower.
struct Link<Q> {
    qp: Q,
    follower: Arc<Follower>,
    /// When each heartbeat that is not acknowledged was begun, and the floors that were sent with it.
    sent: VecDeque<(Nanos, Vec<u64>)>,
}

/// The heart of one term: its links to followers, and the lease that their acknowledgements renew.
struct Heart<'a, Q> {
    leader_term: &'a LeaderTerm<Q>,
    pause: &'a Pause,
    lease: LeaderLease,
    links: Vec<Link<Q>>,
    done: Completions,
}

/// Beats until stopped.
pub(crate) fn run<Q: QueuePair>(
    leader_term: &LeaderTerm<Q>,
    group: Group,
    timing: Timing,
    pause: &Pause,
    events: &Events,
) {
    let core = &leader_term.core;
    let mut liveness = Liveness::new(core);
    let lease = LeaderLease::new(group, &timing);
    let mut heart = Heart { leader_term, pause, lease, links: Vec::new(), done: Completions::new(64) };
    let (mut number, mut vouched) = (0, Nanos(0));
    let every = Duration::from_nanos(timing.heartbeat.0);
    let alone = group.others().next().is_none();
    loop {
        for (qp, follower) in leader_term.hearts.take() {
            heart.links.retain(|link| link.follower.replica != follower.replica);
            heart.links.push(Link { qp, follower, sent: VecDeque::new() });
        }
        let times = core.timestamps();
        let alive = liveness.made(core, times.now);
        if alive {
            number += 1;
            leader_term.set_beat(times.now);
            let stable = core.engine.stable_point();
            core.engine.store.set_stable(stable);
            let (items, unix) = (core.engine.index.items(), times.unix.0);
            let ages = core.sessions.ages(times.now).map(|it| page::age_word(it.csn, it.age));
            let told = HeartbeatPayload { stable: stable.0, items, unix, ages };
            for link in &mut heart.links {
                link.send(Beat::new(leader_term.term, number), told, times.now);
            }
        }
        heart.take_acknowledgements();
        let now = core.timestamps();
        let lapses = alone && !alive;
        let renewed = if lapses { Nanos(0) } else { heart.lease.renewed(now.now) };
        let mut state = leader_term.state.lock();
        if let LeaderState::Releasing { to, .. } = *state {
            core.set_lease(Nanos(0));
            observe(|| Seen::HandedOver { term: leader_term.term });
            drop(state);
            let unix = page::calendar_at_end(core.timestamps().unix.0, &timing);
            if heart.release(to, unix) {
                events.push(Event::ReleaseDone(leader_term.term));
            }
            return;
        }
        if renewed > Nanos(0) {
            observe(|| {
                let by = heart.lease.backers(renewed).collect();
                Seen::Leased { renewed, end: heart.lease.end(now.now), by }
            });
            core.set_lease(heart.lease.end(now.now));
        }
        if !state.vouches() {
            // Clients' clocks may be slow, but by less than the part of the promise that is not the leader's.
            state.leases_end(vouched + timing.promise);
        } else if renewed > Nanos(0) {
            core.vouch(renewed, now);
            vouched = renewed;
        }
        drop(state);
        if !pause.sleep(every) {
            return;
        }
    }
}

impl<Q: QueuePair> Heart<'_, Q> {
    /// Takes what followers acknowledged. A follower whose connection is gone is let go.
    fn take_acknowledgements(&mut self) {
        self.links.retain_mut(|link| {
            let alive = link.poll(&mut self.done, &mut self.lease) && !link.follower.is_gone();
            if !alive {
                link.follower.let_go();
            }
            alive
        });
    }

    /// Takes back what followers promised, each after the last heartbeat that it was sent: the leader's lease
    /// is ended. Returns `true` when the transferee has it, or all followers that are left; `false` if the
    /// heart is stopped before that, which has a bound.
    fn release(&mut self, transferee: ReplicaId, unix: u64) -> bool {
        self.links.iter_mut().for_each(|link| link.release(self.leader_term.term, unix));
        loop {
            self.links.retain_mut(|link| link.poll(&mut self.done, &mut self.lease));
            let landed = |link: &Link<Q>| link.sent.is_empty();
            let awaited = self.links.iter().find(|link| link.follower.replica == transferee);
            // The transferee may be this replica itself: then all followers are to have it.
            if awaited.map_or_else(|| self.links.iter().all(landed), landed) {
                return true;
            }
            if !self.pause.sleep(RELEASING) {
                return false;
            }
        }
    }
}

impl<Q: QueuePair> Link<Q> {
    /// Takes the follower's promise back. If the connection does not take the words, the follower waits until
    /// its promise runs out.
    fn release(&mut self, term: Term, unix: u64) {
        for (offset, word) in [(page::UNIX, unix), (page::RELEASED, term.bits())] {
            let op = Op::Write { region: PAGE_REGION, offset, bytes: &word.to_le_bytes() };
            if self.qp.post(op, RELEASE).is_err() {
                return;
            }
            self.sent.push_back((Nanos(RELEASE.0), Vec::new()));
            self.qp.ring();
        }
    }

    fn send(&mut self, beat: Beat, told: HeartbeatPayload, now: Nanos) {
        if self.sent.len() >= UNANSWERED {
            return self.follower.let_go();
        }
        let floors = self.follower.progress().told_floors();
        reach(ReplicaStep::Beating);
        if !self.follower.is_kept() {
            // It may have left with less than these floors.
            return;
        }
        let bytes = page::heartbeat(beat, told, &floors);
        let op = Op::Write { region: PAGE_REGION, offset: page::BEAT, bytes: &bytes };
        match self.qp.post(op, Ticket(now.0)) {
            Ok(()) => self.sent.push_back((now, floors)),
            Err(_) => return self.follower.let_go(),
        }
        self.qp.ring();
    }

    /// Takes completions. Returns `false` if the connection is gone.
    fn poll(&mut self, done: &mut Completions, lease: &mut LeaderLease) -> bool {
        while self.qp.poll(done) > 0 {
            for completion in done.drain() {
                match completion {
                    Completion::Done(ticket, Ok(_)) => {
                        if let Some((_, floors)) = self.sent.pop_front() {
                            self.follower.set_floors(&floors);
                        }
                        lease.renew(self.follower.replica, Nanos(ticket.0));
                    }
                    _ => return false,
                }
            }
        }
        self.qp.state().is_ok()
    }
}
