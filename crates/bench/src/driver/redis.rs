//! Redis, and whatever else speaks RESP2: GET and SET over one connection, pipelined.
//!
//! With `?wait=N` in the URL a write counts once N replicas have it: a WAIT follows each SET, or in a batch
//! the last one, in the same segment, so that it costs no round trip of the client's.
//!
//! Redis has its string keys in no order. Where scans are measured every key is also a member of one sorted
//! set, in which all have the same score: a ZADD follows each SET, in the same segment. A scan is ZRANGE
//! BYLEX of the set, and MGET of what that named: two round trips, as in any client that scans so.

use std::time::Duration;

use super::resp::{self, Reply, seen};
use super::socket::{Socket, UNANSWERED_MAX};
use super::{OpRef, ScanRef, Seen, ServerInfo, Target, TargetError, TargetFactory, Verb};
use crate::cpu;
use crate::url::{Address, Url};

/// Keys of one DEL.
const REMOVED_AT_ONCE: usize = 128;
/// The sorted set that has all keys, where scans are measured.
const INDEX: &[u8] = b"longarm-bench-index";

/// One connection.
pub struct Redis {
    socket: Socket,
    /// Replicas that must have a write.
    wait: u32,
    /// Whether keys are members of the sorted set.
    ordered: bool,
    /// The keys of a scan.
    keys: Keys,
    /// Writes of a batch that the server has and its replicas may not yet have.
    stored: Vec<usize>,
}

impl Redis {
    /// Connects within `timeout`, which also bounds every later wait.
    pub fn connect(url: &Url, timeout: Duration) -> Result<Redis, TargetError> {
        let socket = Socket::connect(&url.address, &url.to_string(), timeout)?;
        let (wait, ordered, keys) = (url.wait, false, Keys::default());
        Ok(Redis { socket, wait, ordered, keys, stored: Vec::new() })
    }

    fn push_put(&mut self, key: &[u8], value: &[u8]) {
        resp::encode(&mut self.socket.output, &[b"SET", key, value]);
        if self.ordered {
            resp::encode(&mut self.socket.output, &[b"ZADD", INDEX, b"0", key]);
        }
    }

    /// Takes the answers to that: why the server refused, if it did.
    fn take_put(&mut self) -> Result<Option<String>, TargetError> {
        let set = match resp::reply(&mut self.socket)? {
            Reply::Simple(b"OK") => None,
            Reply::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
            other => return Err(unexpected(&format!("{other:?} to SET"))),
        };
        if !self.ordered {
            return Ok(set);
        }
        match resp::reply(&mut self.socket)? {
            Reply::Number(_) => Ok(set),
            Reply::Error(text) => Ok(set.or(Some(String::from_utf8_lossy(text).into_owned()))),
            other => Err(unexpected(&format!("{other:?} to ZADD"))),
        }
    }

    /// Takes the head of an array.
    fn take_array(&mut self, command: &str) -> Result<usize, TargetError> {
        match resp::reply(&mut self.socket)? {
            Reply::Array(count) => Ok(count),
            Reply::Error(text) => Err(refused(text)),
            other => Err(unexpected(&format!("{other:?} to {command}"))),
        }
    }

    /// Asks for the keys of a scan, and takes them.
    fn fetch_keys(&mut self, wanted: &ScanRef<'_>) -> Result<(), TargetError> {
        let (low, limit) = ([b"[", wanted.from].concat(), wanted.limit.to_string());
        let parts = [&b"ZRANGE"[..], INDEX, &low, b"+", b"BYLEX", b"LIMIT", b"0", limit.as_bytes()];
        resp::encode(&mut self.socket.output, &parts);
        self.socket.send()?;
        self.keys.clear();
        for _ in 0..self.take_array("ZRANGE")? {
            match resp::reply(&mut self.socket)? {
                Reply::Bulk(key) => self.keys.push(key),
                other => return Err(unexpected(&format!("{other:?} as a member of a set"))),
            }
        }
        Ok(())
    }

    /// Asks to be answered when the replicas have all that was written before: within half of the time after
    /// which this client gives the server up.
    fn push_wait(&mut self) {
        let patience = (self.socket.timeout().as_millis() / 2).max(1);
        let (wait, patience) = (self.wait.to_string(), patience.to_string());
        resp::encode(&mut self.socket.output, &[b"WAIT", wait.as_bytes(), patience.as_bytes()]);
    }

    /// Takes the answer to that: what is wrong with it, if something is.
    fn take_wait(&mut self) -> Result<Option<String>, TargetError> {
        let wait = self.wait;
        match resp::reply(&mut self.socket)? {
            Reply::Number(replicas) if replicas >= i64::from(wait) => Ok(None),
            Reply::Number(replicas) => Ok(Some(format!("{replicas} replicas have it, not {wait}"))),
            Reply::Error(text) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
            other => Err(unexpected(&format!("{other:?} to WAIT"))),
        }
    }

