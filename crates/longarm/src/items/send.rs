//! Pipelined writes over several connections, one thread each.
//!
//! (1) A key always goes over the same connection, in the order of the source: of several records of one key
//!     the last one stays.
//! (2) Progress counts a record only when it and all before it are acknowledged (or were skipped): a load
//!     that resumes there loses nothing. Repeating a record is harmless.
//! (3) Everything that waits is bounded: records a queue, bytes in all queues, bytes under way on a
//!     connection.
//! (4) The first failure ends all threads. Records that other threads still had under way are not counted.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use longarm_client::{ClusterClient, Error, Reply, RequestId, Write};
use longarm_memory::HashKey;

use super::item::Item;
use crate::config::{Config, Origin};
use crate::connect;
use crate::human;
use crate::output::Failure;

/// The most records that wait for one connection.
const QUEUE: usize = 256;
/// The most bytes that wait for all connections; one record may exceed it alone.
const WAITING_MAX: u64 = 64 << 20;
/// The most bytes under way on one connection; one record may exceed it alone.
const UNDER_WAY_MAX: u64 = 8 << 20;
/// The time for one write, if the user set none: long values wait behind one another.
const TIMEOUT_MIN: Duration = Duration::from_secs(10);
/// The pause between two tries at a full queue, in which a failure is noticed.
const PAUSE: Duration = Duration::from_millis(1);

/// How items are sent.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// The number of connections.
    pub clients: u16,
    /// The number of writes under way on each connection.
    pub pipeline: u16,
    /// Time to live of items that have none of their own.
    pub ttl: Option<Duration>,
}

/// How far the sending is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Records that are done, and all before them too.
    pub records: u64,
    /// Items acknowledged.
    pub items: u64,
    /// Bytes of the values of these items.
    pub values: u64,
    /// Bytes of the source that these items took.
    pub bytes: u64,
}

#[derive(Default)]
struct Tally {
    progress: Progress,
    /// Records that are done while a record before them is not.
    ahead: BTreeSet<u64>,
    waiting: u64,
    failure: Option<Failure>,
}

impl Tally {
    fn done(&mut self, record: u64) {
        if record != self.progress.records {
            self.ahead.insert(record);
            return;
        }
        self.progress.records += 1;
        while self.ahead.remove(&self.progress.records) {
            self.progress.records += 1;
        }
    }
}

/// The state that the threads share.
#[derive(Default)]
struct Shared {
    tally: Mutex<Tally>,
    room: Condvar,
    stop: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, failure: Failure) {
        self.lock().failure.get_or_insert(failure);
        // Release: pairs with the Acquire in `stopped`; a thread that sees the flag finds the failure.
        self.stop.store(true, Ordering::Release);
        self.room.notify_all();
    }

    fn stopped(&self) -> bool {
        // Acquire: pairs with the Release in `fail` and `Sender::drop`.
        self.stop.load(Ordering::Acquire)
    }
}

struct Job {
    record: u64,
    item: Item,
}

/// Sends records until it is told to finish.
pub struct Sender {
    shared: Arc<Shared>,
    queues: Vec<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
    hash: HashKey,
}

impl Sender {
    /// Connects, and starts the threads. `first` is the number of the first record that will come.
    pub fn start(config: &Config, how: &Sending, first: u64) -> Result<Sender, Failure> {
        let shared = Arc::new(Shared::default());
        shared.lock().progress.records = first;
        let mut sender = Sender { shared, queues: Vec::new(), threads: Vec::new(), hash: HashKey::new(1) };
        for i in 0..how.clients {
            let mut options = connect::options(config, &format!("longarm load {i}"))?;
            if config.origin("timeout") == Origin::Default {
                options.timeout = options.timeout.max(TIMEOUT_MIN);
            }
            let client = connect::connect_with(config, options)?;
            let (queue, jobs) = sync_channel(QUEUE);
            let line = Line {
                client,
                config: config.clone(),
                jobs,
                shared: sender.shared.clone(),
                open: VecDeque::new(),
                under_way: 0,
                pipeline: usize::from(how.pipeline),
                ttl: how.ttl,
            };
            let thread = std::thread::Builder::new().name(format!("load-{i}")).spawn(move || line.run());
            let thread = thread.map_err(|error| {
                Failure::new(crate::output::Exit::System, format!("cannot start a thread: {error}"))
            })?;
            sender.queues.push(queue);
            sender.threads.push(thread);
        }
        Ok(sender)
    }

