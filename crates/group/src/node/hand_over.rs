//! The hand-over of a leader on an operator's order, or because its replica is to end (`leave.rs`): what the
//! machine of `longarm_replica` wants done (`machine/transfer.rs` there), and what the operator is told.
//!
//! The heart lets the clients' leases run out first. Until then the leader serves as ever, a client without a
//! lease by requests. The gap in which no write is served begins when the leader holds writes, and ends when
//! the transferee serves.

use std::time::Duration;

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_fabric::{Address, Transport};
use longarm_host::observe::{Observation as Seen, ReplicaStep, observe, reach};
use longarm_host::{now, sleep};
use longarm_replica::{ChangeRequest, Event, LeaderState, RoleKind};
use longarm_wire::{Deny, Members, OperatorReply, Order, Stay};

use super::Node;
use super::leader_handle::LeaderHandle;
use super::transfer::LeaderTransfer;
use crate::inbound::PeerRequests;

/// The number of operators that the replica listens to. If more come, those that came first are dropped.
const LISTENED: usize = 8;
/// The time between two looks at whether connections are closed.
const CLOSING: Duration = Duration::from_micros(100);

impl<T: Transport> Node<T> {
    /// Takes the orders that have come, and goes on with the hand-over that is under way.
    pub(super) fn hear_operators(&mut self) {
        self.operators.extend(self.inbound.new_operators());
        let many = self.operators.len().saturating_sub(LISTENED);
        self.operators.drain(..many);
        let mut at = 0;
        while at < self.operators.len() {
            match self.operators[at].hear(&mut self.done, &self.channel, Order::decode) {
                Ok(orders) => match orders.first() {
                    None => at += 1,
                    Some(order) => {
                        let (asker, order) = (self.operators.swap_remove(at), order.clone());
                        self.obey(asker, order);
                    }
                },
                Err(why) => {
                    self.operators.swap_remove(at);
                    if !why.is_empty() {
                        self.log(&format!("an operator was dropped: {why}"));
                    }
                }
            }
        }
        self.go_on_handing_over();
    }

    fn obey(&mut self, mut asker: PeerRequests<T::Qp>, order: Order) {
        if order == Order::Recall {
            let reply = self.recall();
            asker.say(&reply.encode());
            return self.operators.push(asker);
        }
        let nowhere = matches!(&order, Order::Add { member } if member.address.parse::<Address>().is_err());
        if self.machine.kind() == RoleKind::Leader && self.transfer.is_none() && !nowhere {
            let event = match order {
                Order::MoveLeader { to } => Event::HandOver(to),
                Order::Add { member } => Event::ChangeMembers(ChangeRequest::Add(member)),
                Order::Remove { replica } => Event::ChangeMembers(ChangeRequest::Remove(replica)),
                Order::Recall => Event::Recall,
            };
            return self.begin(Some(asker), event);
        }
        let reply = match self.machine.kind() {
            RoleKind::Leader if nowhere => OperatorReply::Denied(Deny::Nowhere),
            RoleKind::Leader if matches!(order, Order::MoveLeader { .. }) => OperatorReply::Stays(Stay::Busy),
            RoleKind::Leader => OperatorReply::Denied(Deny::Busy),
            _ => OperatorReply::Elsewhere { leader: self.inbound.leader() },
        };
        asker.say(&reply.encode());
        self.operators.push(asker);
    }

    /// Begins what an operator ordered, or what this replica's end needs: notes it, and tells the machine.
    pub(super) fn begin(&mut self, asker: Option<PeerRequests<T::Qp>>, event: Event) {
        let (to, until, changes) = match event {
            Event::HandOver(to) => (to, self.handed_over_by(), false),
            // The machine bounds how long a change of the members takes.
            _ => (self.group().me(), Nanos(u64::MAX), true),
        };
        self.transfer = Some(LeaderTransfer::new(asker, to, changes, until));
        self.handle(event);
    }

    /// When the replica gives up waiting to hear of another leader.
    fn handed_over_by(&self) -> Nanos {
        let timing = &self.group_options.timing;
        now() + timing.promise + timing.promise + Nanos(4 * timing.election.0)
    }

    /// Tells the operator that the replicas stay as they are.
    pub(super) fn deny(&mut self, why: Deny) {
        self.log(&format!("the replicas stay as they are: {why:?}"));
        self.reply(|_| OperatorReply::Denied(why));
    }

    /// Notes that the replicas agreed: the next term has these members.
    pub(super) fn agreed(&mut self, members: Members) {
        observe(|| Seen::Agreed { term: members.term, members: members.replicas() });
        let names: Vec<_> = members.list.iter().map(|member| member.replica.to_string()).collect();
        self.log(&format!("agreed: the replicas are {} from the next term on", names.join(", ")));
        if let Some(transfer) = &mut self.transfer {
            transfer.next = Some(members);
        }
    }

    /// Tells an operator that waits that this replica serves. It may have handed over to itself.
    pub(super) fn serves_again(&mut self, term: Term) {
        let me = self.group().me();
        self.served_by(me, term, now());
    }

