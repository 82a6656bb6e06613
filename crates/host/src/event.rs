//! The steps of replicas and clients, in the words of the specification (docs/protocol.md, "Invariants").

use longarm_base::{Csn, Nanos, RegionId, ReplicaId, Term};

/// A step. An event without a term concerns the term that the machine leads, or is about to lead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observation {
    /// A replica starts, and finds on disk that it promised this term.
    Started {
        /// Zero at its very first start.
        term: Term,
    },
    /// A promise is on disk.
    Promised {
        /// The promised term: the replica takes part in no older term.
        term: Term,
    },
    /// No WRITE of an older term can land in this replica's memory any more (M1).
    Fenced {
        /// The term that is admitted now.
        term: Term,
    },
    /// A replica scanned its memory, to report it for the term that it promised (M2).
    Reported {
        /// The term of the report.
        term: Term,
        /// The term whose start set it holds.
        sync: Term,
        /// The length that it holds of each of that term's streams: all positions below.
        lens: Vec<u64>,
        /// The number of segments of which it was told, in that term, that they are free.
        reclaimed: u64,
        /// Whether its memory is being overwritten with another start set.
        mixed: bool,
    },
    /// A replica voided the entries of its sync term at or beyond these cuts: another start set of that base
    /// is to be here.
    CutOff {
        /// Its sync term.
        sync: Term,
        /// The cuts by stream: all positions from here on are void. Streams without a cut are void as a
        /// whole.
        cuts: Vec<u64>,
    },
    /// A candidate has the reports of a majority and completes their start set in its memory (M3).
    Installing {
        /// The new term.
        term: Term,
        /// The term from which it continues.
        base: Term,
        /// The cuts of the streams of the base: positions below are in the start set.
        cuts: Vec<u64>,
        /// Whether the candidate holds a mixture of the terms before the base, which becomes the start set.
        mixed: bool,
        /// If the start set is what a disk has: the version up to which it has everything.
        disk: Option<Csn>,
        /// The replicas of the group, in this term.
        members: Vec<ReplicaId>,
    },
    /// A replica wrote parts of its file again that were not there any more as they had been written.
    Repaired {
        /// How many.
        parts: u64,
    },
    /// The set of replicas that a leader wants the group to have, or that the group has, is on disk (M14).
    Kept {
        /// The leader's term.
        term: Term,
        /// The replicas of the set.
        members: Vec<ReplicaId>,
    },
    /// Majorities have told a leader that the group's replicas change from its next term on (M14).
    Agreed {
        /// The leader's term.
        term: Term,
        /// The next replicas.
        members: Vec<ReplicaId>,
    },
    /// An entry of the start set was found, and counts.
    Restored {
        /// Hash of its key; `None` for an entry that only saves the outcome of an operation.
        key: Option<u64>,
        /// Its version.
        csn: Csn,
        /// Whether it is a value, and not a delete.
        value: bool,
        /// Session and operation that wrote it.
        by: Option<(u64, u64)>,
    },
    /// A replica holds the start set of a term: of another leader, or of itself.
    Adopted {
        /// Its sync term from now on.
        term: Term,
    },
    /// A leader begins to serve.
    Served {
        /// Its term.
        term: Term,
        /// The boot number by which clients know this server.
        boot: u64,
    },
    /// A leader ended its lease for good, and takes promises back: another replica is to lead.
    HandedOver {
        /// Its term.
        term: Term,
    },
    /// A leader ended all work of its term.
    SteppedDown {
        /// Its term.
        term: Term,
    },
    /// A leader takes its lease to last until `end` (M6).
    Leased {
        /// When the renewal that the lease rests on was begun, on the leader's clock.
        renewed: Nanos,
        /// The end, on the same clock.
        end: Nanos,
        /// The followers whose promises the lease rests on.
        by: Vec<ReplicaId>,
    },
    /// A client takes its READs of this server to be current until `end` (M7).
    Trusted {
        /// The boot number of the server.
        boot: u64,
        /// The end, on the client's clock.
        end: Nanos,
    },
    /// A client takes the result of a READ as current.
    Relied {
        /// The boot number of the server that it READ.
        boot: u64,
        /// When the result had arrived, on the client's clock.
        at: Nanos,
    },
    /// A leader wrote the next entry of one of its streams.
    Wrote {
        /// The stream.
        stream: u16,
        /// The position of the entry.
        position: u64,
        /// Its version. A copy of an entry keeps it.
        csn: Csn,
        /// For a client's write: the hash of its key, and whether it is a value. `None` for a copy.
        write: Option<(u64, bool)>,
    },
    /// A client's operation was executed, or its earlier outcome was found (L17).
    Ran {
        /// The session.
        session: u64,
        /// The number of the operation.
        operation: u64,
        /// The version that it wrote.
        csn: Csn,
    },
    /// A leader counts all positions of a stream below this as committed (M4).
    Committed {
        /// The stream.
        stream: u16,
        /// All positions below are committed.
        below: u64,
        /// The followers whose acknowledgements make the majority.
        by: Vec<ReplicaId>,
    },
    /// What a follower acknowledges counts from now on: it is synced.
    Counts {
        /// The follower.
        replica: ReplicaId,
    },
    /// A follower that counted was let go, and nothing counts any more that it acknowledges.
    Left {
        /// The follower.
        replica: ReplicaId,
        /// By stream, what is noted of it: it surely has all positions below.
        floors: Vec<u64>,
    },
    /// A follower is about to be told how many segments are free, and may learn of it at any moment. The
    /// number is lower than before if the follower is attached anew and segments that it had released are not
    /// free yet.
    Tells {
        /// The follower.
        replica: ReplicaId,
        /// The number of free segments.
        reclaimed: u64,
    },
    /// A follower was told how many segments are free.
    Told {
        /// The follower.
        replica: ReplicaId,
        /// The number of free segments.
        reclaimed: u64,
    },
    /// A follower that counts released segments, so many in all, and the leader is about to rely on that.
    LetGo {
        /// The follower.
        replica: ReplicaId,
        /// The number of segments that it released.
        reclaimed: u64,
    },
    /// A leader applied an entry.
    Applied {
        /// The stream.
        stream: u16,
        /// The position of the entry.
        position: u64,
    },
    /// Readers find this version of a key from now on.
    Shown {
        /// Hash of the key.
        key: u64,
        /// The version; [`Csn::NONE`] if they find none.
        csn: Csn,
    },
    /// A leader answers a request by the items that it just saw, without an entry of its own.
    Answered,
    /// A client was told that the write at this position is done (M5).
    Acknowledged {
        /// The stream.
        stream: u16,
        /// The position of the write.
        position: u64,
    },
    /// A machine has come to a step: a world may have it stand still, or be lost, there.
    Reached {
        /// The step.
        step: ReplicaStep,
    },
    /// Bytes that another machine had sent landed in memory.
    Landed {
        /// The machine that had sent them.
        from: u32,
        /// The machine in whose memory they landed.
        into: u32,
        /// The region of the receiver.
        region: RegionId,
    },
    /// A machine posted a WRITE of other bytes than another queue pair is just writing to the same place.
    Raced {
        /// The machine that posted it.
        from: u32,
        /// The machine in whose memory both land.
        into: u32,
        /// The region of the receiver.
        region: RegionId,
        /// The first offset at which the bytes differ.
        offset: u64,
    },
}

