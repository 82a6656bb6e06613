//! Who does the work of an operation: the server, asked by a request, or the client, by READs.
//!
//! A [`Selector`] is Cell's locality selector (Cell 2.5) as a value: no clock, no I/O, and one a connection,
//! for one thread. The client asks it before an operation ([`Selector::choose`]), and tells it what the
//! operation took ([`Selector::answered`], [`Selector::read_round`]). Scans ask it, and GETs where that is
//! set.
//!
//! Each side has a queue: requests wait for the server's CPU, READs for its NIC. The server is taken where
//! `l_s - RTT_s < m (l_r - RTT_r)`: `l_s` is the mean time of a request, `l_r` that of a round of READs, `m`
//! the number of rounds that wait for each other, and an `RTT` the least time of its side in the last
//! [`FRESH`]. What exceeds it was spent in a queue.
//!
//! (1) A mean is over the last [`HISTORY`] times. A time is left out if it is more than [`SIGMAS`] standard
//!     deviations from the mean before it. Where more are left out than taken, the load has changed: the
//!     means begin anew (Cell 2.5).
//! (2) What is older than [`FRESH`] is forgotten. One operation in [`EXPLORED`] takes the side that seems
//!     worse, and so shows whether it still is (Cell 2.5).
//! (3) Ours: each size of operation ([`Size`]) has means of its own. A request's time is counted without the
//!     time that its answer's bytes take. For [`DISTURBED`] after a walk of READs met a change, `m` is larger
//!     by [`ROUNDS_AGAIN`]. A side of which nothing is known is tried.
//! (4) Cell's inequality compares queues. Two empty queues are equal, and then the client does the work, also
//!     where its rounds take longer than a request. So little is lost of what both sides can do together, but
//!     latency is, while nobody waits. [`Rule::Times`] compares the whole times: it is never much worse than
//!     the better side, for the price of the server's CPU (`tests/queues.rs` has a model of both).
//! (5) Ours: where a server shares its core, most requests are answered as soon as ever, and then one waits
//!     for as long as others have the core. By (1) that one is left out, though it may take half of all the
//!     time. [`Rule::Times`] counts what was left out in the last [`STALLED`] as time of each operation.
//! (6) Ours: who is asked after a rest takes longer, as a thread of a server sleeps then. By [`Rule::Times`]
//!     [`RUN`] operations in a row take the side that seems worse, as seldom as all in all (2) says, and the
//!     first [`COLD`] of them tell nothing. A side of which nothing is known begins with such a run, too: its
//!     first operation may have to connect, or finds nothing remembered.
//! (7) Ours: where a server waits for its core each time, one request in a hundred takes nearly all the time.
//!     By [`Rule::Times`] a run ends with the first time that is [`HOPELESS`] times the other side's, which
//!     tells enough, and the next begins when [`RESTED`] times as long has gone by as this one took. Where
//!     operations are slow a hundred of them take long, so a run is due after [`DUE`], too.

use std::collections::VecDeque;

use longarm_base::Nanos;
use longarm_base::random::SplitMix64;

/// Times of which a mean is made, and over which it is counted how many were left out (Cell 2.5: n).
pub const HISTORY: usize = 100;
/// Standard deviations beyond which a time is left out (Cell 2.5: K).
pub const SIGMAS: u64 = 3;
/// One operation in so many takes the side that seems worse (Cell 2.5: p is 1 %).
pub const EXPLORED: u64 = 100;
/// Operations in a row that do so.
pub const RUN: u64 = 8;
/// Of these, those whose times tell nothing.
pub const COLD: u64 = 2;
/// How much longer than the other side's mean a time is after which no more are needed.
pub const HOPELESS: u64 = 8;
/// How long no run begins after one, in times of what that took.
pub const RESTED: u64 = 32;
/// How long after a run the next one begins at the latest, unless the last one took too much.
pub const DUE: Nanos = Nanos::from_millis(250);
/// How long a time counts (Cell 2.5).
pub const FRESH: Nanos = Nanos::from_millis(3000);
/// How long a walk counts that met a change.
pub const DISTURBED: Nanos = Nanos::from_millis(100);
/// How long a time counts that was left out.
pub const STALLED: Nanos = Nanos::from_millis(1000);
/// Rounds that a walk is expected to need more, meanwhile.
pub const ROUNDS_AGAIN: u64 = 2;

