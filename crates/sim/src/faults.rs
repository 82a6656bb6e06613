//! The faults of a run. They are drawn before it begins, so that a plan can be shown, and run again with only
//! some of them.

use longarm_base::Nanos;
use longarm_base::random::SplitMix64;
use longarm_host::observe::ReplicaStep;

use crate::points::{Blow, Point};

/// A fault and the time at which it strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The time at which it strikes, unless the run is over.
    pub at: Nanos,
    /// What goes wrong.
    pub what: What,
}

/// A kind of fault. Machines are numbered, servers first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A machine's CPUs stand still; its NIC answers.
    Pause {
        /// Which machine.
        whom: u32,
        /// For how long.
        time: Nanos,
    },
    /// Nothing comes through between a server and others.
    Cut {
        /// The server.
        server: u32,
        /// The machines from which it is cut off.
        others: Vec<u32>,
        /// Whether messages that the server sends are lost.
        to: bool,
        /// Whether messages to the server are lost.
        from: bool,
        /// For how long.
        time: Nanos,
    },
    /// The leader of the first group is cut off from all other servers, both ways; clients still reach it.
    Strand {
        /// A server that the leader still reaches, unless that is the leader itself.
        but: Option<u32>,
        /// For how long.
        time: Nanos,
    },
    /// Messages between a server and other machines take longer, both ways.
    Slow {
        /// The server.
        server: u32,
        /// The other machines.
        others: Vec<u32>,
        /// How much longer each way takes.
        by: Nanos,
        /// For how long.
        time: Nanos,
    },
    /// A replica is struck at a point of what it does: the next one that comes there after so many passes.
    Trap {
        /// The point.
        point: Point,
        /// The number of passes before it.
        passes: u32,
        /// What strikes the replica.
        blow: Blow,
    },
    /// The calendar of a server is set.
    SetCalendar {
        /// Which.
        server: u32,
        /// How many milliseconds ahead of the right time; behind, if negative.
        ahead: i64,
    },
    /// No fault: the operator orders a replica to lead, unless an earlier order is under way.
    Move {
        /// Which.
        to: u32,
        /// How long the operator rests after the order.
        rest: Nanos,
    },
    /// No fault: the operator adds a node that is no replica, or removes one that is. The operator does
    /// nothing if an earlier order is under way, or too few replicas would be left.
    Change {
        /// Which.
        node: u32,
        /// How long the operator rests after the order.
        rest: Nanos,
    },
    /// A replica loses its memory, unless as many replicas have lost theirs as a group can bear.
    Crash {
        /// Which.
        server: u32,
        /// How long it is down.
        time: Nanos,
    },
    /// All replicas lose their power at once, or all but one ([`spared`](crate::plan::Plan::spared)). They
    /// keep their data on disks.
    Power {
        /// How long the first of them is down; each of the others a little longer.
        time: Nanos,
    },
    /// A byte of what a replica keeps on its disk changes by itself.
    Rot {
        /// Which.
        server: u32,
        /// Says which byte.
        seed: u64,
    },
    /// A replica loses its memory and its disk, unless as many replicas have lost their memory as a group can
    /// bear, or another replica has lost its disk and is not in sync since.
    Reformat {
        /// Which.
        server: u32,
        /// How long it is down.
        time: Nanos,
    },
    /// A replica is told to end, and then loses its memory whether it has ended or not; unless as many
    /// replicas have lost theirs as a group can bear.
    End {
        /// Which.
        server: u32,
        /// How long the replica has to end.
        within: Nanos,
        /// How long it is down.
        time: Nanos,
    },
}

/// The machines of a run that faults may strike. Servers have the first numbers, clients the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machines {
    /// The number of servers.
    pub servers: u32,
    /// The number of clients.
    pub clients: u32,
}

impl Machines {
    fn any_server(self, chance: &mut SplitMix64) -> u32 {
        chance.below(u64::from(self.servers)) as u32
    }

    fn any_client(self, chance: &mut SplitMix64) -> u32 {
        self.servers + chance.below(u64::from(self.clients)) as u32
    }
}

/// Which faults may strike, and how hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strength {
    /// Time between two faults, on average; zero: none.
    pub every: Nanos,
    /// A pause lasts less than this; zero: there is none.
    pub pause: Nanos,
    /// A cut lasts less than this; zero: there is none.
    pub cut: Nanos,
    /// Whether replicas crash.
    pub crashes: bool,
    /// A crashed replica is down for less than this.
    pub down: Nanos,
    /// Whether leaders are to hand over.
    pub moves: bool,
    /// Whether replicas are added and removed.
    pub changes: bool,
    /// Whether replicas are told to end.
    pub ends: bool,
    /// A leader is stranded for less than this; zero: none is.
    pub strand: Nanos,
    /// Ways are slower by less than this; zero: none is.
    pub slow: Nanos,
    /// Whether there are traps.
    pub traps: bool,
    /// Whether disks are lost.
    pub reformats: bool,
    /// Whether calendars are set.
    pub dates: bool,
    /// Whether threads lose their cores.
    pub stalls: bool,
    /// Whether all replicas lose their power at once.
    pub power: bool,
    /// Whether bytes on disks change by themselves.
    pub rots: bool,
    /// Whether servers lose their power where they write back to persistent memory.
    pub fails: bool,
}

