//! A client for any number of threads: few connections, each of which serves all threads that come to it at
//! the same time together.
//!
//! There is no thread of its own. `combine` says how threads come to execute what others want, `connection`
//! what a batch of that is.

mod combine;
mod connection;

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longarm_base::{Csn, Nanos};
use longarm_fabric::{Any, Transport};
use longarm_host::{AdaptiveSpin, cores, now};

use crate::client::add;
use crate::cluster::ClusterClient;
use crate::error::Error;
use crate::flight::Reply;
use crate::get::check_key;
use crate::link::{BATCH, ClientCounters};
use crate::options::Options;
use crate::topology::Topology;
use crate::write::{OwnedWrite, Put, Write, check, write_methods};
use combine::{Combiner, Held, Unserved};
use connection::{Connection, Operation, Outcome};

/// The most threads that wait for one connection with an operation; further ones wait for room.
const QUEUE_MAX: usize = 1024;
/// A write of more bytes than this is not copied into the queue: its thread waits until it has the
/// connection.
const COPY_MAX: usize = 16 << 10;
/// The most bytes of values that a multi-GET holds at once; a value that does not fit is got alone.
const VALUES_MAX: usize = 1 << 20;
/// The largest buffer that a thread keeps from one GET to the next.
const KEEP_MAX: usize = 64 << 10;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread among those that ever used a shared client.
    static THREAD: usize = {
        // Relaxed: a number that no other thread draws.
        THREADS.fetch_add(1, Ordering::Relaxed)
    };
    /// Where a value lies while it is shown, when the connection was left.
    static SHOWN: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// What this thread knows of its waits, and the bound of its looks.
    static WAITS: Cell<Option<(Nanos, AdaptiveSpin)>> = const { Cell::new(None) };
}

/// A client that any number of threads use at the same time; a clone is the same client. It works for one
/// server, a group, and a cluster.
///
/// It has few connections, by default one a core, and each thread keeps to one of them. A thread that finds
/// its connection free uses it at once. Threads that find it taken leave their operations there, and wait:
/// whoever has the connection sends all of them together, so that many threads share a send, a round trip and
/// a round of replication. It makes a connection when it is first needed, and makes it anew when it broke.
///
/// *Bounds.* An operation that nobody could begin within [`Options::timeout`] ends with [`Error::Busy`], and
/// was not executed. One that was begun and has no answer by then ends as that of a
/// [`Client`](crate::Client): a write is in doubt. A thread that executes what others want beside its own
/// operation may be some timeouts later, if the server answers nobody. At most 1,024 threads wait for one
/// connection with their operations, and further ones wait for room, within the same time.
///
/// *What is slow holds up others.* A value of many megabytes, or a [`with`](Self::with), keeps a connection
/// for as long as it takes. For much of that, let the threads concerned have a client of their own, or more
/// connections.
///
/// *Panics* of a caller's closure do not reach other threads: values are shown when the connection was left,
/// and a connection in whose [`with`](Self::with) a thread panicked is made anew.
pub struct SharedClient<T: Transport + Clone = Any> {
    shared: Arc<Shared<T>>,
}

struct Shared<T: Transport + Clone> {
    topology: Topology,
    connections: Vec<Combiner<Connection<T>>>,
    timeout: Duration,
    spin: Nanos,
}

impl<T: Transport + Clone> Clone for SharedClient<T> {
    fn clone(&self) -> SharedClient<T> {
        SharedClient { shared: self.shared.clone() }
    }
}

impl SharedClient<Any> {
    /// A client with a connection a core, over the transports that the addresses name. It connects when it
    /// must.
    pub fn new(topology: Topology, options: Options) -> SharedClient<Any> {
        SharedClient::over(Any::default(), topology, options, cores())
    }
}

impl<T: Transport + Clone> SharedClient<T> {
    /// A client with so many connections, one at least, over a transport with settings of its own.
    pub fn over(transport: T, topology: Topology, options: Options, connections: usize) -> SharedClient<T> {
        let (timeout, spin) = (options.timeout, Nanos(options.spin.as_nanos() as u64));
        let connection = |_| {
            let connection = Connection::new(transport.clone(), topology.clone(), options.clone());
            Combiner::new(connection, QUEUE_MAX)
        };
        let connections = (0..connections.max(1)).map(connection).collect();
        SharedClient { shared: Arc::new(Shared { topology, connections, timeout, spin }) }
    }

    /// The groups, and their keys.
    pub fn topology(&self) -> &Topology {
        &self.shared.topology
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.len()
    }