/// Times without which none is left out: of fewer the deviation says nothing.
const JUDGED_FROM: usize = 10;
/// A longer time counts as so much: what is squared and summed then fits.
const TIME_MAX: u64 = 60_000_000_000;
/// How long a side that was tried may take to show its first time, until it is tried again.
const PATIENCE: Nanos = Nanos::from_millis(100);
/// Length of the parts of [`FRESH`] whose least times are kept.
const PART: u64 = Nanos::from_millis(500).0;
/// Parts of [`FRESH`], and the one under way.
const PARTS: usize = (FRESH.0 / PART) as usize + 1;
/// Length of the parts of [`STALLED`], and their number with the one under way.
const STALL_PART: u64 = Nanos::from_millis(200).0;
const STALL_PARTS: usize = (STALLED.0 / STALL_PART) as usize + 1;
/// Bits of the last [`HISTORY`] verdicts.
const VERDICTS: u128 = (1 << HISTORY) - 1;

/// Who does the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The server, asked by a request.
    Server,
    /// The client, by READs.
    Client,
}

impl Side {
    /// Who does it else.
    pub const fn other(self) -> Side {
        match self {
            Side::Server => Side::Client,
            Side::Client => Side::Server,
        }
    }

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Server => "server",
            Side::Client => "client",
        }
    }
}

/// How much an operation asks for. Times of different sizes say nothing of each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Up to 16 items: a GET, and the shortest scans.
    Short,
    /// Up to 128 items.
    Medium,
    /// More.
    Long,
}

impl Size {
    /// All of them.
    pub const ALL: [Size; 3] = [Size::Short, Size::Medium, Size::Long];

    /// That of an operation that asks for so many items at most.
    pub const fn of_limit(items: u64) -> Size {
        match items {
            0..=16 => Size::Short,
            17..=128 => Size::Medium,
            _ => Size::Long,
        }
    }
}

/// What of the two sides is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The time in queues, as Cell does: it spares the server's CPU, even where a request is sooner done.
    Queues,
    /// The whole time: the least latency, whosever CPU it takes.
    Times,
}

/// What a selector is told when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Decides which operations take the other side.
    pub seed: u64,
    /// What is compared.
    pub rule: Rule,
    /// What 1024 bytes of an answer take on this connection, in nanoseconds.
    pub nanos_per_kib: u32,
}

/// An answer to a request.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// From the request to its answer.
    pub took: Nanos,
    /// Bytes of the answer.
    pub bytes: u32,
}

/// Chooses who does the work, on one connection.
#[derive(Clone, Debug)]
pub struct Selector {
    settings: Settings,
    draw: SplitMix64,
    /// Of each [`Size`].
    sizes: [Queues; Size::ALL.len()],
    /// When a walk last met a change.
    disturbed: Option<Nanos>,
}

impl Selector {
    /// One that knows nothing yet.
    pub fn new(settings: Settings) -> Selector {
        Selector {
            settings,
            draw: SplitMix64::new(settings.seed),
            sizes: Size::ALL.map(|_| Queues::default()),
            disturbed: None,
        }
    }

