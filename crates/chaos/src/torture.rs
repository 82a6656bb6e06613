//! A run, which starts groups, strikes them with faults, and has judges read everything that clients saw.
//! [`act`] takes the steps of a fault, [`orders`] gives orders to the groups, [`cold`] has all lose their
//! memory at one time, and [`last`] looks at all keys at the end.
//!
//! Otherwise never do more replicas lose their memory than a group can bear: a replica that did must be in
//! sync again before the next is struck. Over shm the other replicas kill a leader that they take for lost.
//! The run starts each process that ended again.

mod act;
mod cold;
mod last;
mod orders;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use longarm::cluster::{Durability, NodeId};
use longarm::config::Config;
use longarm::connect;
use longarm::output::{Exit, Failure};
use longarm::processes::{Plan, Replicas};
use longarm::standing::{self, Standing};
use longarm_base::Nanos;
use longarm_base::random::SplitMix64;
use longarm_history::counters::Count;
use longarm_host::{now, sleep};
use longarm_server::Timing;

use crate::client::{Notes, Role, Way, Worker};
use crate::cold::Cold;
use crate::fault::{Cables, Fault};
use crate::held::{Held, Watch};
use crate::kind::Kind;
use crate::looks::Looks;
use crate::map::Map;
use crate::names::Names;
use crate::over::{Over, connected};
use crate::pages::scan_side;
use crate::report::{self, Report, Struck, Takeover};
use crate::stage::{Probe, Stage};
use crate::values::Values;

/// The times between two looks at the processes, and at how the groups stand.
const LOOK: Duration = Duration::from_millis(10);
const LOOK_AT_GROUP: Nanos = Nanos::from_millis(25);
/// The time within which a process that died is started again.
const DOWN_MAX: Nanos = Nanos::from_millis(600);
/// The longest rest between two faults.
const REST_MAX: Nanos = Nanos::from_millis(400);
/// The number of clients that rest for longer than their timeout between any two operations.
pub const RESTING: u32 = 2;
/// How long clients use the keys of a round.
const ROUND: Nanos = Nanos::from_millis(2_000);
/// What a replica of one group may hold beyond the memory of that replica, and over shm of all replicas of
/// its group. A replica that nobody asks sends heartbeats, or answers them: a few hundredths of a core.
const SPARE: Held = Held { memory: 256 << 20, descriptors: 512, threads: 128, idle_cpu: 50 };

/// How long a group may take, which grows with its election time: long elections say that the machine is
/// slow.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The time within which service is back, once a fault is over.
    pub service: Nanos,
    /// The time within which all replicas are in sync, once a fault is over.
    pub sync: Nanos,
    /// The time within which a replica answers how it stands.
    pub answer: Duration,
    /// The bounds on an operation, each for every other client, so that some operations are in doubt, and
    /// some are not.
    pub timeouts: [Duration; 2],
}

impl Bounds {
    /// The bounds at these times of a group.
    pub fn of(timing: &Timing) -> Bounds {
        let election = timing.election;
        let service = Nanos(4 * election.0).max(Nanos::from_millis(10_000));
        Bounds {
            service,
            sync: Nanos(12 * election.0).max(Nanos::from_millis(60_000)),
            answer: Duration::from_nanos(election.0).max(Duration::from_secs(1)),
            timeouts: [
                Duration::from_nanos(service.0),
                Duration::from_nanos(election.0 / 10).max(Duration::from_millis(300)),
            ],
        }
    }
}

/// The options of a run.
pub struct Options {
    /// The program whose servers the nodes are.
    pub program: PathBuf,
    /// How processes reach each other.
    pub over: Over,
    /// How long faults strike.
    pub time: Duration,
    /// The number of replicas of a group.
    pub replicas: u8,
    /// The number of groups.
    pub groups: u8,
    /// The number of clients that do every operation, beside the probes of each group and the clients that
    /// rest.
    pub clients: u32,
    /// The seed, which decides which faults strike, when and which nodes, but not the outcome.
    pub seed: u64,
    /// The kinds of faults to draw from.
    pub kinds: Vec<Kind>,
    /// The times of each group.
    pub timing: Timing,
    /// Whether followers keep an ordered index, and clients ask for pages of scans.
    pub scans: bool,
    /// What an acknowledged write outlives. If nodes have disks, all may be killed at once.
    pub durability: Durability,
    /// The bytes of memory of a replica of one group.
    pub memory: u64,
    /// The number of threads of a replica of one group that execute writes.
    pub workers: u8,
    /// Set when the user wants an end.
    pub stop: Arc<AtomicBool>,
}

