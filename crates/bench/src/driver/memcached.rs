//! memcached: get and set in its text protocol over one connection, pipelined.
//!
//! Neighbouring gets of a batch become one get of several keys: memcached sends the answer to each command
//! with a system call of its own, so pipelined single gets would show it four times slower than it is.

use std::time::Duration;

use super::resp::push_decimal;
use super::socket::{Socket, UNANSWERED_MAX};
use super::{OpRef, Seen, ServerInfo, Target, TargetError, TargetFactory, Verb};
use crate::cpu;
use crate::url::Url;

/// memcached's limit for keys.
const KEY_MAX: usize = 250;
/// Keys in one get.
const KEYS_MAX: usize = 128;
const PROTOCOL: &str = "memcached's text protocol";

/// One connection.
pub struct Memcached {
    socket: Socket,
}

impl Memcached {
    /// Connects within `timeout`, which also bounds every later wait.
    pub fn connect(url: &Url, timeout: Duration) -> Result<Memcached, TargetError> {
        Ok(Memcached { socket: Socket::connect(&url.address, &url.to_string(), timeout)? })
    }

    fn push_key(&mut self, key: &[u8]) -> Result<(), TargetError> {
        if key.is_empty() || key.len() > KEY_MAX || key.iter().any(|&b| b <= b' ' || b == 0x7F) {
            let shown = String::from_utf8_lossy(key).into_owned();
            return Err(TargetError::lost(format!(
                "memcached cannot hold the key '{shown}': use 1 to 250 printable bytes"
            )));
        }
        self.socket.output.push(b' ');
        self.socket.output.extend_from_slice(key);
        Ok(())
    }