    /// Who shall do an operation that the client could do in so many rounds of READs, each of which needs the
    /// one before it.
    pub fn choose(&mut self, now: Nanos, size: Size, rounds: u32) -> Side {
        let disturbed = self.disturbed.is_some_and(|at| now.since(at) < DISTURBED);
        let rounds = u64::from(rounds) + if disturbed { ROUNDS_AGAIN } else { 0 };
        let (queues, rule) = (&mut self.sizes[size as usize], self.settings.rule);
        if let Some(side) = queues.run.next() {
            return side;
        }
        let run = if rule == Rule::Times { RUN } else { 1 };
        let drawn = self.draw.once_in(EXPLORED * run);
        // Clients that begin together do not go from side to side together.
        let first_run = if run > 1 { COLD + 1 + self.draw.below(run) } else { 1 };
        match queues.better(now, rule, rounds) {
            // Where a side is unknown, to try it is all there is to explore.
            None => match queues.try_one(now) {
                (side, true) => queues.explore(side, first_run),
                (side, false) => side,
            },
            Some(side) if queues.is_rested(now) && (queues.is_due(now, rule) || drawn) => {
                queues.explore(side.other(), run)
            }
            Some(side) => side,
        }
    }

    /// The same by whole times ([`Rule::Times`]), for operations that are timed from their begin to their
    /// end: a walk is one round.
    pub fn by_times(seed: u64) -> Selector {
        Selector::new(Settings { seed, rule: Rule::Times, nanos_per_kib: 0 })
    }

    /// An operation that this side did has ended, and took so long.
    pub fn ended(&mut self, now: Nanos, size: Size, side: Side, took: Nanos) {
        match side {
            Side::Client => self.read_round(now, size, took),
            Side::Server => self.answered(now, size, Answered { took, bytes: 0 }),
        }
    }

    /// The server has answered a request.
    pub fn answered(&mut self, now: Nanos, size: Size, answered: Answered) {
        let bytes = u64::from(answered.bytes) * u64::from(self.settings.nanos_per_kib) / 1024;
        let took = answered.took.0.saturating_sub(bytes);
        self.sizes[size as usize].took(now, self.settings.rule, Side::Server, took);
    }

    /// A round of READs is complete. Where the client shares its cores with the server, the time of its own
    /// checks of the bytes belongs to the round.
    pub fn read_round(&mut self, now: Nanos, size: Size, took: Nanos) {
        self.sizes[size as usize].took(now, self.settings.rule, Side::Client, took.0);
    }

    /// A walk of READs met a change of what it read, torn or contended: the next ones may, too.
    pub fn disturbed(&mut self, now: Nanos) {
        self.disturbed = Some(now);
    }
}

/// What is known of the two sides.
#[derive(Clone, Debug, Default)]
struct Queues {
    server: Times,
    client: Times,
    run: Run,
    /// When the last run ended, and when the next may begin.
    explored: Nanos,
    rested: Nanos,
}

/// Operations in a row that take the side that seems worse.
#[derive(Clone, Debug, Default)]
struct Run {
    side: Option<Side>,
    /// Operations to come, and times of that side that tell nothing.
    left: u64,
    cold: u64,
    /// What its operations have taken.
    spent: u64,
}

impl Run {
    /// The side of the next operation, if it is one of the run.
    fn next(&mut self) -> Option<Side> {
        self.left = self.left.checked_sub(1)?;
        self.side
    }

    /// Whether a time of this side tells nothing.
    fn is_cold(&mut self, side: Side) -> bool {
        let is_cold = self.cold > 0 && self.side == Some(side);
        self.cold -= u64::from(is_cold);
        is_cold
    }
}

impl Queues {
    /// The side that Cell's inequality names (Cell 2.5), if both are known. It is multiplied out: nothing is
    /// divided.
    fn better(&mut self, now: Nanos, rule: Rule, rounds: u64) -> Option<Side> {
        let (server, client) = (self.server.mean(now, rule)?, self.client.mean(now, rule)?);
        let is_server = server.sum * client.count < u128::from(rounds) * client.sum * server.count;
        Some(if is_server { Side::Server } else { Side::Client })
    }

    /// Begins a run of operations of this side, with the first of them.
    fn explore(&mut self, side: Side, operations: u64) -> Side {
        let cold = if operations > COLD { COLD } else { 0 };
        self.run = Run { side: Some(side), left: operations - 1, cold, spent: 0 };
        side
    }

    /// Whether the last run is so long ago that there may be another.
    fn is_rested(&self, now: Nanos) -> bool {
        now >= self.rested
    }

