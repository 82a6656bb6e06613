//! Executes one decoded request, exactly once if the client numbered it.

use std::sync::atomic::Ordering;

use longarm_base::{Csn, Mutant, Nanos};
use longarm_host::observe::{Observation, observe};
use longarm_memory::{Hash, Mapped};
use longarm_wire::{BackupStep, Request, RequestKind, Status, hints, let_go};

use crate::backup::Hold;
use crate::shared::Shared;
use longarm_engine::Timestamps;
use longarm_engine::session::{Recall, Session};
use longarm_engine::stream::{Stream, StreamPosition};
use longarm_engine::{Commit, Engine, Outcome, Short, WorkerContext};
use longarm_group::Phase;
use longarm_group::Pulse;

/// How long a write may wait for memory to be freed, beyond the quarantine of freed memory: of the time that
/// the maintenance thread has for its work. If no memory can be freed, that thread says so much sooner. A
/// sweep over a memory full of tombstones takes 1.5 s on two cores that are busy otherwise, and writes get
/// little before its end. A client waits for five seconds, if it is not told otherwise.
const MEMORY_WAIT: Nanos = Nanos::from_millis(4_000);

/// The means with which a worker executes requests.
pub(crate) struct Execution<'a> {
    pub shared: &'a Shared,
    pub pulse: &'a Pulse,
    pub context: &'a mut WorkerContext<Mapped>,
    pub phase: Phase,
}

/// The result of a request.
#[derive(Debug)]
pub(crate) enum Executed {
    /// The client wants no answer.
    Nothing,
    /// The request is to be executed again, a little later: memory is being freed.
    Wait,
    /// An answer without value.
    Answer(Outcome),
    /// An answer without value, once the entry at this position is applied.
    Later(Outcome, StreamPosition),
    /// An answer with the value that the worker's context holds.
    Value(Outcome),
    /// An answer with this text.
    Text(Vec<u8>),
}

/// Executes a request. `stalled` is the end of its wait, once it waits, in time of maintenance's work (see
/// [`longarm_engine::Shortage`]). The caller that keeps `stalled`
/// clears it, once the result is anything but [`Executed::Wait`].
#[inline]
pub(crate) fn execute(
    execution: &mut Execution<'_>,
    session: &mut Session,
    stalled: &mut Option<Nanos>,
    times: Timestamps,
    request: &Request<'_>,
) -> Executed {
    let engine = &execution.shared.core.engine;
    // While draining, requests that had arrived before are still executed.
    let closing = execution.phase != Phase::Serving && execution.pulse.is_drained();
    match request.kind {
        RequestKind::Hints => {
            hints(request.value).for_each(|hash| engine.mark(Hash(hash)));
            Executed::Nothing
        }
        RequestKind::Ping if !closing => Executed::Answer(Outcome::of(Status::Ok)),
        // A request that waits for the lease reads nothing before the lease is there: a value may be long.
        RequestKind::Get | RequestKind::Spilled
            if !closing && stalled.is_some() && !execution.shared.core.may_tell() =>
        {
            wait_to_tell(stalled)
        }
        RequestKind::Get if !closing => match engine.get(execution.context, times, request) {
            Ok(outcome) if execution.shared.core.may_tell() => {
                observe(|| Observation::Answered);
                Executed::Value(outcome)
            }
            _ => wait_to_tell(stalled),
        },
        RequestKind::Spilled if !closing => {
            let list = engine.spilled(request.value, times);
            if execution.shared.core.may_tell() { Executed::Text(list) } else { wait_to_tell(stalled) }
        }
        RequestKind::Stats if !closing => Executed::Text(execution.shared.stats().to_json()),
        _ => once(execution, session, stalled, times, request, closing),
    }
}

/// Executes a write and records it, or answers it from the record.
#[inline]
fn once(
    execution: &mut Execution<'_>,
    session: &mut Session,
    stalled: &mut Option<Nanos>,
    times: Timestamps,
    request: &Request<'_>,
    closing: bool,
) -> Executed {
    let operation = request.operation;
    if operation != 0 {
        session.hear(if Mutant::RepeatNothing.is_on() { operation } else { request.oldest() });
        match session.recall(operation) {
            Recall::New => {}
            Recall::Ran(outcome, at) => {
                // The client may meanwhile have gone to another leader, which ran the operation, and have
                // come back.
                if at.is_none() && !may_answer(execution, Mutant::RecallAnyway) {
                    return wait_to_tell(stalled);
                }
                tell(session, operation, outcome);
                return at.map_or(Executed::Answer(outcome), |at| Executed::Later(outcome, at));
            }
            Recall::Forgotten => return Executed::Answer(Outcome::of(Status::Forgotten)),
        }
    }
    if closing {
        return Executed::Answer(Outcome::of(Status::Closing));
    }
    if execution.shared.core.holds_writes() {
        return wait_to_tell(stalled);
    }
    if execution.shared.core.has_no_disk() {
        return Executed::Answer(Outcome::of(Status::NoDisk));
    }
    if !execution.shared.core.may_write(execution.context.stream.as_ref(), times.now) {
        return wait_to_tell(stalled);
    }
    let engine = &execution.shared.core.engine;
    let before = execution.context.stream.as_ref().map(Stream::written);
    let numbered = operation != 0 && session.id() != 0;
    let by = numbered.then(|| longarm_store::OperationId { id: session.id(), operation });
    execution.context.writer.set_yields(engine.shortage.yields(*stalled, times.now));
    let outcome = match engine.write(execution.context, times, request, by) {
        Ok(outcome) => outcome,
        Err(Short::Busy) => return wait_to_tell(stalled),
        Err(Short::Crowded) => engine.counts.crowded(),
        Err(short) => {
            let waits = waits_for_memory(engine, stalled, times.now);
            if waits && short == Short::Wait && execution.phase == Phase::Serving {
                return Executed::Wait;
            }
            // Relaxed: a counter.
            engine.counts.refused.fetch_add(1, Ordering::Relaxed);
            Outcome::of(Status::OutOfMemory)
        }
    };
    let at = written(execution.context, before);
    // An outcome without an entry was judged by the items here, and holds only under the lease.
    if at.is_none() && !may_answer(execution, Mutant::TellAnyway) {
        return wait_to_tell(stalled);
    }
    if operation != 0 {
        tell(session, operation, outcome);
        session.record(operation, outcome, at);
    }
    at.map_or(Executed::Answer(outcome), |at| Executed::Later(outcome, at))
}