    /// Appends one command for the first operations of `ops` that fit into one, and says how many they are.
    fn push(&mut self, ops: &[OpRef<'_>]) -> Result<usize, TargetError> {
        let taken = run_of_gets(ops).max(1);
        if ops[0].verb == Verb::Get {
            self.socket.output.extend_from_slice(b"get");
            ops[..taken].iter().try_for_each(|op| self.push_key(op.key))?;
        } else {
            self.socket.output.extend_from_slice(b"set");
            self.push_key(ops[0].key)?;
            let output = &mut self.socket.output;
            output.extend_from_slice(b" 0 0 ");
            push_decimal(output, ops[0].value.len());
            output.extend_from_slice(b"\r\n");
            output.extend_from_slice(ops[0].value);
        }
        self.socket.output.extend_from_slice(b"\r\n");
        Ok(taken)
    }

    /// Takes the answer to the command made of the first operations of `ops`, shows what each of them got,
    /// and says how many they are.
    fn answer(
        &mut self,
        ops: &[OpRef<'_>],
        show: &mut dyn FnMut(usize, Seen<'_>),
    ) -> Result<usize, TargetError> {
        let gets = run_of_gets(ops);
        if gets > 0 {
            self.values(&ops[..gets], show)?;
            return Ok(gets);
        }
        let line = self.socket.line()?;
        match self.socket.bytes(line) {
            b"STORED" => show(0, Seen::Stored),
            text if text.starts_with(b"SERVER_ERROR") || text == b"NOT_STORED" => {
                show(0, Seen::Refused(readable(text)));
            }
            // ERROR and CLIENT_ERROR mean that the server did not understand: what follows is not in step.
            text => return Err(self.socket.unexpected(PROTOCOL, text)),
        }
        Ok(1)
    }

    /// Takes the values of one get of several keys: they come in the order of the keys, missing ones left
    /// out.
    fn values(
        &mut self,
        ops: &[OpRef<'_>],
        show: &mut dyn FnMut(usize, Seen<'_>),
    ) -> Result<(), TargetError> {
        let mut next = 0;
        loop {
            let line = self.socket.line()?;
            let text = self.socket.bytes(line);
            if text == b"END" {
                (next..ops.len()).for_each(|i| show(i, Seen::Miss));
                return Ok(());
            }
            if text.starts_with(b"SERVER_ERROR") {
                (next..ops.len()).for_each(|i| show(i, Seen::Refused(readable(text))));
                return Ok(());
            }
            let Some((key, len)) = value_header(text) else {
                return Err(self.socket.unexpected(PROTOCOL, text));
            };
            let Some(found) = ops[next..].iter().position(|op| op.key == key) else {
                return Err(self.socket.unexpected(PROTOCOL, text));
            };
            (next..next + found).for_each(|i| show(i, Seen::Miss));
            let value = self.socket.block(len)?;
            show(next + found, Seen::Hit(self.socket.bytes(value)));
            next += found + 1;
        }
    }

    fn one(&mut self, op: &OpRef<'_>, show: &mut dyn FnMut(Seen<'_>)) -> Result<(), TargetError> {
        let ops = std::slice::from_ref(op);
        self.push(ops)?;
        self.socket.send()?;
        self.answer(ops, &mut |_, seen| show(seen)).map(drop)
    }

    fn lines(&mut self, command: &[u8], last: &[u8]) -> Result<Vec<String>, TargetError> {
        self.socket.output.extend_from_slice(command);
        self.socket.send()?;
        let mut lines = Vec::new();
        loop {
            let line = self.socket.line()?;
            let text = self.socket.bytes(line);
            if text == b"ERROR" || text.starts_with(b"CLIENT_ERROR") || lines.len() > 1000 {
                return Err(self.socket.unexpected(PROTOCOL, text));
            }
            if text == last {
                return Ok(lines);
            }
            lines.push(String::from_utf8_lossy(text).into_owned());
        }
    }
}

/// How many operations at the front are gets that go into one command.
fn run_of_gets(ops: &[OpRef<'_>]) -> usize {
    ops.iter().take(KEYS_MAX).take_while(|op| op.verb == Verb::Get).count()
}

/// Key and length in `VALUE key flags length [cas]`.
fn value_header(line: &[u8]) -> Option<(&[u8], usize)> {
    let mut words = line.strip_prefix(b"VALUE ")?.split(|&byte| byte == b' ');
    let key = words.next()?;
    let len = std::str::from_utf8(words.nth(1)?).ok()?.parse().ok()?;
    Some((key, len))
}

fn readable(text: &[u8]) -> &str {
    std::str::from_utf8(text).unwrap_or("an unreadable error")
}

impl Target for Memcached {
    fn remove(&mut self, keys: &[&[u8]]) -> Result<(), TargetError> {
        for some in keys.chunks(KEYS_MAX) {
            for key in some {
                self.socket.output.extend_from_slice(b"delete");
                self.push_key(key)?;
                self.socket.output.extend_from_slice(b"\r\n");
            }
            self.socket.send()?;
            for _ in some {
                let line = self.socket.line()?;
                let text = self.socket.bytes(line);
                if text != b"DELETED" && text != b"NOT_FOUND" {
                    return Err(self.socket.unexpected(PROTOCOL, text));
                }
            }
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TargetError> {
        value.clear();
        let mut result = Ok(false);
        self.one(&OpRef { verb: Verb::Get, key, value: &[] }, &mut |seen| match seen {
            Seen::Hit(found) => {
                value.extend_from_slice(found);
                result = Ok(true);
            }
            Seen::Refused(text) => result = Err(TargetError::Refused(text.into())),
            Seen::Miss | Seen::Stored => {}
        })?;
        result
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TargetError> {
        let mut result = Ok(());
        self.one(&OpRef { verb: Verb::Put, key, value }, &mut |seen| {
            if let Seen::Refused(text) = seen {
                result = Err(TargetError::Refused(text.into()));
            }
        })?;
        result
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
                // A large value starts its own group, so that a group is short or a single request.
                if sent > first && ops[sent].value.len() > UNANSWERED_MAX / 4 {
                    break;
                }
                sent += self.push(&ops[sent..])?;
            }
            self.socket.send()?;
            let mut done = first;
            while done < sent {
                // Cut where the commands that were sent end, so that the runs of gets are found again.
                done += self.answer(&ops[done..sent], &mut |i, seen| answer(done + i, seen))?;
            }
        }
        Ok(())
    }
}

/// Makes connections to one memcached server.
pub struct MemcachedFactory {
    label: String,
    url: Url,
    timeout: Duration,
    /// Whether it was started for this benchmark.
    ours: bool,
}

impl MemcachedFactory {
    /// Connections to `url`, each wait bounded by `timeout`.
    pub fn new(label: String, url: Url, timeout: Duration, ours: bool) -> MemcachedFactory {
        MemcachedFactory { label, url, timeout, ours }
    }
}

impl TargetFactory for MemcachedFactory {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn connect(&self, _client: usize) -> Result<Box<dyn Target>, TargetError> {
        Ok(Box::new(Memcached::connect(&self.url, self.timeout)?))
    }

    fn describe(&self) -> Result<ServerInfo, TargetError> {
        let mut memcached = Memcached::connect(&self.url, self.timeout)?;
        let stats = memcached.lines(b"stats\r\n", b"END")?;
        let field = |name: &str| {
            stats.iter().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '))
        };
        let mut settings = vec![("transport".to_string(), self.url.to_string())];
        for name in ["threads", "limit_maxbytes"] {
            if let Some(value) = field(name) {
                settings.push((name.to_string(), value.to_string()));
            }
        }
        Ok(ServerInfo {
            version: format!("memcached {}", field("version").unwrap_or("unknown")),
            pids: cpu::listener(&self.url.address).into_iter().collect(),
            leaders: Vec::new(),
            in_sync: None,
            items: field("curr_items").and_then(|items| items.parse().ok()),
            used_memory: field("bytes").and_then(|bytes| bytes.parse().ok()),
            settings,
        })
    }

    fn clear(&self) -> Result<bool, TargetError> {
        if !self.ours {
            return Ok(false);
        }
        Memcached::connect(&self.url, self.timeout)?.lines(b"flush_all\r\n", b"OK").map(|_| true)
    }
}
