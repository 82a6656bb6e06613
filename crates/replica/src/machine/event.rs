//! The events that a replica hears, and the actions that follow.

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, Deny, MemberAt, Members, ReplicaReport, Stay};

use super::ChangeRequest;
use crate::StartSet;
use crate::page::Beat;
use crate::recall::Basis;

/// An event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Time has passed; the page says this by now. The page is read before the clock, and not before an event
    /// that was handled earlier.
    Tick(Beat),
    /// What the page says after a fence, and before anything is reported of what is here (L8). Nothing is to
    /// be done about it.
    Looked(Beat),
    /// This leader sent a heartbeat, or was about to, at that moment: it keeps the promise that it asks of
    /// others. Nothing is to be done about it.
    Beat(Nanos),
    /// A follower took some of what this leader gives it, at that moment: a leader that forms is not to give
    /// up yet, however much there is to be given. Nothing is to be done about it.
    Pushed(Nanos),
    /// A replica asks.
    Asked(ReplicaId, Ask),
    /// A replica answers a question.
    Answered(ReplicaId, Answer),
    /// The term is persisted, and no WRITE of an older one can land here any more (M1).
    Promised(Term),
    /// The term could not be persisted, or older writers could not be fenced.
    Unpromised(Term),
    /// The content of this replica's memory, scanned after the fence.
    Surveyed(ReplicaReport),
    /// The start set of the term is here, and the index is built.
    Installed(Term),
    /// The start set could not be obtained.
    NotInstalled(Term),
    /// The leader's connections to a follower are gone: it no longer counts.
    Lost(ReplicaId),
    /// The process of that replica ended, or its way here was cut: what it had begun to say here is over. A
    /// connection that was closed in good order causes no such event.
    Gone(ReplicaId),
    /// The leader of that term takes promises back (`page::RELEASED`). As long as the page says so this event
    /// follows each tick: a heartbeat that was seen late undoes it.
    Released(Term),
    /// An operator asks, or the replica itself: this leader is to let that replica lead.
    HandOver(ReplicaId),
    /// What [`Action::Drain`] waits for has happened.
    Drained(Term),
    /// The steps of [`Action::Release`] are done, as far as possible.
    ReleaseDone(Term),
    /// An operator asks: this leader is to change the set of replicas.
    ChangeMembers(ChangeRequest),
    /// A set of replicas is persisted.
    Kept(Members),
    /// A set of replicas could not be persisted.
    Unkept,
    /// An operator asks: this replica is to stand with what is on its disk, though others are missing.
    Recall,
}

/// An action; actions are done in this order. If an action ends with an event, that event is handled before
/// any other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Persist the term, and the newest set of replicas with it, with fsync; then revoke every queue pair of
    /// older terms and flush; then [`Event::Promised`] or [`Event::Unpromised`].
    Promise(Term),
    /// Scan the memory, or see what is on disk; then [`Event::Surveyed`].
    Survey(Basis),
    /// Ask a replica. The machine does not repeat lost questions.
    Ask(ReplicaId, Ask),
    /// Answer a replica.
    Answer(ReplicaId, Answer),
    /// Make ready to be synced by this leader, in the follower's own memory, as [`Prepare::kept`] says. Then
    /// answer [`Answer::Ready`] with what is held.
    Prepare(Prepare),
    /// Count as synced in the term; from then on the floors are these.
    Adopt {
        /// The term.
        term: Term,
        /// How many segments were reclaimed in it.
        reclaimed: u64,
        /// The floors by stream; other streams have none.
        floors: Vec<u64>,
    },
    /// All that the leader of the term pushed to bring this replica into sync, or back, has landed: what is
    /// in the memory may be looked at again.
    CaughtUp(Term),
    /// Fetch missing entries, cut, void what is behind a hole of a mixture, build the index; then
    /// [`Event::Installed`] or [`Event::NotInstalled`].
    Install(StartSet),
    /// Have all other replicas catch up with the start set, again and again. Each that has it answers
    /// [`Answer::Synced`].
    Form(Term),
    /// Serve: a majority is synced, and all older leases are over.
    Serve(Term),
    /// Stop vouching for clients' leases. When all of them are over, take no new writes. When the writes that
    /// were taken are applied and answered, and that replica has all of them: [`Event::Drained`].
    Drain(Term, ReplicaId),
    /// Decline a wish to hand over; everything else continues.
    Decline(Stay),
    /// Give up the hand-over: what [`Action::Drain`] stopped continues.
    Resume(Stay),
    /// End the own lease for good; then send no more heartbeats, and take back what followers promised. When
    /// that has landed on this replica: [`Event::ReleaseDone`].
    Release(Term, ReplicaId),
    /// Persist a set of replicas with fsync, beside the term promised; then [`Event::Kept`] or
    /// [`Event::Unkept`].
    Keep(Members),
    /// Have one more replica catch up, as [`Action::Form`] does with the others; it does not count yet.
    Enlist(MemberAt),
    /// Stop that: it is not to be one of the replicas.
    Dismiss(ReplicaId),
    /// Decline a wish for another set of replicas; everything else continues.
    Deny(Deny),
    /// Tell that majorities have kept the set: the next term has these replicas, and comes soon.
    Agreed(Members),
    /// End the work of the term that was led: no answer, no WRITE, no heartbeat of it from now on.
    StepDown(Term),
}

/// What a follower makes ready for; see [`Action::Prepare`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepare {
    /// The leader that syncs.
    pub leader: ReplicaId,
    /// Its term.
    pub term: Term,
    /// The sync term that the start set was gathered from.
    pub base: Term,
    /// Where the streams of the base term are cut.
    pub cuts: Vec<u64>,
    /// Streams of the new term.
    pub streams: u16,
    /// The part of the memory here that is kept.
    pub kept: KeptMemory,
}

/// What a follower's memory is worth to a leader that syncs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeptMemory {
    /// It counts in this very term: [`SyncState::Term`](longarm_wire::SyncState::Term).
    Term,
    /// It holds the start set of the base: entries beyond the cuts are to be voided, and the rest is
    /// [`SyncState::Base`](longarm_wire::SyncState::Base).
    Base,
    /// It counts, but to this leader it is [`SyncState::Nothing`](longarm_wire::SyncState::Nothing), and
    /// everything is to be pushed. Until that has ended the old memory is still relied on: no part of it is
    /// to be voided, cut or cleared here.
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
