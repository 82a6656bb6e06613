//! What a replica hears, and what it then does.

use longarm_base::{NodeId, Term};
use longarm_wire::{Answer, Ask, Deny, MemberAt, Members, ReplicaReport, Stay};

use super::ChangeRequest;
use crate::StartSet;
use crate::page::Beat;

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Time has passed; what the page says by now. It is read before the clock is, and not before an event
    /// that was handled before this one.
    Tick(Beat),
    /// A replica asks.
    Asked(NodeId, Ask),
    /// A replica answers what it was asked.
    Answered(NodeId, Answer),
    /// The term is persisted, and no WRITE of an older one can land here any more (M1).
    Promised(Term),
    /// The term could not be persisted, or older writers could not be fenced.
    Unpromised(Term),
    /// What this replica holds, looked at after the fence.
    Surveyed(ReplicaReport),
    /// The start set of the term is here, and the index is built.
    Installed(Term),
    /// The start set could not be had.
    NotInstalled(Term),
    /// The leader's connections to a follower are gone: it no longer counts.
    Lost(NodeId),
    /// The process of that replica ended, or its way here was cut: what it had begun to say here is over. It
    /// says nothing of a connection that was closed in good order.
    Gone(NodeId),
    /// The leader of that term takes back what it was promised (`page::RELEASED`). As long as the page says
    /// so this is told again after each tick: a heartbeat that was seen late undoes it.
    Released(Term),
    /// Somebody may ask: this leader is to let that one lead.
    HandOver(NodeId),
    /// What [`Action::Drain`] waits for has come.
    Drained(Term),
    /// What [`Action::Release`] does is done, as far as it could be.
    ReleaseDone(Term),
    /// Somebody may ask: this leader is to see to another set of replicas.
    ChangeMembers(ChangeRequest),
    /// A set of replicas is persisted.
    Kept(Members),
    /// It could not be.
    Unkept,
}

/// Something to do, in this order. What says so is answered with an event before any other event is handled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Persist the term, and the newest set of replicas with it, with fsync; then revoke every queue pair of
    /// older terms and flush; then [`Event::Promised`] or [`Event::Unpromised`].
    Promise(Term),
    /// Look at the memory; then [`Event::Surveyed`].
    Survey,
    /// Ask a replica. Lost questions are not repeated here.
    Ask(NodeId, Ask),
    /// Answer a replica.
    Answer(NodeId, Answer),
    /// Make ready to be synced with this, in the follower's own memory, as [`Prepare::kept`] says. Then
    /// answer [`Answer::Ready`] with what is held.
    Prepare(Prepare),
    /// Count as synced in the term, from which moment on floors are these.
    Adopt {
        /// The term.
        term: Term,
        /// How many segments were reclaimed in it.
        reclaimed: u64,
        /// By stream; of others there are none.
        floors: Vec<u64>,
    },
    /// Fetch what is missing, cut, void what is behind a hole of a mixture, build the index; then
    /// [`Event::Installed`] or [`Event::NotInstalled`].
    Install(StartSet),
    /// Have all others catch up with the start set, again and again: each that has gets an
    /// [`Answer::Synced`].
    Form(Term),
    /// Serve: a majority is synced, and all older leases are over.
    Serve(Term),
    /// Vouch for no client's lease any more; when all are over, take no new writes; when those that were
    /// taken are applied and answered, and that replica has all of them: [`Event::Drained`].
    Drain(Term, NodeId),
    /// A wish to hand over is declined; what goes on goes on.
    Decline(Stay),
    /// Nobody is handed over to: what [`Action::Drain`] stopped goes on.
    Resume(Stay),
    /// End the own lease for good; then beat no more, and take back what followers promised. When that has
    /// landed on this one: [`Event::ReleaseDone`].
    Release(Term, NodeId),
    /// Persist a set of replicas with fsync, beside the term promised; then [`Event::Kept`] or
    /// [`Event::Unkept`].
    Keep(Members),
    /// Have one more catch up, as [`Action::Form`] does with the others: it does not count yet.
    Enlist(MemberAt),
    /// It is not to be one of the replicas.
    Dismiss(NodeId),
    /// A wish for another set of replicas is declined; what goes on goes on.
    Deny(Deny),
    /// Majorities have kept them: the next term has these replicas, and comes soon.
    Agreed(Members),
    /// End what the term that was led was doing: no answer, no WRITE, no heartbeat of it any more.
    StepDown(Term),
}

/// See [`Action::Prepare`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepare {
    /// Who syncs.
    pub leader: NodeId,
    /// Its term.
    pub term: Term,
    /// The sync term that the start set was gathered from.
    pub base: Term,
    /// Where the streams of the base term are cut.
    pub cuts: Vec<u64>,
    /// Streams of the new term.
    pub streams: u16,
    /// What of the memory here is kept.
    pub kept: KeptMemory,
}

/// What a follower's memory is to a leader that syncs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeptMemory {
    /// It counts in this very term: [`SyncState::Term`](longarm_wire::SyncState::Term).
    Term,
    /// The start set of the base: what lies beyond the cuts is to be voided, and the rest is
    /// [`SyncState::Base`](longarm_wire::SyncState::Base).
    Base,
    /// It counts, but to this leader it is [`SyncState::Nothing`](longarm_wire::SyncState::Nothing), and
    /// everything is to be pushed. Until that has ended what is here is still relied on: nothing of it is to
    /// be voided, cut or cleared here.
    Other,
    /// It does not count: [`SyncState::Nothing`](longarm_wire::SyncState::Nothing), and everything is to be
    /// forgotten.
    Nothing,
}

/// Where a leader's start set goes on from.
pub(super) struct SyncFrom {
    /// The sync term that it was gathered from.
    pub base: Term,
    /// Where the streams of the base term are cut.
    pub cuts: Vec<u64>,
    /// Streams of the leader's term.
    pub streams: u16,
}
