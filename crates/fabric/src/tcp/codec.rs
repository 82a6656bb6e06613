//! Between session and socket: nothing, or TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustix::io::Errno;
use rustls::Connection;

use super::frame::FRAME_MAX;
use super::inbox::Deliver;
use super::session::TcpSession;
use super::socket;
use crate::buffer::{Buffer, INPUT};

const _: () = assert!(INPUT >= FRAME_MAX + (64 << 10), "a whole frame fits, and more");

/// How a connection's bytes look on the wire.
#[derive(Debug)]
pub enum Codec {
    /// As they are.
    Plain,
    /// As TLS records.
    Tls(Box<TlsSession>),
}

/// TLS state, and decrypted bytes that are not yet a whole frame.
#[derive(Debug)]
pub struct TlsSession {
    connection: Connection,
    plain: Buffer,
}

/// How writing went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Flushed {
    /// Everything is with the kernel.
    All,
    /// The kernel takes no more for now.
    Blocked,
    /// The stream cannot be written any more.
    Failed(String),
}

impl Codec {
    /// TLS whose handshake is over.
    pub fn tls(connection: Connection) -> Codec {
        Codec::Tls(Box::new(TlsSession { connection, plain: Buffer::new(INPUT) }))
    }

    /// Gives received bytes to the session. Returns whether it is stuck ([`TcpSession::feed`]).
    pub fn intake(&mut self, raw: &mut Buffer, session: &mut TcpSession, deliver: &mut impl Deliver) -> bool {
        match self {
            Codec::Plain => {
                let fed = session.feed(raw.content(), deliver);
                raw.consume(fed.used);
                fed.stuck
            }
            Codec::Tls(tls) => tls.intake(raw, session, deliver),
        }
    }

    /// Writes what is in the session's out buffer.
    pub fn flush(&mut self, to: &TcpStream, out: &mut Buffer) -> Flushed {
        match self {
            Codec::Plain => {
                while !out.is_empty() {
                    match socket::send(to, out.content()) {
                        Ok(n) => out.consume(n),
                        Err(Errno::AGAIN) => return Flushed::Blocked,
                        Err(e) => return Flushed::Failed(e.to_string()),
                    }
                }
                Flushed::All
            }
            Codec::Tls(tls) => tls.flush(to, out),
        }
    }

    /// Whether bytes wait inside for the socket.
    pub fn wants_write(&self) -> bool {
        matches!(self, Codec::Tls(tls) if tls.connection.wants_write())
    }
}

impl TlsSession {
    fn intake(&mut self, raw: &mut Buffer, session: &mut TcpSession, deliver: &mut impl Deliver) -> bool {
        loop {
            // The buffer holds a whole frame and more, so either a frame is used up or there is room.
            let free = self.plain.free(1, INPUT);
            let got = self.connection.reader().read(free).unwrap_or(0);
            self.plain.filled(got);
            let fed = session.feed(self.plain.content(), deliver);
            self.plain.consume(fed.used);
            if fed.stuck {
                return true;
            }
            if got > 0 {
                continue;
            }
            let taken = self.connection.read_tls(&mut raw.content()).unwrap_or(0);
            raw.consume(taken);
            match self.connection.process_new_packets() {
                Err(error) => {
                    session.foul(format!("bytes that are not TLS ({error})"), deliver);
                    raw.consume(raw.len());
                    return false;
                }
                // Nothing that comes after that is ever taken.
                Ok(state) if taken == 0 && state.peer_has_closed() => {
                    session.lose("it closed its side of TLS", deliver);
                    raw.consume(raw.len());
                    return false;
                }
                Ok(_) if taken == 0 => return false,
                Ok(_) => {}
            }
        }
    }

    fn flush(&mut self, to: &TcpStream, out: &mut Buffer) -> Flushed {
        loop {
            if !out.is_empty() {
                // Takes no more than rustls' own bound on unsent bytes.
                match self.connection.writer().write(out.content()) {
                    Ok(n) => out.consume(n),
                    Err(e) => return Flushed::Failed(e.to_string()),
                }
            }
            if !self.connection.wants_write() {
                return Flushed::All;
            }
            match self.connection.write_tls(&mut Sender(to)) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Flushed::Blocked,
                Err(e) => return Flushed::Failed(e.to_string()),
            }
        }
    }
}

struct Sender<'a>(&'a TcpStream);

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(socket::send(self.0, bytes)?)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
