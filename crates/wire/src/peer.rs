//! What the replicas of a group say to each other when a term ends and the next begins. Entries, claims and
//! heartbeats do not travel so: the leader WRITEs them.
//!
//! A candidate, later the leader, asks; its peer answers each question once, or the connection is over.
//! ```text
//! pre-vote  would you report for a term of mine?        -> pre-vote
//! promise   report for this term, and for no older one  -> report, refused
//! fetch     where are these entries of a stream?        -> places, refused
//! sync      here is the start set of my term            -> ready, refused
//! adopt     you have all of it                          -> synced, refused
//! members   keep these as the group's replicas          -> kept, refused
//! stand     lead in my place                            -> (none)
//! serves    I lead, and have served for so long         -> (none)
//! forgot    I know of no promise of mine: and you?      -> known
//! ```
//! Whoever asks for a pre-vote or a promise, or syncs, says who the group's replicas are, as far as it knows.
//! One that knows better answers with that instead (`members`).
//!
//! A message is `kind u32 | 0 u32`, then words; lists begin with their length.

use longarm_base::{Nanos, NodeId, Term};

use crate::codec::{Bad, Fields, Out, kind, node, take_term};
use crate::versions::{PEER_MARK, VERSIONS, Versions};
use crate::{MEMBERS_MAX, Members};

/// Streams that a term may have.
pub const STREAMS_MAX: usize = 1 << 10;
/// Places in one answer.
pub const PLACES_MAX: usize = 1 << 16;

/// First words of a peer that connects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerHello {
    /// The group, so that nodes of two groups never mix.
    pub group: u64,
    /// Who connects; of an operator, to whom.
    pub node: NodeId,
    /// In which term; of a connection that only talks, any.
    pub term: Term,
    /// What for.
    pub purpose: Purpose,
    /// Bytes of the ring it lends for answers; zero where none are given.
    pub ring_bytes: u64,
    /// How long a replica of its keeps what a heartbeat promises: all of a group have the same. Of an
    /// operator, zero.
    pub promise: Nanos,
    /// Names this start of its process, of all that it ever had. Of an operator, zero.
    pub life: u64,
}

/// What a connection between replicas is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Purpose {
    /// Questions and answers of this module. No memory but rings is lent.
    Talk = 1,
    /// The leader of the term WRITEs the replica's memory, or a candidate READs it.
    Memory = 2,
    /// Orders of an operator (`operator.rs`); the node named is the one that is meant.
    Operate = 3,
}

/// How much of a stream a replica holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// Positions below it are known to have been there; those missing were reclaimed.
    pub floor: u64,
    /// Positions below it are there, but for what was reclaimed.
    pub len: u64,
}

/// What a replica holds, looked at after the fence.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplicaReport {
    /// The term whose start set it holds.
    pub sync: Term,
    /// How many segments it has let go of in that term. One that let go of fewer than another may lack what
    /// that one gave up because newer entries made it needless; so it may not lead.
    pub reclaimed: u64,
    /// The calendar of a leader that it followed, or was, when that last told it, in unix milliseconds; zero
    /// if none did.
    pub unix: u64,
    /// The streams of that term.
    pub streams: Vec<Extent>,
}

