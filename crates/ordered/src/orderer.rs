//! The orderer: the thread that owns the tree of a replica, feeds it, and answers scans. Both indexes agree
//! on a page's range when it is answered (HiStore 3.2.3, by the window rule of decision 30).

use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Mutant, Nanos, Term};
use longarm_fabric::QueuePair;
use longarm_host::{Mutex, now, random};
use longarm_index::tree::{Owner, TreeFull, TreeOptions};
use longarm_memory::{Mapped, OwnedWords, SumKey, Words};
use longarm_wire::{OrderedStage, OrderedStats, ScanHead, ScanKind, ScanStatus, page_time};

use crate::arena::OwnArena;
use crate::build::Tree;
use crate::door::{Door, ScanConnection};
use crate::following::{Following, Look, STEP, Trouble};
use crate::order::{Kept, Order, Orders};
use crate::page::{Made, NotMade, Sources, Wanted};
use crate::source::Source;
use crate::stand_in::{Demand, Led, StandIn};

/// The time between two looks at the leader's words while no request waits: as long as they bring something,
/// and doubled up to the longest one while they do not. While heartbeats tell of nothing the page alone is
/// looked at. A leader reuses the memory of an entry that was replaced at once no sooner than after a lease
/// and the longest READ, which is longer by default.
const EVERY: Duration = Duration::from_millis(5);
/// The same where nobody has scanned of late. The thread that sleeps for longer interrupts others less often.
const EVERY_UNASKED: Duration = Duration::from_millis(15);
const EVERY_IDLE: Duration = Duration::from_millis(40);
/// For how long after a request the tree takes what is new at each look, as the next request may come at any
/// moment.
const SCANNED: Nanos = Nanos::from_millis(1_000);
/// The sleep while nobody is followed.
const REST: Duration = Duration::from_millis(100);
/// The sleep while requests wait for entries to land, or answers for room.
const SHORT: Duration = Duration::from_micros(200);
/// How long a request is tried.
const TRIES: Nanos = Nanos::from_millis(20);
/// How long a tree that outgrew its memory is not begun anew, at first and at most: twice as long each time.
/// Items may have been deleted meanwhile; to build it takes a core's time.
const FULL: Nanos = Nanos::from_millis(1_000);
const FULL_MAX: Nanos = Nanos::from_millis(128_000);
/// The most requests of one round.
const ROUND: usize = 32;

/// How to make an orderer.
pub struct OrdererOptions {
    /// The replica's arena.
    pub arena: Mapped,
    /// The page that leaders WRITE.
    pub page: Mapped,
    /// The memory of the tree, zeroed.
    pub tree: Mapped,
    /// The key of the group's checksums.
    pub sum_key: u64,
    /// How the tree is made.
    pub options: TreeOptions,
    /// How long to look for the next request after an answer, before the thread sleeps.
    pub spin: Duration,
    /// Where lines go that say what happens.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A page that was made and is to be shown if nothing has changed.
struct Candidate {
    connection: usize,
    wanted: Wanted,
    made: Made,
}

/// The thread's state.
pub struct Orderer<Q> {
    arena: OwnArena,
    page: Mapped,
    memory: Mapped,
    sums: SumKey,
    options: TreeOptions,
    spin: Nanos,
    /// Items of the page that was answered last, until it looks for more requests.
    shown: u32,
    /// Memory for the next page.
    room: Vec<u8>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
    orders: Arc<Orders<Q>>,
    door: Arc<Door<Q>>,
    stats: Arc<Mutex<OrderedStats>>,
    told: OrderedStats,
    connections: Vec<ScanConnection<Q>>,
    tree: Option<Tree>,
    following: Option<Following<Q>>,
    /// The term that this replica leads, if it has followers. What it follows then, if anything, are its own
    /// streams.
    stand_in: Option<StandIn>,
    /// What was followed before a leader began to write the memory.
    paused: Option<(Following<Q>, Kept)>,
    /// When the leader's words were last seen, and in microseconds how long before the look of this round.
    seen: Nanos,
    lag: u32,
    /// When a request was last to be answered.
    asked: Option<Nanos>,
    /// Since when the oldest requests are tried.
    tried: Option<Nanos>,
    /// Until when there is no tree, as it outgrew its memory.
    full: Option<Nanos>,
    /// For how long there is none when it outgrows its memory the next time.
    full_for: Nanos,
    /// The time to the next look.
    every: Duration,
}

impl<Q: QueuePair + 'static> Orderer<Q> {
    /// An orderer that follows nobody yet.
    pub fn new(options: OrdererOptions, orders: Arc<Orders<Q>>, door: Arc<Door<Q>>) -> Orderer<Q> {
        let sums = SumKey::new(options.sum_key);
        Orderer {
            arena: OwnArena::new(options.arena, sums.clone()),
            page: options.page,
            memory: options.tree,
            sums,
            options: options.options,
            spin: Nanos(options.spin.as_nanos() as u64),
            shown: 0,
            room: Vec::new(),
            log: options.log,
            orders,
            door,
            stats: Arc::default(),
            told: OrderedStats::default(),
            connections: Vec::new(),
            tree: None,
            following: None,
            stand_in: None,
            paused: None,
            seen: Nanos(0),
            lag: 0,
            asked: None,
            tried: None,
            full: None,
            full_for: FULL,
            every: EVERY,
        }
    }