    /// The value of a key, or `None`; see [`Client::get`](crate::Client::get).
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.read(key, true, |value, _| value.into_owned())
    }

    /// The value and its version, or `None`.
    #[inline]
    pub fn get_versioned(&self, key: &[u8]) -> Result<Option<(Vec<u8>, Csn)>, Error> {
        self.read(key, true, |value, csn| (value.into_owned(), csn))
    }

    /// Copies the value into `into` (replacing what is there); `false` if there is no such key.
    #[inline]
    pub fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, Error> {
        Ok(self.read(key, true, |value, _| put_into(value, into))?.is_some())
    }

    /// Whether the key is there.
    pub fn exists(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.read(key, false, |_, _| ())?.is_some())
    }

    /// Shows the value and its version, without an allocation unless other threads use the connection. The
    /// connection was left by then, so `show` may take its time, and use this client.
    pub fn get_with<R>(&self, key: &[u8], show: impl FnOnce(&[u8], Csn) -> R) -> Result<Option<R>, Error> {
        // No buffer is there while a thread ends: then it begins with an empty one.
        let mut bytes = SHOWN.try_with(Cell::take).unwrap_or_default();
        let found = self.read(key, true, |value, csn| {
            put_into(value, &mut bytes);
            csn
        });
        let shown = found.map(|found| found.map(|csn| show(&bytes, csn)));
        if bytes.capacity() <= KEEP_MAX {
            let _ = SHOWN.try_with(|shown| shown.set(bytes));
        }
        shown
    }

    /// Looks up all keys and shows each value (or `None`) with its key's number, in any order, none twice;
    /// see [`Client::multi_get`](crate::Client::multi_get). The connection is this thread's meanwhile, and
    /// was left whenever `show` is called.
    pub fn multi_get(
        &self,
        keys: &[impl AsRef<[u8]>],
        mut show: impl FnMut(usize, Option<(&[u8], Csn)>),
    ) -> Result<(), Error> {
        for key in keys {
            check_key(key.as_ref())?;
        }
        let some = BATCH * self.shared.topology.groups().len();
        let mut values = Values::default();
        for (chunk, keys) in keys.chunks(some).enumerate() {
            let looked = self.with(|client| client.multi_get(keys, |i, found| values.add(i, found)))?;
            values.show(|i, found| show(chunk * some + i, found));
            looked?;
            for i in std::mem::take(&mut values.left) {
                let found = self.get_versioned(keys[i].as_ref())?;
                show(chunk * some + i, found.as_ref().map(|(value, csn)| (&value[..], *csn)));
            }
        }
        Ok(())
    }

    write_methods!(self, &self);

    /// Sends any write and waits for its outcome.
    pub fn write(&self, write: &Write<'_>) -> Result<Reply, Error> {
        check(write)?;
        let connection = self.connection();
        if let Some(mut held) = connection.alone() {
            return held.client.write(write);
        }
        if write.key.len() + write.value.len() > COPY_MAX {
            return self.turn(connection)?.client.write(write);
        }
        match self.perform(connection, Operation::Write(OwnedWrite::new(write))) {
            Ok(Outcome::Wrote(outcome)) => outcome,
            Ok(Outcome::Got(_)) => Err(Error::Protocol("a write was answered as a GET".into())),
            Err(Unserved::NotBegun) => Err(self.busy()),
            Err(Unserved::Begun) => {
                Err(Error::InDoubt(format!("no answer within {:?}", self.shared.timeout)))
            }
            Err(Unserved::Died) => Err(Error::InDoubt(DIED.into())),
        }
    }

    /// Uses the thread's connection alone: for scans, statistics, and requests in flight. Operations of other
    /// threads wait meanwhile, and an operation of this client within `act` waits in vain.
    ///
    /// What `act` submits and does not wait for stays with the connection, and is nobody's.
    pub fn with<R>(&self, act: impl FnOnce(&mut ClusterClient<T>) -> R) -> Result<R, Error> {
        let connection = self.connection();
        let held = connection.alone().map_or_else(|| self.turn(connection), Ok);
        Ok(act(&mut held?.client))
    }

    /// The counters of all connections so far; waits for each of them as an operation does.
    pub fn counters(&self) -> Result<ClientCounters, Error> {
        let mut sum = ClientCounters::default();
        for connection in &self.shared.connections {
            sum = add(sum, self.turn(connection)?.counters());
        }
        Ok(sum)
    }

    /// The connection of this thread.
    #[inline]
    fn connection(&self) -> &Combiner<Connection<T>> {
        let thread = THREAD.try_with(|number| *number).unwrap_or(0);
        &self.shared.connections[thread % self.shared.connections.len()]
    }

    /// A GET: takes what it needs of the value while the thread has the connection, or after another thread
    /// fetched it.
    #[inline]
    fn read<R>(
        &self,
        key: &[u8],
        value: bool,
        take: impl FnOnce(Cow<'_, [u8]>, Csn) -> R,
    ) -> Result<Option<R>, Error> {
        check_key(key)?;
        let connection = self.connection();
        if let Some(mut held) = connection.alone() {
            return held.client.get_with(key, |value, csn| take(Cow::Borrowed(value), csn));
        }
        let found = self.read_together(connection, key, value)?;
        Ok(found.map(|(value, csn)| take(Cow::Owned(value), csn)))
    }

    #[cold]
    fn read_together(
        &self,
        connection: &Combiner<Connection<T>>,
        key: &[u8],
        value: bool,
    ) -> Result<Option<(Vec<u8>, Csn)>, Error> {
        let address =
            || self.shared.topology.groups()[self.shared.topology.group_of(key)].addresses[0].to_string();
        match self.perform(connection, Operation::Get { key: key.to_vec(), value }) {
            Ok(Outcome::Got(outcome)) => outcome,
            Ok(Outcome::Wrote(_)) => Err(Error::Protocol("a GET was answered as a write".into())),
            Err(Unserved::NotBegun) => Err(self.busy()),
            Err(Unserved::Begun) => {
                Err(Error::Unresponsive { address: address(), waited: self.shared.timeout })
            }
            Err(Unserved::Died) => Err(Error::Lost { address: address(), reason: DIED.into() }),
        }
    }

    fn perform(
        &self,
        connection: &Combiner<Connection<T>>,
        operation: Operation,
    ) -> Result<Outcome, Unserved> {
        self.waiting(|until, spin| connection.perform(operation, until, spin))
    }

    /// The connection, when it is this thread's turn.
    fn turn<'a>(&self, connection: &'a Combiner<Connection<T>>) -> Result<Held<'a, Connection<T>>, Error> {
        self.waiting(|until, spin| connection.turn(until, spin)).map_err(|_| self.busy())
    }

    /// Does what waits, with the end of that and with what the thread knows of its waits.
    fn waiting<R>(&self, act: impl FnOnce(Nanos, &mut AdaptiveSpin) -> R) -> R {
        let Shared { timeout, spin: bound, .. } = *self.shared;
        let known = WAITS.try_with(Cell::take).ok().flatten().filter(|(of, _)| *of == bound);
        let (_, mut spin) = known.unwrap_or_else(|| (bound, AdaptiveSpin::new(bound)));
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let done = act(Nanos(now().0.saturating_add(timeout)), &mut spin);
        let _ = WAITS.try_with(|waits| waits.set(Some((bound, spin))));
        done
    }

    fn busy(&self) -> Error {
        Error::Busy { waited: self.shared.timeout }
    }
}

