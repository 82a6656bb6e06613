//! What replicas and clients did, in the words of the specification (docs/protocol.md, "Invariants").

use longarm_base::{Csn, Nanos, NodeId, RegionId, Term};

/// Something happened. Terms that are not named are the one that the machine leads, or is about to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observation {
    /// A replica starts, and finds on disk that it promised this term.
    Started {
        /// Zero at its very first start.
        term: Term,
    },
    /// A promise is on disk.
    Promised {
        /// What is promised: to take part in no older term.
        term: Term,
    },
    /// No WRITE of an older term can land in this replica's memory any more (M1).
    Fenced {
        /// The term that is open now.
        term: Term,
    },
    /// A replica looked at what it holds, to report it for the term it promised (M2).
    Reported {
        /// For which term.
        term: Term,
        /// The term whose start set it holds.
        sync: Term,
        /// What it holds of each of that term's streams: all positions below.
        lens: Vec<u64>,
        /// Segments of which it was told, in that term, that they are free.
        reclaimed: u64,
        /// Its memory is being overwritten with another start set.
        mixed: bool,
    },
    /// A replica voided what it held of its sync term at or beyond these cuts: another start set of that base
    /// is to be here.
    CutOff {
        /// Its sync term.
        sync: Term,
        /// By stream: all positions from here on. All of a stream that is not named.
        cuts: Vec<u64>,
    },
    /// A candidate has the reports of a majority and makes their start set its own (M3).
    Installing {
        /// The new term.
        term: Term,
        /// The term that it goes on from.
        base: Term,
        /// Where the streams of the base are cut: positions below are in the start set.
        cuts: Vec<u64>,
        /// What the candidate holds of the terms before the base is a mixture, and becomes the start set.
        mixed: bool,
        /// The replicas of the group, in this term.
        members: Vec<NodeId>,
    },
    /// It is on disk which replicas a leader wants the group to have, or has (M14).
    Kept {
        /// The leader's term.
        term: Term,
        /// Who they are.
        members: Vec<NodeId>,
    },
    /// A leader has it from majorities that the group's replicas are others from its next term on (M14).
    Agreed {
        /// The leader's term.
        term: Term,
        /// Who they are.
        members: Vec<NodeId>,
    },
    /// An entry of the start set was found, and counts.
    Restored {
        /// Hash of its key; `None` for one that only says what became of an operation.
        key: Option<u64>,
        /// Its version.
        csn: Csn,
        /// It is no delete.
        value: bool,
        /// Session and operation that wrote it.
        by: Option<(u64, u64)>,
    },
    /// A replica holds the start set of a term: of another's, or of its own.
    Adopted {
        /// Its sync term from now on.
        term: Term,
    },
    /// A leader begins to serve.
    Served {
        /// Its term.
        term: Term,
        /// The number by which clients know this server.
        boot: u64,
    },
    /// A leader ended its lease for good, and takes back what it was promised: another is to lead.
    HandedOver {
        /// Its term.
        term: Term,
    },
    /// A leader ended all that its term was doing.
    SteppedDown {
        /// Its term.
        term: Term,
    },
    /// A leader takes its lease to last until `end` (M6).
    Leased {
        /// When the renewal it rests on was begun, on the leader's clock.
        renewed: Nanos,
        /// On the same clock.
        end: Nanos,
        /// The followers whose promises it rests on.
        by: Vec<NodeId>,
    },
    /// A client takes what it READs of this server to be current until `end` (M7).
    Trusted {
        /// Which server.
        boot: u64,
        /// On the client's clock.
        end: Nanos,
    },
    /// A client takes something that it READ as current.
    Relied {
        /// Of which server.
        boot: u64,
        /// When it had come, on the client's clock.
        at: Nanos,
    },
    /// A leader wrote the next entry of one of its streams.
    Wrote {
        /// Which stream.
        stream: u16,
        /// Its position.
        position: u64,
        /// Its version. A copy of an entry keeps it.
        csn: Csn,
        /// Hash of its key and whether it is no delete, for a write of a client; `None` for a copy.
        write: Option<(u64, bool)>,
    },
    /// A client's operation was executed, or what came of it before was found (L17).
    Ran {
        /// Whose.
        session: u64,
        /// Which.
        operation: u64,
        /// The version that it made.
        csn: Csn,
    },
    /// A leader counts all positions of a stream below this as committed (M4).
    Committed {
        /// Which stream.
        stream: u16,
        /// All positions below.
        below: u64,
        /// The followers whose acknowledgements make the majority.
        by: Vec<NodeId>,
    },
    /// A follower is about to be told how many segments are free, and may learn of it at any moment: of fewer
    /// than before, if it is attached anew and what it had let go of is not free yet.
    Tells {
        /// The follower.
        node: NodeId,
        /// How many.
        reclaimed: u64,
    },
    /// A follower was told how many segments are free.
    Told {
        /// The follower.
        node: NodeId,
        /// How many.
        reclaimed: u64,
    },
    /// A follower that counts let go of segments, so many in all, and the leader is about to rely on that.
    LetGo {
        /// The follower.
        node: NodeId,
        /// How many it let go of.
        reclaimed: u64,
    },
    /// A leader applied an entry.
    Applied {
        /// Which stream.
        stream: u16,
        /// Its position.
        position: u64,
    },
    /// From now on readers find this version of a key.
    Shown {
        /// Hash of the key.
        key: u64,
        /// [`Csn::NONE`] if they find none.
        csn: Csn,
    },
    /// A leader answers a request by what it just saw, and no entry of its own.
    Answered,
    /// A client was told that the write at this position is done (M5).
    Acknowledged {
        /// Which stream.
        stream: u16,
        /// Its position.
        position: u64,
    },
    /// A machine has come to a step of what it does: a world may have it stand still, or be lost, there.
    Reached {
        /// Which.
        step: ReplicaStep,
    },
    /// Bytes that another machine had sent landed in memory.
    Landed {
        /// Who had sent them.
        from: u32,
        /// Into whose memory.
        into: u32,
        /// Which region of the receiver.
        region: RegionId,
    },
}

/// Where a replica is between two things that others rely on in this order. What other events say already
/// is not said again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplicaStep {
    /// A candidate fetched an entry that others have.
    Fetched,
    /// A candidate has the entries of the start set, and voided all others.
    Completed,
    /// A candidate built its index.
    Restored,
    /// A follower made its memory ready to be written by a new leader, and has not said so.
    Prepared,
    /// A leader asks this follower from now on before segments are freed.
    Joined,
    /// A follower was given the segment table.
    Table,
    /// A follower was given another segment of what it lacks.
    Content,
    /// All of that has landed there.
    Landed,
    /// The streams send to a follower.
    Attached,
    /// A follower was given what the streams had written before.
    Pushed,
    /// A follower said that it is in sync, and its floors do not say so yet.
    Synced,
    /// Segments that are to be freed are free at a follower, which was not told of their count.
    LetGo,
    /// All followers let go of a segment, and it is free at the leader.
    Freed,
    /// A set of replicas is about to go to disk.
    Keeping,
    /// A leader that hands over takes no more writes.
    Draining,
}

impl ReplicaStep {
    /// All of them.
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