    /// Whether there was no run for long.
    fn is_due(&self, now: Nanos, rule: Rule) -> bool {
        rule == Rule::Times && now.since(self.explored) >= DUE
    }

    /// An operation of this side has ended, and took so long.
    fn took(&mut self, now: Nanos, rule: Rule, side: Side, took: u64) {
        let mut tells = !self.run.is_cold(side);
        if rule == Rule::Times && self.run.side == Some(side) {
            let other = self.times(side.other()).mean(now, rule);
            let is_hopeless = |mean: Mean| u128::from(took) * mean.count > u128::from(HOPELESS) * mean.sum;
            if other.is_some_and(is_hopeless) {
                (self.run.left, self.run.cold, tells) = (0, 0, true);
            }
            self.run.spent = self.run.spent.saturating_add(took);
            if self.run.left == 0 {
                (self.explored, self.rested) = (now, now + Nanos(self.run.spent.saturating_mul(RESTED)));
                self.run = Run::default();
            }
        }
        if tells {
            self.times(side).add(now, took);
        }
    }

    fn times(&mut self, side: Side) -> &mut Times {
        match side {
            Side::Server => &mut self.server,
            Side::Client => &mut self.client,
        }
    }

    /// A side of which nothing is known, unless its first time is still awaited; else the one that is known.
    /// And whether it is to be tried.
    fn try_one(&mut self, now: Nanos) -> (Side, bool) {
        if self.client.is_worth_a_try(now) {
            (Side::Client, true)
        } else if self.server.is_worth_a_try(now) {
            (Side::Server, true)
        } else if !self.server.kept.is_empty() {
            (Side::Server, false)
        } else {
            (Side::Client, false)
        }
    }
}

/// A mean, as a fraction.
struct Mean {
    sum: u128,
    count: u128,
}

/// A time that was kept.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Nanos,
    took: u64,
}

/// Times of one side.
#[derive(Clone, Debug, Default)]
struct Times {
    /// At most [`HISTORY`], the oldest first.
    kept: VecDeque<Sample>,
    /// Of what is kept.
    sum: u128,
    /// Of the squares of what is kept.
    squares: u128,
    /// A bit for each of the last [`HISTORY`] times: it was left out.
    left_out: u128,
    /// How many of these bits mean anything.
    judged: u32,
    /// What was left out of late.
    stalls: Recent<Stalls, STALL_PART, STALL_PARTS>,
    /// The least time of the last [`FRESH`].
    least: Recent<Least, PART, PARTS>,
    /// When it was last taken because nothing was known of it.
    tried: Option<Nanos>,
}

impl Times {
    /// A time of this side. It tells whether the queue has changed, or is left out (Cell 2.5).
    fn add(&mut self, now: Nanos, took: u64) {
        self.forget(now);
        let took = took.min(TIME_MAX);
        self.least.part(now).add(took);
        let left_out = self.is_far(took);
        self.left_out = (self.left_out << 1 | u128::from(left_out)) & VERDICTS;
        self.judged = (self.judged + 1).min(HISTORY as u32);
        self.stalls.part(now).add(if left_out { took } else { 0 });
        if left_out {
            if 2 * self.left_out.count_ones() <= self.judged {
                return;
            }
            self.clear();
        }
        if self.kept.len() == HISTORY {
            self.drop_oldest();
        }
        self.kept.push_back(Sample { at: now, took });
        self.sum += u128::from(took);
        self.squares += u128::from(took).pow(2);
    }

    /// More than so many deviations from the mean: both sides are squared, and multiplied by the count twice.
    fn is_far(&self, took: u64) -> bool {
        let count = self.kept.len() as u128;
        let from_mean = (count * u128::from(took)).abs_diff(self.sum);
        let deviation = count * self.squares - self.sum.pow(2);
        self.kept.len() >= JUDGED_FROM && from_mean.pow(2) > u128::from(SIGMAS).pow(2) * deviation
    }

