//! Starting: memory, engine, listeners, threads, in this order. What a failed start made is gone again when
//! it returns.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::tcp::Tcp;
use longarm_fabric::{Address, Any, Channel, ListenOptions, Listener, Transport};
use longarm_host::{Pause, Thread, random};
use longarm_index::control::{Control, ServerState};
use longarm_memory::{Budget, Mapped, SumKey};

use crate::accept::Acceptor;
use crate::clock::Clock;
use crate::engine::{Engine, EngineOptions};
use crate::housekeeper::Housekeeper;
use crate::options::{ServerOptions, StartError};
use crate::pulse::Pulse;
use crate::saved::Saved;
use crate::shared::{Lent, Shared};
use crate::stats::Stats;
use crate::stop::{StopReport, Threads};
use crate::worker::{Desk, Worker};
use crate::{heartbeat, regions};

/// Added to the quarantine for the granularity of clocks and scheduling.
const MARGIN: Duration = Duration::from_millis(10);

/// A running server.
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    pub(crate) threads: Threads,
}

impl Server {
    /// Starts to serve. When this returns, clients can connect.
    pub fn start(options: ServerOptions) -> Result<Server, StartError> {
        let tcp = match &options.tls {
            Some(tls) => Tcp::new().with_tls(tls.clone()),
            None => Tcp::new(),
        };
        let verbs = options.verbs.clone().with_spin(options.spin).with_connections(options.max_clients);
        Server::start_on(&Any { tcp: tcp.with_spin(options.spin), verbs }, options)
    }

    /// Starts to serve over another transport: a hook, or the simulator's.
    pub fn start_on<T: Transport>(transport: &T, options: ServerOptions) -> Result<Server, StartError> {
        options.check()?;
        // The boot's name, and keys nobody can guess.
        let [boot, sum_key, hash_key] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let clock = Clock::start();
        let lent = regions::create(&options, sum_key)?;
        let dir = options.arena_dir.clone();
        let started = Server::serve(transport, options, (boot, sum_key, hash_key), clock, lent);
        if let (Err(_), Some(dir)) = (&started, dir) {
            Saved::remove(&dir);
        }
        started
    }

    fn serve<T: Transport>(
        transport: &T,
        options: ServerOptions,
        (boot, sum_key, hash_key): (u64, u64, u64),
        clock: Clock,
        lent: Lent,
    ) -> Result<Server, StartError> {
        let sums = SumKey::new(sum_key);
        let control = Control::create(lent.control.memory().clone(), boot, sums.clone());
        let engine = engine(&options, &lent, control.clone(), sums, hash_key)?;
        let pulses: Vec<_> = (0..options.workers).map(|_| Arc::new(Pulse::default())).collect();
        let listeners = listen(transport, &options, &lent)?;
        let shared = Shared::new(options, clock, engine, control, lent, boot, sum_key, pulses);
        let shared = Arc::new(shared);
        let addresses = listeners.iter().map(|listener| listener.address()).collect();
        shared.addresses.set(addresses).expect("a server starts once");
        let mut server = Server { shared, threads: Threads::default() };
        // From here on the drop of `server` stops what was started.
        server.start_threads(listeners)?;
        Ok(server)
    }

    fn start_threads<L: Listener + 'static>(&mut self, listeners: Vec<L>) -> Result<(), StartError> {
        let (shared, threads) = (&self.shared, &mut self.threads);
        let moment = shared.moment();
        shared.control.beat(moment.now, moment.unix);
        shared.control.set_state(ServerState::Serving);
        let mut desks = Vec::new();
        for (stream, pulse) in shared.pulses.iter().enumerate() {
            let channel = Channel::new().map_err(|e| StartError::Os("make an event counter", e))?;
            let desk = Arc::new(Desk::new(channel.clone(), pulse.clone()));
            let worker = Worker::new(shared.clone(), desk.clone(), shared.engine.hand(stream as u16));
            threads.workers.push(spawn(&format!("longarm-work-{stream}"), move || worker.run())?);
            threads.channels.push(channel);
            desks.push(desk);
        }
        let keeper = Housekeeper::new(shared.clone(), shared.engine.hand(shared.pulses.len() as u16));
        let pause = shared.engine.relief.clone();
        threads.keeper = Some(spawn("longarm-keeper", move || keeper.run(&pause))?);
        let (beating, pause) = (shared.clone(), threads.heart_pause.clone());
        threads.heart = Some(spawn("longarm-heart", move || heartbeat::run(&beating, &pause))?);
        for listener in listeners {
            let pause: Arc<Pause> = threads.accept_pause.clone();
            let acceptor = Acceptor { listener, shared: shared.clone(), desks: desks.clone(), pause };
            threads.acceptors.push(spawn("longarm-admit", move || acceptor.run())?);
        }
        Ok(())
    }

    /// Where it listens, ports resolved.
    pub fn addresses(&self) -> &[Address] {
        self.shared.addresses.get().map_or(&[], Vec::as_slice)
    }

    /// What it knows of itself.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Stops in good order: nobody is let in any more, what has arrived is executed and answered, clients are
    /// told, connections and sockets go. It takes at most about `drain`.
    pub fn stop(mut self, drain: Duration) -> StopReport {
        self.shutdown(drain)
    }
}

fn engine(
    options: &ServerOptions,
    lent: &Lent,
    control: Control<Mapped>,
    sums: SumKey,
    hash_key: u64,
) -> Result<Engine<Mapped>, StartError> {
    // A client's lease, on a clock that may run 1 % slow, plus the longest READ that it still accepts.
    let quarantine = options.lease + options.lease / 100 + options.read_bound + MARGIN;
    let engine_options = EngineOptions {
        workers: options.workers as u16,
        slots: options.slots,
        expected_items: options.expected_items,
        hash_key,
        eviction: options.eviction,
        quarantine: Nanos(quarantine.as_nanos() as u64),
    };
    let memory = (lent.index.memory().clone(), lent.arena.memory().clone());
    Engine::create(memory, control, sums, Arc::new(Budget::new(options.memory)), engine_options)
}

fn listen<T: Transport>(
    transport: &T,
    options: &ServerOptions,
    lent: &Lent,
) -> Result<Vec<T::Listener>, StartError> {
    let listen = |address: &Address| {
        let settings = ListenOptions {
            login: options.login.clone(),
            mode: options.socket_mode,
            ..ListenOptions::default()
        };
        let failed = |source| StartError::Listen { address: address.to_string(), source };
        let mut listener = transport.listen(address, settings).map_err(failed)?;
        listener.prepare(&lent.grants()).map_err(failed)?;
        Ok(listener)
    };
    options.addresses.iter().map(listen).collect()
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<Thread, StartError> {
    longarm_host::spawn(name, body).map_err(|e| StartError::Os("start a thread", e))
}
