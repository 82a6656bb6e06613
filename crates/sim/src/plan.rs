//! What a seed draws from a scenario: which of its faults strike, how often and how hard, and all else that a
//! run depends on.

use std::time::Duration;

use longarm_base::Nanos;
use longarm_base::random::SplitMix64;
use longarm_fabric::sim::{Landing, Weather};
use longarm_index::hash::Discipline;

use longarm_server::Timing;

use crate::drive::DiskPlan;
use crate::faults::{DOWN, Fault, Machines, Strength, What};
use crate::ordered::Ordered;
use crate::replicas::{QUICK, USUAL};
use crate::scenario::Scenario;
use crate::workload::{FILLED, Load};
use crate::world::Drift;

/// One in so many times that all lose their power one does not.
const SPARED: u64 = 3;
/// In one of so many seeds servers that keep their data look over it all the time.
const SCRUBBED: u64 = 4;
/// Of the seeds of servers that lose nothing two in so many have persistent memory in place of disks, of
/// which one is looked over.
const MEMORY: u64 = 8;
/// Where replicas are away for long, the longest time for which they are, the least time between faults on
/// average, and the longest value: clients fill segments meanwhile.
const AWAY: u64 = 1_000_000_000;
const AWAY_EVERY: u64 = 300_000_000;
const AWAY_LONGEST: u64 = 256 << 10;
/// The longest time for which faults strike. Clients that are done earlier end it.
pub const SAFETY: Nanos = Nanos::from_millis(3_000);
/// How long sessions are kept: longer than a run, or a little longer than the timeout of clients.
const KEEP: Duration = Duration::from_secs(60);
const KEEP_SHORT: Duration = Duration::from_millis(250);
/// The part of the memory that deletes and outcomes may take: more than a run writes, or next to nothing.
const KEPT_SHARE: u32 = 16;
const KEPT_SHARE_LITTLE: u32 = 1 << 13;

/// What a seed drew, which is everything that a run depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The number of clients, each on a machine of its own, whether or not they run.
    pub clients: u32,
    /// The numbers of clients that do nothing, which a reduction left out.
    pub idle: Vec<u32>,
    /// The number of keys: few, so that clients meet, or so many that the index grows.
    pub keys: u32,
    /// Operations of a client.
    pub operations: u32,
    /// What else clients do.
    pub load: Load,
    /// The number of worker threads of a server.
    pub workers: usize,
    /// Bytes of memory: so few that clients wait for reclaimed segments, or enough.
    pub memory: u64,
    /// Whether slots hold small items.
    pub inline: bool,
    /// How the index replaces records.
    pub discipline: Discipline,
    /// How the network is during the safety phase.
    pub weather: Weather,
    /// The faults, in the order of their times.
    pub faults: Vec<Fault>,
    /// What each client does is drawn from this.
    pub tastes: Vec<u64>,
    /// What the world draws is drawn from this.
    pub seed: u64,
    /// The number of servers: a single one, or the nodes of a cluster.
    pub servers: u32,
    /// The number of servers, the first ones, that are replicas at first.
    pub founders: u32,
    /// The number of groups, if there is a cluster; each has a replica on every node.
    pub groups: u32,
    /// Whether every second node has one more worker.
    pub uneven: bool,
    /// How long a server keeps the sessions of clients that are gone: for ever, or little longer than clients
    /// repeat a request.
    pub keep: Duration,
    /// The part of the memory that tombstones and saved outcomes may take: the usual one, or next to nothing.
    pub kept_share: u32,
    /// Whether threads lose their cores now and then, where they look at the clock.
    pub preempts: bool,
    /// Which servers keep an ordered index, which clients scan.
    pub ordered: Ordered,
    /// The disks of servers that keep their data.
    pub disk: Option<DiskPlan>,
    /// Bytes on them change by themselves.
    pub rots: bool,
    /// Whether a server alone serves from persistent memory.
    pub persistent: bool,
    /// How long a disk takes to keep a promise.
    pub fsync: Nanos,
    /// Heartbeats, promises, elections of a group.
    pub timing: Timing,
    /// Clocks: the servers' first, then the clients', then perhaps the operator's.
    pub clocks: Vec<Drift>,
}

/// The number of servers that may be added.
const SPARES: u32 = 2;

/// Memory of so few segments that writes wait for collection, and for longer than clients wait.
pub const TIGHT: u64 = 16 << 20;
/// The memory of a server that evicts.
const EVICTS: u64 = 20 << 20;

/// Half a percent, in parts of a million: half of the drift between any two clocks that a lease allows for.
const DRIFT_MOST: u64 = 5_000;

impl Plan {
    /// The plan that a seed draws from a scenario.
    pub fn of(scenario: &Scenario, seed: u64) -> Plan {
        let mut plan = Plan::draw(scenario, &mut SplitMix64::new(seed));
        // Not drawn, so that every other seed is as it was before there was a scrub.
        let scrubs = scenario.rots || seed % SCRUBBED == 2;
        plan.disk = plan.disk.map(|disk| DiskPlan { scrubs, ..disk });
        if seed % MEMORY >= 4 && seed.is_multiple_of(2) {
            plan.disk = plan.disk.map(DiskPlan::on_memory);
        }
        plan
    }