/// A place of a replica between two things that others rely on in this order. Places that other events report
/// already are not here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplicaStep {
    /// A candidate fetched an entry that other replicas have.
    Fetched,
    /// A candidate has the entries of the start set, and voided all other entries.
    Completed,
    /// A candidate built its index.
    Restored,
    /// A follower made its memory ready to be written by a new leader, and has not said so.
    Prepared,
    /// From now on a leader asks this follower before segments are freed.
    Joined,
    /// A follower was given the segment table.
    Table,
    /// A follower was given another segment of those that it lacks.
    Content,
    /// The table and all segments have landed at a follower.
    Landed,
    /// The streams send to a follower.
    Attached,
    /// A follower was given the earlier entries of the streams.
    Pushed,
    /// A follower said that it is in sync, and its floors do not say so yet.
    Synced,
    /// Segments that are to be freed are free at a follower that was not told of their count.
    LetGo,
    /// All followers released a segment, and it is free at the leader.
    Freed,
    /// A set of replicas is about to go to disk.
    Keeping,
    /// A leader that hands over takes no more writes.
    Draining,
    /// A worker copied what it is about to send to a follower.
    Copied,
    /// A worker took acknowledgements of a follower, and has not counted them.
    Took,
    /// The heart of a leader chose what it is about to tell a follower.
    Beating,
    /// A worker said that entries are committed, and has applied none of them.
    Committed,
    /// A worker changed the index by an entry, and has not said that the entry is applied.
    Showing,
    /// A thread of a server that serves from persistent memory waits for what it wrote back. It may hold
    /// locks.
    WrittenBack,
}

impl ReplicaStep {
    /// The steps within what threads do all the time.
    pub const TURNS: [ReplicaStep; 3] = [ReplicaStep::Copied, ReplicaStep::Took, ReplicaStep::Beating];

    /// All other steps of replicas.
    pub const ALL: [ReplicaStep; 15] = [
        ReplicaStep::Fetched,
        ReplicaStep::Completed,
        ReplicaStep::Restored,
        ReplicaStep::Prepared,
        ReplicaStep::Joined,
        ReplicaStep::Table,
        ReplicaStep::Content,
        ReplicaStep::Landed,
        ReplicaStep::Attached,
        ReplicaStep::Pushed,
        ReplicaStep::Synced,
        ReplicaStep::LetGo,
        ReplicaStep::Freed,
        ReplicaStep::Keeping,
        ReplicaStep::Draining,
    ];
}