/// Groups under torture.
pub struct Torture {
    options: Options,
    bounds: Bounds,
    // Clients end before the network, and the network before the replicas.
    clients: Vec<JoinHandle<Notes>>,
    stage: Arc<Stage>,
    way: Way,
    cables: Cables,
    replicas: Replicas,
    /// The settings with which the run asks how the groups stand.
    config: Config,
    chance: SplitMix64,
    /// The replicas that do not run, and when they are to be started.
    down: BTreeMap<NodeId, Nanos>,
    /// How long some of the replicas that will end are to be away.
    away: BTreeMap<NodeId, Nanos>,
    /// The number of the next node that is added.
    next_node: u32,
    /// The replicas that lost writes with their memory and are not in sync again.
    lost: BTreeSet<NodeId>,
    /// The replicas that the run told to end.
    told: BTreeSet<NodeId>,
    cold: Cold,
    watch: Watch,
    /// Since when all replicas have been in sync.
    whole: Nanos,
    round: Nanos,
    struck: Vec<Struck>,
    /// The number of replicas that others of the group killed.
    fenced: u64,
}

impl Drop for Torture {
    fn drop(&mut self) {
        self.stage.end();
    }
}

impl Torture {
    /// Starts the groups, and waits until they are in sync. No client asks them for anything yet.
    pub fn begin(options: Options, config: &Config) -> Result<Torture, Failure> {
        let plan = Plan {
            program: options.program.clone(),
            name: "chaos",
            timing: options.timing,
            listen: None,
            devices: Vec::new(),
            count: options.replicas,
            groups: options.groups,
            memory: options.memory * u64::from(options.groups),
            workers: options.workers * options.groups,
            ordered: options.scans,
            durability: options.durability,
        };
        let (replicas, cables, topology) = connected(&options.over, plan)?;
        let bounds = Bounds::of(&options.timing);
        let mut config = config.clone();
        (config.cluster, config.secret_file, config.peer_secret_file) = (None, None, None);
        config.timeout = bounds.answer;
        let way = Way {
            transport: connect::transport(&config)?,
            names: Names::new(topology.clone()),
            map: Arc::new(Map::new(topology)),
            values: Arc::new(Values::default()),
            options: connect::options(&config, "longarm-chaos")?,
            scans: options.scans,
        };
        let stage = Arc::new(Stage::new(options.groups.into(), options.scans));
        let (chance, round) = (SplitMix64::new(options.seed), now());
        let next_node = u32::from(options.replicas) + 1;
        let mut torture = Torture {
            options,
            bounds,
            clients: Vec::new(),
            stage,
            way,
            cables,
            replicas,
            config,
            chance,
            down: BTreeMap::new(),
            away: BTreeMap::new(),
            next_node,
            lost: BTreeSet::new(),
            told: BTreeSet::new(),
            cold: Cold::default(),
            watch: Watch::default(),
            whole: round,
            round,
            struck: Vec::new(),
            fenced: 0,
        };
        let nodes: Vec<NodeId> = torture.replicas.cluster().nodes.iter().map(|one| one.node).collect();
        nodes.into_iter().try_for_each(|node| torture.start(node))?;
        torture.recover(now())?;
        Ok(torture)
    }

    /// The settings of a client of the groups as they are now.
    pub fn config(&self) -> Config {
        let mut config = self.config.clone();
        config.cluster = Some(self.replicas.file());
        config.timeout = self.bounds.timeouts[0];
        config
    }

