//! The talk of a group's replicas when a term ends and the next begins. Entries, claims and heartbeats do not
//! travel in it: the leader WRITEs them.
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
//! recall    the same of an election from disks          -> pre-vote, report, refused
//! forgot    I know of no promise of mine: and you?      -> known
//! ```
//! A replica that asks for a pre-vote or a promise, or syncs, names the group's replicas, as far as it knows.
//! A replica that knows a newer set answers with that set instead (`members`).
//!
//! A message is `kind u32 | 0 u32`, then words; lists begin with their length.

use longarm_base::{Nanos, ReplicaId, Term};

use crate::codec::{Bad, Fields, Out, count, kind, replica, take_term, yes};
use crate::recall::{DiskReport, Recall};
use crate::{MEMBERS_MAX, Members};

/// The most streams of a term.
pub const STREAMS_MAX: usize = 1 << 10;
/// The most places in one answer.
pub const PLACES_MAX: usize = 1 << 16;

/// How much of a stream a replica holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// Positions below are known to have been there; missing ones were reclaimed.
    pub floor: u64,
    /// Positions below are there, except reclaimed ones.
    pub len: u64,
}

/// The content of a replica's memory, scanned after the fence.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplicaReport {
    /// The term whose start set it holds.
    pub sync: Term,
    /// The number of segments that it has released in that term. A replica that released fewer than another
    /// may lack the newer entries that made the other's segments needless, so it may not lead.
    pub reclaimed: u64,
    /// The calendar of a leader, in unix milliseconds, as that leader, or this replica as the leader, last
    /// told it; zero if none did.
    pub unix: u64,
    /// In an election from disks: what is on its disk, which is what its streams are of.
    pub disk: Option<DiskReport>,
    /// The streams of that term.
    pub streams: Vec<Extent>,
}

/// The place of an entry on a replica.
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
    /// Whether the replica would report for this term, if it were asked.
    PreVote {
        /// The term that the asker may take.
        term: Term,
        /// The replicas that the term would have.
        members: Members,
    },
    /// Promise the term, and report.
    Promise {
        /// The candidate's term.
        term: Term,
        /// The replicas that the term has.
        members: Members,
    },
    /// Tell the places of a stream's entries.
    Fetch {
        /// The candidate's term.
        term: Term,
        /// The stream, of the sync term that was reported.
        stream: u16,
        /// The first position that is wanted.
        from: u64,
    },
    /// Take the start set of a term.
    Sync {
        /// The leader's term.
        term: Term,
        /// The sync term that the start set was gathered from.
        base: Term,
        /// The cuts of the streams of `base`.
        cuts: Vec<u64>,
        /// Streams of the new term.
        streams: u16,
        /// The replicas that the term has.
        members: Members,
    },
    /// Keep these as the group's replicas; from the leader of the promised term.
    Members {
        /// The replicas of the leader's term, or of the next one.
        members: Members,
    },
    /// Count itself synced.
    Adopt {
        /// The leader's term.
        term: Term,
        /// The number of segments reclaimed in the term: the follower now has the newer entries that made
        /// them needless.
        reclaimed: u64,
        /// The floors by stream of the term: the follower has all positions below, except reclaimed ones.
        /// From the first moment that it counts, a reclaimed entry is no gap to it.
        floors: Vec<u64>,
    },
    /// Stand at once, since the leader hands over.
    Stand {
        /// The leader's term.
        term: Term,
    },
    /// Hear that a candidate has its majority and installs the start set; there is nothing to answer.
    Installs {
        /// The candidate's term.
        term: Term,
    },
    /// Hear that a leader serves; there is nothing to answer.
    Serves {
        /// The leader's term.
        term: Term,
        /// How long it has served.
        since: Nanos,
    },
    /// A question of an election from disks.
    Recall {
        /// The term that the asker may take, or has.
        term: Term,
        /// The replicas that the term has, or would have.
        members: Members,
        /// What is asked.
        recall: Recall,
    },
    /// Tell what it has promised, and which replicas it knows; from a replica whose disk holds no promise.
    Forgot {
        /// The name of this life of the asker, among all that it ever had.
        life: u64,
        /// The number of times that it has begun to ask all others.
        round: u64,
    },
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Answers [`Ask::PreVote`].
    PreVote {
        /// The term asked about.
        term: Term,
        /// Whether it would report.
        yes: bool,
    },
    /// Answers [`Ask::Promise`].
    Report {
        /// The term promised.
        term: Term,
        /// The content of its memory.
        report: ReplicaReport,
    },
    /// Answers [`Ask::Fetch`], in order of position, with at most [`PLACES_MAX`] places.
    Places {
        /// The places of the entries.
        entries: Vec<EntryAt>,
    },
    /// Answers [`Ask::Sync`].
    Ready {
        /// The leader's term.
        term: Term,
        /// The part of the leader's memory that is here already.
        held: SyncState,
    },
    /// Answers [`Ask::Adopt`].
    Synced {
        /// The leader's term.
        term: Term,
    },
    /// Answers [`Ask::Members`]: the set is on disk.
    Kept {
        /// The leader's term.
        term: Term,
        /// Whether it was the next set.
        changed: bool,
    },
    /// Tells the asker of a newer set of replicas.
    Members {
        /// The newest set that is known here.
        members: Members,
    },
    /// Answers [`Ask::Forgot`].
    Known {
        /// The life of the asker.
        life: u64,
        /// The round in which it asked.
        round: u64,
        /// The term promised here.
        promised: Term,
        /// The number that was drawn when the store of this replica's promise was made.
        origin: u64,
        /// If this replica has founded the group: who may found it, each with its origin.
        founders: Vec<(ReplicaId, u64)>,
        /// The newest set that is known here.
        members: Members,
    },
    /// Refuses any of the questions.
    Refused {
        /// The term asked about.
        term: Term,
        /// The term promised here.
        promised: Term,
    },
}