    /// Hands a record over to its connection; waits while too much is waiting.
    pub fn push(&mut self, record: u64, item: Item) -> Result<(), Failure> {
        let bytes = item.value.len() as u64;
        {
            let mut tally = self.shared.lock();
            while tally.waiting > 0 && tally.waiting + bytes > WAITING_MAX && !self.shared.stopped() {
                let woken = self.shared.room.wait_timeout(tally, PAUSE);
                tally = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            tally.waiting += bytes;
        }
        let at = self.hash.hash(&item.key).below(self.queues.len() as u64) as usize;
        let mut job = Job { record, item };
        loop {
            if self.shared.stopped() {
                return Err(self.failure());
            }
            match self.queues[at].try_send(job) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) => {
                    job = back;
                    std::thread::park_timeout(PAUSE);
                }
                Err(TrySendError::Disconnected(_)) => return Err(self.failure()),
            }
        }
    }

    /// Counts a record as done that is not to be stored.
    pub fn skip(&mut self, record: u64) {
        self.shared.lock().done(record);
    }

    /// How far the sending is.
    pub fn progress(&self) -> Progress {
        self.shared.lock().progress
    }

    /// Waits until everything is acknowledged; `tick` is called now and then.
    pub fn finish(mut self, mut tick: impl FnMut(Progress)) -> Result<Progress, Failure> {
        self.queues.clear();
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::park_timeout(Duration::from_millis(10));
            tick(self.progress());
        }
        for thread in self.threads.drain(..) {
            thread.join().expect("a sending thread never panics");
        }
        // The lock is released at once: `progress` below takes it again.
        let failure = self.shared.lock().failure.take();
        failure.map_or_else(|| Ok(self.progress()), Err)
    }

    fn failure(&self) -> Failure {
        self.shared.lock().failure.clone().expect("a thread that ends early says why")
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `Shared::stopped`.
        self.shared.stop.store(true, Ordering::Release);
        self.queues.clear();
        for thread in self.threads.drain(..) {
            // A panic there was reported already.
            let _ = thread.join();
        }
    }
}

struct Open {
    ticket: RequestId,
    record: u64,
    key: Vec<u8>,
    place: String,
    values: u64,
    bytes: u64,
}

/// A connection, with the records that go over it.
struct Line {
    client: ClusterClient,
    config: Config,
    jobs: Receiver<Job>,
    shared: Arc<Shared>,
    open: VecDeque<Open>,
    under_way: u64,
    pipeline: usize,
    ttl: Option<Duration>,
}

impl Line {
    fn run(mut self) {
        while !self.shared.stopped() {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => return,
                Err(failure) => return self.shared.fail(failure),
            }
        }
    }

    /// Sends the records for which there is room, then takes the answers that came; gives `false` when all is
    /// done.
    fn turn(&mut self) -> Result<bool, Failure> {
        let mut ended = false;
        while self.open.len() < self.pipeline && self.under_way < UNDER_WAY_MAX {
            let job = if self.open.is_empty() {
                // The wait is bounded, so that a failure elsewhere ends this thread too.
                match self.jobs.recv_timeout(Duration::from_millis(20)) {
                    Ok(job) => job,
                    Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return Ok(true),
                    Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(false),
                }
            } else {
                match self.jobs.try_recv() {
                    Ok(job) => job,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        ended = true;
                        break;
                    }
                }
            };
            self.submit(job)?;
        }
        let Some(oldest) = self.open.front().map(|open| open.ticket) else { return Ok(!ended) };
        let outcome = self.client.wait(oldest);
        let mut done = vec![self.answered(oldest, outcome)?];
        while let Some((ticket, outcome)) = self.client.poll() {
            done.push(self.answered(ticket, outcome)?);
        }
        let mut tally = self.shared.lock();
        for open in &done {
            tally.done(open.record);
            tally.progress.items += 1;
            tally.progress.values += open.values;
            tally.progress.bytes += open.bytes;
        }
        Ok(true)
    }

    fn submit(&mut self, job: Job) -> Result<(), Failure> {
        let Job { record, item } = job;
        let Item { key, value, ttl, place, bytes } = item;
        let mut write = Write::put(&key, &value);
        if let Some(ttl) = ttl.or(self.ttl) {
            write = write.ttl(ttl);
        }
        let sent = self.client.submit(&write);
        let ticket = sent.map_err(|error| about(&error, &key, &place, &self.config))?;
        let values = value.len() as u64;
        self.shared.lock().waiting -= values;
        self.shared.room.notify_all();
        self.under_way += values;
        self.open.push_back(Open { ticket, record, key, place, values, bytes });
        Ok(())
    }

    fn answered(&mut self, ticket: RequestId, outcome: Result<Reply, Error>) -> Result<Open, Failure> {
        let at = self.open.iter().position(|open| open.ticket == ticket);
        let open = at.and_then(|at| self.open.remove(at)).expect("an answer to what was sent");
        self.under_way -= open.values;
        match outcome {
            Ok(Reply::Done(_)) => Ok(open),
            Ok(other) => Err(connect::unexpected(&other)),
            Err(error) => Err(about(&error, &open.key, &open.place, &self.config)),
        }
    }
}

fn about(error: &Error, key: &[u8], place: &str, config: &Config) -> Failure {
    let mut failure = connect::failure(error, config);
    failure.message = format!("{place} (key {}): {}", human::key(key), failure.message);
    failure
}