/// Where an entry is on a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryAt {
    /// Its position in its stream.
    pub position: u64,
    /// Its offset in the arena.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// A question to a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Whether it would report for this term, were it asked (Raft's pre-vote).
    PreVote {
        /// The term that may come.
        term: Term,
        /// The replicas that it would have.
        members: Members,
    },
    /// To promise the term, and to report.
    Promise {
        /// The candidate's term.
        term: Term,
        /// The replicas that it has.
        members: Members,
    },
    /// Where the entries of a stream are.
    Fetch {
        /// The candidate's term.
        term: Term,
        /// The stream, of the sync term that was reported.
        stream: u16,
        /// The first position wanted.
        from: u64,
    },
    /// To take the start set of a term.
    Sync {
        /// The leader's term.
        term: Term,
        /// The sync term that the start set was gathered from.
        base: Term,
        /// Where the streams of `base` are cut.
        cuts: Vec<u64>,
        /// Streams of the new term.
        streams: u16,
        /// The replicas that the term has.
        members: Members,
    },
    /// To keep these as the group's replicas, from the leader of the term that is promised.
    Members {
        /// Who they are: in the leader's term, or after it.
        members: Members,
    },
    /// To count itself synced.
    Adopt {
        /// The leader's term.
        term: Term,
        /// How many segments were reclaimed in it: what it has now lacks nothing that those made needless.
        reclaimed: u64,
        /// By stream of the term: it has all positions below that were not reclaimed. From the first moment
        /// on that it counts, what was reclaimed is no gap to it.
        floors: Vec<u64>,
    },
    /// To stand at once: the leader hands over.
    Stand {
        /// The leader's term.
        term: Term,
    },
    /// Nothing; a leader says that it serves.
    Serves {
        /// The leader's term.
        term: Term,
        /// For how long it has.
        since: Nanos,
    },
    /// What the other has promised, and whom it knows as replicas: this one's disk says nothing.
    Forgot {
        /// Names this life of the replica, of all that it ever had.
        life: u64,
        /// Counts how often it has begun to ask everybody.
        round: u64,
    },
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// To [`Ask::PreVote`].
    PreVote {
        /// The term asked about.
        term: Term,
        /// It would.
        yes: bool,
    },
    /// To [`Ask::Promise`].
    Report {
        /// The term promised.
        term: Term,
        /// What is held.
        report: ReplicaReport,
    },
    /// To [`Ask::Fetch`], in order of position; no more than [`PLACES_MAX`].
    Places {
        /// Where the entries are.
        entries: Vec<EntryAt>,
    },
    /// To [`Ask::Sync`].
    Ready {
        /// The leader's term.
        term: Term,
        /// What of the leader's memory is here already.
        held: SyncState,
    },
    /// To [`Ask::Adopt`].
    Synced {
        /// The leader's term.
        term: Term,
    },
    /// To [`Ask::Members`]: they are on disk.
    Kept {
        /// The leader's term.
        term: Term,
        /// Whether they were those after it.
        changed: bool,
    },
    /// To one that does not know who the group's replicas are by now.
    Members {
        /// Who they are, as far as is known here.
        members: Members,
    },
    /// To [`Ask::Forgot`].
    Known {
        /// Who asked, in which of its lives.
        life: u64,
        /// The round that it asked in.
        round: u64,
        /// The term promised here.
        promised: Term,
        /// This replica's own life.
        own: u64,
        /// If this one has founded the group: the lives of all who may.
        founders: Vec<(NodeId, u64)>,
        /// The replicas, as far as is known here.
        members: Members,
    },
    /// To any of them.
    Refused {
        /// The term asked about.
        term: Term,
        /// The term promised here.
        promised: Term,
    },
}

/// What a follower that is to be synced has already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SyncState {
    /// Nothing that counts.
    Nothing,
    /// The start set of the base term, and its streams up to these lengths.
    Base(Vec<u64>),
    /// The start set of this very term, and whatever was acknowledged since.
    Term,
}

impl PeerHello {
    /// Whether these bytes are a peer's hello, and not a client's.
    pub fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(&PEER_MARK.to_le_bytes())
    }

    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(64));
        out.u32(PEER_MARK);
        VERSIONS.put(&mut out);
        out.u64(self.group);
        out.u32(u32::from(self.node.0));
        out.u32(self.purpose as u32);
        out.u64(self.term.bits());
        out.u64(self.ring_bytes);
        out.u64(self.promise.0);
        out.u64(self.life);
        out.0
    }

    /// Takes received bytes apart.
    pub fn decode(bytes: &[u8]) -> Result<PeerHello, Bad> {
        let mut fields = Fields(bytes);
        if fields.u32()? != PEER_MARK {
            return Err(Bad("not the hello of a replica"));
        }
        if VERSIONS.meet(Versions::take(&mut fields)?).is_err() {
            return Err(Bad("the replicas speak different versions of the protocol"));
        }
        let group = fields.u64()?;
        let node = node(fields.u32()?)?;
        let purpose = match fields.u32()? {
            1 => Purpose::Talk,
            2 => Purpose::Memory,
            3 => Purpose::Operate,
            _ => return Err(Bad("unknown purpose of a connection")),
        };
        let (term, ring_bytes) = (take_term(&mut fields)?, fields.u64()?);
        let (promise, life) = (Nanos(fields.u64()?), fields.u64()?);
        fields.end()?;
        Ok(PeerHello { group, node, term, purpose, ring_bytes, promise, life })
    }
}

impl Ask {
    /// The term it is about.
    pub fn term(&self) -> Term {
        match *self {
            Ask::Members { ref members } => members.term,
            Ask::Forgot { .. } => Term::ZERO,
            Ask::PreVote { term, .. }
            | Ask::Promise { term, .. }
            | Ask::Fetch { term, .. }
            | Ask::Sync { term, .. }
            | Ask::Adopt { term, .. }
            | Ask::Stand { term }
            | Ask::Serves { term, .. } => term,
        }
    }

