//! The disk of a replica, in the terms that it leads and in those that it follows.

use longarm_base::{Mutant, ReplicaId, Term};
use longarm_fabric::{Channel, Transport};
use longarm_host::observe::{Observation as Seen, observe};
use longarm_replica::{Event, KeptMemory, RoleKind};
use longarm_wire::Answer;

use super::Node;
use crate::common::Core;
use crate::durable::follow::{FollowHandle, FollowSeed};
use crate::durable::scribe::{self, Begun};
use crate::log::Notice;

impl<T: Transport> Node<T> {
    /// Has the disk ready for a term that this replica leads, if the replica has one.
    pub(super) fn begin_disk(&mut self, term: Term, core: &Core) -> Result<Option<Begun>, String> {
        let others = self.group().others().next().is_some();
        let (Some(durable), Some(disk)) = (&self.group_options.durable, &self.disk) else { return Ok(None) };
        let worth = || !self.stop.is_stopped();
        let mut kept = disk.take(worth)?;
        let failed = |error| {
            disk.slot.fail();
            format!("{error}")
        };
        disk.slot.tell(&mut kept).map_err(failed)?;
        let desk = others.then(Channel::new).transpose().map_err(|error| error.to_string())?;
        let group = self.group();
        let begun = scribe::begin(kept, durable, term, core, group, desk).map_err(failed)?;
        disk.slot.set_settled(term, disk.slot.prepared());
        Ok(Some(begun))
    }

    /// What the file has of a term that was followed is to be left at that: the memory is about to change.
    pub(super) fn rest_disk(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        disk.waits = None;
        disk.follows.iter().for_each(FollowHandle::stop);
    }

    /// A leader is about to write the memory.
    pub(super) fn prepare_disk(&mut self, kept: KeptMemory) {
        self.rest_disk();
        let Some(disk) = &mut self.disk else { return };
        disk.is_loaded = false;
        disk.slot.prepare(matches!(kept, KeptMemory::Other | KeptMemory::Nothing));
    }

    /// The memory has lost what these streams of a term had from here on.
    pub(super) fn cut_disk(&self, term: Term, cuts: &[u64]) {
        if let Some(disk) = &self.disk {
            disk.slot.cut(term, cuts);
        }
    }

    /// The memory holds what the leader of the term has: the disk is to follow.
    pub(super) fn disk_to_follow(&mut self, term: Term) {
        let address = self.peer_address(term.leader());
        let Some(disk) = &mut self.disk else { return };
        if disk.began.take() == Some(term) {
            observe(|| Seen::Adopted { term });
        }
        let Some(address) = address else { return };
        // The thread of an earlier term ends now, if it has not yet.
        disk.follows = None;
        let seed = FollowSeed {
            term,
            durability: disk.durability,
            scrubbing: disk.scrubbing,
            arena: self.arena.clone(),
            page: self.page.memory().clone(),
            prepared: disk.slot.prepared(),
            slot: disk.slot.clone(),
            connect: Box::new(move || address.disk(term)),
            replica: self.channel.clone(),
            log: self.options.log.clone(),
        };
        match FollowHandle::start(seed) {
            Ok(handle) => disk.follows = Some(handle),
            Err(error) => self.log(&format!("its disk does not follow: {error}")),
        }
    }

    /// Whether what the memory holds of a term was read from the disk.
    pub(super) fn began_from_disk(&self, term: Term) -> bool {
        let began = self.disk.as_ref().is_some_and(|disk| disk.began == Some(term));
        began && !Mutant::ClaimAcked.is_on()
    }

    /// Says that this replica is in sync, once its disk is, if it has one. What a leader serves is then on
    /// the disks of a majority, up to the writes of its term: no older disk is taken for the newest (D1, D6).
    pub(super) fn say_synced(&mut self, leader: ReplicaId, term: Term) {
        if let Some(disk) = &mut self.disk
            && !Mutant::SyncedInMemory.is_on()
        {
            disk.waits = Some((leader, term));
            return self.hear_disk();
        }
        self.answer_synced(leader, term);
    }

    /// Tells who waits for it that the disk has the start set.
    pub(super) fn hear_disk(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        if let Some((leader, term)) = disk.waits.filter(|(_, term)| disk.slot.follows(*term)) {
            disk.waits = None;
            self.answer_synced(leader, term);
        }
    }

    /// Says so to the leader, which counts this replica from now on, and to whoever reads the log.
    fn answer_synced(&mut self, leader: ReplicaId, term: Term) {
        self.answer(leader, &Answer::Synced { term });
        let me = self.group().me();
        self.tell_of(Notice::InSync, &format!("replica {me} is in sync in term {term}"));
    }

    /// A leader whose disk failed lets another lead, if one can.
    pub(super) fn leave_a_failed_disk(&mut self) {
        let failed = |core: &Core| core.disk.as_ref().is_some_and(|disk| disk.has_failed());
        let has = self.leading.as_ref().is_some_and(|leader| failed(&leader.term.core));
        if has
            && self.transfer.is_none()
            && self.machine.kind() == RoleKind::Leader
            && let Some(to) = self.nearest()
        {
            self.begin(None, Event::HandOver(to));
        }
    }

    /// Ends the scribe of a term that this replica led. Its file is there for the next one.
    pub(super) fn end_disk(&mut self, scribe: Option<scribe::ScribeHandle>) {
        let (Some(disk), Some(mut scribe)) = (&self.disk, scribe) else { return };
        match scribe.end() {
            Some(kept) => disk.slot.put(kept),
            None => disk.slot.fail(),
        }
    }
}
