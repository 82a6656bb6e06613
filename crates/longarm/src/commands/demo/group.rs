//! `longarm demo --group`: three replicas under load, whose leaders are killed. Each PUT has a key of its
//! own, so that the demo can ask for every acknowledged PUT afterwards, and scan for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cluster::{Durability, NodeId};
use longarm_base::random::SplitMix64;
use longarm_client::{ClusterClient, Error, Scan};
use longarm_host::{Mutex, now, sleep};
use longarm_workload::values::make;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::config::Config;
use crate::config::units::show_duration;
use crate::connect;
use crate::human;
use crate::items::described::{SMALL, check, small_key};
use crate::output::{Exit, Failure, Output};
use crate::processes::{PAUSE, Plan, Replicas, this_program};
use crate::standing;
use crate::times::Times;

/// The number of replicas.
const COUNT: u8 = 3;
/// The number of clients that PUT.
const WRITERS: u64 = 4;
/// The pause of a writer between two PUTs: the machine must have time for seven processes, and memory for all
/// items.
const BREATH: Duration = Duration::from_micros(100);
/// How long writers work before the leader is killed, and after another leads.
const LOAD: Duration = Duration::from_secs(3);
/// Memory of a replica, and PUTs that fit into it.
const MEMORY: u64 = 256 << 20;
const PUTS_MAX: u64 = 400_000;
/// The most time for anything that the group is to do.
const PATIENCE: Duration = Duration::from_secs(20);
/// Keys of one multi-GET.
const BATCH: usize = 64;

/// The state that writers and the reader share.
#[derive(Default)]
struct Shared {
    end: AtomicBool,
    /// By writer: the number of PUTs, from its first on, that were acknowledged.
    written: [AtomicU64; WRITERS as usize],
    gets: AtomicU64,
    /// The longest times in nanoseconds without an acknowledgement for a writer, and without a GET.
    put_gap: AtomicU64,
    get_gap: AtomicU64,
    failure: Mutex<Option<String>>,
}

/// The ordering of counters for people, and of flags to end: PUTs are read back after the threads were
/// joined.
// Relaxed: as just said, of all of this file.
const RELAXED: Ordering = Ordering::Relaxed;

impl Shared {
    fn written(&self) -> u64 {
        self.written.iter().map(|count| count.load(RELAXED)).sum()
    }

    fn ended(&self) -> bool {
        self.end.load(RELAXED)
    }

    fn fail(&self, what: String) {
        self.failure.lock().get_or_insert(what);
        self.end.store(true, RELAXED);
    }

    /// Notes that a time without an answer is over.
    fn gap(gap: &AtomicU64, since: &mut longarm_base::Nanos) {
        let time = now();
        gap.fetch_max(time.since(*since).0, RELAXED);
        *since = time;
    }
}

/// The number of a writer's `i`-th item.
fn number(writer: u64, i: u64) -> u64 {
    i * WRITERS + writer
}

fn write(client: &mut ClusterClient, writer: u64, shared: &Shared) -> Result<(), Error> {
    let mut last = now();
    while !shared.ended() && shared.written() < PUTS_MAX {
        let i = shared.written[writer as usize].load(RELAXED);
        let item = number(writer, i);
        client.put(&small_key(item), &make(item, 0, SMALL))?;
        shared.written[writer as usize].store(i + 1, RELAXED);
        Shared::gap(&shared.put_gap, &mut last);
        sleep(BREATH);
    }
    Ok(())
}

/// GETs acknowledged items, at random.
fn read(client: &mut ClusterClient, shared: &Shared) -> Result<(), Error> {
    let (mut chance, mut last) = (SplitMix64::new(1), now());
    while !shared.ended() {
        let writer = chance.modulo(WRITERS);
        let written = shared.written[writer as usize].load(RELAXED);
        if written == 0 {
            sleep(BREATH);
            continue;
        }
        let item = number(writer, chance.modulo(written));
        let key = small_key(item);
        let found = client.get(&key)?;
        if let Some(why) = check(&key, item, found.as_deref(), |_| SMALL) {
            shared.fail(format!("acknowledged {why}"));
        }
        shared.gets.fetch_add(1, RELAXED);
        Shared::gap(&shared.get_gap, &mut last);
    }
    Ok(())
}