    /// Who the group's replicas are, as far as the one that asks knows, where that matters.
    pub fn members(&self) -> Option<&Members> {
        match self {
            Ask::PreVote { members, .. } | Ask::Promise { members, .. } | Ask::Sync { members, .. } => {
                Some(members)
            }
            _ => None,
        }
    }

    /// Whether an answer is waited for.
    pub fn wants_answer(&self) -> bool {
        !matches!(self, Ask::Stand { .. } | Ask::Serves { .. })
    }

    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(32));
        let kind = match self {
            Ask::PreVote { .. } => 1,
            Ask::Promise { .. } => 2,
            Ask::Fetch { .. } => 3,
            Ask::Sync { .. } => 4,
            Ask::Adopt { .. } => 5,
            Ask::Stand { .. } => 6,
            Ask::Serves { .. } => 7,
            Ask::Members { .. } => 8,
            Ask::Forgot { .. } => 9,
        };
        out.kind(kind);
        out.u64(self.term().bits());
        match self {
            Ask::Fetch { stream, from, .. } => {
                out.u64(u64::from(*stream));
                out.u64(*from);
            }
            Ask::Sync { base, cuts, streams, members, .. } => {
                out.u64(base.bits());
                out.u64(u64::from(*streams));
                out.list(cuts);
                members.put(&mut out);
            }
            Ask::Adopt { reclaimed, floors, .. } => {
                out.u64(*reclaimed);
                out.list(floors);
            }
            Ask::Serves { since, .. } => out.u64(since.0),
            Ask::PreVote { members, .. } | Ask::Promise { members, .. } | Ask::Members { members } => {
                members.put(&mut out);
            }
            Ask::Forgot { life, round } => {
                out.u64(*life);
                out.u64(*round);
            }
            Ask::Stand { .. } => {}
        }
        out.0
    }

    /// Takes received bytes apart.
    pub fn decode(bytes: &[u8]) -> Result<Ask, Bad> {
        let mut fields = Fields(bytes);
        let kind = kind(&mut fields)?;
        let term = take_term(&mut fields)?;
        let ask = match kind {
            1 => Ask::PreVote { term, members: Members::take(&mut fields)? },
            2 => Ask::Promise { term, members: Members::take(&mut fields)? },
            3 => {
                let stream = fields.u64()?;
                if stream >= STREAMS_MAX as u64 {
                    return Err(Bad("a stream out of range"));
                }
                Ask::Fetch { term, stream: stream as u16, from: fields.u64()? }
            }
            4 => {
                let (base, streams) = (take_term(&mut fields)?, fields.u64()?);
                if streams > STREAMS_MAX as u64 {
                    return Err(Bad("more streams than a term may have"));
                }
                let (streams, cuts) = (streams as u16, list(&mut fields)?);
                Ask::Sync { term, base, streams, cuts, members: Members::take(&mut fields)? }
            }
            5 => Ask::Adopt { term, reclaimed: fields.u64()?, floors: list(&mut fields)? },
            6 => Ask::Stand { term },
            7 => Ask::Serves { term, since: Nanos(fields.u64()?) },
            8 => {
                let members = Members::take(&mut fields)?;
                if members.term != term {
                    return Err(Bad("members of another term"));
                }
                Ask::Members { members }
            }
            9 if term != Term::ZERO => return Err(Bad("a question of no term that has one")),
            9 => Ask::Forgot { life: fields.u64()?, round: fields.u64()? },
            _ => return Err(Bad("unknown question of a replica")),
        };
        fields.end()?;
        Ok(ask)
    }
}

