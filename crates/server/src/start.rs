//! Starting: memory, engine, listeners, threads, in this order. What a failed start made is gone again when
//! it returns.

use std::sync::Arc;
use std::time::Duration;

use longarm_fabric::tcp::Tcp;
use longarm_fabric::{Address, Any, Channel, ListenOptions, Listener, QueuePair, Transport};
use longarm_host::{Pause, Thread, random};
use longarm_index::control::ServerState;

use crate::accept::Acceptor;
use crate::group::{Held, Inbound, Node};
use crate::hall::{Hall, Serving};
use crate::housekeeper::Housekeeper;
use crate::options::{ServerOptions, StartError};
use crate::saved::Saved;
use crate::shared::{Lent, Shared};
use crate::staff::{Staff, spawn};
use crate::stats::Stats;
use crate::stop::StopReport;
use crate::worker::{Desk, Worker};
use crate::{heartbeat, regions};

/// A running server.
pub struct Server {
    addresses: Vec<Address>,
    pub(crate) doors: Doors,
    pub(crate) body: Body,
}

/// Says what a replica is, which has other statistics each term.
pub(crate) type Told = Box<dyn Fn() -> Stats + Send + Sync>;

/// Says what a replica holds.
pub(crate) type Holding = Arc<dyn Fn() -> Held + Send + Sync>;

/// Who stands behind the doors.
pub(crate) enum Body {
    /// A server of its own, all of its life.
    Alone { shared: Arc<Shared>, staff: Staff, heart: Option<Thread>, heart_pause: Arc<Pause> },
    /// A replica of a group.
    Replica { node: Option<Thread>, stop: (Arc<Pause>, Channel), stats: Told, held: Holding },
}

/// The threads that let others in.
#[derive(Default)]
pub(crate) struct Doors {
    pub threads: Vec<Thread>,
    pub pause: Arc<Pause>,
    pub close: Option<Box<dyn Fn() + Send + Sync>>,
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
    pub fn start_on<T: Transport + Clone>(
        transport: &T,
        options: ServerOptions,
    ) -> Result<Server, StartError> {
        options.check()?;
        if options.group.is_some() {
            return Server::replica(transport, options);
        }
        // The boot's name, and keys nobody can guess.
        let [boot, sum_key, hash_key] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let lent = Arc::new(regions::create(&options, sum_key)?);
        let dir = options.arena_dir.clone();
        let started = Server::alone(transport, options, lent, (boot, sum_key, hash_key));
        if let (Err(_), Some(dir)) = (&started, dir) {
            Saved::remove(&dir);
        }
        started
    }

    fn alone<T: Transport>(
        transport: &T,
        options: ServerOptions,
        lent: Arc<Lent>,
        (boot, sum_key, hash_key): (u64, u64, u64),
    ) -> Result<Server, StartError> {
        let shared = Arc::new(Shared::alone(options, lent, boot, (sum_key, hash_key))?);
        let hall = Arc::new(Hall::new(shared.options.log.clone(), None));
        let listeners = listen(transport, &shared.options, &shared.lent)?;
        let addresses = addresses(&listeners);
        shared.addresses.set(addresses.clone()).expect("a server starts once");
        let moment = shared.moment();
        shared.control.beat(moment.now, moment.unix);
        shared.control.set_state(ServerState::Serving);
        let mut staff = Staff::new(shared.clone());
        let desks = hire::<T::Qp>(&shared, &mut staff)?;
        let (beating, heart_pause) = (shared.clone(), Arc::<Pause>::default());
        let pause = heart_pause.clone();
        let heart = Some(spawn("longarm-heart", move || heartbeat::run(&beating, &pause))?);
        hall.set(Some(Serving { shared: shared.clone(), desks }));
        let mut server = Server {
            addresses,
            doors: Doors::default(),
            body: Body::Alone { shared, staff, heart, heart_pause },
        };
        // From here on the drop of `server` stops what was started.
        server.doors.open(listeners, &hall)?;
        Ok(server)
    }