    /// Whether nothing goes wrong; orders of the operator are no faults. A disk that stalls is one.
    pub fn is_calm(&self) -> bool {
        let orders = |fault: &Fault| matches!(fault.what, What::Move { .. } | What::Change { .. });
        self.weather == Weather::FINE
            && !self.preempts
            && self.disk.is_none()
            && !self.persistent
            && self.faults.iter().all(orders)
    }

    /// Which replica is spared if the others lose their power for so long: where they may lose the last
    /// writes, one in so many times it is one that still has its memory.
    pub fn spared(&self, time: Nanos) -> Option<u32> {
        let is_one = self.window().is_some() && time.0.is_multiple_of(SPARED);
        is_one.then_some((time.0 / SPARED % u64::from(self.servers)) as u32)
    }

    /// The fewest replicas that the group has at any time. Of so many, fewer than half may be lost at a time.
    pub fn fewest(&self) -> usize {
        let founders = self.founders as usize;
        // A change may take one replica away at any time.
        if self.founders < self.servers && founders < 5 { 3 } else { founders }
    }

    /// The time within which the writes were taken that a loss of power loses; none if it loses none.
    pub fn window(&self) -> Option<Nanos> {
        self.disk.and_then(|disk| disk.window())
    }

    /// The number of clients that do something.
    pub fn running(&self) -> u32 {
        self.clients - self.idle.len() as u32
    }

    fn draw(scenario: &Scenario, chance: &mut SplitMix64) -> Plan {
        let clients = 2 + chance.below(6) as u32;
        let weather =
            if scenario.weather { draw_weather(scenario.lands_late, chance) } else { Weather::FINE };
        let pauses = scenario.pauses && !chance.once_in(4);
        let cuts = scenario.cuts && !chance.once_in(4);
        let crashes = scenario.crashes && !chance.once_in(4);
        let founders = draw_founders(scenario, chance);
        let servers = founders + if scenario.changes { SPARES } else { 0 };
        let replicated = scenario.group || scenario.durable;
        let fsync = if replicated { nanos(chance, 3_000_000) } else { Nanos(0) };
        let timing = if replicated { draw_timing(chance) } else { QUICK };
        let mut load = Load::draw(chance);
        load.expires |= scenario.dates;
        load.evicts = scenario.evicts;
        load.longest = if scenario.away { AWAY_LONGEST } else { load.longest };
        let mut plan = Plan {
            clients,
            idle: Vec::new(),
            keys: draw_keys(&load, chance),
            // Runs with changes or ends are longer, as either takes as long as some hundred operations.
            operations: (50 + chance.below(200) as u32)
                * if scenario.changes || scenario.ends || scenario.keeps() { 6 } else { 1 },
            load,
            workers: 1 + chance.below(3) as usize,
            memory: draw_memory(scenario, chance),
            inline: !chance.once_in(3),
            discipline: scenario.discipline(),
            weather,
            faults: Vec::new(),
            tastes: Vec::new(),
            seed: 0,
            servers,
            founders,
            groups: if scenario.several { 2 + chance.below(2) as u32 } else { 1 },
            uneven: scenario.traps && chance.once_in(2),
            keep: KEEP,
            kept_share: KEPT_SHARE,
            preempts: scenario.stalls,
            ordered: Ordered::None,
            disk: None,
            rots: scenario.rots,
            persistent: scenario.persistent,
            fsync,
            timing,
            clocks: (0..servers + clients + u32::from(scenario.is_operated()))
                .map(|_| draw_clock(scenario, chance))
                .collect(),
        };
        let strength = draw_strength(&Scenario { pauses, cuts, crashes, ..*scenario }, chance);
        plan.seed = chance.draw();
        plan.tastes = (0..clients).map(|_| chance.draw()).collect();
        plan.faults = strength.draw(Machines { servers, clients }, SAFETY, chance);
        (plan.keep, plan.kept_share) = draw_kept(chance);
        if scenario.evicts {
            // Servers know for as long as clients ask.
            (plan.keep, plan.load.takes_all) = (KEEP, plan.is_calm());
        }
        if scenario.durable {
            plan.disk = Some(DiskPlan::draw(scenario.loses, chance));
        }
        if scenario.scans {
            plan.scan(scenario, chance);
        }
        plan
    }

    /// Has clients scan; draws what only that needs.
    fn scan(&mut self, scenario: &Scenario, chance: &mut SplitMix64) {
        self.ordered = Ordered::All;
        if scenario.lone {
            self.load.lone = true;
            self.ordered = Ordered::Only(chance.below(u64::from(self.servers)) as u32);
        }
        if scenario.narrow {
            (self.load.fills, self.load.expected) = (false, 64);
            (self.keys, self.workers) = (2 + chance.below(3) as u32, 2 + chance.below(3) as usize);
        }
        self.load.backs_up = scenario.backs_up;
        self.load.scan(self.keys);
    }
}

