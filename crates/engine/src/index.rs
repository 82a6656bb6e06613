//! The index of an engine, by the engine's options.

use std::sync::Arc;

use longarm_index::control::Control;
use longarm_index::hash::{self, Geometry, Owner, SlotKind};
use longarm_memory::{Budget, OwnedWords, SumKey};

use crate::entries::Arena;
use crate::options::{CreateEngineError, EngineOptions};
use crate::persistent::root::Root;

/// Creates an empty index by these options; every geometry is published.
pub(crate) fn index_of<M: OwnedWords>(
    memory: M,
    arena: Arena<M>,
    publish: impl Fn(&Geometry) + Send + Sync + 'static,
    sums: SumKey,
    budget: Arc<Budget>,
    options: &EngineOptions,
) -> Result<Owner<M, Arena<M>>, CreateEngineError> {
    let limit = budget.limit();
    Owner::create(memory, arena, sums, budget, index_options(options), publish)
        .map_err(|hash::Full| CreateEngineError::Index { expected: options.expected_items, memory: limit })
}

/// The options of the index.
pub(crate) fn index_options(options: &EngineOptions) -> hash::Options {
    hash::Options {
        slots: options.slots,
        discipline: options.discipline,
        expected_items: options.expected_items,
        found_items: options.found_items,
        populate: options.populate,
        hash_key: options.hash_key,
        places: options.term.is_some() && options.slots == SlotKind::Inline64,
    }
}

/// Publishes every geometry on the control page. In persistent memory it is persistent first, since clients
/// may read, and the owner write, what it names as soon as it is published.
pub(crate) fn publisher<M: OwnedWords + 'static>(
    control: Control<M>,
    root: Option<Arc<Root<M>>>,
) -> impl Fn(&Geometry) + Send + Sync + 'static {
    move |geometry| {
        if let Some(root) = &root {
            root.publish(geometry);
        }
        control.publish(geometry);
    }
}