    /// Shows the orderer's figures, also when it has ended.
    pub fn stats(&self) -> Arc<Mutex<OrderedStats>> {
        self.stats.clone()
    }

    /// Follows and answers until it is told to stop.
    pub fn run(mut self) {
        let mut heard = false;
        loop {
            while let Some(order) = self.orders.take() {
                if matches!(order, Order::Stop) {
                    return;
                }
                self.obey(order);
            }
            self.connections.extend(self.door.take());
            heard |= self.hear();
            let busy = self.round();
            self.tell();
            if busy {
                continue;
            }
            heard = heard && self.hears_more();
            if !heard {
                self.sleep();
            }
        }
    }

    fn obey(&mut self, order: Order<Q>) {
        self.stand_in = None;
        match order {
            Order::Prepare { kept } => {
                let followed = self.following.take().or(self.paused.take().map(|(followed, _)| followed));
                let keeps = kept != Kept::Nothing || Mutant::KeepMixed.is_on();
                self.paused = followed.filter(|_| keeps).map(|followed| (followed, kept));
                if self.paused.is_none() {
                    self.give_up();
                }
            }
            Order::Follow { term, streams, connect } => {
                let next = Following::new(term, streams, Source::Page(self.page.clone()));
                (self.full, self.full_for) = (None, FULL);
                self.following = Some(self.resume(next).connect_by(connect));
            }
            Order::Lead { term, streams, progress, stable, followed } => {
                self.give_up();
                (self.full, self.full_for) = (None, FULL);
                let led = Led { term, streams, progress, stable };
                match followed {
                    true => self.stand_in = Some(StandIn { led, demand: Demand::default() }),
                    false => self.following = Some(led.follow()),
                }
            }
            Order::Rest => self.give_up(),
            Order::Stop => unreachable!("it stops before"),
        }
    }

    /// Follows nobody. The tree is not kept: what it stands at is lost, and entries that it names go.
    fn give_up(&mut self) {
        (self.following, self.paused) = (None, None);
        self.uproot();
    }

    /// Gives the tree's memory back: all that there is, if it was lost while it was written.
    fn uproot(&mut self) {
        match self.tree.take() {
            Some(tree) => tree.end(),
            None => self.memory.discard(0, self.memory.bytes()),
        }
    }

    /// Follows the term of `next` from where the tree is, if the tree is still good for that.
    fn resume(&mut self, next: Following<Q>) -> Following<Q> {
        match (self.paused.take(), &mut self.tree) {
            (Some((paused, Kept::Term)), _) if paused.term == next.term => paused,
            (Some((paused, Kept::Base { base, cuts })), Some(tree)) if paused.term == base => {
                paused.go_on(next, &cuts, tree, &mut self.arena)
            }
            (Some((paused, Kept::Nothing)), Some(tree)) => {
                let cuts = paused.taken();
                paused.go_on(next, &cuts, tree, &mut self.arena)
            }
            _ => next,
        }
    }

    /// Takes what clients ask; whether any did. How the index stands is answered at once, as of the last
    /// look.
    fn hear(&mut self) -> bool {
        let mut busy = false;
        let (log, told) = (&self.log, &self.told);
        self.connections.retain_mut(|connection| match connection.turn() {
            Ok(news) => {
                busy |= news;
                connection.answer_stats(told);
                true
            }
            Err(why) => {
                why.iter().for_each(|why| log(why));
                false
            }
        });
        busy
    }

