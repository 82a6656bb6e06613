//! A model of what a selector chooses between: a server's CPU and its NIC. Each has one queue and takes the
//! same time for each request and each READ, operations arrive at random.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

/// Of the operations.
const SIZE: Size = Size::Medium;
/// Server's time of a request at its full capacity.
const REQUEST: u64 = 2000;
/// Percents of its capacity that a server has left.
const CAPACITIES: [u64; 4] = [100, 50, 25, 10];

/// Times in nanoseconds.
#[derive(Clone, Debug)]
struct World {
    /// To the server and back.
    network: u64,
    /// CPU time of a request.
    request: u64,
    /// The NIC's time of a round of READs.
    read: u64,
    /// Rounds of an operation.
    rounds: u32,
    arrivals: Arrivals,
    others: Vec<Others>,
}

#[derive(Clone, Copy, Debug)]
enum Arrivals {
    /// So many a second on average, of one client.
    Open(f64),
    /// So many clients, each of which begins its next one when the last is done.
    Closed(usize),
}

/// Others that use the CPU or the NIC for a while, and how often a second.
#[derive(Clone, Copy, Debug)]
struct Others {
    side: Side,
    rate: f64,
    from: u64,
    until: u64,
}

impl World {
    /// A server with so many percents of its capacity left, where a request takes no longer than four rounds
    /// of READs while nobody waits.
    fn level(capacity: u64, arrivals: Arrivals) -> World {
        let (network, request) = (100, REQUEST * 100 / capacity);
        let read = (request - 3 * network) / 4;
        World { network, request, read, rounds: 4, arrivals, others: Vec::new() }
    }

    /// The same where the way is long and the NIC quick.
    fn far(capacity: u64, arrivals: Arrivals) -> World {
        World { network: 3000, read: 450, ..World::level(capacity, arrivals) }
    }

    /// Operations a second that its CPU can do alone.
    fn cpu_rate(&self) -> f64 {
        1e9 / self.request as f64
    }

    /// The same of its NIC.
    fn nic_rate(&self) -> f64 {
        1e9 / (self.read * u64::from(self.rounds)) as f64
    }
}

/// An operation that is over.
#[derive(Clone, Copy, Debug)]
struct Done {
    began: u64,
    took: u64,
    side: Side,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin { client: usize },
    Others { part: usize },
    Answer { client: usize, began: u64 },
    Round { client: usize, began: u64, asked: u64, left: u32 },
}

/// Who chooses: always the same, or a selector of each client.
enum Policy {
    Fixed(Side),
    Auto(Vec<Selector>),
}

struct Run {
    world: World,
    policy: Policy,
    /// With moments and, for equal ones, an order.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    /// When CPU and NIC have nothing left to do.
    cpu: u64,
    nic: u64,
    draw: SplitMix64,
    done: Vec<Done>,
}

impl Run {
    fn new(world: World, seed: u64, rule: Option<Rule>, side: Side) -> Run {
        let clients = match world.arrivals {
            Arrivals::Open(_) => 1,
            Arrivals::Closed(clients) => clients,
        };
        let policy = match rule {
            None => Policy::Fixed(side),
            Some(rule) => {
                let settings = |i| Settings { seed: seed * 1000 + i, rule, nanos_per_kib: 0 };
                Policy::Auto((0..clients as u64).map(|i| Selector::new(settings(i))).collect())
            }
        };
        let (events, draw) = (BinaryHeap::new(), SplitMix64::new(seed));
        let mut run = Run { world, policy, events, order: 0, cpu: 0, nic: 0, draw, done: Vec::new() };
        (0..clients).for_each(|client| run.at(client as u64, Event::Begin { client }));
        for part in 0..run.world.others.len() {
            run.at(run.world.others[part].from, Event::Others { part });
        }
        run
    }