/// Draws how wrong a clock goes.
fn draw_clock(scenario: &Scenario, chance: &mut SplitMix64) -> Drift {
    Drift {
        offset: nanos(chance, 1 << 40),
        rate: match scenario.drift {
            true => chance.below(2 * DRIFT_MOST + 1) as i32 - DRIFT_MOST as i32,
            false => 0,
        },
    }
}

/// Draws how many servers are replicas at first.
fn draw_founders(scenario: &Scenario, chance: &mut SplitMix64) -> u32 {
    match scenario.group {
        true if scenario.five => 5,
        true if scenario.changes => 3 + chance.below(3) as u32,
        true => 3 + 2 * u32::from(chance.once_in(4)),
        false => 1,
    }
}

/// Draws how much memory a server has: so little that writes wait for collection, or enough.
fn draw_memory(scenario: &Scenario, chance: &mut SplitMix64) -> u64 {
    let operated = scenario.is_operated();
    match chance.once_in(3) {
        _ if scenario.evicts => EVICTS,
        // Each term begins segments of its own: with few of them, terms as short as those of leaders that
        // hand over wait for collection.
        true if !operated => TIGHT,
        _ if (scenario.slow || scenario.away) && !operated => TIGHT,
        _ if scenario.changes => 256 << 20,
        _ => 64 << 20,
    }
}

/// Draws how many keys there are.
fn draw_keys(load: &Load, chance: &mut SplitMix64) -> u32 {
    1 + match load.fills {
        _ if load.evicts => 60 + chance.below(100) as u32,
        true => FILLED + chance.below(300) as u32,
        false if chance.once_in(4) => chance.below(200) as u32,
        false => chance.below(8) as u32,
    }
}

/// Draws how long sessions are kept, and how much memory deletes and outcomes may take.
fn draw_kept(chance: &mut SplitMix64) -> (Duration, u32) {
    let keep = [KEEP, KEEP_SHORT][chance.below(2) as usize];
    (keep, [KEPT_SHARE, KEPT_SHARE_LITTLE][chance.below(2) as usize])
}

/// Draws the paper's times, the same with leases that outlast many a fault, or the usual times.
fn draw_timing(chance: &mut SplitMix64) -> Timing {
    match chance.below(4) {
        0 => QUICK,
        1 => QUICK.with_promise(Nanos(5_000_000 + chance.below(60_000_000))),
        _ => USUAL,
    }
}

/// How hard each fault strikes that the scenario has.
fn draw_strength(scenario: &Scenario, chance: &mut SplitMix64) -> Strength {
    let Scenario { pauses, cuts, crashes, moves, changes, ends, .. } = *scenario;
    let Scenario { strands, slow, away, traps, reformats, dates, stalls, rots, .. } = *scenario;
    let power = scenario.durable && scenario.group && !scenario.rots && !away;
    let fails = scenario.persistent;
    let faults = [
        pauses, cuts, crashes, moves, changes, ends, strands, slow, traps, reformats, dates, stalls, power,
        rots, fails,
    ];
    let any = faults.contains(&true);
    let cut_longest = match scenario.group {
        _ if away => AWAY,
        true => 400_000_000,
        false => 80_000_000,
    };
    // A change demands that all replicas are in sync, and five are so less often.
    // A server alone that loses its power is to have written much by then, half of the times.
    let long = scenario.keeps() && chance.once_in(2);
    let rest = match scenario.five || long {
        _ if away => 2 * AWAY_EVERY,
        true => 40_000_000,
        false => 5_000_000,
    };
    let mut time = |is: bool, least: u64, most: u64| match is {
        true => Nanos(least + chance.below(most)),
        false => Nanos(0),
    };
    Strength {
        every: time(any, if away { AWAY_EVERY } else { 300_000 }, rest),
        pause: time(pauses, 100_000, 60_000_000),
        cut: time(cuts, 100_000, cut_longest),
        crashes,
        down: Nanos(if away { AWAY } else { DOWN }),
        moves,
        changes,
        ends,
        strand: time(strands, 100_000, 200_000_000),
        slow: time(slow, 1_000, 3_000_000),
        traps,
        reformats,
        dates,
        stalls,
        power,
        rots,
        fails,
    }
}

fn draw_weather(lands_late: bool, chance: &mut SplitMix64) -> Weather {
    let spread = if lands_late { 4_000_000 } else { 30_000 };
    let least = Nanos(500 + chance.below(5_000));
    Weather {
        delay: (least, least + nanos(chance, 20_000)),
        spread: if chance.once_in(4) { Nanos(0) } else { nanos(chance, spread) },
        landing: if chance.once_in(2) { Landing::Any } else { Landing::Ascending },
        loss: if chance.once_in(2) { 0 } else { 10 + chance.below(500) },
        ..Weather::FINE
    }
}

fn nanos(chance: &mut SplitMix64, most: u64) -> Nanos {
    Nanos(chance.below(most))
}