/// A calendar is set by less than two to this power milliseconds, ahead or behind.
const DATES: u64 = 14;
/// Slow ways are slow for less than this.
const SLOW: u64 = 300_000_000;
/// A thread is without a core for less than this.
const STALL: u64 = 80_000_000;
/// Fewer write-backs than two to this power pass before a server fails at one.
const WRITE_BACKS: u64 = 10;
/// A server that fails stands still for less than this before.
const FAIL: u64 = 2_000_000;
/// A replica that crashed at a step, or with others, is down for less than this.
pub const DOWN: u64 = 40_000_000;
/// A replica that is told to end has less time than this: some hand over in time, and some do not.
const END: u64 = 150_000_000;
/// An operator does nothing for less than this.
const REST: u64 = 30_000_000;

impl Strength {
    /// Draws all faults until a time.
    pub fn draw(self, machines: Machines, until: Nanos, chance: &mut SplitMix64) -> Vec<Fault> {
        let (pauses, cuts) = (self.pause > Nanos(0), self.cut > Nanos(0));
        let kinds = [pauses, cuts, self.crashes, self.moves, self.changes, self.ends];
        let (strands, slow) = (self.strand > Nanos(0), self.slow > Nanos(0));
        let others =
            [strands, slow, self.traps, self.reformats, self.dates, self.stalls, self.power, self.rots];
        let kinds = kinds.into_iter().chain(others).chain([self.fails]).collect::<Vec<_>>();
        let kinds: Vec<_> = (0..kinds.len()).filter(|&kind| kinds[kind]).collect();
        let (mut faults, mut at) = (Vec::new(), Nanos(0));
        while !kinds.is_empty() {
            at = at + Nanos(chance.below(2 * self.every.0) + 1);
            if at >= until {
                break;
            }
            let what = match kinds[chance.below(kinds.len() as u64) as usize] {
                0 => self.draw_pause(machines, chance),
                1 => self.draw_cut(machines, chance),
                2 => {
                    let server = machines.any_server(chance);
                    What::Crash { server, time: Nanos(chance.below(self.down.0)) }
                }
                3 => What::Move { to: machines.any_server(chance), rest: Nanos(chance.below(REST)) },
                4 => {
                    let node = machines.any_server(chance);
                    What::Change { node, rest: Nanos(chance.below(REST / 4)) }
                }
                5 => What::End {
                    server: machines.any_server(chance),
                    within: Nanos(chance.below(END)),
                    time: Nanos(chance.below(DOWN)),
                },
                6 => {
                    let but = chance.once_in(2).then(|| machines.any_server(chance));
                    What::Strand { but, time: Nanos(chance.below(self.strand.0)) }
                }
                7 => self.draw_slow(machines, chance),
                8 => self.draw_trap(chance),
                9 => {
                    let server = machines.any_server(chance);
                    What::Reformat { server, time: Nanos(chance.below(DOWN)) }
                }
                10 => draw_date(machines.any_server(chance), chance),
                11 => draw_stall(chance),
                12 => What::Power { time: Nanos(chance.below(DOWN)) },
                13 => What::Rot { server: machines.any_server(chance), seed: chance.draw() },
                _ => draw_fail(chance),
            };
            faults.push(Fault { at, what });
        }
        faults
    }

    fn draw_pause(self, machines: Machines, chance: &mut SplitMix64) -> What {
        let whom = match chance.once_in(2) {
            true => machines.any_server(chance),
            false => machines.any_client(chance),
        };
        What::Pause { whom, time: Nanos(chance.below(self.pause.0)) }
    }

    fn draw_cut(self, machines: Machines, chance: &mut SplitMix64) -> What {
        let (server, others) = draw_ways(machines, chance);
        let (to, from) = (chance.below(3) != 0, chance.below(3) != 0);
        What::Cut { server, others, to: to || !from, from, time: Nanos(chance.below(self.cut.0)) }
    }

    fn draw_slow(self, machines: Machines, chance: &mut SplitMix64) -> What {
        let (server, others) = draw_ways(machines, chance);
        What::Slow { server, others, by: Nanos(chance.below(self.slow.0)), time: Nanos(chance.below(SLOW)) }
    }

