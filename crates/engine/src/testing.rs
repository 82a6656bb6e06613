//! Engines without threads and clock, for tests: one stream to write with, and one to move with.

use std::sync::Arc;

use longarm_base::{Csn, EntryRef, Nanos, Term, UnixMillis};
use longarm_index::control::Control;
use longarm_index::hash::{Discipline, SlotKind};
use longarm_memory::{Backing, Budget, Mapped, OwnedWords, Region, RegionOptions, SumKey};
use longarm_store::OperationId;
use longarm_wire::Request;

use crate::engine::Engine;
use crate::options::{EngineOptions, Eviction};
use crate::outcome::{Outcome, Short};
use crate::session::SessionHello;
use crate::timestamps::Timestamps;
use crate::worker_context::WorkerContext;

/// The session of all numbered operations.
pub const SESSION: u64 = 77;
/// Its client, as it first connects.
pub const COMING: SessionHello = SessionHello { id: SESSION, fresh: 1, since: Csn::NONE };

/// Memory of so many bytes, all zero.
pub fn memory(bytes: u64) -> Mapped {
    let options = RegionOptions { name: "test".into(), bytes, backing: Backing::Memory };
    Region::create(&options).expect("a region").memory().clone()
}

/// The times of tests in which nothing depends on the time.
pub const TIMES: Timestamps = Timestamps { now: Nanos(1_000_000_000), unix: UnixMillis(1_000_000) };

/// How long memory that these engines free may still be read.
pub const QUARANTINE: Nanos = Nanos::from_millis(20);

/// An engine with one worker, and a second stream to move with.
pub fn engine(slots: SlotKind, eviction: Eviction, limit: u64) -> Engine<Mapped> {
    engine_by(options(slots, eviction, None), limit)
}

/// The same with other options.
pub fn engine_by(options: EngineOptions, limit: u64) -> Engine<Mapped> {
    let regions = [memory(4096), memory(limit), memory(limit + (1 << 20))];
    build(regions, limit, options)
}

/// The number of the key of their checksums.
pub const SUM_KEY: u64 = 11;

/// The key of their checksums.
pub fn sums() -> SumKey {
    SumKey::new(SUM_KEY)
}

/// An arena that holds nothing yet, for [`engine_of`].
pub fn arena(limit: u64) -> Mapped {
    let arena = memory(limit + (1 << 20));
    longarm_store::format(&arena, &sums()).expect("an arena");
    arena
}

/// The engine of a group's leader in its term, over an arena that earlier leaders filled. `found_items` is
/// the number of items that it is told to expect.
pub fn engine_of(
    term: Term,
    found_items: u64,
    slots: SlotKind,
    limit: u64,
    arena: &Mapped,
) -> Engine<Mapped> {
    let regions = [memory(4096), memory(limit), arena.clone()];
    build(regions, limit, options(slots, Eviction::None, Some((term, found_items))))
}

/// Options of these engines; in a group with the term and the number of items to expect.
pub fn options(slots: SlotKind, eviction: Eviction, term: Option<(Term, u64)>) -> EngineOptions {
    EngineOptions {
        term: term.map(|(term, _)| term),
        workers: 1,
        slots,
        discipline: Discipline::InPlace,
        expected_items: 100,
        found_items: term.map_or(0, |(_, items)| items),
        populate: true,
        hash_key: 5,
        eviction,
        quarantine: QUARANTINE,
        progress: term.map(|_| memory(longarm_store::progress::layout::bytes(2))),
    }
}

/// An engine in these regions: the control page, the index and the arena.
pub fn build<M: OwnedWords + Clone + 'static>(
    [control, index, arena]: [M; 3],
    limit: u64,
    options: EngineOptions,
) -> Engine<M> {
    let control = Control::create(control, 1, sums());
    let budget = Arc::new(Budget::new(limit));
    Engine::create(index, arena, control, sums(), budget, options).expect("an engine")
}

/// Executes a write and, in a group, has it committed and applied.
pub fn execute<M: OwnedWords>(
    engine: &Engine<M>,
    context: &mut WorkerContext<M>,
    times: Timestamps,
    request: &Request<'_>,
) -> Result<Outcome, Short> {
    let by = (request.operation != 0).then_some(OperationId { id: SESSION, operation: request.operation });
    let outcome = engine.write(context, times, request, by)?;
    if context.stream.is_some() {
        apply(engine, context, times);
    }
    Ok(outcome)
}

/// The entry that the slot of a key names.
pub fn named<M: OwnedWords>(engine: &Engine<M>, key: &[u8]) -> (EntryRef, Csn) {
    let index = engine.index.read();
    let pair = index.lock(engine.hash(key));
    let found = pair.find(key).expect("it is there");
    let current = engine.current(&found, TIMES);
    (current.place.expect("an item of a group is an entry"), current.csn)
}

/// Has all that was written with this context committed, and applies it.
pub fn apply<M: OwnedWords>(engine: &Engine<M>, context: &mut WorkerContext<M>, times: Timestamps) {
    let stream = context.stream.as_mut().expect("a context of a group has a stream");
    stream.set_committed(stream.written());
    engine.apply_committed(context, times);
    let stream = context.stream.as_mut().expect("as above");
    assert_eq!(stream.applied(), stream.written());
    stream.forget(u64::MAX);
    engine.store.set_stable(engine.stable_point());
}
