//! Scenarios, each of which says which faults may strike. A seed draws which of them do, how often, and how
//! hard.

use std::time::Duration;

use longarm_base::Nanos;
use longarm_base::random::SplitMix64;
use longarm_fabric::sim::{Landing, Weather};

use longarm_server::Timing;

use crate::faults::{Fault, Machines, Strength, What};
use crate::replicas::{QUICK, USUAL};
use crate::workload::{FILLED, Load};
use crate::world::Drift;

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its description, in a line.
    pub about: &'static str,
    /// Each line of a READ is read, and each part of a WRITE lands, at a moment of its own. Messages are
    /// lost, and ways are slow.
    pub weather: bool,
    /// With weather: WRITEs complete up to four milliseconds before all of them is visible.
    pub lands_late: bool,
    /// CPUs stand still, up to several leases; NICs answer.
    pub pauses: bool,
    /// Nothing comes through between two machines, one way or both.
    pub cuts: bool,
    /// Clocks go wrong within the bound that leases allow for.
    pub drift: bool,
    /// The servers are the replicas of a group.
    pub group: bool,
    /// There are several groups, a replica of each on every server, and keys are spread over them.
    pub several: bool,
    /// Replicas crash and lose their memory, at most as many at a time as a group can bear.
    pub crashes: bool,
    /// An operator has leaders hand over, one after the other.
    pub moves: bool,
    /// An operator adds replicas and removes them, one after the other; two servers are spare at first.
    pub changes: bool,
    /// Replicas are told to end, hand over if they lead, and lose their memory.
    pub ends: bool,
    /// Leaders are cut off from all servers, and clients reach them.
    pub strands: bool,
    /// Ways to and from replicas are slow for a while; memory is scarce, so that segments are freed.
    pub slow: bool,
    /// Replicas are struck at steps of what they do.
    pub traps: bool,
    /// Replicas lose their disks, one at a time: they come back as if they had never been.
    pub reformats: bool,
    /// The calendars of servers are set, ahead and behind; keys expire.
    pub dates: bool,
    /// Five replicas, of which two may be lost at a time; nodes have different numbers of workers.
    pub five: bool,
    /// Threads of replicas lose their cores at steps of what they do, and other threads go on.
    pub stalls: bool,
}

impl Scenario {
    const CALM: Scenario = Scenario {
        name: "calm",
        about: "a steady network: what fails here fails always",
        weather: false,
        lands_late: false,
        pauses: false,
        cuts: false,
        drift: false,
        group: false,
        several: false,
        crashes: false,
        moves: false,
        changes: false,
        ends: false,
        strands: false,
        slow: false,
        traps: false,
        reformats: false,
        dates: false,
        five: false,
        stalls: false,
    };

    /// Everything that may strike one server and its clients.
    const ALL: Scenario = Scenario {
        name: "all",
        about: "everything at once",
        weather: true,
        pauses: true,
        cuts: true,
        drift: true,
        ..Scenario::CALM
    };

    /// Everything that may strike a group.
    const GROUP_ALL: Scenario = Scenario {
        name: "group-all",
        about: "replicas, and everything at once",
        group: true,
        crashes: true,
        ..Scenario::ALL
    };