    fn draw_trap(self, chance: &mut SplitMix64) -> What {
        let (point, passes) = Point::draw_trap(chance);
        let blow = match self.crashes && !chance.once_in(4) {
            true => Blow::Crash(Nanos(chance.below(DOWN))),
            false => Blow::Pause(Nanos(chance.below(DOWN))),
        };
        What::Trap { point, passes, blow }
    }
}

/// Draws where a thread loses its core, and for how long: often for as long as a leader needs to let a
/// follower go and have it back.
fn draw_stall(chance: &mut SplitMix64) -> What {
    let (point, passes) = Point::draw_stall(chance);
    What::Trap { point, passes, blow: Blow::Stall(Nanos(chance.below(STALL))) }
}

/// Draws at which write-back a server loses its power, and how long readers have until then: none half of the
/// times.
fn draw_fail(chance: &mut SplitMix64) -> What {
    let most = 1 << chance.below(WRITE_BACKS);
    let passes = chance.below(most) as u32;
    let within = if chance.once_in(2) { Nanos(0) } else { Nanos(chance.below(FAIL)) };
    let blow = Blow::Fail { within, time: Nanos(chance.below(DOWN)) };
    What::Trap { point: Point::Step(ReplicaStep::WrittenBack), passes, blow }
}

/// Draws how far a calendar is set: by little as often as by much.
fn draw_date(server: u32, chance: &mut SplitMix64) -> What {
    let most = 2 << chance.below(DATES);
    let by = chance.below(most) as i64;
    What::SetCalendar { server, ahead: if chance.once_in(2) { by } else { -by } }
}

/// Draws the two ends of a way: a server and a client, two servers, or a server and all others.
fn draw_ways(machines: Machines, chance: &mut SplitMix64) -> (u32, Vec<u32>) {
    let (server, servers) = (machines.any_server(chance), machines.servers);
    let others: Vec<u32> = match chance.below(3) {
        0 if servers > 1 => (0..servers).collect(),
        1 if servers > 1 => vec![(server + 1 + machines.any_server(chance)) % servers],
        _ => vec![machines.any_client(chance)],
    };
    (server, others.into_iter().filter(|&other| other != server).collect())
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = |time: Nanos| time.0 as f64 / 1e6;
        match &self.what {
            What::Pause { whom, time } => {
                write!(f, "machine {whom} stands still for {:.1} ms", millis(*time))
            }
            What::Move { to, .. } => write!(f, "node {to} is to lead"),
            What::Change { node, .. } => write!(f, "node {node} is to be a replica, or none any more"),
            What::Crash { server, time } => {
                write!(f, "node {server} loses its memory and is down for {:.1} ms", millis(*time))
            }
            What::Power { time } => {
                write!(f, "all nodes lose their power and are down for {:.1} ms and more", millis(*time))
            }
            What::Rot { server, .. } => write!(f, "a byte on the disk of node {server} changes by itself"),
            What::Reformat { server, time } => {
                write!(f, "node {server} loses memory and disk and is down for {:.1} ms", millis(*time))
            }
            What::End { server, within, time } => {
                let (within, time) = (millis(*within), millis(*time));
                write!(f, "node {server} is told to end, within {within:.1} ms, and is down for {time:.1} ms")
            }
            What::SetCalendar { server, ahead } => {
                write!(f, "the calendar of node {server} is set, {ahead} ms ahead of what is right")
            }
            What::Strand { but, time } => {
                let but = but.map_or_else(String::new, |but| format!(" but node {but}"));
                write!(f, "whoever leads reaches no other server{but}, for {:.1} ms", millis(*time))
            }
            What::Slow { server, others, by, time } => {
                let (by, time) = (millis(*by), millis(*time));
                write!(f, "node {server} <-> {others:?} is slower by {by:.3} ms, for {time:.1} ms")
            }
            What::Trap { point, passes, blow } => {
                write!(f, "{blow:?} at {point:?}, after {passes} others")
            }
            What::Cut { server, others, to, from, time } => {
                let way = match (to, from) {
                    (true, true) => "<->",
                    (true, false) => "->",
                    _ => "<-",
                };
                write!(
                    f,
                    "nothing comes through, node {server} {way} {others:?}, for {:.1} ms",
                    millis(*time)
                )
            }
        }
    }
}

/// How far calendars are set from one another, or from the right time.
pub fn calendars_apart(faults: &[Fault]) -> Nanos {
    let dates = faults.iter().filter_map(|fault| match fault.what {
        What::SetCalendar { ahead, .. } => Some(ahead),
        _ => None,
    });
    let (least, most) = dates.fold((0, 0), |(least, most), ahead| (ahead.min(least), ahead.max(most)));
    Nanos::from_millis(most.abs_diff(least))
}