const DIED: &str = "the thread that executed the operations of all panicked";

/// Puts a value into a buffer, in place of what is there.
#[inline]
fn put_into(value: Cow<'_, [u8]>, into: &mut Vec<u8>) {
    match value {
        Cow::Borrowed(value) => {
            into.clear();
            into.extend_from_slice(value);
        }
        Cow::Owned(value) => *into = value,
    }
}

/// Values that are shown when the connection was left.
#[derive(Default)]
struct Values {
    bytes: Vec<u8>,
    found: Vec<(usize, Option<(usize, Csn)>)>,
    /// The keys whose values do not fit.
    left: Vec<usize>,
}

impl Values {
    fn add(&mut self, key: usize, found: Option<(&[u8], Csn)>) {
        let Some((value, csn)) = found else { return self.found.push((key, None)) };
        if self.bytes.len() + value.len() > VALUES_MAX {
            return self.left.push(key);
        }
        self.bytes.extend_from_slice(value);
        self.found.push((key, Some((value.len(), csn))));
    }

    /// Shows all, and is empty again.
    fn show(&mut self, mut show: impl FnMut(usize, Option<(&[u8], Csn)>)) {
        let mut at = 0;
        for (key, found) in self.found.drain(..) {
            let shown = found.map(|(len, csn)| {
                let value = &self.bytes[at..at + len];
                at += len;
                (value, csn)
            });
            show(key, shown);
        }
        self.bytes.clear();
    }
}