    /// Strikes with faults, and waits after each until all is healed. `said` is told of each fault that was
    /// overcome.
    pub fn run(&mut self, mut said: impl FnMut(&Struck) -> Result<(), Failure>) -> Result<(), Failure> {
        self.start_clients()?;
        let began = now();
        self.recover(began)?;
        while now().since(began) < Nanos(self.options.time.as_nanos() as u64) && !self.is_unwanted() {
            let rest = Nanos(self.chance.modulo(REST_MAX.0));
            self.pass(rest)?;
            let struck = self.strike(began)?;
            said(&struck)?;
            self.struck.push(struck);
        }
        Ok(())
    }

    fn is_unwanted(&self) -> bool {
        // Relaxed: a flag that a signal sets; nothing is read under it.
        self.options.stop.load(Ordering::Relaxed)
    }

    fn start_clients(&mut self) -> Result<(), Failure> {
        let (groups, clients) = (0..usize::from(self.options.groups), self.options.clients);
        let probes = Probe::all(self.options.scans);
        let probes = groups.flat_map(|group| probes.iter().map(move |probe| Role::Probe(*probe, group)));
        let rest = (0..RESTING).map(|_| Role::Rests);
        let roles = probes.chain(rest).chain((0..clients).map(|one| Role::All(one, clients)));
        for (number, role) in (1..).zip(roles) {
            let mut way = self.way.clone();
            way.options.name = format!("torture {number}");
            let patient = match role {
                Role::Probe(..) => true,
                Role::All(one, _) => one % 2 == 0,
                Role::Rests => false,
            };
            way.options.scan_side = scan_side(number);
            way.options.timeout = self.bounds.timeouts[usize::from(!patient)];
            let (stage, chance) = (self.stage.clone(), SplitMix64::new(self.chance.modulo(u64::MAX)));
            let worker = Worker { number, role, way, stage, chance };
            let thread = std::thread::Builder::new().name(format!("client-{number}"));
            let thread = thread.spawn(move || worker.run());
            self.clients
                .push(thread.map_err(|error| {
                    Failure::new(Exit::System, format!("cannot start a thread: {error}"))
                })?);
        }
        Ok(())
    }

    /// Strikes with one fault, and waits until all is well again.
    fn strike(&mut self, began: Nanos) -> Result<Struck, Failure> {
        let before = self.recover(now())?;
        let group = self.chance.modulo(before.len() as u64) as usize;
        let (leader, _) = before[group].leader.as_ref().expect("recovered");
        let (leader, in_sync) = (*leader, before[group].in_sync.iter().copied());
        let followers: Vec<NodeId> = in_sync.filter(|node| *node != leader).collect();
        let fault =
            Fault::draw(&self.options.kinds, leader, &followers, &self.options.timing, &mut self.chance);
        let line = format!("{}: leader {leader}, follower {}", fault.kind.what(), fault.follower);
        self.replicas.journal().note("fault", &line);
        let at = now();
        let cold = self.options.durability == Durability::Async && fault.kind == Kind::KillAll;
        if cold {
            self.expect_loss();
        }
        self.act(group, &fault)?;
        let over = now();
        self.replicas.journal().note("fault", "is over");
        let after = self.recover(over)?;
        let well = now();
        if cold {
            self.look_back()?;
        }
        let takeovers = (0..).zip(before.iter().zip(&after)).filter_map(|(group, (before, after))| {
            let ((_, before), (node, stats)) = (before.leader.as_ref()?, after.leader.as_ref()?);
            let (group, how) = (self.if_several(group), stats["takeover"].clone());
            (stats["term"] != before["term"]).then_some(Takeover { group, node: *node, how })
        });
        let struck = Struck {
            group: self.if_several(group),
            fault,
            at: at.since(began),
            lasted: over.since(at),
            put: self.stage.gap(Probe::Put, at, well),
            get: self.stage.gap(Probe::Get, at, well),
            scan: self.options.scans.then(|| self.stage.gap(Probe::Scan, at, well)),
            in_sync: self.whole.since(over),
            takeovers: takeovers.collect(),
        };
        self.replicas.journal().note("fault", &format!("is overcome: {}", struck.to_text()));
        Ok(struck)
    }