    fn at(&mut self, moment: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((moment, self.order, event)));
    }

    /// A random time until the next of so many a second.
    fn gap(&mut self, rate: f64) -> u64 {
        let share = (self.draw.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        (-share.ln() * 1e9 / rate) as u64
    }

    /// When a request that is sent now has its answer.
    fn request(&mut self, now: u64) -> u64 {
        self.cpu = self.cpu.max(now + self.world.network / 2) + self.world.request;
        self.cpu + self.world.network / 2
    }

    /// The same of a round.
    fn round(&mut self, now: u64) -> u64 {
        self.nic = self.nic.max(now + self.world.network / 2) + self.world.read;
        self.nic + self.world.network / 2
    }

    fn begin(&mut self, now: u64, client: usize) {
        let rounds = self.world.rounds;
        let side = match &mut self.policy {
            Policy::Fixed(side) => *side,
            Policy::Auto(selectors) => selectors[client].choose(Nanos(now), SIZE, rounds),
        };
        if side == Side::Server {
            let answer = self.request(now);
            self.at(answer, Event::Answer { client, began: now });
        } else {
            let complete = self.round(now);
            self.at(complete, Event::Round { client, began: now, asked: now, left: rounds - 1 });
        }
        if let Arrivals::Open(rate) = self.world.arrivals {
            let gap = self.gap(rate);
            self.at(now + gap, Event::Begin { client });
        }
    }

    fn end(&mut self, now: u64, client: usize, done: Done) {
        self.done.push(done);
        if let Arrivals::Closed(_) = self.world.arrivals {
            self.at(now, Event::Begin { client });
        }
    }

    fn use_by_others(&mut self, now: u64, part: usize) {
        let others = self.world.others[part];
        if now < others.until {
            let _ = if others.side == Side::Server { self.request(now) } else { self.round(now) };
            let gap = self.gap(others.rate);
            self.at(now + gap, Event::Others { part });
        }
    }

    /// The next event.
    fn step(&mut self) {
        let Reverse((now, _, event)) = self.events.pop().expect("somebody always asks");
        match event {
            Event::Begin { client } => self.begin(now, client),
            Event::Others { part } => self.use_by_others(now, part),
            Event::Answer { client, began } => {
                if let Policy::Auto(selectors) = &mut self.policy {
                    let answered = Answered { took: Nanos(now - began), bytes: 0 };
                    selectors[client].answered(Nanos(now), SIZE, answered);
                }
                self.end(now, client, Done { began, took: now - began, side: Side::Server });
            }
            Event::Round { client, began, asked, left } => {
                if let Policy::Auto(selectors) = &mut self.policy {
                    selectors[client].read_round(Nanos(now), SIZE, Nanos(now - asked));
                }
                if left == 0 {
                    return self.end(now, client, Done { began, took: now - began, side: Side::Client });
                }
                let complete = self.round(now);
                self.at(complete, Event::Round { client, began, asked: now, left: left - 1 });
            }
        }
    }

    fn operations(mut self, count: usize) -> Vec<Done> {
        while self.done.len() < count {
            self.step();
        }
        self.done
    }

    fn until(mut self, moment: u64) -> Vec<Done> {
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at < moment) {
            self.step();
        }
        self.done
    }
}

fn fixed(world: &World, side: Side) -> Run {
    Run::new(world.clone(), 1, None, side)
}

fn auto(world: &World, seed: u64, rule: Rule) -> Run {
    Run::new(world.clone(), seed, Some(rule), Side::Client)
}

/// Mean time.
fn mean(done: &[Done]) -> f64 {
    done.iter().map(|done| done.took as f64).sum::<f64>() / done.len() as f64
}

/// Operations a second of closed clients.
fn throughput(done: &[Done]) -> f64 {
    let last = done.last().expect("operations");
    done.len() as f64 * 1e9 / (last.began + last.took) as f64
}

type Worlds = fn(u64, Arrivals) -> World;

/// The mean time beside that of the better side, where it is worst, of rates up to half more than the server
/// can do.
fn worst(world_of: Worlds, rule: Rule) -> f64 {
    const OPERATIONS: usize = 30_000;
    let mut worst = 0.0_f64;
    for capacity in CAPACITIES {
        for load in [10, 30, 50, 70, 90, 110, 150] {
            let rate = world_of(capacity, Arrivals::Closed(1)).cpu_rate() * f64::from(load) / 100.0;
            let world = world_of(capacity, Arrivals::Open(rate));
            // Of more than either side can do alone there is no mean: it grows with the length of the run.
            if rate > 0.95 * world.cpu_rate().max(world.nic_rate()) {
                continue;
            }
            let alone = |side| mean(&fixed(&world, side).operations(OPERATIONS));
            let better = alone(Side::Server).min(alone(Side::Client));
            worst = worst.max(mean(&auto(&world, 1, rule).operations(OPERATIONS)) / better);
        }
    }
    worst
}

