//! The first words of client and server, when they connect.
//!
//! Hello: `[versions u64][placement epoch u64, zero][session][ring bytes][group][fresh][since]`
//! `[name length u32 | 0][name]`; the first word has this form in every version ([`Versions`]).

use crate::codec::{Bad, Fields, Out, kind, take_term};
use crate::versions::{Agreed, VERSIONS, Versions};

/// The hello of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The name of the client's session, kept over reconnects, so that its retries are recognised.
    pub session: u64,
    /// Bytes of the ring that the client lends for answers.
    pub ring_bytes: u64,
    /// The group whose leader it wants; zero takes the only group, or the server, that serves there.
    pub group: u64,
    /// The first operation of the session that was never sent; the client has sent all below.
    pub fresh: u64,
    /// Each unanswered operation got a version above this one, if it was executed.
    pub since: u64,
    /// The client's name for `stats` and logs, at most 64 bytes.
    pub name: String,
}

/// Longest name of a client.
const NAME_MAX: usize = 64;

impl Hello {
    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(64 + self.name.len()));
        VERSIONS.put(&mut out);
        out.u64(0);
        for word in [self.session, self.ring_bytes, self.group, self.fresh, self.since] {
            out.u64(word);
        }
        put_name(&self.name, &mut out);
        out.0
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<Hello, Bad> {
        let mut fields = Fields(bytes);
        if VERSIONS.meet(Versions::take(&mut fields)?).is_err() {
            return Err(Bad("client and server speak different versions of the protocol"));
        }
        if fields.u64()? != 0 {
            return Err(Bad("a placement's epoch, where keys are placed by their hash alone"));
        }
        let (session, ring_bytes, group) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (fresh, since) = (fields.u64()?, fields.u64()?);
        let name = take_name(&mut fields)?;
        fields.end()?;
        Ok(Hello { session, ring_bytes, group, fresh, since, name })
    }
}

/// Appends a client's name, cut to what is allowed.
pub(crate) fn put_name(name: &str, out: &mut Out) {
    let name = &name[..name.floor_char_boundary(NAME_MAX)];
    out.kind(name.len() as u32);
    out.0.extend_from_slice(name.as_bytes());
}

/// Takes a client's name.
pub(crate) fn take_name(fields: &mut Fields<'_>) -> Result<String, Bad> {
    let len = kind(fields)? as usize;
    if len > NAME_MAX {
        return Err(Bad("client name longer than 64 bytes"));
    }
    Ok(String::from_utf8_lossy(fields.bytes(len)?).into_owned())
}

/// The server's answer: what a client must know to read its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The version and features that the server uses with this client: the newest that both have.
    pub agreed: Agreed,
    /// Drawn when the server started; every heartbeat repeats it.
    pub boot: u64,
    /// Key of the record checksums.
    pub sum_key: u64,
    /// The server's monotonic clock, in nanoseconds, read after the hello arrived.
    pub stamp: u64,
    /// How long a heartbeat vouches for the memory, in nanoseconds.
    pub lease: u64,
    /// Longest READ that may count, in nanoseconds.
    pub read_bound: u64,
    /// Bytes of the ring that the server lends for requests.
    pub ring_bytes: u64,
    /// Process id of the server.
    pub pid: u64,
    /// Whether it evicts, and so wants to hear which keys are read (0 or 1).
    pub wants_hints: u64,
    /// The group that the server leads; zero if it has no followers. The next leader of a group knows what
    /// the previous one executed.
    pub group: u64,
    /// The version drawn last when the hello arrived, or a later one.
    pub csn: u64,
    /// How long a session is remembered after its client left, in nanoseconds.
    pub keep_sessions: u64,
    /// The term in which the server leads its group, as bits, which a scan names; zero if it has no group.
    pub term: u64,
}

impl Welcome {
    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let words = [
            self.boot,
            self.sum_key,
            self.stamp,
            self.lease,
            self.read_bound,
            self.ring_bytes,
            self.pid,
            self.wants_hints,
            self.group,
            self.csn,
            self.keep_sessions,
            self.term,
        ];
        let mut out = Out(Vec::with_capacity(8 + words.len() * 8));
        self.agreed.put(&mut out);
        words.iter().for_each(|&word| out.u64(word));
        out.0
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<Welcome, Bad> {
        let mut fields = Fields(bytes);
        let welcome = Welcome {
            agreed: Agreed::take(&mut fields)?,
            boot: fields.u64()?,
            sum_key: fields.u64()?,
            stamp: fields.u64()?,
            lease: fields.u64()?,
            read_bound: fields.u64()?,
            ring_bytes: fields.u64()?,
            pid: fields.u64()?,
            wants_hints: fields.u64()?,
            group: fields.u64()?,
            csn: fields.u64()?,
            keep_sessions: fields.u64()?,
            term: take_term(&mut fields)?.bits(),
        };
        fields.end()?;
        Ok(welcome)
    }
}