/// Whether a write that found no memory at `now` may still wait for some.
fn waits_for_memory(engine: &Engine<Mapped>, stalled: &mut Option<Nanos>, now: Nanos) -> bool {
    // A wait for something else has no bound; this wait, for memory, begins now.
    let worked = engine.shortage.worked();
    let bound = worked + engine.options.quarantine + MEMORY_WAIT;
    let until = stalled.map_or(bound, |until| until.min(bound));
    *stalled = Some(until);
    if until.since(worked) < Nanos(MEMORY_WAIT.0 / 2) {
        engine.shortage.insist(until, now);
    }
    worked < until
}

/// Executes a step of a backup for a connection, whose hold this is. `None` if it waits for the lease.
pub(crate) fn backup_step(
    execution: &Execution<'_>,
    hold: &mut Option<Hold>,
    request: &Request<'_>,
) -> Option<Outcome> {
    let engine = &execution.shared.core.engine;
    let backups = &execution.shared.backups;
    let outcome = match BackupStep::of(request.argument)? {
        BackupStep::Begin => {
            let releases = backups.releases().filter(|_| !matches!(engine.commit, Commit::Direct));
            let Some(releases) = releases else { return Some(Outcome::of(Status::Invalid)) };
            *hold = None;
            let Some(begun) = backups.begin(releases) else { return Some(Outcome::of(Status::Mismatch)) };
            // Writes that are under way have lower versions perhaps than some that are acknowledged.
            let csn = engine.csn();
            if !execution.shared.core.may_tell() {
                return None;
            }
            *hold = Some(begun);
            Outcome { csn, ..Outcome::of(Status::Ok) }
        }
        BackupStep::Settle => match hold.as_ref().and_then(|hold| hold.let_go(&[])) {
            Some(_) => {
                let (csn, claims) = (engine.stable_point(), engine.store.claims());
                Outcome { csn, number: claims as i64, ..Outcome::of(Status::Ok) }
            }
            None => Outcome::of(Status::NotFound),
        },
        BackupStep::LetGo => {
            let segments: Vec<u32> = let_go(request.value).collect();
            match hold.as_ref().and_then(|hold| hold.let_go(&segments)) {
                Some(waiting) => Outcome { number: waiting as i64, ..Outcome::of(Status::Ok) },
                None => Outcome::of(Status::NotFound),
            }
        }
        BackupStep::End => {
            let stood = hold.take().and_then(|hold| hold.let_go(&[]));
            Outcome::of(if stood.is_some() { Status::Ok } else { Status::NotFound })
        }
    };
    engine.relief.poke();
    Some(outcome)
}

/// Whether an answer that no entry backs may be sent: under the lease, or if the mutant is on.
fn may_answer(execution: &Execution<'_>, anyway: Mutant) -> bool {
    let may = execution.shared.core.may_tell() || anyway.is_on();
    if may {
        observe(|| Observation::Answered);
    }
    may
}

/// Tells a simulated world which version an operation wrote.
fn tell(session: &Session, operation: u64, outcome: Outcome) {
    observe(|| {
        let csn = if outcome.status == Status::Ok { outcome.csn } else { Csn::NONE };
        Observation::Ran { session: session.id(), operation, csn }
    });
}

/// The position of an entry that the context's stream has beyond `before`.
fn written(context: &WorkerContext<Mapped>, before: Option<u64>) -> Option<StreamPosition> {
    let (stream, before) = (context.stream.as_ref()?, before?);
    (stream.written() > before).then_some(StreamPosition { stream: stream.number, position: before })
}

/// Lets the request wait until it can be answered, or the connection ends: another write of the key is under
/// way, the lease is not there now, or the leader hands over.
fn wait_to_tell(stalled: &mut Option<Nanos>) -> Executed {
    *stalled = Some(Nanos(u64::MAX));
    Executed::Wait
}
