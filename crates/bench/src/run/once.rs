//! One run of one target: all its clients, from connecting to the last answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, mpsc};
use std::time::Instant;

use super::client::{Client, Finished, Shared};
use super::schedule::Schedule;
use super::window::{Window, wait_until};
use crate::driver::{ServerInfo, TargetError, TargetFactory};
use crate::plan::Pace;
use crate::record::Record;
use crate::report::{CpuTimes, RunResult};
use crate::workload::Stream;

/// What a run measured.
pub struct Once {
    /// Of all clients.
    pub record: Record,
    throughput: f64,
    seconds: f64,
    cpu: CpuTimes,
    /// Operations a second of the slowest client and of the fastest.
    rates: Option<(f64, f64)>,
}

impl Once {
    /// As it is reported.
    pub fn result(&self) -> RunResult {
        let uniformity = self.rates.map(|(slowest, fastest)| fastest / slowest);
        RunResult { uniformity, ..RunResult::new(&self.record, self.throughput, self.seconds, self.cpu) }
    }
}

/// Where connected clients wait until all are, or until one failed and nobody may begin.
#[derive(Default)]
struct Gate {
    window: Mutex<Option<Option<Window>>>,
    opened: Condvar,
}

impl Gate {
    fn open(&self, window: Option<Window>) {
        *self.window.lock().expect("no holder of this lock panics") = Some(window);
        self.opened.notify_all();
    }

    /// Bounded by the time that the slowest client may take to connect.
    fn wait(&self) -> Option<Window> {
        let closed = self.window.lock().expect("no holder of this lock panics");
        let opened = self.opened.wait_while(closed, |window| window.is_none());
        opened.expect("no holder of this lock panics").flatten()
    }
}

/// Connects the clients, lets them warm up, and measures.
pub fn run(
    shared: &Shared<'_>,
    factory: &dyn TargetFactory,
    server: &ServerInfo,
) -> Result<Once, TargetError> {
    let gate = Gate::default();
    let (connected, arrivals) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut failed = None;
        for number in 0..shared.plan.clients {
            let (gate, connected) = (&gate, connected.clone());
            let client = move || {
                // A panic of a driver must not leave the others waiting at the gate.
                let target = catch_unwind(AssertUnwindSafe(|| factory.connect(number)))
                    .unwrap_or_else(|_| Err(TargetError::lost("the driver panicked while connecting")));
                let (target, failure) = match target {
                    Ok(target) => (Some(target), None),
                    Err(e) => (None, Some(e)),
                };
                connected.send(failure).expect("the receiver outlives the clients");
                Some(drive(shared, target?, number, &gate.wait()?))
            };
            match std::thread::Builder::new().name(format!("client-{number}")).spawn_scoped(scope, client) {
                Ok(thread) => threads.push(thread),
                Err(e) => {
                    failed =
                        Some(TargetError::lost(format!("cannot start the thread of client {number}: {e}")));
                    break;
                }
            }
        }
        for _ in 0..threads.len() {
            let failure = arrivals.recv().expect("each client reports once");
            failed = failed.or(failure);
        }
        if let Some(failed) = failed {
            gate.open(None);
            return Err(failed);
        }
        let window = open_window(shared);
        gate.open(Some(window));
        let begun = wait_until(&window, window.start);
        let before = CpuTimes::look(server);
        let finished: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        let cpu = CpuTimes::look(server).since(&before);
        let mut once = Once {
            record: Record::new(),
            throughput: 0.0,
            seconds: (window.now() - begun) as f64 * 1e-9,
            cpu,
            rates: None,
        };
        for finished in finished.into_iter().flatten() {
            let Finished { record, seconds } = finished?;
            let rate = record.counts.operations as f64 / seconds;
            once.throughput += rate;
            let (slowest, fastest) = once.rates.unwrap_or((rate, rate));
            once.rates = Some((slowest.min(rate), fastest.max(rate)));
            once.record.add(&record);
        }
        Ok(once)
    })
}

fn open_window(shared: &Shared<'_>) -> Window {
    let nanos = |seconds: f64| (seconds * 1e9) as u64;
    let start = nanos(shared.plan.warmup_seconds);
    let stop = start + nanos(shared.plan.seconds);
    // What was due shortly before the end is still answered: a tenth of the run, at least a tenth of a
    // second.
    let grace = nanos(shared.plan.seconds / 10.0).max(100_000_000);
    Window { origin: Instant::now(), start, stop, grace }
}

fn drive(
    shared: &Shared<'_>,
    target: Box<dyn crate::driver::Target>,
    number: usize,
    window: &Window,
) -> Result<Finished, TargetError> {
    let plan = shared.plan;
    let clients = plan.clients as u64;
    // The first clients take what does not divide evenly.
    let share = |all: u64| all / clients + ((number as u64) < all % clients) as u64;
    let quota = plan.operations.map_or(u64::MAX, share);
    let stream = Stream::new(shared.start, number as u64, shared.inserts.clone());
    let client = Client::new(shared, target, stream, quota);
    match plan.pace {
        Pace::Closed => client.closed(window),
        Pace::Fixed(_) | Pace::Poisson(_) => {
            let schedule = Schedule::new(plan.pace, number, plan.clients, shared.start.seed);
            client.open(window, schedule.expect("an open loop has a schedule"))
        }
    }
}