/// Runs the demo of a group.
pub fn run(config: &Config, stop: Arc<AtomicBool>, output: &mut Output) -> Result<Exit, Failure> {
    let times = Times::usual();
    let replicas = Replicas::draw(Plan {
        program: this_program()?,
        name: "demo-group",
        timing: times.timing(),
        listen: None,
        devices: Vec::new(),
        count: COUNT,
        groups: 1,
        memory: MEMORY,
        workers: 1,
        ordered: true,
        durability: Durability::Memory,
    })?;
    let mut config = config.clone();
    (config.cluster, config.secret_file) = (Some(replicas.file()), None);
    config.peer_secret_file = None;
    let mut asks = config.clone();
    (asks.cluster, asks.timeout) = (None, Duration::from_secs(1));
    config.timeout = config.timeout.max(PATIENCE);
    let (shared, threads) = (Arc::default(), Vec::new());
    let mut act = Act { replicas, config, asks, stop, output, shared, threads };
    let done = act.play(&times);
    // Whatever comes of the demo, the threads end here, and the replicas and their files when they are
    // dropped.
    act.shared.end.store(true, RELAXED);
    let ended = act.join();
    let done = done.and_then(|exit| ended.map(|()| exit));
    done.map_err(|failure| act.with_log(failure))
}

