//! The members of the group, as this replica is told of them. It has a thread for each other member that
//! speaks with it, for as long as that replica is a member or is to become one.

use std::sync::Arc;

use longarm_base::{Mutant, Nanos, ReplicaId, Term};
use longarm_fabric::{Address, Transport};
use longarm_host::observe::{Observation as Seen, ReplicaStep, observe, reach};
use longarm_replica::{Event, Machine};
use longarm_wire::{MemberAt, Members};

use super::Node;
use super::peer_handle::PeerHandle;
use crate::common::group_times;
use crate::peer::PATIENCE;
use crate::peer::Peer;
use crate::peer_channel::PeerAddress;
use crate::peer_commands::PeerCommands;
use crate::threads::spawn;
use crate::vote_store::Promise;

/// The replicas that the group has, or is to have, as far as this replica knows; some more than once.
fn known(machine: &Machine) -> impl Iterator<Item = &MemberAt> {
    let next = machine.change().map(|change| &change.next.list);
    [&machine.members().list, &machine.own().list].into_iter().chain(next).flatten()
}

impl<T: Transport> Node<T> {
    /// What the vote store is to keep, with this term and these members.
    pub(super) fn to_keep(&self, term: Term, members: Members) -> Promise {
        // What is in memory alone is not kept: if it is lost, a founder is all that the replica still is.
        let start = self.disk.as_ref().map_or(self.machine.sync(), |disk| Some(disk.slot.settled()));
        let keeps_later = start.is_some_and(|term| term > Term::ZERO) || Mutant::ForgetFounders.is_on();
        let founders = if keeps_later { Vec::new() } else { self.machine.founders() };
        Promise { term, boot: self.boot, members, origin: self.origin, founders }
    }

    /// Writes a set of members to disk, beside the promise.
    pub(super) fn keep(&mut self, members: Members) -> Event {
        let promise = self.to_keep(self.machine.promised(), members);
        reach(ReplicaStep::Keeping);
        match self.group_options.vote_store.store(&promise) {
            Ok(()) => {
                let members = &promise.members;
                observe(|| Seen::Kept { term: members.term, members: members.replicas() });
                Event::Kept(promise.members)
            }
            Err(error) => {
                self.log(&format!("who the replicas are cannot be kept: {error}"));
                Event::Unkept
            }
        }
    }

    /// The address of a replica, as far as this one knows it.
    pub(super) fn address_of(&self, replica: ReplicaId) -> Option<Address> {
        match known(&self.machine).find(|member| member.replica == replica) {
            Some(member) => member.address.parse().ok(),
            None => self.group_options.address_of(replica).cloned(),
        }
    }

    pub(super) fn peer_address(&self, replica: ReplicaId) -> Option<PeerAddress<T>> {
        Some(PeerAddress {
            transport: self.transport.clone(),
            group: self.group_options.id,
            me: self.group().me(),
            address: self.address_of(replica)?,
            login: self.login.clone(),
            own: (group_times(&self.group_options, &self.options), self.life),
            timeout: std::time::Duration::from_nanos(self.group_options.timing.election.0.max(50_000_000)),
        })
    }

    /// Starts and stops threads so that there is one for each known replica but this one, and for no other
    /// replica.
    pub(super) fn update_peers(&mut self) {
        let (machine, me) = (&self.machine, self.group().me());
        let is = |replica: &ReplicaId, it: &PeerHandle<T::Qp>| {
            known(machine).any(|member| member.replica == *replica && member.address == it.address)
        };
        let gone = self.peers.extract_if(.., |replica, it| !is(replica, it));
        for (replica, peer) in gone {
            peer.commands.pause.stop();
            self.retired_peers.push((replica, peer.thread));
        }
        for (_, thread) in self.retired_peers.extract_if(.., |(_, thread)| thread.is_over()) {
            let _ = thread.join();
        }
        // A thread that has not ended yet may still attend to its replica: what it does then must not be
        // taken for what the next one does.
        let ends = |replica: ReplicaId| self.retired_peers.iter().any(|(retired, _)| *retired == replica);
        let new = |member: &&MemberAt| {
            let known = member.replica == me || self.peers.contains_key(&member.replica);
            !known && !ends(member.replica)
        };
        let new: Vec<MemberAt> = known(machine).filter(new).cloned().collect();
        for member in new {
            // The member may be in several of the sets.
            if !self.peers.contains_key(&member.replica) {
                self.meet(member);
            }
        }
    }

    fn meet(&mut self, member: MemberAt) {
        let (replica, commands) = (member.replica, Arc::<PeerCommands<T::Qp>>::default());
        let Some(address) = self.peer_address(replica) else {
            return self.log(&format!(
                "replica {replica} cannot be reached: what is its address, {}?",
                member.address
            ));
        };
        let peer = Peer {
            address,
            replica,
            commands: commands.clone(),
            events: self.events.clone(),
            patience: PATIENCE,
            log: self.options.log.clone(),
            channel: None,
            open: 0,
            told: Nanos(0),
        };
        match spawn(&format!("longarm-peer-{replica}"), move || peer.run()) {
            Ok(thread) => {
                if let Some(leader) =
                    self.leading.as_ref().filter(|leader| leader.term.state.lock().is_formed())
                {
                    commands.keep_caught_up(Some(leader.term.clone()));
                }
                self.peers.insert(replica, PeerHandle { commands, address: member.address, thread });
            }
            Err(error) => self.log(&format!("replica {replica} cannot be spoken with: {error}")),
        }
    }

    /// Ends the threads of all peers.
    pub(super) fn part_with_all(&mut self) {
        let all: Vec<_> = std::mem::take(&mut self.peers).into_values().collect();
        all.iter().for_each(|peer| peer.commands.pause.stop());
        let retired = self.retired_peers.drain(..).map(|(_, thread)| thread);
        for thread in all.into_iter().map(|peer| peer.thread).chain(retired) {
            let _ = thread.join();
        }
    }
}
