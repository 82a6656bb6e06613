//! Starting: memory, engine, listeners, threads, in this order. When a start fails, everything it made is
//! removed before it returns.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::tcp::Tcp;
use longarm_fabric::{Address, Any, Grant, ListenOptions, Listener, QueuePair, Transport};
use longarm_group::{
    CONNECTIONS_MAX, Contents, Core, DataOptions, GroupOptions, GroupStats, Keys, Lent, PersistentData,
    Seldom, StartError, spawn,
};
use longarm_host::{Pause, Thread, now, random, sleep};
use longarm_index::control::ServerState;

use crate::accept::Acceptor;
use crate::endpoint::{GroupEndpoint, Serving};
use crate::options::ServerOptions;
use crate::regions::lend;
use crate::replicas::{PreparedReplica, ReplicasOf, RunningReplica};
use crate::router::Router;
use crate::shared::{OfReplica, Shared};
use crate::stats::Stats;
use crate::term::{self, Started};
use crate::threads::Threads;
use crate::{heartbeat, regions};

/// How long a replica without others may take until it leads, beside two of its leases: it lays out its
/// memory meanwhile.
const LEADS_WITHIN: Duration = Duration::from_secs(20);
/// The time between two looks at whether it does.
const LOOK: Duration = Duration::from_millis(1);

/// A running server.
pub struct Server {
    addresses: Vec<Address>,
    pub(crate) listeners: Listeners,
    pub(crate) body: Body,
}

/// The part of a server that serves admitted clients.
pub(crate) enum Body {
    /// A server of its own, for all its life.
    Alone { shared: Arc<Shared>, threads: Threads, heart: Option<Thread>, heart_pause: Arc<Pause> },
    /// Replicas, one a group.
    Replicas(Vec<RunningReplica>),
}

/// The threads that admit clients and replicas.
#[derive(Default)]
pub(crate) struct Listeners {
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
        // A client that scans has a connection of its own for that.
        let clients = options.max_clients * if options.ordered { 2 } else { 1 };
        let connections = clients + options.groups.len() * CONNECTIONS_MAX;
        let verbs = options.verbs.clone().with_connections(connections);
        Server::start_on(&Any { tcp: tcp.with_spin(options.spin), verbs }, options)
    }

    /// Starts to serve over another transport: a hook, or the transport of the simulator.
    pub fn start_on<T: Transport + Clone>(
        transport: &T,
        options: ServerOptions,
    ) -> Result<Server, StartError> {
        options.check()?;
        if !options.groups.is_empty() {
            return Server::replicas(transport, &options, ReplicasOf::Node);
        }
        if options.is_group_of_one() {
            let (address, lease) = (&options.addresses[0], options.lease);
            let group = match &options.data {
                Some(data) => GroupOptions::in_directory(address, lease, data)?,
                None => GroupOptions::alone(address, lease)?,
            };
            let groups = vec![group];
            let options = ServerOptions { groups, ..options };
            return Server::replicas(transport, &options, ReplicasOf::ServerAlone);
        }
        if let Some(DataOptions { dir, medium, .. }) = options.served_from() {
            let data = PersistentData::open(dir, *medium, PersistentData::bytes(options.memory))?;
            return Server::persistent(transport, options, data);
        }
        // The boot number, and keys that cannot be guessed.
        let [boot, sum_key, hash_key] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let lent = Arc::new(regions::create(&options)?);
        let keys = Keys { sum: sum_key, hash: hash_key };
        Server::alone(transport, options, lent, boot, keys)
    }

    fn alone<T: Transport>(
        transport: &T,
        options: ServerOptions,
        lent: Arc<Lent>,
        boot: u64,
        keys: Keys,
    ) -> Result<Server, StartError> {
        let core = Core::alone(options.core(), lent, boot, keys)?;
        Server::over(transport, options, core)
    }

    /// Starts a server of its own that serves from memory which outlives it, and which the caller opened: of
    /// [as many bytes](PersistentData::bytes) as its options say.
    pub fn start_over<T: Transport>(
        transport: &T,
        options: ServerOptions,
        data: PersistentData,
    ) -> Result<Server, StartError> {
        options.check()?;
        Server::persistent(transport, options, data)
    }

    fn persistent<T: Transport>(
        transport: &T,
        options: ServerOptions,
        data: PersistentData,
    ) -> Result<Server, StartError> {
        let [boot] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let (begun, dir) = (now(), data.place());
        let lent = Arc::new(regions::persistent(&data)?);
        let reopened = Core::persistent(options.core(), lent, boot, data);
        let (core, found) = reopened.map_err(|error| StartError::Reopen { dir: dir.clone(), error })?;
        if let Some(found) = found {
            let ms = now().since(begun).0 / 1_000_000;
            core.log(&format!("{dir}: goes on with {} items in persistent memory ({ms} ms)", found.items));
        }
        Server::over(transport, options, core)
    }

    /// A server of its own with this core.
    fn over<T: Transport>(transport: &T, options: ServerOptions, core: Core) -> Result<Server, StartError> {
        let shared = Arc::new(Shared::new(options, Arc::new(core), OfReplica::default()));
        let endpoint = Arc::new(GroupEndpoint::new(None, None));
        let listeners = listen(transport, &shared.options, &lend(&shared.core.lent))?;
        let addresses = addresses(&listeners);
        shared.addresses.set(addresses.clone()).expect("a server starts once");
        let times = shared.core.timestamps();
        shared.core.control.beat(times.now, times.unix);
        shared.core.control.set_state(ServerState::Serving);
        let Started { threads, inboxes, .. } = term::start(&shared, None)?;
        let (beating, heart_pause) = (shared.core.clone(), Arc::<Pause>::default());
        let pause = heart_pause.clone();
        let heart = Some(spawn("longarm-heart", move || heartbeat::run(&beating, &pause))?);
        endpoint.set(Some(Serving { shared: shared.clone(), inboxes }));
        let log = shared.options.log.clone();
        let mut server = Server {
            addresses,
            listeners: Listeners::default(),
            body: Body::Alone { shared, threads, heart, heart_pause },
        };
        // From here on the drop of `server` stops the threads that were started.
        server.listeners.open(listeners, Router::new(vec![endpoint], log))?;
        Ok(server)
    }

    /// Starts a replica of each group, or of none: an error says why a replica cannot start.
    fn replicas<T>(transport: &T, options: &ServerOptions, of: ReplicasOf) -> Result<Server, StartError>
    where
        T: Transport + Clone,
    {
        let prepared = options.groups.iter().map(|group| PreparedReplica::<T>::new(options, group, of));
        let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
        let grants: Vec<_> = prepared.iter().flat_map(PreparedReplica::grants).collect();
        let listeners = listen(transport, options, &grants)?;
        let addresses = addresses(&listeners);
        let endpoints: Vec<_> = prepared.iter().map(PreparedReplica::endpoint).collect();
        let transport = Arc::new(transport.clone());
        let start = |replica: PreparedReplica<T>| replica.start(transport.clone(), &addresses);
        let replicas = prepared.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let mut server =
            Server { addresses, listeners: Listeners::default(), body: Body::Replicas(replicas) };
        // From here on the drop of `server` stops the threads that were started.
        if of == ReplicasOf::ServerAlone {
            await_served(&endpoints, LEADS_WITHIN + 2 * options.lease)?;
        }
        server.listeners.open(listeners, Router::new(endpoints, options.log.clone()))?;
        Ok(server)
    }

    /// The addresses that it listens on, with ports resolved.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Its statistics; with several groups, those of the first.
    pub fn stats(&self) -> Stats {
        match &self.body {
            Body::Alone { shared, .. } => shared.stats(),
            Body::Replicas(replicas) => (replicas[0].stats)(),
        }
    }

    /// The statistics of each of its groups, in their order; a server of its own has one entry.
    pub fn all_stats(&self) -> Vec<Stats> {
        match &self.body {
            Body::Alone { shared, .. } => vec![shared.stats()],
            Body::Replicas(replicas) => replicas.iter().map(|replica| (replica.stats)()).collect(),
        }
    }

    /// Functions that return the standing of each replica in its group, in the order of the groups, for
    /// checks that ask often. They also work when the server is gone.
    pub fn stands(&self) -> Vec<Arc<dyn Fn() -> GroupStats + Send + Sync>> {
        match &self.body {
            Body::Alone { .. } => Vec::new(),
            Body::Replicas(replicas) => {
                replicas.iter().map(|replica| replica.replica.stands.clone()).collect()
            }
        }
    }

    /// The contents of each replica, in the order of the groups, for checks. They can also be read when the
    /// server is gone.
    pub fn contents(&self) -> Vec<Contents> {
        match &self.body {
            Body::Alone { .. } => Vec::new(),
            Body::Replicas(replicas) => {
                replicas.iter().map(|replica| replica.replica.contents.clone()).collect()
            }
        }
    }
}

