//! A leader hands over: what it waits for, and the word by which it takes promises back.

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::MemberAt;

use super::{LeaderTerm, Rules, Stage, Write, id};
use crate::machine::tests::member;
use crate::machine::tests::twin::world::{Node, TIMING, World};
use crate::{ChangeRequest, Event, RoleKind};

/// The state of a hand-over.
pub struct Drain {
    to: usize,
    /// Whether clients' leases are over, and no new write is taken.
    holds: bool,
    /// Whether its own lease is ended.
    released: bool,
    /// The number of followers that may not have heard so yet.
    left: usize,
}

impl LeaderTerm {
    /// Whether it may show what it sees, as far as its lease goes.
    pub fn keeps_lease(&self, rules: &Rules) -> bool {
        !rules.own_lease_ended || self.drain.as_ref().is_none_or(|drain| !drain.released)
    }

    pub fn holds_writes(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.holds)
    }
}

impl World {
    /// Asks a leader, or a replica that may be one, to hand over.
    pub fn operate(&mut self) {
        let leads = |replica: &Node| replica.machine.kind() == RoleKind::Leader;
        let Some(replica) = self.replicas.iter().position(leads).filter(|&replica| self.acts(replica)) else {
            return;
        };
        let to = self.dice.pick(self.replicas.len() + 1);
        if self.changes && self.dice.hundred(60) {
            return self.want(replica, to);
        }
        self.tell(replica, Event::HandOver(id(to)));
    }

    /// Asks for one replica more or one less, if the group can bear it.
    fn want(&mut self, replica: usize, other: usize) {
        let own = self.replicas[replica].machine.own();
        let lost = |member: &MemberAt| self.replicas[usize::from(member.replica.0)].lost;
        let request = match own.has(id(other)) {
            true => ChangeRequest::Remove(id(other)),
            false => ChangeRequest::Add(member(other as u8)),
        };
        let left: Vec<_> = own.list.iter().filter(|it| it.replica != id(other)).cloned().collect();
        if left.iter().filter(|it| lost(it)).count() <= left.len().saturating_sub(1) / 2
            && other < self.replicas.len()
        {
            self.tell(replica, Event::ChangeMembers(request));
        }
    }

    /// Vouches to clients by the moment that the lease rests on; their clocks may be slow.
    pub fn vouch(&mut self, replica: usize) {
        let (now, clock) = (self.local(replica), self.replicas[replica].clock);
        let Some(leader_term) =
            self.replicas[replica].leader_term.as_mut().filter(|leader_term| leader_term.drain.is_none())
        else {
            return;
        };
        let renewed = leader_term.lease.renewed(now);
        if renewed > Nanos(0) && leader_term.serves {
            leader_term.vouched = renewed;
            let length = self.rules.lease_timing().lease().0;
            self.judge.vouches(leader_term.term, clock.real(renewed) + length / 99 * 100);
        }
    }

    pub fn begin_drain(&mut self, replica: usize, to: ReplicaId) {
        let Some(leader_term) = &mut self.replicas[replica].leader_term else { return };
        leader_term.drain = Some(Drain { to: usize::from(to.0), holds: false, released: false, left: 0 });
    }

    pub fn end_drain(&mut self, replica: usize) {
        if let Some(leader_term) = &mut self.replicas[replica].leader_term {
            leader_term.drain = None;
        }
    }

    /// Goes on with a drain.
    pub fn drain(&mut self, replica: usize) {
        let now = self.local(replica);
        let awaited = self.rules.readers_awaited;
        let memory = &self.replicas[replica].memory;
        let Some(leader_term) = &self.replicas[replica].leader_term else { return };
        let Some(drain) = leader_term.drain.as_ref().filter(|drain| !drain.released) else { return };
        let (term, to) = (leader_term.term, drain.to);
        let synced = leader_term.attached.get(&to).is_some_and(|other| matches!(other.stage, Stage::Synced));
        let itself = to == replica;
        let has = leader_term.gates.iter().enumerate().all(|(stream, gate)| {
            let written = memory.len(term, stream);
            gate.clone().committed(written) == written && (itself || gate.acked(id(to)) == written)
        });
        let over = now >= leader_term.vouched + TIMING.promise || !awaited;
        let drained = drain.holds && (synced || itself) && has;
        if let Some(drain) =
            self.replicas[replica].leader_term.as_mut().and_then(|leader_term| leader_term.drain.as_mut())
        {
            drain.holds |= over;
        }
        if drained {
            self.tell(replica, Event::Drained(term));
        }
    }

    pub fn release(&mut self, replica: usize, term: Term, to: ReplicaId) {
        let ended = self.rules.own_lease_ended;
        let Some(leader_term) = &mut self.replicas[replica].leader_term else { return };
        let Some(drain) = &mut leader_term.drain else { return };
        drain.released = true;
        leader_term.next_beat = Nanos(u64::MAX);
        let open = leader_term.attached.values().filter(|attached| !matches!(attached.stage, Stage::Asked));
        let conns: Vec<usize> = open.map(|attached| attached.conn).collect();
        drain.left = conns.len();
        self.judge.releases(term, to, ended);
        if conns.is_empty() {
            self.tell(replica, Event::ReleaseDone(term));
        }
        conns.into_iter().for_each(|conn| self.post(conn, Write::Release));
    }

    /// Notes that the release landed on a follower, or cannot.
    pub fn released(&mut self, replica: usize, follower: usize) {
        let Some(leader_term) = &mut self.replicas[replica].leader_term else { return };
        let Some(drain) = &mut leader_term.drain else { return };
        drain.left = drain.left.saturating_sub(1);
        if drain.to == follower || drain.to == replica && drain.left == 0 {
            let term = leader_term.term;
            self.tell(replica, Event::ReleaseDone(term));
        }
    }
}
