//! Clients that are connected and ask for nothing while others are measured.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cpu;
use crate::driver::{Target, TargetError, TargetFactory};
use crate::pause::pause;
use crate::plan::Plan;

/// Threads that connect.
const CONNECTORS_MAX: usize = 8;
/// For how long the server is watched while nobody asks for anything.
const WATCH: Duration = Duration::from_secs(2);

/// What idle clients cost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IdleResult {
    /// How many there are.
    pub clients: usize,
    /// Seconds that it took to connect them.
    pub seconds: f64,
    /// Bytes by which the resident memory of the server's processes grew meanwhile.
    pub resident_bytes: Option<u64>,
    /// CPU seconds a second of the server's processes while all are connected and none asks.
    pub server_cpu: Option<f64>,
}

/// Idle clients, connected as long as this lives.
pub(super) struct Idle {
    _clients: Vec<Box<dyn Target>>,
    pub result: IdleResult,
}

impl Idle {
    /// Connects the idle clients of the plan, whose numbers follow those that are measured.
    pub fn connect(plan: &Plan, factory: &dyn TargetFactory, pids: &[u32]) -> Result<Idle, TargetError> {
        let (before, begun) = (cpu::resident_of(pids), Instant::now());
        let connectors = plan.idle_clients.min(CONNECTORS_MAX);
        let clients = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..connectors)
                .map(|first| {
                    let numbers = (first..plan.idle_clients).step_by(connectors);
                    scope.spawn(move || {
                        numbers
                            .map(|number| factory.connect(plan.clients + number))
                            .collect::<Result<Vec<_>, _>>()
                    })
                })
                .collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.collect::<Result<Vec<_>, _>>()
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let grown = |after: u64| Some(after.saturating_sub(before?));
        let resident_bytes = cpu::resident_of(pids).and_then(grown);
        let (watched, before) = (Instant::now(), cpu::Threads::of(pids));
        pause(WATCH);
        let used = before.zip(cpu::Threads::of(pids)).map(|(before, after)| after.seconds_since(&before));
        let server_cpu = used.map(|used| used / watched.elapsed().as_secs_f64());
        let result = IdleResult { clients: plan.idle_clients, seconds, resident_bytes, server_cpu };
        Ok(Idle { _clients: clients.into_iter().flatten().collect(), result })
    }
}