    /// The number of a group, if there is more than one.
    fn if_several(&self, group: usize) -> Option<usize> {
        (self.options.groups > 1).then_some(group)
    }

    /// Lets time pass, and starts processes again that ended.
    fn pass(&mut self, time: Nanos) -> Result<(), Failure> {
        let until = now() + time;
        loop {
            self.look_after()?;
            let left = until.since(now());
            if left == Nanos(0) || self.is_unwanted() {
                return Ok(());
            }
            sleep(LOOK.min(Duration::from_nanos(left.0)));
        }
    }

    /// Starts processes that died, and ends the run if a process had no reason to die.
    fn look_after(&mut self) -> Result<(), Failure> {
        let fault = || self.replicas.journal().fault().map(str::to_string);
        if let Some(failure) = self.stage.failure().or_else(fault) {
            return Err(Failure::new(Exit::Corrupt, failure));
        }
        if now().since(self.round) > ROUND {
            self.round = now();
            self.stage.next_round();
        }
        for ended in self.replicas.ended() {
            let node = ended.node;
            self.replicas.journal().note("fault", &format!("node {node} ended: {}", ended.status));
            if !self.told.remove(&node) {
                if self.options.over != Over::Shm || !ended.was_killed() {
                    let text = format!("node {node} ended by itself: {}", ended.status);
                    return Err(Failure::new(Exit::Corrupt, text));
                }
                self.fenced += 1;
            }
            // In `async` mode what its disk does not have yet is lost with its memory.
            if !self.options.durability.keeps_all() {
                self.lost.insert(node);
            }
            let loses = self.cold.ended(node, now());
            if !loses && self.lost.len() > (usize::from(self.options.replicas) - 1) / 2 {
                let text = format!(
                    "nodes {:?} were without memory at one time, more than a group can bear: one was killed \
                     here while others took another for lost",
                    self.lost
                );
                let hint = "the machine is too busy for these times: --suspect, --lease and --election";
                return Err(Failure::new(Exit::System, text).hint(hint));
            }
            let away = self.away.remove(&node).unwrap_or_else(|| Nanos(self.chance.modulo(DOWN_MAX.0)));
            self.down.insert(node, now() + away);
        }
        let time = now();
        let due: Vec<NodeId> =
            self.down.iter().filter(|(_, at)| **at <= time).map(|(node, _)| *node).collect();
        for node in due {
            self.down.remove(&node);
            self.bring_back(node)?;
        }
        Ok(())
    }

    fn start(&mut self, node: NodeId) -> Result<(), Failure> {
        self.replicas.start(node)?;
        if let (Cables::Relays(network), Some(pid)) = (&self.cables, self.replicas.pid(node)) {
            network.learn(node.0, pid);
        }
        Ok(())
    }

    /// Waits until all replicas are in sync and, if there are clients, all probes work, since `over`.
    fn recover(&mut self, over: Nanos) -> Result<Vec<Standing>, Failure> {
        let mut before = false;
        loop {
            self.pass(LOOK_AT_GROUP)?;
            let standings = standing::look(self.replicas.cluster(), &self.config)?;
            let all = self.replicas.cluster().nodes.len();
            let is_whole = |group: &Standing| group.leader.is_some() && group.in_sync.len() == all;
            let broken = standings.iter().position(|group| !is_whole(group));
            let whole = broken.is_none() && self.down.is_empty() && self.told.is_empty();
            let (asked, waited) = (!self.clients.is_empty(), now().since(over));
            let silent = if asked { self.stage.silent_since(over) } else { Vec::new() };
            let serves = silent.is_empty();
            // A leader may not have noticed yet which follower it lost, so only its second report counts.
            if whole && before && serves {
                self.lost.clear();
                self.replicas.cluster().nodes.iter().for_each(|member| {
                    if let Some(pid) = self.replicas.pid(member.node) {
                        self.watch.look(pid);
                    }
                });
                return Ok(standings);
            }
            if whole && !before {
                self.whole = now();
            }
            before = whole;
            if self.is_unwanted() {
                return Err(Failure::new(Exit::System, "interrupted; the replicas are stopped"));
            }
            let Bounds { service, sync, .. } = self.bounds;
            if !serves && waited > service {
                let groups: Vec<usize> = silent.iter().map(|group| group + 1).collect();
                let text = format!(
                    "no service within {} ms after a fault, of groups {groups:?}",
                    service.0 / 1_000_000
                );
                return Err(Failure::new(Exit::Corrupt, text));
            }
            if waited > sync {
                let how = broken.map_or("some do not run".into(), |group| {
                    let Standing { in_sync, leader } = &standings[group];
                    format!("of group {} only {in_sync:?} are, led by {leader:?}", group + 1)
                });
                let text = format!("not in sync within {} s after a fault: {how}", sync.0 / 1_000_000_000);
                return Err(Failure::new(Exit::Corrupt, text));
            }
        }
    }