    /// Sends one command and takes its reply.
    pub fn command(&mut self, parts: &[&[u8]]) -> Result<Reply<'_>, TargetError> {
        resp::encode(&mut self.socket.output, parts);
        self.socket.send()?;
        resp::reply(&mut self.socket)
    }

    fn text(&mut self, parts: &[&[u8]]) -> Result<String, TargetError> {
        match self.command(parts)? {
            Reply::Bulk(text) | Reply::Simple(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            Reply::Number(number) => Ok(number.to_string()),
            Reply::Nil => Ok(String::new()),
            Reply::Array(_) => Err(unexpected("an array to a question of text")),
            Reply::Error(text) => Err(refused(text)),
        }
    }
}

fn refused(text: &[u8]) -> TargetError {
    TargetError::Refused(String::from_utf8_lossy(text).into_owned())
}

fn unexpected(reply: &str) -> TargetError {
    TargetError::lost(format!("the Redis server answered {reply} where that has no meaning"))
}

/// Keys, one behind the other.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).map(|(&begin, &end)| &self.bytes[begin..end])
    }
}

impl Target for Redis {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TargetError> {
        value.clear();
        match self.command(&[b"GET", key])? {
            Reply::Bulk(found) => {
                value.extend_from_slice(found);
                Ok(true)
            }
            Reply::Nil => Ok(false),
            Reply::Error(text) => Err(refused(text)),
            other => Err(unexpected(&format!("{other:?} to GET"))),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TargetError> {
        self.push_put(key, value);
        if self.wait > 0 {
            self.push_wait();
        }
        self.socket.send()?;
        let refused = self.take_put()?;
        let missing = if self.wait > 0 { self.take_wait()? } else { None };
        refused.or(missing).map_or(Ok(()), |why| Err(TargetError::Refused(why)))
    }

    fn remove(&mut self, keys: &[&[u8]]) -> Result<(), TargetError> {
        for some in keys.chunks(REMOVED_AT_ONCE) {
            let commands = [&[&b"DEL"[..]][..], &[b"ZREM", INDEX]];
            for command in &commands[..1 + usize::from(self.ordered)] {
                let parts = [command, some].concat();
                match self.command(&parts)? {
                    Reply::Number(_) => {}
                    Reply::Error(text) => return Err(refused(text)),
                    other => return Err(unexpected(&format!("{other:?} to DEL or ZREM"))),
                }
            }
        }
        Ok(())
    }

    fn scan(&mut self, wanted: &ScanRef<'_>, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), TargetError> {
        self.fetch_keys(wanted)?;
        if wanted.keys_only || self.keys.ends.is_empty() {
            self.keys.iter().for_each(|key| seen(key, &[]));
            return Ok(());
        }
        let parts: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(self.keys.iter()).collect();
        resp::encode(&mut self.socket.output, &parts);
        self.socket.send()?;
        let count = self.take_array("MGET")?;
        if count != self.keys.ends.len() {
            return Err(unexpected(&format!("{count} values to an MGET of other keys")));
        }
        for key in self.keys.iter() {
            match resp::reply(&mut self.socket)? {
                Reply::Bulk(value) => seen(key, value),
                // It was removed since the set named it.
                Reply::Nil => {}
                other => return Err(unexpected(&format!("{other:?} as a value"))),
            }
        }
        Ok(())
    }

    fn batch(
        &mut self,
        ops: &[OpRef<'_>],
        answer: &mut dyn FnMut(usize, Seen<'_>),
    ) -> Result<(), TargetError> {
        let mut sent = 0;
        while sent < ops.len() {
            let first = sent;
            while sent < ops.len() && (sent == first || self.socket.output.len() < UNANSWERED_MAX) {
                match ops[sent] {
                    OpRef { verb: Verb::Get, key, .. } => {
                        resp::encode(&mut self.socket.output, &[b"GET", key]);
                    }
                    // A large value starts its own group, so that a group is short or a single request.
                    OpRef { value, .. } if sent > first && value.len() > UNANSWERED_MAX / 4 => break,
                    OpRef { key, value, .. } => self.push_put(key, value),
                }
                sent += 1;
            }
            let waits = self.wait > 0 && ops[first..sent].iter().any(|op| op.verb == Verb::Put);
            if waits {
                self.push_wait();
            }
            self.socket.send()?;
            for (i, op) in ops.iter().enumerate().take(sent).skip(first) {
                if op.verb == Verb::Put {
                    match self.take_put()? {
                        Some(why) => answer(i, Seen::Refused(&why)),
                        None if waits => self.stored.push(i),
                        None => answer(i, Seen::Stored),
                    }
                    continue;
                }
                let reply = resp::reply(&mut self.socket)?;
                match seen(reply) {
                    Some(Seen::Stored) | None => return Err(unexpected(&format!("{reply:?} to GET"))),
                    Some(found) => answer(i, found),
                }
            }
            if waits {
                let missing = self.take_wait()?;
                let outcome = missing.as_deref().map_or(Seen::Stored, Seen::Refused);
                self.stored.drain(..).for_each(|i| answer(i, outcome));
            }
        }
        Ok(())
    }
}

/// Makes connections to one Redis server.
pub struct RedisFactory {
    label: String,
    url: Url,
    timeout: Duration,
    /// Whether it was started for this benchmark.
    ours: bool,
    /// Whether its keys are members of a sorted set, too, so that they can be scanned.
    ordered: bool,
}

impl RedisFactory {
    /// Connections to `url`, each wait bounded by `timeout`.
    pub fn new(label: String, url: Url, timeout: Duration, ours: bool) -> RedisFactory {
        RedisFactory { label, url, timeout, ours, ordered: false }
    }

    /// The same with every key in a sorted set, for scans.
    pub fn ordered(self, ordered: bool) -> RedisFactory {
        RedisFactory { ordered, ..self }
    }
}

/// The value of `field` in the answer to INFO.
fn field<'a>(info: &'a str, field: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim)
}

/// Where the replicas are that are in step: `slave0:ip=127.0.0.1,port=7001,state=online,offset=1,lag=0`.
fn replicas(info: &str) -> Vec<Address> {
    let replica = |number| {
        let line = field(info, &format!("slave{number}"))?;
        let value = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let address = Address::Tcp(value("ip")?.to_string(), value("port")?.parse().ok()?);
        Some((address, value("state") == Some("online")))
    };
    (0..).map_while(replica).filter(|(_, online)| *online).map(|(address, _)| address).collect()
}

impl TargetFactory for RedisFactory {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn connect(&self, _client: usize) -> Result<Box<dyn Target>, TargetError> {
        Ok(Box::new(Redis { ordered: self.ordered, ..Redis::connect(&self.url, self.timeout)? }))
    }

