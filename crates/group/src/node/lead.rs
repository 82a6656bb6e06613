//! The term of a replica that leads: from the start set to workers that serve, and to the end of the term.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Mutant, Nanos, Term, UnixMillis};
use longarm_engine::recover::Standby;
use longarm_engine::session::{ToldAges, VersionAge};
use longarm_fabric::Transport;
use longarm_host::observe::{Observation as Seen, ReplicaStep as Now, observe, reach};
use longarm_host::{Pause, now, sleep};
use longarm_memory::{Mapped, OwnedWords, Words};
use longarm_replica::page;
use longarm_replica::{Event, StartSet};

use longarm_index::control::ServerState;

use super::Node;
use super::leader_handle::LeaderHandle;
use super::recall;
use crate::common::{Core, CoreOptions, Phase, TermStart};
use crate::durable::desk::DeskHandle;
use crate::durable::scribe::{Begun, ScribeHandle};
use crate::follower::SharedReleases;
use crate::heart;
use crate::inbound::DeskDoor;
use crate::inbox::Inbox;
use crate::install::{self, Tail};
use crate::keys::Keys;
use crate::leader_term::{InstalledSet, LeaderTerm, StreamHandle};
use crate::log::Notice;
use crate::options::StartError;
use crate::peer::PATIENCE;
use crate::peer_channel::Patience;
use crate::peer_commands::Installation;
use crate::replicate::{Arrivals, Replicator};
use crate::service::{NewTerm, Replication};
use crate::takeover::Step;
use crate::threads::spawn;

impl<T: Transport> Node<T> {
    pub(super) fn install(&mut self, start: &StartSet) -> Event {
        let began = now();
        observe(|| {
            let cuts = start.cuts.iter().map(|cut| cut.len).collect();
            let members = self.group().members().iter().collect();
            let &StartSet { term, base, mixed, disk, .. } = start;
            let disk = disk.map(|disk| disk.stable);
            Seen::Installing { term, base, cuts, mixed, disk, members }
        });
        let every = Nanos(self.group_options.timing.suspect.0 / 2);
        let until = began + self.machine.installation_limit();
        self.tell_of_installation(Some(Installation { term: start.term, every, until }));
        let installed = self.try_install(start);
        self.tell_of_installation(None);
        match installed {
            Ok(()) => {
                observe(|| Seen::Adopted { term: start.term });
                let items = self.leading.as_ref().map_or(0, |leader| leader.term.core.engine.index.items());
                let took = now().since(began).0 / 1000;
                let text = format!("term {}: the start set is here, {items} items, {took} us", start.term);
                self.tell_of(Notice::StartSet, &text);
                Event::Installed(start.term)
            }
            Err(error) => {
                self.log(&format!("term {}: the start set cannot be had: {error}", start.term));
                Event::NotInstalled(start.term)
            }
        }
    }

    fn tell_of_installation(&self, installation: Option<Installation>) {
        self.peers.values().for_each(|peer| peer.commands.tell_of_installation(installation));
    }

    fn try_install(&mut self, start: &StartSet) -> Result<(), String> {
        let me = self.group().me();
        self.ceiling = recall::ceiling(self.ceiling, self.page.memory(), start.disk);
        if start.disk.is_some() {
            self.scan = None;
            self.go_by_disk()?;
        }
        let worth = || !self.stop.is_stopped();
        let scan = self.scan.take();
        let patience = Patience { limit: PATIENCE, worth: &worth };
        let tail =
            install::complete(&self.arena, scan, start, me, |replica| self.peer_address(replica), patience)
                .map_err(|why| why.to_string())?;
        let cuts: Vec<u64> = start.cuts.iter().map(|cut| cut.len).collect();
        self.cut_disk(start.base, &cuts);
        // A standby index goes by the lines, and does not know what else of its entries is gone.
        let whole = tail.whole && start.disk.is_none();
        let standby = self.standby.take(&self.arena.sums, whole.then_some((start.base, &cuts)));
        let unix = if Mutant::OwnCalendar.is_on() { 0 } else { start.unix };
        let mut core = self.new_core(start.term, unix, standby).map_err(|error| error.to_string())?;
        reach(Now::Restored);
        let disk = self.begin_disk(start.term, &core)?;
        core.disk = disk.as_ref().map(|begun| begun.gate.clone());
        self.disk.iter_mut().for_each(|disk| disk.is_loaded = false);
        self.start_term(start, tail, Arc::new(core), disk).map_err(|error| error.to_string())
    }

    /// The options of the core of any term.
    pub(super) fn term_options(&self) -> CoreOptions {
        let lease = Duration::from_nanos(self.group_options.timing.lease().0);
        CoreOptions { lease, ..self.options.clone() }
    }

    /// The core of a term, over the start set. `told` is the highest calendar of a leader that a
    /// reporting replica was told.
    fn new_core(&self, term: Term, told: u64, standby: Option<Standby<Mapped>>) -> Result<Core, StartError> {
        let keys = Keys { sum: self.group_options.sum_key, hash: self.group_options.hash_key };
        let items = self.page.memory().load(page::ITEMS);
        // An item that an earlier leader told a client was gone had expired by that leader's calendar, while
        // a majority had renewed its lease: at most a promise after the highest time that any majority was
        // told.
        let promise = self.group_options.timing.promise_millis();
        let calendar = UnixMillis(if told == 0 { 0 } else { told.saturating_add(promise + 1) });
        let start = TermStart { term, items, calendar, ages: self.told_ages(), ceiling: self.ceiling };
        Core::of_term(self.term_options(), self.lent.clone(), keys, start, standby)
    }

    /// What a leader told of the ages of versions, perhaps this replica itself.
    pub(super) fn told_ages(&self) -> ToldAges {
        page::AGES.map(|at| {
            let (csn, age) = page::age_of(self.page.memory().load(at));
            VersionAge { csn, age }
        })
    }