    /// Everything that may strike a group while its replicas change.
    const GROUP_CHANGES_ALL: Scenario = Scenario {
        name: "group-changes-all",
        about: "replicas are added and removed, leaders hand over, and everything at once",
        moves: true,
        changes: true,
        ..Scenario::GROUP_ALL
    };
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::CALM,
    Scenario {
        name: "weather",
        about: "torn READs, WRITEs in parts, completions before visibility, losses",
        weather: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "pauses",
        about: "CPUs of server and clients stand still while NICs answer; clocks drift",
        weather: true,
        pauses: true,
        drift: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "cuts",
        about: "connections break, with requests under way, and come back",
        weather: true,
        cuts: true,
        ..Scenario::CALM
    },
    Scenario::ALL,
    Scenario { name: "group", about: "replicas in a steady network", group: true, ..Scenario::CALM },
    Scenario {
        name: "group-pauses",
        about: "replicas whose CPUs stand still for longer than leases; clocks drift",
        weather: true,
        pauses: true,
        drift: true,
        group: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "group-cuts",
        about: "replicas cut off from each other and from clients, one way or both",
        weather: true,
        cuts: true,
        group: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "group-crashes",
        about: "replicas that crash and lose their memory",
        weather: true,
        group: true,
        crashes: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "group-reformat",
        about: "replicas that lose their disks, too, CPUs that stand still, and clocks that drift",
        weather: true,
        pauses: true,
        drift: true,
        group: true,
        crashes: true,
        reformats: true,
        ..Scenario::CALM
    },
    Scenario::GROUP_ALL,
    Scenario {
        name: "groups",
        about: "several groups over the same machines, and everything at once",
        several: true,
        ..Scenario::GROUP_ALL
    },
    Scenario {
        name: "group-moves",
        about: "leaders hand over, under load in a steady network",
        group: true,
        moves: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "group-moves-all",
        about: "leaders hand over, and everything at once",
        moves: true,
        ..Scenario::GROUP_ALL
    },
    Scenario {
        name: "group-ends",
        about: "replicas that are told to end, and hand over first, in a steady network",
        group: true,
        ends: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "group-ends-all",
        about: "replicas are told to end, leaders hand over, and everything at once",
        moves: true,
        ends: true,
        ..Scenario::GROUP_ALL
    },
    Scenario {
        name: "group-changes",
        about: "replicas are added and removed, under load in a steady network",
        group: true,
        changes: true,
        ..Scenario::CALM
    },
    Scenario::GROUP_CHANGES_ALL,
    Scenario {
        name: "group-strands",
        about: "leaders that clients reach and followers do not; CPUs stand still, clocks drift",
        weather: true,
        pauses: true,
        drift: true,
        group: true,
        strands: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "group-dates",
        about: "calendars that are set, while leaders come and go; clocks drift",
        weather: true,
        drift: true,
        group: true,
        crashes: true,
        moves: true,
        dates: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "group-slow",
        about: "slow ways to followers, scarce memory, and replicas that are struck where it matters",
        weather: true,
        group: true,
        crashes: true,
        slow: true,
        traps: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "group-steps",
        about: "replicas are struck within take-over, catch-up and changes, and everything at once",
        traps: true,
        strands: true,
        ..Scenario::GROUP_CHANGES_ALL
    },
    Scenario {
        name: "five-steps",
        about: "that with five replicas, two of which may be lost, and slow ways",
        slow: true,
        five: true,
        traps: true,
        strands: true,
        ..Scenario::GROUP_CHANGES_ALL
    },
    Scenario {
        name: "group-landing",
        about: "that, and WRITEs that complete long before they are visible",
        lands_late: true,
        ..Scenario::GROUP_CHANGES_ALL
    },
    Scenario {
        name: "group-stalls",
        about: "threads of replicas lose their cores while others go on; slow ways, scarce memory, cuts",
        weather: true,
        cuts: true,
        group: true,
        crashes: true,
        slow: true,
        stalls: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "group-stalls-all",
        about: "that, while replicas change, leaders hand over, and everything else strikes",
        stalls: true,
        traps: true,
        strands: true,
        ..Scenario::GROUP_CHANGES_ALL
    },
];

impl Scenario {
    /// The scenario of a name.
    pub fn named(name: &str) -> Option<&'static Scenario> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// The names of all.
    pub fn names() -> Vec<&'static str> {
        SCENARIOS.iter().map(|scenario| scenario.name).collect()
    }
}

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

/// Half a percent, in parts of a million: half of the drift between any two clocks that a lease allows for.
const DRIFT_MOST: u64 = 5_000;

impl Plan {
    /// The plan that a seed draws from a scenario.
    pub fn of(scenario: &Scenario, seed: u64) -> Plan {
        Plan::draw(scenario, &mut SplitMix64::new(seed))
    }