    fn scans(&self) -> bool {
        self.ordered
    }

    fn describe(&self) -> Result<ServerInfo, TargetError> {
        let mut redis = Redis::connect(&self.url, self.timeout)?;
        let info = redis.text(&[b"INFO"])?;
        let mut number = |parts: &[&[u8]]| {
            Ok(match redis.command(parts)? {
                Reply::Number(number) => u64::try_from(number).ok(),
                _ => None,
            })
        };
        // The sorted set is a key, and no item.
        let sets = number(&[b"EXISTS", INDEX])?.unwrap_or(0);
        let items = number(&[b"DBSIZE"])?.map(|keys| keys.saturating_sub(sets));
        let name = if field(&info, "valkey_version").is_some() { "valkey" } else { "redis" };
        let version = field(&info, "valkey_version").or(field(&info, "redis_version")).unwrap_or("unknown");
        let mut settings = vec![("transport".to_string(), self.url.to_string())];
        let mut places = vec![self.url.address.clone()];
        if self.ordered {
            settings.push(("scans".into(), "ZRANGE BYLEX of a sorted set, then MGET".into()));
        }
        if self.url.wait > 0 {
            places.extend(replicas(&info));
            settings.push(("replicas".into(), (places.len() - 1).to_string()));
            settings.push(("WAIT".into(), format!("{} after each PUT, or batch", self.url.wait)));
        }
        for name in
            ["maxmemory_human", "maxmemory_policy", "aof_enabled", "io_threads_active", "mem_allocator"]
        {
            if let Some(value) = field(&info, name) {
                settings.push((name.to_string(), value.to_string()));
            }
        }
        Ok(ServerInfo {
            version: format!("{name} {version}"),
            pids: places.iter().filter_map(cpu::listener).collect(),
            leaders: places[..1].iter().filter_map(cpu::listener).collect(),
            in_sync: (self.url.wait > 0).then_some(places.len()),
            items,
            used_memory: field(&info, "used_memory").and_then(|bytes| bytes.parse().ok()),
            settings,
        })
    }

    fn clear(&self) -> Result<bool, TargetError> {
        if !self.ours {
            return Ok(false);
        }
        let mut redis = Redis::connect(&self.url, self.timeout)?;
        redis.text(&[b"FLUSHDB", b"SYNC"]).map(|_| true)
    }
}
