//! A blocking socket with buffers on both sides, for request and answer protocols with pipelining.
//!
//! Every wait is bounded by the timeout of the socket; an answer is bounded by [`ANSWER_MAX`].

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::TargetError;
use crate::url::Address;

/// Longest answer taken from a server: the longest value and its frame.
const ANSWER_MAX: usize = (64 << 20) + 4096;
/// Bytes asked from the kernel at once.
const READ_SIZE: usize = 64 << 10;
/// Request bytes that may be under way before answers are read. A server that stops reading until its answers
/// are taken (memcached) still receives this much into its socket buffer, so neither side waits for the
/// other.
pub const UNANSWERED_MAX: usize = 48 << 10;

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection.
pub struct Socket {
    stream: Stream,
    name: String,
    timeout: Duration,
    input: Vec<u8>,
    /// Bytes of `input` that were taken already.
    taken: usize,
    /// Bytes of `input` that came from the server.
    filled: usize,
    /// The request that is being put together.
    pub output: Vec<u8>,
}

impl Socket {
    /// Connects within `timeout`, which also bounds every later wait.
    pub fn connect(address: &Address, name: &str, timeout: Duration) -> Result<Socket, TargetError> {
        let failed = |e: std::io::Error| {
            TargetError::lost(format!("cannot connect to {name}: {e} (is the server running there?)"))
        };
        let stream = match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(failed)?;
                stream.set_read_timeout(Some(timeout)).map_err(failed)?;
                stream.set_write_timeout(Some(timeout)).map_err(failed)?;
                Stream::Unix(stream)
            }
            Address::Tcp(host, port) => {
                let stream = connect_any(host, *port, timeout).map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                stream.set_read_timeout(Some(timeout)).map_err(failed)?;
                stream.set_write_timeout(Some(timeout)).map_err(failed)?;
                Stream::Tcp(stream)
            }
        };
        let input = vec![0; READ_SIZE];
        let output = Vec::with_capacity(UNANSWERED_MAX);
        Ok(Socket { stream, name: name.to_string(), timeout, input, taken: 0, filled: 0, output })
    }

    /// Bound of every wait.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends what is in `output` and empties it.
    pub fn send(&mut self) -> Result<(), TargetError> {
        let sent = match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(&self.output),
            Stream::Unix(stream) => stream.write_all(&self.output),
        };
        self.output.clear();
        sent.map_err(|e| self.broken("send to", &e))
    }

    /// Bytes of an answer that was taken since the last wait for more ([`line`](Self::line) or
    /// [`block`](Self::block) may move what came before).
    #[inline]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.input[range]
    }

    /// An error of a server that does not speak the protocol.
    pub fn unexpected(&self, protocol: &str, found: &[u8]) -> TargetError {
        let shown = String::from_utf8_lossy(&found[..found.len().min(80)]).into_owned();
        TargetError::lost(format!("{} does not answer as {protocol} does: '{shown}'", self.name))
    }

    /// Takes the next line, without its CR LF.
    pub fn line(&mut self) -> Result<Range<usize>, TargetError> {
        let mut searched = 0;
        loop {
            let fresh = &self.input[self.taken + searched..self.filled];
            if let Some(at) = fresh.iter().position(|&byte| byte == b'\n') {
                let from = self.taken;
                let line_end = from + searched + at;
                self.taken = line_end + 1;
                let end = if line_end > from && self.input[line_end - 1] == b'\r' {
                    line_end - 1
                } else {
                    line_end
                };
                return Ok(from..end);
            }
            searched = self.filled - self.taken;
            if searched > 64 << 10 {
                return Err(TargetError::lost(format!("{} sent a line without an end", self.name)));
            }
            self.fill(1)?;
        }
    }

    /// Takes the next `len` bytes and the CR LF after them.
    pub fn block(&mut self, len: usize) -> Result<Range<usize>, TargetError> {
        if len > ANSWER_MAX {
            return Err(TargetError::lost(format!("{} announced a value of {len} bytes", self.name)));
        }
        let available = self.filled - self.taken;
        if available < len + 2 {
            self.fill(len + 2 - available)?;
        }
        let from = self.taken;
        self.taken += len + 2;
        if self.input[from + len..from + len + 2] != *b"\r\n" {
            return Err(TargetError::lost(format!(
                "{} sent a value that does not end where it said",
                self.name
            )));
        }
        Ok(from..from + len)
    }

    /// Waits for at least `more` bytes.
    fn fill(&mut self, more: usize) -> Result<(), TargetError> {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
        } else if self.input.len() - self.filled < more.max(READ_SIZE / 2) {
            self.input.copy_within(self.taken..self.filled, 0);
            (self.taken, self.filled) = (0, self.filled - self.taken);
        }
        if self.input.len() < self.filled + more {
            self.input.resize((self.filled + more).next_multiple_of(READ_SIZE), 0);
        }
        let wanted = self.filled + more;
        while self.filled < wanted {
            let space = &mut self.input[self.filled..];
            let got = match &mut self.stream {
                Stream::Tcp(stream) => stream.read(space),
                Stream::Unix(stream) => stream.read(space),
            };
            match got {
                Ok(0) => return Err(TargetError::lost(format!("{} closed the connection", self.name))),
                Ok(bytes) => self.filled += bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.broken("receive from", &e)),
            }
        }
        Ok(())
    }

    fn broken(&self, step: &str, error: &std::io::Error) -> TargetError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                TargetError::lost(format!("{step} {}: nothing moved for {:?}", self.name, self.timeout))
            }
            _ => TargetError::lost(format!("{step} {}: {error}", self.name)),
        }
    }
}

fn connect_any(host: &str, port: u16, timeout: Duration) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(ErrorKind::NotFound, format!("no address for host '{host}'"));
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}