impl Answer {
    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(32));
        match self {
            Answer::PreVote { term, yes } => {
                out.kind(1);
                out.u64(term.bits());
                out.u64(u64::from(*yes));
            }
            Answer::Report { term, report } => {
                out.kind(2);
                out.u64(term.bits());
                out.u64(report.sync.bits());
                out.u64(report.reclaimed);
                out.u64(report.unix);
                out.u64(report.streams.len() as u64);
                for extent in &report.streams {
                    out.u64(extent.floor);
                    out.u64(extent.len);
                }
            }
            Answer::Places { entries } => {
                out.kind(3);
                out.u64(entries.len() as u64);
                for entry in entries {
                    out.u64(entry.position);
                    out.u64(entry.offset);
                    out.u64(u64::from(entry.len));
                }
            }
            Answer::Ready { term, held } => {
                out.kind(4);
                out.u64(term.bits());
                match held {
                    SyncState::Nothing => out.u64(0),
                    SyncState::Base(lens) => {
                        out.u64(1);
                        out.list(lens);
                    }
                    SyncState::Term => out.u64(2),
                }
            }
            Answer::Synced { term } => {
                out.kind(5);
                out.u64(term.bits());
            }
            Answer::Refused { term, promised } => {
                out.kind(6);
                out.u64(term.bits());
                out.u64(promised.bits());
            }
            Answer::Kept { term, changed } => {
                out.kind(7);
                out.u64(term.bits());
                out.u64(u64::from(*changed));
            }
            Answer::Members { members } => {
                out.kind(8);
                members.put(&mut out);
            }
            Answer::Known { life, round, promised, own, founders, members } => {
                out.kind(9);
                let words = [*life, *round, promised.bits(), *own, founders.len() as u64];
                let lives = founders.iter().flat_map(|&(node, life)| [u64::from(node.0), life]);
                words.into_iter().chain(lives).for_each(|word| out.u64(word));
                members.put(&mut out);
            }
        }
        out.0
    }

    /// Takes received bytes apart.
    pub fn decode(bytes: &[u8]) -> Result<Answer, Bad> {
        let mut fields = Fields(bytes);
        let answer = match kind(&mut fields)? {
            1 => Answer::PreVote { term: take_term(&mut fields)?, yes: yes(&mut fields)? },
            2 => {
                let term = take_term(&mut fields)?;
                let sync = take_term(&mut fields)?;
                let (reclaimed, unix) = (fields.u64()?, fields.u64()?);
                let count = count(&mut fields, STREAMS_MAX)?;
                let mut streams = Vec::with_capacity(count);
                for _ in 0..count {
                    let extent = Extent { floor: fields.u64()?, len: fields.u64()? };
                    if extent.floor > extent.len {
                        return Err(Bad("a stream that ends before its floor"));
                    }
                    streams.push(extent);
                }
                Answer::Report { term, report: ReplicaReport { sync, reclaimed, unix, streams } }
            }
            3 => {
                let count = count(&mut fields, PLACES_MAX)?;
                let mut entries = Vec::with_capacity(count);
                for _ in 0..count {
                    let (position, offset, len) = (fields.u64()?, fields.u64()?, fields.u64()?);
                    let len = u32::try_from(len).map_err(|_| Bad("an entry too long"))?;
                    entries.push(EntryAt { position, offset, len });
                }
                Answer::Places { entries }
            }
            4 => {
                let term = take_term(&mut fields)?;
                let held = match fields.u64()? {
                    0 => SyncState::Nothing,
                    1 => SyncState::Base(list(&mut fields)?),
                    2 => SyncState::Term,
                    _ => return Err(Bad("unknown state of a follower's memory")),
                };
                Answer::Ready { term, held }
            }
            5 => Answer::Synced { term: take_term(&mut fields)? },
            6 => Answer::Refused { term: take_term(&mut fields)?, promised: take_term(&mut fields)? },
            7 => Answer::Kept { term: take_term(&mut fields)?, changed: yes(&mut fields)? },
            8 => Answer::Members { members: Members::take(&mut fields)? },
            9 => {
                let (life, round) = (fields.u64()?, fields.u64()?);
                let (promised, own) = (take_term(&mut fields)?, fields.u64()?);
                let count = count(&mut fields, MEMBERS_MAX)?;
                let one = |fields: &mut Fields<'_>| Ok((word_node(fields)?, fields.u64()?));
                let founders = (0..count).map(|_| one(&mut fields)).collect::<Result<_, _>>()?;
                let members = Members::take(&mut fields)?;
                Answer::Known { life, round, promised, own, founders, members }
            }
            _ => return Err(Bad("unknown answer of a replica")),
        };
        fields.end()?;
        Ok(answer)
    }
}

fn word_node(fields: &mut Fields<'_>) -> Result<NodeId, Bad> {
    node(u32::try_from(fields.u64()?).map_err(|_| Bad("a node out of range"))?)
}

fn yes(fields: &mut Fields<'_>) -> Result<bool, Bad> {
    match fields.u64()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Bad("neither yes nor no")),
    }
}

fn count(fields: &mut Fields<'_>, most: usize) -> Result<usize, Bad> {
    let count = fields.u64()?;
    if count > most as u64 { Err(Bad("a list too long")) } else { Ok(count as usize) }
}

fn list(fields: &mut Fields<'_>) -> Result<Vec<u64>, Bad> {
    let count = count(fields, STREAMS_MAX)?;
    (0..count).map(|_| fields.u64()).collect()
}