struct Act<'a> {
    replicas: Replicas,
    /// Settings of the clients that load.
    config: Config,
    /// Settings of the clients that ask how the group stands.
    asks: Config,
    stop: Arc<AtomicBool>,
    output: &'a mut Output,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Act<'_> {
    fn play(&mut self, times: &Times) -> Result<Exit, Failure> {
        let began = Instant::now();
        self.replicas.start_all()?;
        let (mut leader, _) = self.until("a group in sync", |standing| standing.in_sync.len() == 3)?;
        let pids = [1, 2, 3].map(|node| self.replicas.pid(NodeId(node)).unwrap_or(0).to_string());
        self.say(&format!(
            "group       {COUNT} replicas over shm, pids {}: node {leader} leads; lease {}, suspect {}",
            pids.join(", "),
            show_duration(times.lease),
            show_duration(times.suspect)
        ))?;
        self.start_load()?;
        self.load()?;
        let before = self.shared.written();
        let first = self.kill(leader)?;
        self.load()?;
        self.shared.end.store(true, RELAXED);
        self.join()?;
        let written = self.shared.written();
        self.say(&format!(
            "stopped     {WRITERS} writers: {} PUTs acknowledged, {} of them before the kill",
            human::count(written),
            human::count(before)
        ))?;
        self.read_back("")?;
        self.scan()?;
        let back = self.restart(leader)?;
        (leader, _) = self.until("a leader", |_| true)?;
        let second = self.kill(leader)?;
        self.read_back(" again")?;
        let gap = |gap: &AtomicU64| gap.load(RELAXED) / 1000;
        if self.output.json() {
            self.output.value(&json!({
                "acknowledged": written, "before_the_kill": before, "lost": 0,
                "put_gap_us": gap(&self.shared.put_gap), "get_gap_us": gap(&self.shared.get_gap),
                "takeovers": [first, second], "back_in_sync_us": back.as_micros() as u64,
                "seconds": began.elapsed().as_secs_f64(),
            }))?;
            return Ok(Exit::Ok);
        }
        self.say(&format!(
            "PASSED      two leaders killed within {}, no acknowledged PUT lost",
            human::time(began.elapsed())
        ))?;
        self.say(NEXT)?;
        Ok(Exit::Ok)
    }

    fn say(&mut self, line: &str) -> Result<(), Failure> {
        if self.output.json() { Ok(()) } else { self.output.line(line) }
    }

    /// Fails if the demo must not go on: after an interrupt, a fault, or the end of a replica.
    fn goes_on(&mut self) -> Result<(), Failure> {
        if self.stop.load(RELAXED) {
            let text = "interrupted; the replicas are stopped and their files are removed";
            return Err(Failure::new(Exit::System, text));
        }
        if let Some(what) = self.shared.failure.lock().take() {
            return Err(Failure::new(Exit::Corrupt, format!("FAILED: {what}"))
                .hint("please report this with the machine and the kernel it happened on"));
        }
        match self.replicas.ended().first() {
            None => Ok(()),
            Some(ended) => {
                let text = format!("node {} ended: {}", ended.node, ended.status);
                let hint = "over shared memory a leader that does not get the CPU for long is taken for \
                            lost and killed: try again when the machine is less busy";
                Err(Failure::new(Exit::System, text).hint(hint))
            }
        }
    }

    fn with_log(&self, failure: Failure) -> Failure {
        let hint =
            format!("{}\nwhat the replicas said last:\n{}", failure.hint, self.replicas.journal().last());
        if self.stop.load(RELAXED) { failure } else { failure.hint(hint.trim()) }
    }

    /// Waits until the group has a leader and `good` accepts its standing. Gives the leader, and what it says
    /// of itself.
    fn until(
        &mut self,
        what: &str,
        good: impl Fn(&standing::Standing) -> bool,
    ) -> Result<(NodeId, Value), Failure> {
        let began = Instant::now();
        loop {
            self.goes_on()?;
            let mut standings = standing::look(self.replicas.cluster(), &self.asks)?;
            let standing = standings.pop().expect("a cluster has a group");
            if good(&standing)
                && let Some(leader) = standing.leader
            {
                return Ok(leader);
            }
            if began.elapsed() > PATIENCE {
                let text = format!("there is no {what} within {}", human::time(PATIENCE));
                return Err(
                    Failure::new(Exit::System, text).hint("`longarm doctor` shows what this machine lacks")
                );
            }
            sleep(PAUSE);
        }
    }

    fn start_load(&mut self) -> Result<(), Failure> {
        for at in 0..=WRITERS {
            let mut client = connect::connect(&self.config, &format!("longarm demo {at}"))?;
            let shared = self.shared.clone();
            let body = move || {
                let done = match at {
                    WRITERS => read(&mut client, &shared),
                    writer => write(&mut client, writer, &shared),
                };
                if let Err(error) = done {
                    shared.fail(error.to_string());
                }
            };
            let thread = std::thread::Builder::new().name(format!("demo-{at}")).spawn(body);
            self.threads
                .push(thread.map_err(|error| {
                    Failure::new(Exit::System, format!("cannot start a thread: {error}"))
                })?);
        }
        Ok(())
    }

    fn join(&mut self) -> Result<(), Failure> {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.shared.fail("a thread of the demo ended by a broken invariant".into());
            }
        }
        self.shared
            .failure
            .lock()
            .take()
            .map_or(Ok(()), |what| Err(Failure::new(Exit::Corrupt, format!("FAILED: {what}"))))
    }

    /// Lets the load go on, and prints a line a second.
    fn load(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        while began.elapsed() < LOAD {
            let second = Instant::now();
            let before = (self.shared.written(), self.shared.gets.load(RELAXED));
            while second.elapsed() < Duration::from_secs(1) {
                self.goes_on()?;
                sleep(PAUSE);
            }
            let rate = |now: u64, then: u64| human::rate(now - then, second.elapsed());
            let puts = rate(self.shared.written(), before.0);
            let gets = rate(self.shared.gets.load(RELAXED), before.1);
            self.say(&format!("load        {WRITERS} writers {puts} PUTs, one reader {gets} GETs"))?;
        }
        Ok(())
    }

    /// Kills the leader, and waits for another. Gives the steps by which the new leader took over.
    fn kill(&mut self, leader: NodeId) -> Result<Value, Failure> {
        self.goes_on()?;
        let pid = self.replicas.pid(leader).unwrap_or(0);
        let loaded = !self.threads.is_empty();
        for gap in [&self.shared.put_gap, &self.shared.get_gap] {
            gap.store(0, RELAXED);
        }
        let written = self.shared.written();
        self.replicas.signal(leader, Signal::KILL);
        self.say(&format!("killed      node {leader}, the leader, by SIGKILL (pid {pid})"))?;
        while self.replicas.ended().is_empty() {
            sleep(PAUSE);
        }
        let (next, stats) =
            self.until("new leader", |standing| standing.leader.as_ref().is_some_and(|one| one.0 != leader))?;
        let how = stats["takeover"].clone();
        let ms = |us: u64| format!("{:.0} ms", us as f64 / 1000.0);
        let step = |name: &str| ms(how[name].as_u64().unwrap_or(0));
        self.say(&format!(
            "            node {next} leads: silence {}, asking and fencing {}, reports {}, index {}, sync {}",
            step("silence_us"),
            ms(["canvass_us", "promise_us", "lease_us"].iter().filter_map(|name| how[*name].as_u64()).sum()),
            step("gather_us"),
            step("install_us"),
            step("sync_us")
        ))?;
        if loaded {
            let (began, read) = (Instant::now(), self.shared.gets.load(RELAXED));
            let goes_on = |shared: &Shared| {
                shared.written() >= written + 4 * WRITERS && shared.gets.load(RELAXED) > read + 1
            };
            while !goes_on(&self.shared) && began.elapsed() < PATIENCE {
                self.goes_on()?;
                sleep(PAUSE);
            }
            let gap = |gap: &AtomicU64| ms(gap.load(RELAXED) / 1000);
            let (put, get) = (gap(&self.shared.put_gap), gap(&self.shared.get_gap));
            self.say(&format!("            longest time without an answer: {put} to a PUT, {get} to a GET"))?;
        }
        Ok(how)
    }

    /// Asks for every item that was acknowledged.
    fn read_back(&mut self, again: &str) -> Result<(), Failure> {
        let mut client = connect::connect(&self.config, "longarm demo")?;
        let items: Vec<u64> = (0..WRITERS)
            .flat_map(|writer| {
                let written = self.shared.written[writer as usize].load(RELAXED);
                (0..written).map(move |i| number(writer, i))
            })
            .collect();
        for batch in items.chunks(BATCH) {
            self.goes_on()?;
            let keys: Vec<[u8; 16]> = batch.iter().map(|item| small_key(*item)).collect();
            let mut wrong = None;
            client
                .multi_get(&keys, |i, found| {
                    let found = found.map(|(value, _)| value);
                    wrong = wrong.take().or(check(&keys[i], batch[i], found, |_| SMALL));
                })
                .map_err(|error| connect::failure(&error, &self.config))?;
            if let Some(what) = wrong {
                self.shared.fail(format!("acknowledged {what}"));
            }
        }
        self.goes_on()?;
        let all = human::count(items.len() as u64);
        self.say(&format!("read back   {all} of {all}{again}, from {}", client.describe()))
    }

    /// Scans for every item that was acknowledged. A follower answers, from its index in the order of keys.
    fn scan(&mut self) -> Result<(), Failure> {
        let mut client = connect::connect(&self.config, "longarm demo")?;
        let began = Instant::now();
        let (mut items, mut last) = (0, Vec::new());
        for item in client.scan(&Scan::all()) {
            let item = item.map_err(|error| connect::failure(&error, &self.config))?;
            if items > 0 && item.key <= last {
                let key = String::from_utf8_lossy(&item.key);
                self.shared.fail(format!("a scan showed {key} out of its order"));
            }
            last = item.key;
            items += 1;
        }
        let (took, written) = (began.elapsed(), self.shared.written());
        if items != written {
            self.shared.fail(format!("a scan showed {items} items, and {written} PUTs were acknowledged"));
        }
        self.goes_on()?;
        let all = human::count(items);
        self.say(&format!("scanned     {all} of {all} in the order of their keys, in {}", human::time(took)))
    }

    /// Starts a replica again, and waits until it is in sync. Gives how long that took.
    fn restart(&mut self, node: NodeId) -> Result<Duration, Failure> {
        let began = Instant::now();
        self.replicas.start(node)?;
        self.until("replica in sync again", |standing| standing.in_sync.len() == usize::from(COUNT))?;
        let took = began.elapsed();
        self.say(&format!(
            "started     node {node} again, without its memory: in sync after {}",
            human::time(took)
        ))?;
        Ok(took)
    }
}

const NEXT: &str = "
Next: `longarm cluster init` makes a group of your own; where the sources are, `cargo x torture` kills, stops
      and cuts off one for as long as you like and judges every answer.";