    fn start_term(
        &mut self,
        start: &StartSet,
        tail: Tail,
        core: Arc<Core>,
        disk: Option<Begun>,
    ) -> Result<(), StartError> {
        core.enter(Phase::Forming, Nanos(u64::MAX));
        let arrivals: Vec<_> = (0..self.streams()).map(|_| Arc::<Arrivals<T::Qp>>::default()).collect();
        let replicators = arrivals.iter().map(|arrivals| {
            let replicator = Replicator::new(self.arena.clone(), self.group(), arrivals.clone());
            replicator.with_disk(core.disk.clone())
        });
        let releases = Arc::<SharedReleases>::default();
        if disk.is_some() {
            releases.lock().join(self.group().me());
        }
        let term = NewTerm {
            core: core.clone(),
            replication: Replication { streams: replicators.collect(), releases: releases.clone() },
            standing: self.told.clone(),
        };
        let wakers = self.service.begin(term)?;
        let streams = arrivals.into_iter().zip(wakers);
        let streams = streams.map(|(arrivals, waker)| StreamHandle { arrivals, waker }).collect();
        let cuts = start.cuts.iter().map(|cut| cut.len).collect();
        let base = if tail.whole { start.common() } else { start.term };
        let installed = InstalledSet { base, cuts, tail, ceiling: self.ceiling };
        let members = self.machine.own().clone();
        let leader_term = Arc::new(LeaderTerm::new(start.term, installed, members, core, streams, releases));
        let heart_pause = Arc::<Pause>::default();
        let (beating, pause, group, timing) =
            (leader_term.clone(), heart_pause.clone(), self.group(), self.group_options.timing);
        let events = self.events.clone();
        let heart = spawn("longarm-heart", move || heart::run(&beating, group, timing, &pause, &events));
        let heart = Some(heart.inspect_err(|_| self.service.end())?);
        let me = self.group().me();
        let scribe = disk.map(|begun| ScribeHandle::start(begun, leader_term.clone(), me)).transpose()?;
        let desk = self.open_desk(&leader_term)?;
        self.leading = Some(LeaderHandle { term: leader_term, heart, heart_pause, scribe, desk });
        Ok(())
    }

    /// Opens the desk at which followers' disks report, if they have any.
    fn open_desk(&self, term: &Arc<LeaderTerm<T::Qp>>) -> Result<Option<DeskHandle>, StartError> {
        let Some(gate) = &term.core.disk else { return Ok(None) };
        let (Some(channel), Some(progress)) = (gate.desk(), &self.lent.progress) else { return Ok(None) };
        let (new, channel) = (Inbox::default(), channel.clone());
        let door = Arc::new(DeskDoor { term: term.term, progress: progress.clone(), new, channel });
        self.inbound.set_desk(Some(door.clone()));
        DeskHandle::start(term.clone(), gate.clone(), door).map(Some)
    }

    pub(super) fn serve(&mut self, term: Term) {
        let Some(leader) = &self.leading else { return };
        let core = &leader.term.core;
        observe(|| Seen::Served { term, boot: core.boot });
        core.control.set_state(ServerState::Serving);
        core.enter(Phase::Serving, Nanos(u64::MAX));
        self.order_to_lead(term);
        self.service.open();
        leader.term.state.lock().serve(now());
        self.peers.values().for_each(|it| it.commands.pause.poke());
        self.serves_again(term);
        self.takeover.note(Step::Synced, now());
        let how = self.takeover.stats();
        self.tell_of(Notice::Leads, &format!("replica {} leads in term {term}, {how}", self.group().me()));
    }

    /// Ends the term that this replica leads. If it is `for_another` term, which is to be promised next, this
    /// returns only when the leader's lease is over.
    pub(super) fn step_down(&mut self, for_another: bool) {
        let Some(mut leader) = self.leading.take() else { return };
        self.service.close();
        self.inbound.set_progress(None);
        self.order.rest();
        leader.term.end();
        self.peers.values().for_each(|it| it.commands.keep_caught_up(None));
        leader.heart_pause.stop();
        if let Some(heart) = leader.heart.take() {
            let _ = heart.join();
        }
        let lease = leader.term.core.engine.lease();
        self.service.end();
        self.inbound.set_desk(None);
        drop(leader.desk.take());
        self.end_disk(leader.scribe.take());
        if self.transferee.is_some_and(|(term, _)| term == leader.term.term) {
            self.await_closed(&leader);
        }
        self.clear_floors();
        for (stream, progress) in leader.term.core.engine.progress().iter().enumerate() {
            // The replica surely has what it wrote itself.
            self.page.memory().store(page::floor_at(stream), progress.written());
        }
        self.page.memory().store(page::RECLAIMED, leader.term.releases.lock().count());
        self.page.memory().store(page::ITEMS, leader.term.core.engine.index.items());
        observe(|| Seen::SteppedDown { term: leader.term.term });
        // Clients may read this memory until their leases are over (M8), by clocks that may be slow.
        let timing = &self.group_options.timing;
        let (times, over) = (leader.term.core.timestamps(), lease + timing.promise.since(timing.lease()));
        let left = over.since(times.now).0.div_ceil(1_000_000);
        self.page.memory().store(page::UNIX, page::calendar_at_end(times.unix.0 + left, timing));
        for (at, it) in page::AGES.into_iter().zip(leader.term.core.sessions.ages(times.now)) {
            self.page.memory().store(at, page::age_word(it.csn, it.age));
        }
        let now = times.now;
        if for_another && now < lease && !Mutant::ReportAtOnce.is_on() {
            sleep(Duration::from_nanos(lease.since(now).0));
        }
    }
}
