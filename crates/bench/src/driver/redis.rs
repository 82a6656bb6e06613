//! Redis, and whatever else speaks RESP2: GET and SET over one connection, pipelined.
//!
//! With `?wait=N` in the URL a write counts once N replicas have it: a WAIT follows each SET, or in a batch
//! the last one, in the same segment, so that it costs no round trip of the client's.

use std::time::Duration;

use super::resp::{self, Reply, seen};
use super::socket::{Socket, UNANSWERED_MAX};
use super::{OpRef, Seen, ServerInfo, Target, TargetError, TargetFactory, Verb};
use crate::cpu;
use crate::url::{Address, Url};

/// Keys of one DEL.
const REMOVED_AT_ONCE: usize = 128;

/// One connection.
pub struct Redis {
    socket: Socket,
    /// Replicas that must have a write.
    wait: u32,
    /// Writes of a batch that the server has and its replicas may not yet have.
    stored: Vec<usize>,
}

impl Redis {
    /// Connects within `timeout`, which also bounds every later wait.
    pub fn connect(url: &Url, timeout: Duration) -> Result<Redis, TargetError> {
        let socket = Socket::connect(&url.address, &url.to_string(), timeout)?;
        Ok(Redis { socket, wait: url.wait, stored: Vec::new() })
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
        resp::encode(&mut self.socket.output, &[b"SET", key, value]);
        if self.wait > 0 {
            self.push_wait();
        }
        self.socket.send()?;
        let set = match resp::reply(&mut self.socket)? {
            Reply::Simple(b"OK") => Ok(()),
            Reply::Error(text) => Err(refused(text)),
            other => return Err(unexpected(&format!("{other:?} to SET"))),
        };
        match if self.wait > 0 { self.take_wait()? } else { None } {
            Some(why) => set.and(Err(TargetError::Refused(why))),
            None => set,
        }
    }

    fn remove(&mut self, keys: &[&[u8]]) -> Result<(), TargetError> {
        for some in keys.chunks(REMOVED_AT_ONCE) {
            let mut parts = vec![&b"DEL"[..]];
            parts.extend_from_slice(some);
            match self.command(&parts)? {
                Reply::Number(_) => {}
                Reply::Error(text) => return Err(refused(text)),
                other => return Err(unexpected(&format!("{other:?} to DEL"))),
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
                    OpRef { key, value, .. } => resp::encode(&mut self.socket.output, &[b"SET", key, value]),
                }
                sent += 1;
            }
            let waits = self.wait > 0 && ops[first..sent].iter().any(|op| op.verb == Verb::Put);
            if waits {
                self.push_wait();
            }
            self.socket.send()?;
            for (i, op) in ops.iter().enumerate().take(sent).skip(first) {
                let reply = resp::reply(&mut self.socket)?;
                match (seen(reply), op.verb) {
                    (Some(Seen::Stored), Verb::Get)
                    | (Some(Seen::Hit(_) | Seen::Miss), Verb::Put)
                    | (None, _) => {
                        return Err(unexpected(&format!("{reply:?} to {:?}", op.verb)));
                    }
                    (Some(Seen::Stored), _) if waits => self.stored.push(i),
                    (Some(found), _) => answer(i, found),
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
}

impl RedisFactory {
    /// Connections to `url`, each wait bounded by `timeout`.
    pub fn new(label: String, url: Url, timeout: Duration, ours: bool) -> RedisFactory {
        RedisFactory { label, url, timeout, ours }
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
        Ok(Box::new(Redis::connect(&self.url, self.timeout)?))
    }

    fn describe(&self) -> Result<ServerInfo, TargetError> {
        let mut redis = Redis::connect(&self.url, self.timeout)?;
        let info = redis.text(&[b"INFO"])?;
        let items = match redis.command(&[b"DBSIZE"])? {
            Reply::Number(items) => u64::try_from(items).ok(),
            _ => None,
        };
        let name = if field(&info, "valkey_version").is_some() { "valkey" } else { "redis" };
        let version = field(&info, "valkey_version").or(field(&info, "redis_version")).unwrap_or("unknown");
        let mut settings = vec![("transport".to_string(), self.url.to_string())];
        let mut places = vec![self.url.address.clone()];
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
