//! A server of its own and the leader of a group give the same answers to the same requests: they judge a
//! write in one way, and differ only in when it takes effect.

use std::sync::atomic::Ordering;

use longarm_base::{Nanos, ReplicaId, Term, UnixMillis};
use longarm_index::hash::SlotKind;
use longarm_memory::Mapped;
use longarm_wire::{Condition, Request, RequestKind};
use proptest::prelude::*;

use super::model::key_of;
use crate::engine::Engine;
use crate::options::Eviction;
use crate::testing::{arena, engine, engine_of, execute};
use crate::timestamps::Timestamps;

const LIMIT: u64 = 64 << 20;

/// A client's request.
#[derive(Clone, Debug)]
struct Asked {
    kind: RequestKind,
    key: u8,
    condition: Condition,
    /// For a condition: the version, counted back from the newest. For an INCREMENT: the number that it adds.
    argument: u64,
    ttl_ms: u64,
    keep_ttl: bool,
    value: Vec<u8>,
    /// Milliseconds that pass before the request.
    wait: u64,
}

fn asked() -> impl Strategy<Value = Asked> {
    use Condition::{Absent, Always, Present, Version};
    use RequestKind::{Delete, Get, Increment, Put, Touch};
    let kinds = prop::sample::select(vec![Put, Put, Put, Delete, Increment, Increment, Touch, Get]);
    let conditions = prop::sample::select(vec![Always, Always, Absent, Present, Version]);
    let arguments = prop_oneof![4 => 0u64..4, 1 => Just(u64::MAX), 1 => Just(i64::MAX as u64)];
    let ttls = prop_oneof![3 => Just(0u64), 3 => 1u64..40, 1 => Just(u64::MAX)];
    let values = prop_oneof![
        2 => (-9i64..9).prop_map(|number| number.to_string().into_bytes()),
        1 => Just(i64::MIN.to_string().into_bytes()),
        1 => Just(vec![b'7'; 21]),
        1 => Just(b"007".to_vec()),
        2 => (0usize..60, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        1 => (8000usize..9000).prop_map(|len| vec![b'1'; len]),
    ];
    let waits = prop_oneof![4 => Just(0u64), 1 => 1u64..30];
    (kinds, 0u8..6, conditions, arguments, ttls, any::<bool>(), values, waits).prop_map(
        |(kind, key, condition, argument, ttl_ms, keep_ttl, value, wait)| {
            let condition = if kind == Increment { Always } else { condition };
            Asked { kind, key, condition, argument, ttl_ms, keep_ttl, value, wait }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn alone_and_in_a_group_the_answers_are_the_same(
        pointer: bool,
        asked in prop::collection::vec(asked(), 1..150),
    ) {
        let slots = if pointer { SlotKind::Pointer16 } else { SlotKind::Inline64 };
        let alone = engine(slots, Eviction::None, LIMIT);
        let group = engine_of(Term::new(1, ReplicaId(1)), 0, slots, LIMIT, &arena(LIMIT));
        let (mut ours, mut theirs) = (alone.worker_context(0), group.worker_context(0));
        let mut unix = 1_000_000;
        for asked in &asked {
            unix += asked.wait;
            let times = Timestamps { now: Nanos(unix * 1_000_000), unix: UnixMillis(unix) };
            let key = key_of(asked.key);
            let back = alone.csn().0.saturating_sub(asked.argument);
            let argument = if asked.condition == Condition::Version { back } else { asked.argument };
            let request = Request {
                key: &key,
                condition: asked.condition,
                argument,
                ttl_ms: asked.ttl_ms,
                keep_ttl: asked.keep_ttl,
                value: &asked.value,
                ..Request::new(asked.kind, 0)
            };
            if asked.kind == RequestKind::Get {
                let told = alone.get(&mut ours, times, &request);
                prop_assert_eq!(told, group.get(&mut theirs, times, &request));
                prop_assert_eq!(ours.value(), theirs.value());
            } else {
                let outcome = execute(&alone, &mut ours, times, &request);
                prop_assert_eq!(outcome, execute(&group, &mut theirs, times, &request), "{:?}", asked);
            }
        }
        // Relaxed: one thread.
        let expired = |engine: &Engine<Mapped>| engine.counts.expired.load(Ordering::Relaxed);
        prop_assert_eq!(expired(&alone), expired(&group));
    }
}
