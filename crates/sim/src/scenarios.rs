//! All scenarios, from one server in a steady network to everything at once.

use crate::scenario::Scenario;

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
    Scenario {
        name: "out-of-place",
        about: "an index that replaces records out of place, and everything at once",
        out_of_place: true,
        ..Scenario::ALL
    },
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
    Scenario {
        name: "scans",
        about: "pages of scans of a server alone, beside gets and writes, in a steady network",
        scans: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "scans-narrow",
        about: "pages of scans of a server alone, over very few keys, which several workers write",
        scans: true,
        narrow: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "scans-all",
        about: "pages of scans of a server alone, and everything at once",
        scans: true,
        ..Scenario::ALL
    },
    Scenario {
        name: "evicts",
        about: "a server that has less memory than clients write evicts, in a steady network",
        evicts: true,
        ..Scenario::CALM
    },
    Scenario { name: "evicts-all", about: "that, and everything at once", evicts: true, ..Scenario::ALL },
    Scenario {
        name: "durable",
        about: "a server that keeps its data acknowledges from disk, and loses its power",
        crashes: true,
        durable: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "durable-all",
        about: "that, and everything at once that may strike one server and its clients",
        crashes: true,
        durable: true,
        ..Scenario::ALL
    },
    Scenario {
        name: "power-async",
        about: "a server that keeps its data acknowledges from memory, loses its power, and the last writes",
        weather: true,
        pauses: true,
        crashes: true,
        durable: true,
        loses: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "pmem",
        about: "a server that serves from persistent memory loses its power",
        crashes: true,
        persistent: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "pmem-all",
        about: "that, dates that are set, and everything at once that may strike one server and its clients",
        crashes: true,
        persistent: true,
        dates: true,
        ..Scenario::ALL
    },
    Scenario {
        name: "durable-group",
        about: "replicas that keep their data acknowledge from disks, and lose power, alone or all at once",
        group: true,
        crashes: true,
        durable: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "power",
        about: "that, and everything at once that may strike a group",
        durable: true,
        ..Scenario::GROUP_ALL
    },
    Scenario {
        name: "power-steps",
        about: "that, scarce memory, replicas struck at their steps, threads that lose their cores",
        slow: true,
        traps: true,
        durable: true,
        lands_late: true,
        stalls: true,
        ..Scenario::GROUP_ALL
    },
    Scenario {
        name: "power-five",
        about: "that with five replicas, added, removed, struck at their steps, given empty disks",
        slow: true,
        traps: true,
        durable: true,
        reformats: true,
        five: true,
        strands: true,
        ..Scenario::GROUP_CHANGES_ALL
    },
    Scenario {
        name: "power-scans",
        about: "that with pages of scans and backups, scarce memory, and replicas struck at their steps",
        slow: true,
        traps: true,
        scans: true,
        backs_up: true,
        durable: true,
        ..Scenario::GROUP_ALL
    },
    Scenario {
        name: "power-away",
        about: "replicas that keep their data acknowledge from disks, and are away while segments are freed",
        cuts: true,
        group: true,
        crashes: true,
        away: true,
        durable: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "rot",
        about: "replicas that keep their data, bytes of which change by themselves; crashes and pauses",
        weather: true,
        pauses: true,
        group: true,
        crashes: true,
        durable: true,
        rots: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "async-group",
        about: "replicas that keep their data acknowledge from memory, and lose power, alone or all at once",
        group: true,
        crashes: true,
        durable: true,
        loses: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "cold",
        about: "that, and everything at once that may strike a group",
        durable: true,
        loses: true,
        ..Scenario::GROUP_ALL
    },
    Scenario {
        name: "cold-steps",
        about: "that, scarce memory, replicas struck at their steps, threads that lose their cores",
        slow: true,
        traps: true,
        durable: true,
        loses: true,
        lands_late: true,
        stalls: true,
        ..Scenario::GROUP_ALL
    },
    Scenario {
        name: "cold-away",
        about: "replicas that keep their data acknowledge from memory, and are away while segments are freed",
        cuts: true,
        group: true,
        crashes: true,
        away: true,
        durable: true,
        loses: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "cold-five",
        about: "that with five replicas, added, removed, struck at their steps, given empty disks",
        slow: true,
        traps: true,
        durable: true,
        loses: true,
        reformats: true,
        five: true,
        strands: true,
        ..Scenario::GROUP_CHANGES_ALL
    },
    Scenario::SCANS,
    Scenario {
        name: "backups",
        about: "a server alone is backed up while clients write, in a steady network",
        scans: true,
        backs_up: true,
        ..Scenario::CALM
    },
    Scenario {
        name: "group-backups",
        about: "leaders are backed up while clients write; scarce memory, crashes, pauses, hand-overs",
        weather: true,
        pauses: true,
        crashes: true,
        moves: true,
        slow: true,
        backs_up: true,
        ..Scenario::SCANS
    },
    Scenario {
        name: "group-scans-lone",
        about: "pages of scans of a group in which one replica keeps an index, also while it leads; crashes",
        weather: true,
        crashes: true,
        lone: true,
        ..Scenario::SCANS
    },
    Scenario {
        name: "group-scans-weather",
        about: "pages of scans, torn READs, WRITEs in parts, completions long before visibility",
        weather: true,
        lands_late: true,
        ..Scenario::SCANS
    },
    Scenario {
        name: "group-scans-narrow",
        about: "pages of scans over very few keys, which several workers write all the time",
        narrow: true,
        ..Scenario::SCANS
    },
    Scenario {
        name: "group-scans-pauses",
        about: "pages of scans, replicas whose CPUs stand still for longer than leases; clocks drift",
        weather: true,
        pauses: true,
        drift: true,
        ..Scenario::SCANS
    },
    Scenario {
        name: "group-scans-crashes",
        about: "pages of scans, and replicas that crash and lose their memory",
        weather: true,
        crashes: true,
        ..Scenario::SCANS
    },
    Scenario {
        name: "group-scans-strands",
        about: "pages of scans of one replica; leaders that clients reach and followers do not",
        weather: true,
        pauses: true,
        drift: true,
        strands: true,
        lone: true,
        ..Scenario::SCANS
    },
    Scenario {
        name: "group-scans-moves",
        about: "pages of scans, scarce memory, so that entries are moved, and slow ways",
        weather: true,
        slow: true,
        ..Scenario::SCANS
    },
    Scenario {
        name: "group-scans-all",
        about: "pages of scans with five replicas, hand-overs, threads without cores, and everything at once",
        scans: true,
        moves: true,
        stalls: true,
        strands: true,
        five: true,
        ..Scenario::GROUP_ALL
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
