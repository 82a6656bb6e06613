//! Longarm: GETs that read the server's memory, PUTs that are requests to it, over any of its transports. One
//! server, or the leaders of all groups of a cluster.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use longarm_client::side::Side;
use longarm_client::{
    Address, Any, ClusterClient, Error, Options, Reply, RequestId, Scan, SharedClient, Topology, Write,
};
use serde_json::Value;

use super::{OpRef, ScanRef, Seen, ServerInfo, Target, TargetError, TargetFactory, Verb};
use crate::cpu;
use crate::url::Address as Place;

/// Writes under way at once; half of what a client allows.
const WRITES_MAX: usize = 128;

/// One client: a connection a group.
pub struct Longarm {
    client: ClusterClient,
    open: Open,
}

/// Writes without an answer, oldest first, with their number in the batch.
type Open = VecDeque<(RequestId, usize)>;

/// Connects to all groups.
fn reach(client: &mut ClusterClient) -> Result<(), TargetError> {
    for number in 0..client.topology().groups().len() {
        let at = client.topology().groups()[number].addresses[0].clone();
        let failed = |e: Error| {
            TargetError::lost(format!("cannot connect to {at}: {e} (is the server running there?)"))
        };
        client.group(number).map_err(failed)?;
    }
    Ok(())
}

impl Longarm {
    /// Connects to all groups within the timeout of `options`, which also bounds every operation.
    pub fn connect(topology: &Topology, transport: &Any, options: &Options) -> Result<Longarm, TargetError> {
        let mut client = ClusterClient::over(transport.clone(), topology.clone(), options.clone());
        reach(&mut client)?;
        Ok(Longarm { client, open: Open::new() })
    }
}

/// A client of which several operations are under way at once.
struct Pipeline<'c> {
    client: &'c mut ClusterClient,
    open: &'c mut Open,
}

impl Pipeline<'_> {
    fn batch(&mut self, ops: &[OpRef<'_>], seen: &mut dyn FnMut(usize, Seen<'_>)) -> Result<(), TargetError> {
        let mut at = 0;
        while at < ops.len() {
            let run = ops[at..].iter().take_while(|op| op.verb == Verb::Get).count();
            if run == 0 {
                self.submit(at, &ops[at], seen)?;
                at += 1;
                continue;
            }
            // The writes before are under way meanwhile.
            let shown = self.client.multi_get(&ops[at..at + run], |i, found| match found {
                Some((value, _)) => seen(at + i, Seen::Hit(value)),
                None => seen(at + i, Seen::Miss),
            });
            shown.map_err(failure)?;
            at += run;
        }
        self.settle(0, seen)
    }

    fn remove(&mut self, keys: &[&[u8]]) -> Result<(), TargetError> {
        for some in keys.chunks(WRITES_MAX) {
            let tickets: Result<Vec<_>, _> =
                some.iter().map(|key| self.client.submit(&Write::delete(key))).collect();
            for ticket in tickets.map_err(failure)? {
                self.client.wait(ticket).map_err(failure)?;
            }
        }
        Ok(())
    }

    /// Takes answers until at most `left` writes are open.
    fn settle(&mut self, left: usize, seen: &mut dyn FnMut(usize, Seen<'_>)) -> Result<(), TargetError> {
        while self.open.len() > left {
            let (ticket, outcome) = match self.client.poll() {
                Some(done) => done,
                None => {
                    let (oldest, _) = self.open[0];
                    (oldest, self.client.wait(oldest))
                }
            };
            // Of one group answers come in the order of the requests, so this looks at the first only.
            let Some(at) = self.open.iter().position(|(open, _)| *open == ticket) else {
                return Err(TargetError::lost("the client reported a write that was not submitted"));
            };
            let (_, i) = self.open.remove(at).expect("just found");
            match outcome.map_err(failure) {
                Ok(Reply::Done(_)) => seen(i, Seen::Stored),
                Ok(other) => {
                    return Err(TargetError::lost(format!("the server answered {other:?} to a PUT")));
                }
                Err(TargetError::Refused(text)) => seen(i, Seen::Refused(&text)),
                Err(lost) => return Err(lost),
            }
        }
        Ok(())
    }

    fn submit(
        &mut self,
        i: usize,
        op: &OpRef<'_>,
        seen: &mut dyn FnMut(usize, Seen<'_>),
    ) -> Result<(), TargetError> {
        if self.open.len() >= WRITES_MAX {
            self.settle(WRITES_MAX / 2, seen)?;
        }
        match self.client.submit(&Write::put(op.key, op.value)).map_err(failure) {
            Ok(ticket) => self.open.push_back((ticket, i)),
            Err(TargetError::Refused(text)) => seen(i, Seen::Refused(&text)),
            Err(lost) => return Err(lost),
        }
        Ok(())
    }
}

/// Refusals leave the connection good; after anything else it is of no use to a benchmark.
fn failure(error: Error) -> TargetError {
    match error {
        Error::OutOfMemory | Error::Closing => TargetError::Refused(error.to_string()),
        other => TargetError::Lost(other.to_string()),
    }
}

/// The key, so that a run of GETs is a multi-GET as it stands.
impl AsRef<[u8]> for OpRef<'_> {
    fn as_ref(&self) -> &[u8] {
        self.key
    }
}