    /// Whether nothing goes wrong; orders of the operator are no faults.
    pub fn is_calm(&self) -> bool {
        let orders = |fault: &Fault| matches!(fault.what, What::Move { .. } | What::Change { .. });
        self.weather == Weather::FINE && !self.preempts && self.faults.iter().all(orders)
    }

    /// The fewest replicas that the group has at any time. Of so many, fewer than half may be lost at a time.
    pub fn fewest(&self) -> usize {
        let founders = self.founders as usize;
        // A change may take one replica away at any time.
        if self.founders < self.servers && founders < 5 { 3 } else { founders }
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
        let operated = scenario.moves || scenario.changes;
        let clock = |chance: &mut SplitMix64| Drift {
            offset: nanos(chance, 1 << 40),
            rate: match scenario.drift {
                true => chance.below(2 * DRIFT_MOST + 1) as i32 - DRIFT_MOST as i32,
                false => 0,
            },
        };
        let founders = match scenario.group {
            true if scenario.five => 5,
            true if scenario.changes => 3 + chance.below(3) as u32,
            true => 3 + 2 * u32::from(chance.once_in(4)),
            false => 1,
        };
        let servers = founders + if scenario.changes { SPARES } else { 0 };
        let fsync = if scenario.group { nanos(chance, 3_000_000) } else { Nanos(0) };
        let timing = if scenario.group { draw_timing(chance) } else { QUICK };
        let mut load = Load::draw(chance);
        load.expires |= scenario.dates;
        let mut plan = Plan {
            clients,
            idle: Vec::new(),
            keys: 1 + match load.fills {
                true => FILLED + chance.below(300) as u32,
                false if chance.once_in(4) => chance.below(200) as u32,
                false => chance.below(8) as u32,
            },
            // Runs with changes or ends are longer, as either takes as long as some hundred operations.
            operations: (50 + chance.below(200) as u32)
                * if scenario.changes || scenario.ends { 6 } else { 1 },
            load,
            workers: 1 + chance.below(3) as usize,
            memory: match chance.once_in(3) {
                // Each term begins segments of its own: with few of them, terms as short as those of leaders
                // that hand over wait for collection.
                true if !operated => TIGHT,
                _ if scenario.slow && !operated => TIGHT,
                _ if scenario.changes => 256 << 20,
                _ => 64 << 20,
            },
            inline: !chance.once_in(3),
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
            fsync,
            timing,
            clocks: (0..servers + clients + u32::from(operated)).map(|_| clock(chance)).collect(),
        };
        let strength = draw_strength(&Scenario { pauses, cuts, crashes, ..*scenario }, chance);
        plan.seed = chance.draw();
        plan.tastes = (0..clients).map(|_| chance.draw()).collect();
        plan.faults = strength.draw(Machines { servers, clients }, SAFETY, chance);
        (plan.keep, plan.kept_share) = draw_kept(chance);
        plan
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
    let Scenario { strands, slow, traps, reformats, dates, stalls, .. } = *scenario;
    let faults =
        [pauses, cuts, crashes, moves, changes, ends, strands, slow, traps, reformats, dates, stalls];
    let any = faults.contains(&true);
    let cut_longest = if scenario.group { 400_000_000 } else { 80_000_000 };
    // A change demands that all replicas are in sync, and five are so less often.
    let rest = if scenario.five { 40_000_000 } else { 5_000_000 };
    let mut time = |is: bool, least: u64, most: u64| match is {
        true => Nanos(least + chance.below(most)),
        false => Nanos(0),
    };
    Strength {
        every: time(any, 300_000, rest),
        pause: time(pauses, 100_000, 60_000_000),
        cut: time(cuts, 100_000, cut_longest),
        crashes,
        moves,
        changes,
        ends,
        strand: time(strands, 100_000, 200_000_000),
        slow: time(slow, 1_000, 3_000_000),
        traps,
        reformats,
        dates,
        stalls,
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