    /// The mean time, or what of it exceeds the least.
    fn mean(&mut self, now: Nanos, rule: Rule) -> Option<Mean> {
        self.forget(now);
        let count = self.kept.len() as u128;
        let sum = match rule {
            Rule::Queues => self.sum.saturating_sub(count * u128::from(self.least.get(now))),
            Rule::Times => self.sum + count * u128::from(self.stalls.share(now)),
        };
        (count > 0).then_some(Mean { sum, count })
    }

    /// Whether nothing is known of it, and nothing on the way. It is, from now on.
    fn is_worth_a_try(&mut self, now: Nanos) -> bool {
        let awaited = self.tried.is_some_and(|at| now.since(at) < PATIENCE);
        let is_worth = self.kept.is_empty() && !awaited;
        if is_worth {
            self.tried = Some(now);
        }
        is_worth
    }

    /// Drops what is too old.
    fn forget(&mut self, now: Nanos) {
        while self.kept.front().is_some_and(|sample| now.since(sample.at) > FRESH) {
            self.drop_oldest();
        }
        if self.kept.is_empty() {
            self.clear();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(Sample { took, .. }) = self.kept.pop_front() {
            self.sum -= u128::from(took);
            self.squares -= u128::from(took).pow(2);
        }
    }

    /// Drops all but the least time: that is the network's, not the queue's.
    fn clear(&mut self) {
        self.kept.clear();
        (self.sum, self.squares) = (0, 0);
        (self.left_out, self.judged, self.stalls) = (0, 0, Recent::default());
    }
}

/// What was noted in each of the last `PARTS` parts of time, which are `PART` nanoseconds long.
#[derive(Clone, Debug)]
struct Recent<T, const PART: u64, const PARTS: usize> {
    /// With the number of the part: its moments in parts.
    parts: [(u64, T); PARTS],
}

impl<T: Copy + Default, const PART: u64, const PARTS: usize> Default for Recent<T, PART, PARTS> {
    fn default() -> Self {
        Recent { parts: [(0, T::default()); PARTS] }
    }
}

impl<T: Copy + Default, const PART: u64, const PARTS: usize> Recent<T, PART, PARTS> {
    /// That of the part under way.
    fn part(&mut self, now: Nanos) -> &mut T {
        let number = now.0 / PART;
        let (of, part) = &mut self.parts[(number % PARTS as u64) as usize];
        if *of != number {
            (*of, *part) = (number, T::default());
        }
        part
    }

    /// Those of all parts that count.
    fn fresh(&self, now: Nanos) -> impl Iterator<Item = &T> {
        let number = now.0 / PART;
        let fresh = move |of: u64| of <= number && number - of < PARTS as u64;
        self.parts.iter().filter(move |(of, _)| fresh(*of)).map(|(_, part)| part)
    }
}

/// Operations, and the times of those that were left out.
#[derive(Clone, Copy, Debug, Default)]
struct Stalls {
    operations: u64,
    lost: u64,
}

impl Stalls {
    /// An operation, and its time if that was left out.
    fn add(&mut self, lost: u64) {
        self.operations += 1;
        self.lost = self.lost.saturating_add(lost);
    }
}

impl Recent<Stalls, STALL_PART, STALL_PARTS> {
    /// How much of the time that was left out comes to each operation.
    fn share(&self, now: Nanos) -> u64 {
        let sum = |(operations, lost): (u64, u64), part: &Stalls| {
            (operations + part.operations, lost.saturating_add(part.lost))
        };
        let (operations, lost) = self.fresh(now).fold((0, 0), sum);
        lost.checked_div(operations).unwrap_or(0).min(TIME_MAX)
    }
}

/// The least time.
#[derive(Clone, Copy, Debug)]
struct Least(u64);

impl Default for Least {
    fn default() -> Least {
        Least(TIME_MAX)
    }
}

impl Least {
    fn add(&mut self, took: u64) {
        self.0 = self.0.min(took);
    }
}

impl Recent<Least, PART, PARTS> {
    fn get(&self, now: Nanos) -> u64 {
        self.fresh(now).map(|part| part.0).min().unwrap_or(TIME_MAX)
    }
}

#[cfg(test)]
mod tests;