impl Target for Longarm {
    #[inline]
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TargetError> {
        self.client.get_into(key, value).map_err(failure)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TargetError> {
        self.client.put(key, value).map(drop).map_err(failure)
    }

    fn remove(&mut self, keys: &[&[u8]]) -> Result<(), TargetError> {
        Pipeline { client: &mut self.client, open: &mut self.open }.remove(keys)
    }

    fn scan(&mut self, wanted: &ScanRef<'_>, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), TargetError> {
        let mut scan = Scan::range(wanted.from..).limit(u64::from(wanted.limit));
        if wanted.keys_only {
            scan = scan.keys_only();
        }
        let mut items = self.client.scan(&scan);
        while let Some(item) = items.next_ref() {
            let item = item.map_err(failure)?;
            seen(item.key, item.value);
        }
        Ok(())
    }

    fn remembered(&self) -> u64 {
        self.client.counters().cache_hits
    }

    fn batch(&mut self, ops: &[OpRef<'_>], seen: &mut dyn FnMut(usize, Seen<'_>)) -> Result<(), TargetError> {
        Pipeline { client: &mut self.client, open: &mut self.open }.batch(ops, seen)
    }
}

/// One of the clients that share connections.
struct SharedLongarm {
    client: Arc<SharedClient>,
    open: Open,
    /// It reports for all.
    first: bool,
}

impl SharedLongarm {
    fn pipelined(
        &mut self,
        act: impl FnOnce(&mut Pipeline<'_>) -> Result<(), TargetError>,
    ) -> Result<(), TargetError> {
        let open = &mut self.open;
        self.client.with(|client| act(&mut Pipeline { client, open })).map_err(failure)?
    }
}

impl Target for SharedLongarm {
    #[inline]
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TargetError> {
        self.client.get_into(key, value).map_err(failure)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TargetError> {
        self.client.put(key, value).map(drop).map_err(failure)
    }

    fn remove(&mut self, keys: &[&[u8]]) -> Result<(), TargetError> {
        self.pipelined(|pipeline| pipeline.remove(keys))
    }

    fn remembered(&self) -> u64 {
        // Counters that cannot be had now are not worth a failed run.
        if self.first { self.client.counters().map_or(0, |counters| counters.cache_hits) } else { 0 }
    }

    /// Only to load records: a plan of shared connections has no pipelines.
    fn batch(&mut self, ops: &[OpRef<'_>], seen: &mut dyn FnMut(usize, Seen<'_>)) -> Result<(), TargetError> {
        self.pipelined(|pipeline| pipeline.batch(ops, seen))
    }
}

/// Makes connections to one Longarm server, or to one cluster.
pub struct LongarmFactory {
    label: String,
    topology: Topology,
    transport: Any,
    options: Options,
    /// The connections that clients share, if they do.
    connections: Option<usize>,
    /// The client whose connections those are, while it has users: each run begins with connections of its
    /// own.
    shared: Mutex<Weak<SharedClient>>,
}

impl LongarmFactory {
    /// Connections to `address` with the settings of `transport`, each wait bounded by the timeouts of
    /// `options`.
    pub fn new(label: String, address: Address, transport: Any, options: Options) -> LongarmFactory {
        LongarmFactory::of_cluster(label, Topology::of_one(vec![address]), transport, options)
    }

    /// The same to the leaders of a cluster's groups.
    pub fn of_cluster(label: String, topology: Topology, transport: Any, options: Options) -> LongarmFactory {
        LongarmFactory { label, topology, transport, options, connections: None, shared: Mutex::default() }
    }

    /// All clients share so many connections, if this says so.
    pub fn sharing(self, connections: Option<usize>) -> LongarmFactory {
        LongarmFactory { connections, ..self }
    }

    /// The client with shared connections, and this thread's connection made.
    fn share(&self, client: usize, connections: usize) -> Result<SharedLongarm, TargetError> {
        let shared = {
            let mut shared = self.shared.lock().expect("no holder of this lock panics");
            let known = shared.upgrade().unwrap_or_else(|| {
                let options = Options { name: "bench".into(), ..self.options.clone() };
                let (transport, topology) = (self.transport.clone(), self.topology.clone());
                Arc::new(SharedClient::over(transport, topology, options, connections))
            });
            *shared = Arc::downgrade(&known);
            known
        };
        shared.with(reach).map_err(failure)??;
        Ok(SharedLongarm { client: shared, open: Open::new(), first: client == 0 })
    }

    /// Connections with the usual settings.
    pub fn plain(label: String, address: Address, timeout: Duration) -> LongarmFactory {
        let options = Options { timeout, connect_timeout: timeout, ..Options::default() };
        LongarmFactory::new(label, address, Any::default(), options)
    }

    fn open(&self, name: &str) -> Result<Longarm, TargetError> {
        let options = Options { name: name.into(), ..self.options.clone() };
        Longarm::connect(&self.topology, &self.transport, &options)
    }
}

impl TargetFactory for LongarmFactory {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Target>, TargetError> {
        match self.connections {
            Some(connections) => Ok(Box::new(self.share(client, connections)?)),
            None => Ok(Box::new(self.open(&format!("bench-{client}"))?)),
        }
    }