    fn served_by(&mut self, leader: ReplicaId, term: Term, served: Nanos) {
        self.reply(|transfer| {
            let gap = served.since(transfer.held.unwrap_or(served));
            match transfer.next.clone() {
                Some(members) => OperatorReply::Changed { members, leader, gap: Some(gap) },
                // The term ended before the replicas agreed on other members.
                None if transfer.changes => OperatorReply::Unheard,
                None => OperatorReply::Moved { leader, term, gap },
            }
        });
    }

    /// Begins to hand over to a replica: from now on the clients' leases run out.
    pub(super) fn drain(&mut self, to: ReplicaId) {
        let until = self.handed_over_by();
        let Some(leader) = &self.leading else { return };
        let begun = || LeaderTransfer::new(None, to, true, until);
        let transfer = self.transfer.get_or_insert_with(begun);
        (transfer.to, transfer.until) = (to, until);
        leader.term.state.lock().wind_down();
        reach(ReplicaStep::Draining);
        self.log(&format!("replica {to} is to lead: waiting for clients' leases to end"));
    }

    /// Ends the hand-over: this replica leads on.
    pub(super) fn stay(&mut self, why: Stay) {
        if let Some(leader) = &self.leading {
            leader.term.state.lock().stay();
            leader.term.core.hold_writes(false);
        }
        match &mut self.transfer {
            // The machine tries again: a term with the other members is to begin.
            Some(transfer) if transfer.next.is_some() => transfer.held = None,
            _ => self.reply(|_| OperatorReply::Stays(why)),
        }
    }

    /// Has the heart end the leader's lease and take the followers' promises back.
    pub(super) fn release(&mut self, to: ReplicaId) {
        let Some(leader) = &self.leading else { return };
        leader.term.state.lock().release(to);
        leader.heart_pause.poke();
        self.transferee = Some((leader.term.term, to));
        self.log(&format!("replica {} hands over to replica {to}", self.group().me()));
    }

    /// Waits until no connection to a follower's memory is open. A fence would have to revoke an open one.
    pub(super) fn await_closed(&self, leader: &LeaderHandle<T::Qp>) {
        let until = now() + self.group_options.timing.suspect;
        leader.term.hearts.close();
        while leader.term.is_attended() && now() < until {
            sleep(CLOSING);
        }
    }

    /// The replica that most likely leads: the transferee of the promised term, if this replica has handed
    /// that term over; else the replica to which the promised term belongs.
    pub(super) fn likely_leader(&self) -> Option<ReplicaId> {
        let promised = self.machine.promised();
        let transferee =
            self.transferee.filter(|(term, _)| *term == promised).map(|(_, transferee)| transferee);
        transferee.or_else(|| (promised != Term::ZERO).then_some(promised.leader()))
    }

    /// Notes that a leader says for how long it has served.
    pub(super) fn heard_of_leader(&mut self, replica: ReplicaId, term: Term, since: Nanos) {
        if term.leader() != replica || term < self.machine.promised() || self.leading.is_some() {
            return;
        }
        let served = Nanos(now().0.saturating_sub(since.0));
        self.served_by(replica, term, served);
    }

    fn reply(&mut self, reply: impl FnOnce(&LeaderTransfer<T::Qp>) -> OperatorReply) {
        let Some(mut transfer) = self.transfer.take() else { return };
        let reply = reply(&transfer);
        let Some(mut asker) = transfer.asker.take() else { return };
        asker.say(&reply.encode());
        self.operators.push(asker);
    }

    fn go_on_handing_over(&mut self) {
        let now = now();
        let by = self.handed_over_by();
        let Some(transfer) = &mut self.transfer else { return };
        let Some(leader) = &self.leading else {
            transfer.until = transfer.until.min(by);
            let me = self.machine.group().me();
            if let Some(members) = transfer.next.clone().filter(|next| !next.has(me)) {
                // No leader tells this replica anything any more: it is no member of the next term.
                let leader = transfer.to;
                return self.reply(|_| OperatorReply::Changed { members, leader, gap: None });
            }
            if now >= transfer.until {
                self.reply(|_| OperatorReply::Unheard);
            }
            // The term may have ended in another way than by handing over.
            else if transfer.held.is_none() {
                transfer.held = Some(now);
            }
            return;
        };
        let began = leader.term.state.lock().drain(now);
        if began {
            leader.term.core.hold_writes(true);
            transfer.held = Some(now);
        }
        if !matches!(*leader.term.state.lock(), LeaderState::Draining { .. }) {
            return;
        }
        let itself = transfer.to == self.machine.group().me();
        if leader.is_drained() && (itself || leader.has_all(transfer.to)) {
            let term = leader.term.term;
            return self.handle(Event::Drained(term));
        }
        // The transferee may still have segments to release.
        if let Some(peer) = self.peers.get(&transfer.to) {
            peer.commands.pause.poke();
        }
    }
}
