//! Scenarios, each of which says which faults may strike.

use longarm_index::hash::Discipline;

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
    /// Replicas keep an ordered index, and clients scan. Workers lose their cores for a moment between a
    /// commit and its application.
    pub scans: bool,
    /// There are very few keys, and more workers.
    pub narrow: bool,
    /// With scans: a single replica keeps an ordered index, also while it leads.
    pub lone: bool,
    /// With scans: clients make backups.
    pub backs_up: bool,
    /// A server alone has less memory than clients write, and evicts.
    pub evicts: bool,
    /// Servers keep their data on disks whose syncs take their time. They lose their power where replicas
    /// crash, a group also all at once, and come back with what their disks have.
    pub durable: bool,
    /// A server alone serves from persistent memory. It loses its power, also where it writes back.
    pub persistent: bool,
    /// Bytes on their disks change by themselves.
    pub rots: bool,
    /// They acknowledge from memory, and may lose the last writes if all lose their memory.
    pub loses: bool,
    /// The index of a server alone replaces records out of place.
    pub out_of_place: bool,
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
        scans: false,
        narrow: false,
        lone: false,
        backs_up: false,
        evicts: false,
        durable: false,
        persistent: false,
        rots: false,
        loses: false,
        out_of_place: false,
    };

    /// Scans of a group.
    const SCANS: Scenario = Scenario {
        name: "group-scans",
        about: "pages of scans beside gets and writes, in a steady network",
        group: true,
        scans: true,
        ..Scenario::CALM
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
    /// How the index of a server replaces records.
    pub fn discipline(&self) -> Discipline {
        if self.out_of_place || self.persistent { Discipline::OutOfPlace } else { Discipline::InPlace }
    }

    /// Whether what servers have outlives a loss of power.
    pub fn keeps(&self) -> bool {
        self.durable || self.persistent
    }

    /// Whether an operator has orders.
    pub fn is_operated(&self) -> bool {
        self.moves || self.changes
    }

    /// The scenario of a name.
    pub fn named(name: &str) -> Option<&'static Scenario> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// The names of all.
    pub fn names() -> Vec<&'static str> {
        SCENARIOS.iter().map(|scenario| scenario.name).collect()
    }
}