    /// Looks for more requests for a while, as who has an answer asks again soon, when it has taken that;
    /// whether there are some.
    fn hears_more(&mut self) -> bool {
        let until = now() + self.spin + page_time(std::mem::take(&mut self.shown));
        loop {
            if self.hear() {
                return true;
            }
            if now() >= until {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// An empty tree, if there is none and none is being written.
    fn plant(&mut self) -> Result<(), TreeFull> {
        let is_written = self.following.as_ref().is_some_and(Following::is_writing);
        if self.tree.is_none() && !is_written {
            // One that was given up while it was written may have left nodes here.
            self.memory.discard(0, self.memory.bytes());
            let tree = Owner::create(
                self.memory.clone(),
                self.arena.clone(),
                self.sums.clone(),
                draw(),
                self.options,
            )?;
            self.tree = Some(tree);
        }
        Ok(())
    }

    /// Of a leader that has followers: begins to keep a tree if clients find none of these ready, and gives
    /// it up when they do again.
    fn stand_in(&mut self) {
        let Some(StandIn { led, demand }) = &mut self.stand_in else { return };
        let time = now();
        let mut wanted = self.connections.iter().flat_map(|connection| &connection.wanted);
        if wanted.any(|wanted| wanted.term == led.term) {
            demand.note(time);
        }
        match self.following {
            None if demand.lasts() => {
                (self.log)("clients find no follower with an ordered index: the leader keeps one");
                self.following = Some(led.follow());
            }
            Some(_) if demand.is_over(time) => {
                (self.log)("clients ask the leader for no scans any more: its ordered index is given up");
                *demand = Demand::default();
                self.give_up();
            }
            _ => {}
        }
    }

    /// Advances the tree, and answers what can be answered; whether there is more to do at once.
    fn round(&mut self) -> bool {
        self.stand_in();
        self.full = self.full.filter(|until| now() < *until);
        let asked = self.connections.iter().any(|connection| !connection.wanted.is_empty());
        if asked {
            self.asked = Some(now());
        }
        let advanced = match &self.following {
            Some(following) if self.full.is_none() && !asked && following.is_still(now()) => {
                self.seen = now();
                self.every = (2 * self.every).min(EVERY_IDLE);
                Ok(false)
            }
            Some(_) if self.full.is_none() => self.advance(),
            _ => Err(ScanStatus::Elsewhere),
        };
        let asked = asked || Mutant::ScanOldSample.is_on() && self.hear();
        let busy = matches!(advanced, Ok(true));
        if !asked {
            self.tried = None;
            return busy;
        }
        let ready = self.following.as_ref().is_some_and(Following::is_ready);
        match advanced {
            Ok(_) if ready => self.answer(),
            Ok(_) => self.refuse_all(ScanStatus::Elsewhere),
            Err(status) => self.refuse_all(status),
        }
        true
    }

    /// Brings the tree to what the leader has applied; whether there is more to do at once.
    fn advance(&mut self) -> Result<bool, ScanStatus> {
        let now = now();
        let wanted = self.asked.is_some_and(|asked| now.since(asked) < SCANNED);
        if self.plant().is_err() {
            return Err(self.overflow());
        }
        let following = self.following.as_mut().expect("asked for");
        let was_ready = following.is_ready();
        match following.advance(&mut self.tree, &mut self.arena, &mut draw, Look { now, wanted }) {
            Ok(entries) => {
                self.lag = (now.since(self.seen).0 / 1000).min(u64::from(u32::MAX)) as u32;
                self.seen = now;
                self.told.entries += entries;
                self.every = match following.is_ready() {
                    true if entries == 0 => (2 * self.every).min(EVERY_IDLE),
                    true if !wanted => EVERY_UNASKED,
                    _ => EVERY,
                };
                if following.is_ready() && !was_ready {
                    self.told.builds += 1;
                }
                Ok(following.is_busy() || entries >= STEP as u64)
            }
            Err(Trouble::Away) => {
                self.every = EVERY;
                Err(ScanStatus::Elsewhere)
            }
            Err(Trouble::Gap(gap)) => {
                (self.log)(&format!(
                    "the ordered index lacks position {} of stream {} in term {}, which was reclaimed: it is \
                     built anew",
                    gap.position, gap.stream, following.term
                ));
                following.begin_anew();
                self.told.gaps += 1;
                Err(ScanStatus::Elsewhere)
            }
            Err(Trouble::Full) => Err(self.overflow()),
        }
    }

    fn overflow(&mut self) -> ScanStatus {
        let pause = self.full_for.0 / 1_000_000_000;
        (self.log)(&format!("the ordered index outgrew its memory: it is built anew in {pause} s"));
        self.full = Some(now() + self.full_for);
        self.full_for = (self.full_for + self.full_for).min(FULL_MAX);
        // What snapshots keep goes with the tree.
        if let Some(following) = &mut self.following {
            following.begin_anew();
        }
        self.uproot();
        ScanStatus::Full
    }

    /// Makes pages, and shows those that nothing has changed meanwhile.
    fn answer(&mut self) {
        let (Some(tree), Some(following)) = (&mut self.tree, &mut self.following) else { return };
        let (began, term) = (now(), following.term);
        let (mut candidates, mut left) = (Vec::new(), ROUND);
        for (number, connection) in self.connections.iter_mut().enumerate() {
            for _ in 0..connection.wanted.len() {
                if left == 0 {
                    break;
                }
                let Some(mut wanted) = connection.wanted.pop_front() else { break };
                left -= 1;
                if wanted.term != term && !Mutant::ScanAnyTerm.is_on() {
                    connection.answer(wanted.refused(ScanStatus::Elsewhere, term));
                    continue;
                }
                if wanted.kind == ScanKind::Close {
                    following.snapshots.close(wanted.moment);
                    connection.answer(ScanHead::new(ScanStatus::Ok, wanted.operation, term).encode());
                    continue;
                }
                wanted.rounds += 1;
                let (arena, lag_us, snapshots) = (&self.arena, self.lag, &mut following.snapshots);
                let room = &mut self.room;
                match wanted.make(Sources { tree, arena, snapshots, lag_us, now: began, room }) {
                    Ok(made) if wanted.kind == ScanKind::SnapshotPage => {
                        self.told.pages += 1;
                        self.shown = made.items;
                        self.room = connection.answer_page(made.answer());
                    }
                    Ok(made) => candidates.push(Candidate { connection: number, wanted, made }),
                    Err(NotMade::Stale) => connection.wanted.push_back(wanted),
                    Err(NotMade::Changed) => connection.answer(wanted.refused(ScanStatus::Changed, term)),
                    Err(NotMade::Gone) => connection.answer(wanted.refused(ScanStatus::Gone, term)),
                }
            }
        }
        self.show(candidates);
        let waits = self.connections.iter().any(|connection| !connection.wanted.is_empty());
        if !waits {
            self.tried = None;
            return;
        }
        let since = *self.tried.get_or_insert(began);
        if now().since(since) >= TRIES {
            self.tried = None;
            self.told.contended += 1;
            self.refuse_all(ScanStatus::Contended);
        }
    }

    /// Samples once more, and shows the pages that nothing has changed meanwhile.
    fn show(&mut self, candidates: Vec<Candidate>) {
        let Some(following) = self.following.as_mut().filter(|_| !candidates.is_empty()) else { return };
        let conflicts = following.conflicts(&mut self.arena, now());
        for Candidate { connection, wanted, made } in candidates {
            let connection = &mut self.connections[connection];
            let is_snapshot = wanted.kind == ScanKind::Snapshot;
            let stands = match &conflicts {
                Ok(conflicts) => !conflicts.any(|key| made.speaks_of(key)),
                Err(_) => false,
            };
            if !stands && (!is_snapshot || !Mutant::SnapshotUnchecked.is_on()) {
                self.told.again += 1;
                connection.wanted.push_back(wanted);
            } else if is_snapshot && !following.snapshots.take(made.moment, now()) {
                connection.answer(wanted.refused(ScanStatus::Crowded, following.term));
            } else {
                self.told.pages += 1;
                self.shown = made.items;
                self.room = connection.answer_page(made.answer());
            }
        }
    }

    fn refuse_all(&mut self, status: ScanStatus) {
        let term = self.following.as_ref().map_or(Term::ZERO, |following| following.term);
        let status = if self.full.is_some() { ScanStatus::Full } else { status };
        for connection in &mut self.connections {
            while let Some(wanted) = connection.wanted.pop_front() {
                connection.answer(wanted.refused(status, term));
            }
        }
    }

    fn tell(&mut self) {
        let following = self.following.as_ref();
        let stage = match following {
            _ if self.full.is_some() => OrderedStage::Full,
            None => OrderedStage::Resting,
            Some(following) if following.is_ready() => OrderedStage::Ready,
            Some(following) => OrderedStage::Building(following.percent()),
        };
        let told = &mut self.told;
        told.stage = stage;
        told.term = following.map_or(Term::ZERO, |following| following.term);
        told.lag = following.map_or(0, Following::lag);
        if let Some(tree) = &self.tree {
            let counts = tree.counts();
            (told.items, told.markers) = (counts.items, counts.markers);
            (told.bytes, told.height, told.steps) = (counts.bytes, counts.height, tree.step());
        }
        *self.stats.lock() = *told;
    }

    fn sleep(&mut self) {
        let owes = self.connections.iter().any(ScanConnection::owes);
        let waits = self.connections.iter().any(|connection| !connection.wanted.is_empty());
        if self.connections.iter_mut().fold(false, |news, connection| news | connection.arm()) {
            return;
        }
        let time = match &self.following {
            _ if owes || waits => SHORT,
            Some(_) if self.full.is_none() => self.every,
            _ => REST,
        };
        self.orders.channel().wait(time);
    }
}

/// A number that nobody guesses.
fn draw() -> u64 {
    random().map_or(0, |[number]| number)
}