    /// Ends the clients; returns what they noted.
    fn collect(&mut self) -> Result<Notes, Failure> {
        self.stage.end();
        let mut all = Notes::default();
        for client in std::mem::take(&mut self.clients) {
            let noted = client.join().map_err(|_| {
                Failure::new(Exit::Corrupt, "a client ended by a broken invariant (see above)")
            })?;
            all.history.merge(noted.history);
            all.counts.extend(noted.counts);
            all.pages += noted.pages;
            all.walks += noted.walks;
            all.refused += noted.refused;
        }
        self.cold.give(&mut all);
        Ok(all)
    }

    /// What the judges say of a run that did not come to its end; empty if they were asked already.
    pub fn judge_so_far(&mut self) -> Result<String, Failure> {
        if self.clients.is_empty() {
            return Ok(String::new());
        }
        let notes = self.collect()?;
        Ok(report::judge(&notes.history, &[], &notes.counts, &self.losses()).to_text())
    }

    /// Ends the run: looks at all keys, ends the replicas, and has everything judged.
    pub fn end(&mut self) -> Result<Report, Failure> {
        self.recover(now())?;
        let Notes { mut history, mut counts, pages, walks, refused } = self.collect()?;
        let losses = self.losses();
        let Looks { at: looks, left, counts: left_counts } = self.look_everywhere()?;
        left.iter().for_each(|operation| history.push(operation.clone()));
        counts.extend::<Vec<Count>>(left_counts);
        let nodes = &self.replicas.cluster().nodes;
        let pids: Vec<u32> = nodes.iter().filter_map(|member| self.replicas.pid(member.node)).collect();
        self.watch.rest(&pids);
        let failures = [self.stage.failure(), self.stop(), self.beyond()];
        let replicas = self.options.replicas;
        Ok(Report {
            struck: std::mem::take(&mut self.struck),
            failures: failures.into_iter().flatten().collect(),
            judged: report::judge(&history, &left, &counts, &losses),
            refused,
            pages,
            walks,
            fenced: self.fenced,
            held: self.watch.to_text(),
            looks,
            replicas,
        })
    }

    /// Ends the replicas; returns in words which of them ended with an error.
    fn stop(&mut self) -> Option<String> {
        let bad: Vec<String> = self
            .replicas
            .stop()
            .into_iter()
            .filter(|ended| !ended.status.success())
            .map(|ended| format!("node {}, told to end, ended with {}", ended.node, ended.status))
            .collect();
        (!bad.is_empty()).then(|| bad.join("; "))
    }

    fn beyond(&self) -> Option<String> {
        // Over shm a leader maps the memory of all replicas, and of one that is being added.
        let shares = if self.options.over == Over::Shm { u64::from(self.options.replicas) + 1 } else { 1 };
        let groups = u64::from(self.options.groups);
        self.watch.beyond(Held {
            memory: groups * (shares * self.options.memory + SPARE.memory),
            descriptors: groups * SPARE.descriptors,
            threads: groups * SPARE.threads,
            idle_cpu: groups * SPARE.idle_cpu,
        })
    }

    /// Keeps the files of the run. Returns the end of its log, and where the log is.
    pub fn keep_files(&mut self) -> (String, PathBuf) {
        self.replicas.keep_files();
        let journal = self.replicas.journal();
        (journal.last(), journal.path().to_path_buf())
    }
}