    /// A group without an ordered index says so when it is asked.
    fn scans(&self) -> bool {
        true
    }

    fn describe(&self) -> Result<ServerInfo, TargetError> {
        let mut longarm = self.open("bench")?;
        let mut info = ServerInfo::default();
        let (mut limit, mut replicas, mut disk) = (0, None, None);
        for group in 0..self.topology.groups().len() {
            let client = longarm.client.group(group).map_err(failure)?;
            let (near, pid) = (is_near(client.address()), client.server_pid());
            let text = client.stats().map_err(failure)?;
            let stats: Value = serde_json::from_str(&text).map_err(|e| {
                TargetError::lost(format!("the statistics of {} are not JSON: {e}", client.address()))
            })?;
            let number = |at: &str| stats.pointer(at).and_then(Value::as_u64);
            let word = |at: &str| stats.pointer(at).and_then(Value::as_str);
            disk = word("/disk/durability").map(str::to_string);
            let version = word("/version").unwrap_or("");
            info.version = format!("longarm {version}").trim_end().to_string();
            // The process id is of the server's machine: over a network it names nothing here. Followers let
            // no client in, to ask them.
            let all = self.topology.groups()[group].addresses.iter().filter_map(listener);
            let leader = pid.filter(|_| near);
            info.leaders.extend(leader.filter(|pid| !info.leaders.contains(pid)));
            let pids = leader.into_iter().chain(all);
            pids.for_each(|pid| {
                if !info.pids.contains(&pid) {
                    info.pids.push(pid);
                }
            });
            if let Some(size) = number("/group/replicas") {
                replicas = Some(size);
                info.in_sync = Some(in_sync(&stats).min(info.in_sync.unwrap_or(usize::MAX)));
            }
            info.items = add(info.items, number("/items"), group);
            info.used_memory = add(info.used_memory, number("/memory_used"), group);
            limit += number("/memory_limit").unwrap_or(0);
        }
        info.settings.push(("transport".into(), longarm.client.describe()));
        // Unless as by default.
        let name = |side: Option<Side>| side.map_or("auto", Side::name).to_string();
        let (own, usual) = (&self.options, Options::default());
        let sides = [("scans by", own.scan_side, usual.scan_side), ("GETs by", own.get_side, usual.get_side)];
        let unusual = sides.into_iter().filter(|(_, own, usual)| own != usual);
        info.settings.extend(unusual.map(|(what, own, _)| (what.to_string(), name(own))));
        if limit > 0 {
            info.settings.push(("limit".into(), format!("{} MiB", limit >> 20)));
        }
        if let Some(replicas) = replicas {
            info.settings.push(("replicas".into(), replicas.to_string()));
        }
        if let Some(durability) = durability(replicas.is_some(), disk.as_deref()) {
            info.settings.push(("durability".into(), durability.into()));
        }
        Ok(info)
    }
}

/// When a write is acknowledged, by what the server says of its disk; a server alone without a disk says
/// nothing of it.
fn durability(group: bool, disk: Option<&str>) -> Option<&'static str> {
    match (group, disk) {
        (true, Some("sync")) => Some("disks of a majority"),
        (true, Some("pmem")) => Some("persistent memory of a majority"),
        (true, Some(_)) => Some("memory of a majority, on disk within the loss window"),
        (true, None) => Some("memory of a majority"),
        (false, Some("sync")) => Some("disk"),
        (false, Some("pmem")) => Some("persistent memory"),
        (false, Some(_)) => Some("memory, on disk within the loss window"),
        (false, None) => None,
    }
}

/// The leader, and followers that it says are in sync.
fn in_sync(stats: &Value) -> usize {
    let followers = stats.pointer("/group/followers").and_then(Value::as_array);
    1 + followers.into_iter().flatten().filter(|follower| follower["synced"] == true).count()
}

/// The process of this machine that listens there.
fn listener(address: &Address) -> Option<u32> {
    let place = match address {
        Address::Shm(path) => Place::Unix(path.clone()),
        Address::Tcp(text) | Address::Verbs(text) => {
            let (host, port) = text.rsplit_once(':')?;
            Place::Tcp(host.trim_matches(['[', ']']).to_string(), port.parse().ok()?)
        }
        Address::Sim(_) => return None,
    };
    cpu::listener(&place)
}

/// A sum over groups, if each of them said its part.
fn add(sum: Option<u64>, part: Option<u64>, group: usize) -> Option<u64> {
    if group == 0 { part } else { Some(sum? + part?) }
}

/// Whether a server there runs on this machine, as far as its address tells.
fn is_near(address: &Address) -> bool {
    let host = match address {
        Address::Shm(_) => return true,
        Address::Tcp(host) => host,
        _ => return false,
    };
    let resolved = std::net::ToSocketAddrs::to_socket_addrs(host.as_str());
    resolved.is_ok_and(|mut all| all.all(|address| address.ip().is_loopback()))
}

#[cfg(test)]
mod tests;
