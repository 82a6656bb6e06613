//! One request, from its decoded form to what came of it: exactly once where the client numbered it.

use std::sync::atomic::Ordering;

use longarm_base::Nanos;
use longarm_memory::{Hash, Mapped};
use longarm_wire::{Request, RequestKind, Status, hints};

use crate::clock::Moment;
use crate::engine::{Hand, Outcome, Short};
use crate::pulse::Pulse;
use crate::session::{Recall, Session};
use crate::shared::{Phase, Shared};

/// How long a write may wait for memory to be freed, beyond the quarantine that what is freed goes through.
/// Where nothing can be freed, the housekeeper says so much sooner.
const MEMORY_WAIT: Nanos = Nanos::from_millis(2000);

/// What a worker brings to a request.
pub(crate) struct Context<'a> {
    pub shared: &'a Shared,
    pub pulse: &'a Pulse,
    pub hand: &'a mut Hand<Mapped>,
    pub phase: Phase,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Executed {
    /// No answer is wanted.
    Nothing,
    /// It is to be executed again, a little later: memory is being freed.
    Wait,
    /// An answer without value.
    Answer(Outcome),
    /// An answer with the value that the hand holds.
    Value(Outcome),
    /// An answer with this text.
    Text(Vec<u8>),
}

/// Executes a request. `stalled` is until when it may wait for memory, once it does.
#[inline]
pub(crate) fn execute(
    context: &mut Context<'_>,
    session: &mut Session,
    stalled: &mut Option<Nanos>,
    moment: Moment,
    request: &Request<'_>,
) -> Executed {
    let engine = &context.shared.engine;
    // While draining, what had arrived before is still executed.
    let closing = context.phase != Phase::Serving && context.pulse.is_drained();
    match request.kind {
        RequestKind::Hints => {
            hints(request.value).for_each(|hash| engine.mark(Hash(hash)));
            Executed::Nothing
        }
        RequestKind::Ping if !closing => Executed::Answer(Outcome::of(Status::Ok)),
        RequestKind::Get if !closing => Executed::Value(engine.get(context.hand, moment, request)),
        RequestKind::Stats if !closing => Executed::Text(context.shared.stats().to_json()),
        _ => once(context, session, stalled, moment, (request, closing)),
    }
}

/// A write: answered from the record, or executed and put on record.
#[inline]
fn once(
    context: &mut Context<'_>,
    session: &mut Session,
    stalled: &mut Option<Nanos>,
    moment: Moment,
    (request, closing): (&Request<'_>, bool),
) -> Executed {
    let operation = request.operation;
    if operation != 0 {
        match session.recall(operation) {
            Recall::New => {}
            Recall::Ran(outcome) => return Executed::Answer(outcome),
            Recall::Forgotten => return Executed::Answer(Outcome::of(Status::Forgotten)),
        }
    }
    if closing {
        return Executed::Answer(Outcome::of(Status::Closing));
    }
    let engine = &context.shared.engine;
    let outcome = match request.kind {
        RequestKind::Put => engine.put(context.hand, moment, request),
        RequestKind::Delete => Ok(engine.delete(moment, request)),
        RequestKind::Increment => engine.increment(context.hand, moment, request),
        _ => engine.touch(context.hand, moment, request),
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(short) => {
            let until = *stalled.get_or_insert(moment.now + engine.options.quarantine + MEMORY_WAIT);
            if short == Short::Wait && moment.now < until && context.phase == Phase::Serving {
                return Executed::Wait;
            }
            // Relaxed: a counter.
            engine.counts.refused.fetch_add(1, Ordering::Relaxed);
            Outcome::of(Status::OutOfMemory)
        }
    };
    *stalled = None;
    if operation != 0 {
        session.record(operation, outcome);
    }
    Executed::Answer(outcome)
}