    fn replica<T>(transport: &T, options: ServerOptions) -> Result<Server, StartError>
    where
        T: Transport + Clone,
    {
        let group = options.group.clone().expect("the caller looked");
        let [seed] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let lent = Arc::new(regions::create(&options, group.sum_key)?);
        let page = regions::create_page(&options)?;
        let channel = Channel::new().map_err(|e| StartError::Os("make an event counter", e))?;
        let memory = (lent.arena.clone(), page.clone());
        let inbound = Inbound::new(group.clone(), memory, channel.clone(), options.log.clone());
        let inbound = Arc::new(inbound);
        let hall = Arc::new(Hall::<T::Qp>::new(options.log.clone(), Some(inbound.clone())));
        let listeners = listen(transport, &options, &lent)?;
        let addresses = addresses(&listeners);
        let transport = Arc::new(transport.clone());
        let node =
            Node::new(transport, (options, group), (lent, page), hall.clone(), inbound, channel, seed)?;
        let (stop, stats, held) = (node.stopper(), node.stats_of(), node.held_of());
        let thread = spawn("longarm-node", move || node.run())?;
        let mut server = Server {
            addresses,
            doors: Doors::default(),
            body: Body::Replica { node: Some(thread), stop, stats, held },
        };
        // From here on the drop of `server` stops what was started.
        server.doors.open(listeners, &hall)?;
        Ok(server)
    }

    /// Where it listens, ports resolved.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What it knows of itself.
    pub fn stats(&self) -> Stats {
        match &self.body {
            Body::Alone { shared, .. } => shared.stats(),
            Body::Replica { stats, .. } => stats(),
        }
    }

    /// What looks at all that a replica holds, for checks; `None` on a server of its own. It may be asked
    /// also when the server is gone.
    pub fn held(&self) -> Option<Arc<dyn Fn() -> Held + Send + Sync>> {
        match &self.body {
            Body::Alone { .. } => None,
            Body::Replica { held, .. } => Some(held.clone()),
        }
    }

    /// Stops in good order: nobody is let in any more, what has arrived is executed and answered, clients are
    /// told, connections and sockets go. It takes at most about `drain`.
    pub fn stop(mut self, drain: Duration) -> StopReport {
        self.shutdown(drain)
    }
}

impl Doors {
    fn open<L: Listener + 'static>(
        &mut self,
        listeners: Vec<L>,
        hall: &Arc<Hall<L::Qp>>,
    ) -> Result<(), StartError> {
        let closing = hall.clone();
        self.close = Some(Box::new(move || closing.close()));
        for listener in listeners {
            let acceptor = Acceptor { listener, hall: hall.clone(), pause: self.pause.clone() };
            self.threads.push(spawn("longarm-admit", move || acceptor.run())?);
        }
        Ok(())
    }
}

/// Starts workers and housekeeper of a server that nobody replicates.
fn hire<Q: QueuePair + 'static>(
    shared: &Arc<Shared>,
    staff: &mut Staff,
) -> Result<Vec<Arc<Desk<Q>>>, StartError> {
    let mut desks = Vec::new();
    for (stream, pulse) in shared.pulses.iter().enumerate() {
        let channel = Channel::new().map_err(|e| StartError::Os("make an event counter", e))?;
        let desk = Arc::new(Desk::new(channel.clone(), pulse.clone()));
        let worker = Worker::new(shared.clone(), desk.clone(), shared.engine.hand(stream as u16), None);
        staff.add_worker(stream, channel, move || worker.run())?;
        desks.push(desk);
    }
    let hand = shared.engine.hand(shared.pulses.len() as u16);
    let keeper = Housekeeper::<Q>::new(shared.clone(), hand, None);
    let pause = shared.engine.relief.clone();
    staff.set_keeper(move || keeper.run(&pause))?;
    Ok(desks)
}

fn addresses<L: Listener>(listeners: &[L]) -> Vec<Address> {
    listeners.iter().map(|listener| listener.address()).collect()
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
