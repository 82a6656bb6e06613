//! Expired items: once a client was told that an item is gone, no client finds it again (decision 16).

use longarm_base::{ReplicaId, Term, UnixMillis};
use longarm_index::hash::SlotKind;
use longarm_wire::{Request, RequestKind, Status};

use crate::options::Eviction;
use crate::outcome::Short;
use crate::testing::{TIMES, apply, arena, engine, engine_of, execute};
use crate::timestamps::Timestamps;

const LIMIT: u64 = 64 << 20;
const TTL: u64 = 10;
/// Times at which the item has expired.
const LATER: Timestamps = Timestamps { unix: UnixMillis(TIMES.unix.0 + TTL), ..TIMES };

fn request(kind: RequestKind) -> Request<'static> {
    Request { key: b"key", ..Request::new(kind, 0) }
}

fn put() -> Request<'static> {
    Request { value: b"1", ttl_ms: TTL, ..request(RequestKind::Put) }
}

/// Writes that find the item alive, and keep it or remove it.
fn that_ask_for_it() -> [Request<'static>; 4] {
    [
        Request { ttl_ms: 1_000, ..request(RequestKind::Touch) },
        Request { argument: 1, ..request(RequestKind::Increment) },
        Request { value: b"2", keep_ttl: true, ..request(RequestKind::Put) },
        request(RequestKind::Delete),
    ]
}

/// A TOUCH found the item alive and is on its way to the followers when the item expires. A client that is
/// told then that the item is gone would find it again when the TOUCH is applied.
#[test]
fn nobody_is_told_that_an_item_is_gone_while_a_write_that_found_it_is_under_way() {
    for write in that_ask_for_it() {
        let engine = engine_of(Term::new(1, ReplicaId(0)), 0, SlotKind::Inline64, LIMIT, &arena(LIMIT));
        let (mut context, mut reader) = (engine.worker_context(0), engine.worker_context(1));
        let get = request(RequestKind::Get);
        assert!(execute(&engine, &mut context, TIMES, &put()).is_ok());
        let written = engine.write(&mut context, TIMES, &write, None).expect("it is written");
        assert_eq!(written.status, Status::Ok, "{:?}", write.kind);
        let before = engine.get(&mut reader, TIMES, &get).map(|told| told.status);
        assert_eq!(before, Ok(Status::Ok), "in its time it is there");
        assert_eq!(engine.get(&mut reader, LATER, &get), Err(Short::Busy), "{:?}", write.kind);
        apply(&engine, &mut context, LATER);
        let stays = write.kind == RequestKind::Touch;
        let expected = if stays { Status::Ok } else { Status::NotFound };
        let after = engine.get(&mut reader, LATER, &get).map(|told| told.status);
        assert_eq!(after, Ok(expected), "{:?}", write.kind);
    }
}

/// A thread reads the clock, and is kept from its core; meanwhile another thread tells that the item is gone.
#[test]
fn what_was_told_to_be_gone_is_gone_for_whoever_looked_at_the_clock_before() {
    for write in that_ask_for_it() {
        for group in [false, true] {
            let engine = match group {
                true => engine_of(Term::new(1, ReplicaId(0)), 0, SlotKind::Inline64, LIMIT, &arena(LIMIT)),
                false => engine(SlotKind::Inline64, Eviction::None, LIMIT),
            };
            let mut context = engine.worker_context(0);
            let get = request(RequestKind::Get);
            assert!(execute(&engine, &mut context, TIMES, &put()).is_ok());
            let told = engine.get(&mut context, LATER, &get).map(|told| told.status);
            assert_eq!(told, Ok(Status::NotFound));
            let late = engine.get(&mut context, TIMES, &get).map(|told| told.status);
            assert_eq!(late, Ok(Status::NotFound), "who looked before");
            let outcome = execute(&engine, &mut context, TIMES, &write).expect("it is judged");
            match write.kind {
                // It adds to no item.
                RequestKind::Increment => assert_eq!(outcome.number, 1, "group: {group}"),
                RequestKind::Put => assert_eq!(outcome.status, Status::Ok, "group: {group}"),
                kind => assert_eq!(outcome.status, Status::NotFound, "{kind:?}, group: {group}"),
            }
        }
    }
}