impl Listeners {
    fn open<L: Listener + 'static>(
        &mut self,
        listeners: Vec<L>,
        router: Router<L::Qp>,
    ) -> Result<(), StartError> {
        let router = Arc::new(router);
        let closing = router.clone();
        self.close = Some(Box::new(move || closing.close()));
        for listener in listeners {
            let acceptor = Acceptor {
                listener,
                router: router.clone(),
                pause: self.pause.clone(),
                refused: Seldom::default(),
            };
            self.threads.push(spawn("longarm-admit", move || acceptor.run())?);
        }
        Ok(())
    }
}

/// Waits until a replica without others leads: first it waits for as long as a promise of its own might last.
fn await_served<Q: QueuePair>(endpoints: &[Arc<GroupEndpoint<Q>>], most: Duration) -> Result<(), StartError> {
    let until = now() + Nanos(most.as_nanos() as u64);
    while endpoints.iter().any(|endpoint| endpoint.serving().is_none()) {
        if now() >= until {
            return Err(StartError::NotServing);
        }
        sleep(LOOK);
    }
    Ok(())
}

fn addresses<L: Listener>(listeners: &[L]) -> Vec<Address> {
    listeners.iter().map(|listener| listener.address()).collect()
}

fn listen<T: Transport>(
    transport: &T,
    options: &ServerOptions,
    grants: &[Grant],
) -> Result<Vec<T::Listener>, StartError> {
    let listen = |address: &Address| {
        let settings = ListenOptions {
            login: options.login.clone(),
            peers: options.peers.clone(),
            mode: options.socket_mode,
            ..ListenOptions::default()
        };
        let failed = |source| StartError::Listen { address: address.to_string(), source };
        let mut listener = transport.listen(address, settings).map_err(failed)?;
        listener.prepare(grants).map_err(failed)?;
        Ok(listener)
    };
    options.addresses.iter().map(listen).collect()
}