/// The part of the start set that a follower has before it is synced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SyncState {
    /// Nothing that counts.
    Nothing,
    /// The start set of the base term, and its streams up to these lengths.
    Base(Vec<u64>),
    /// The start set of this very term, and whatever was acknowledged since.
    Term,
    /// The start set of this very term, and its streams up to these lengths: the replica began anew with what
    /// its disk has.
    Disk(Vec<u64>),
}

impl SyncState {
    fn put(&self, out: &mut Out) {
        let (kind, lens) = match self {
            SyncState::Nothing => (0, None),
            SyncState::Base(lens) => (1, Some(lens)),
            SyncState::Term => (2, None),
            SyncState::Disk(lens) => (3, Some(lens)),
        };
        out.u64(kind);
        lens.into_iter().for_each(|lens| out.list(lens));
    }

    fn take(fields: &mut Fields<'_>) -> Result<SyncState, Bad> {
        match fields.u64()? {
            0 => Ok(SyncState::Nothing),
            1 => Ok(SyncState::Base(list(fields)?)),
            2 => Ok(SyncState::Term),
            3 => Ok(SyncState::Disk(list(fields)?)),
            _ => Err(Bad("unknown state of a follower's memory")),
        }
    }
}

impl Ask {
    /// The term that the question is about.
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
            | Ask::Recall { term, .. }
            | Ask::Installs { term }
            | Ask::Serves { term, .. } => term,
        }
    }

    /// The group's replicas, as far as the asker knows, if they matter.
    pub fn members(&self) -> Option<&Members> {
        match self {
            Ask::PreVote { members, .. }
            | Ask::Promise { members, .. }
            | Ask::Sync { members, .. }
            | Ask::Recall { members, .. } => Some(members),
            _ => None,
        }
    }

    /// Whether the question has an answer.
    pub fn wants_answer(&self) -> bool {
        let stand = matches!(self, Ask::Stand { .. } | Ask::Recall { recall: Recall::Stand { .. }, .. });
        !stand && !matches!(self, Ask::Serves { .. } | Ask::Installs { .. })
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
            Ask::Installs { .. } => 10,
            Ask::Recall { .. } => 11,
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
            Ask::Recall { members, recall, .. } => {
                recall.put(&mut out);
                members.put(&mut out);
            }
            Ask::Forgot { life, round } => {
                out.u64(*life);
                out.u64(*round);
            }
            Ask::Stand { .. } | Ask::Installs { .. } => {}
        }
        out.0
    }

    /// Decodes received bytes.
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
            10 => Ask::Installs { term },
            11 => {
                let recall = Recall::take(&mut fields)?;
                Ask::Recall { term, members: Members::take(&mut fields)?, recall }
            }
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
                out.kind(if report.disk.is_some() { 10 } else { 2 });
                out.u64(term.bits());
                report.disk.iter().for_each(|disk| disk.put(&mut out));
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
                held.put(&mut out);
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
            Answer::Known { life, round, promised, origin, founders, members } => {
                out.kind(9);
                let words = [*life, *round, promised.bits(), *origin, founders.len() as u64];
                let origins = founders.iter().flat_map(|&(replica, origin)| [u64::from(replica.0), origin]);
                words.into_iter().chain(origins).for_each(|word| out.u64(word));
                members.put(&mut out);
            }
        }
        out.0
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<Answer, Bad> {
        let mut fields = Fields(bytes);
        let answer = match kind(&mut fields)? {
            1 => Answer::PreVote { term: take_term(&mut fields)?, yes: yes(&mut fields)? },
            kind @ (2 | 10) => {
                let term = take_term(&mut fields)?;
                let disk = (kind == 10).then(|| DiskReport::take(&mut fields)).transpose()?;
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
                Answer::Report { term, report: ReplicaReport { sync, reclaimed, unix, disk, streams } }
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
                Answer::Ready { term, held: SyncState::take(&mut fields)? }
            }
            5 => Answer::Synced { term: take_term(&mut fields)? },
            6 => Answer::Refused { term: take_term(&mut fields)?, promised: take_term(&mut fields)? },
            7 => Answer::Kept { term: take_term(&mut fields)?, changed: yes(&mut fields)? },
            8 => Answer::Members { members: Members::take(&mut fields)? },
            9 => {
                let (life, round) = (fields.u64()?, fields.u64()?);
                let (promised, origin) = (take_term(&mut fields)?, fields.u64()?);
                let count = count(&mut fields, MEMBERS_MAX)?;
                let one = |fields: &mut Fields<'_>| Ok((word_node(fields)?, fields.u64()?));
                let founders = (0..count).map(|_| one(&mut fields)).collect::<Result<_, _>>()?;
                let members = Members::take(&mut fields)?;
                Answer::Known { life, round, promised, origin, founders, members }
            }
            _ => return Err(Bad("unknown answer of a replica")),
        };
        fields.end()?;
        Ok(answer)
    }
}

fn word_node(fields: &mut Fields<'_>) -> Result<ReplicaId, Bad> {
    replica(u32::try_from(fields.u64()?).map_err(|_| Bad("a replica out of range"))?)
}

fn list(fields: &mut Fields<'_>) -> Result<Vec<u64>, Bad> {
    let count = count(fields, STREAMS_MAX)?;
    (0..count).map(|_| fields.u64()).collect()
}