#[test]
fn the_mean_time_is_within_a_tenth_of_the_better_side() {
    let level = worst(World::level, Rule::Queues);
    assert!(level < 1.1, "{level} times that of the better side");
    let far = worst(World::far, Rule::Times);
    assert!(far < 1.1, "{far} times that of the better side");
}

/// The price of comparing queues alone, as (4) says it: if this fails, that rule could be the only one.
#[test]
fn by_queues_alone_the_client_works_where_the_server_is_sooner_done() {
    let world = World::far(100, Arrivals::Open(50_000.0));
    let [server, client] =
        [Side::Server, Side::Client].map(|side| mean(&fixed(&world, side).operations(5000)));
    assert!(2.5 * server < client, "{server} {client}");
    let queues = mean(&auto(&world, 1, Rule::Queues).operations(5000));
    assert!((0.9 * client..1.1 * client).contains(&queues), "{queues} {client}");
    let times = mean(&auto(&world, 1, Rule::Times).operations(5000));
    assert!((0.9 * server..1.1 * server).contains(&times), "{times} {server}");
}

#[test]
fn many_clients_get_what_both_sides_can_do_together() {
    let worlds: [Worlds; 2] = [World::level, World::far];
    for (capacity, world_of) in CAPACITIES.iter().flat_map(|capacity| worlds.map(|of| (*capacity, of))) {
        let world = world_of(capacity, Arrivals::Closed(32));
        let both = world.cpu_rate() + world.nic_rate();
        for rule in [Rule::Queues, Rule::Times] {
            let got = throughput(&auto(&world, 1, rule).operations(80_000)) / both;
            assert!(got > 0.95, "{got} of {capacity} %, {rule:?}");
        }
    }
}

const STEP: u64 = 500 * MS;

/// Others need nine tenths of the NIC, but in the second of five steps more than the CPU.
fn steps(rate: f64) -> World {
    let mut world = World::level(100, Arrivals::Open(rate));
    let (cpu, nic) = (1.2 * world.cpu_rate(), 0.9 * world.nic_rate() * f64::from(world.rounds));
    world.others = vec![
        Others { side: Side::Client, rate: nic, from: 0, until: STEP },
        Others { side: Side::Server, rate: cpu, from: STEP, until: 2 * STEP },
        Others { side: Side::Client, rate: nic, from: 2 * STEP, until: 5 * STEP },
    ];
    world
}

/// A side that has become slow shows it with each operation. That the other one has become quick is shown by
/// those that explore: `HISTORY` of them are needed where the old times vary, 10,000 operations.
#[test]
fn a_change_of_load_is_followed_within_200_operations_or_a_second() {
    for (seed, rate) in (1..=4).flat_map(|seed| [(seed, 30_000.0), (seed, 60_000.0)]) {
        let done = auto(&steps(rate), seed, Rule::Queues).until(5 * STEP);
        let begun = |from, until| -> Vec<Side> {
            let begun = done.iter().filter(|done| (from..until).contains(&done.began));
            begun.map(|done| done.side).collect()
        };
        let share = |side: Side, of: &[Side]| {
            of.iter().filter(|taken| **taken == side).count() as f64 / of.len() as f64
        };
        let before = share(Side::Server, &begun(STEP / 2, STEP));
        assert!(before > 0.95, "{before}: the NIC is busy (seed {seed})");
        let busy = begun(STEP, 2 * STEP);
        let next = share(Side::Client, &busy[200..400]);
        assert!(next > 0.95, "{next}: so is the CPU, since 200 operations (seed {seed})");
        let all = share(Side::Client, &busy[200..]);
        assert!(all > 0.97, "{all}: and all the time (seed {seed})");
        let back = share(Side::Server, &begun(4 * STEP, 5 * STEP));
        assert!(back > 0.95, "{back}: it is idle again, since a second (seed {seed})");
    }
}
