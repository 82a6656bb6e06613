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
    /// Replicas that crash, or are cut off, are away for so long that the others free segments meanwhile;
    /// faults are rare, and memory is scarce.
    pub away: bool,
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
    pub(crate) const CALM: Scenario = Scenario {
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
        away: false,
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
    pub(crate) const SCANS: Scenario = Scenario {
        name: "group-scans",
        about: "pages of scans beside gets and writes, in a steady network",
        group: true,
        scans: true,
        ..Scenario::CALM
    };

    /// Everything that may strike one server and its clients.
    pub(crate) const ALL: Scenario = Scenario {
        name: "all",
        about: "everything at once",
        weather: true,
        pauses: true,
        cuts: true,
        drift: true,
        ..Scenario::CALM
    };

    /// Everything that may strike a group.
    pub(crate) const GROUP_ALL: Scenario = Scenario {
        name: "group-all",
        about: "replicas, and everything at once",
        group: true,
        crashes: true,
        ..Scenario::ALL
    };

    /// Everything that may strike a group while its replicas change.
    pub(crate) const GROUP_CHANGES_ALL: Scenario = Scenario {
        name: "group-changes-all",
        about: "replicas are added and removed, leaders hand over, and everything at once",
        moves: true,
        changes: true,
        ..Scenario::GROUP_ALL
    };
}

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
}
