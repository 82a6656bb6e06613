//! Creates the index of an engine, empty.

use std::sync::Arc;

use longarm_index::control::Control;
use longarm_index::hash::{self, Owner, SlotKind};
use longarm_memory::{Budget, OwnedWords, SumKey};

use crate::entries::Arena;
use crate::options::{CreateEngineError, EngineOptions};

/// Creates an empty index by these options; every geometry is published on the control page.
pub(crate) fn index_of<M: OwnedWords + Clone + 'static>(
    memory: M,
    arena: Arena<M>,
    control: Control<M>,
    sums: SumKey,
    budget: Arc<Budget>,
    options: &EngineOptions,
) -> Result<Owner<M, Arena<M>>, CreateEngineError> {
    let index_options = hash::Options {
        slots: options.slots,
        discipline: options.discipline,
        expected_items: options.expected_items,
        found_items: options.found_items,
        populate: options.populate,
        hash_key: options.hash_key,
        places: options.term.is_some() && options.slots == SlotKind::Inline64,
    };
    let publish = move |geometry: &hash::Geometry| control.publish(geometry);
    let limit = budget.limit();
    Owner::create(memory, arena, sums, budget, index_options, publish)
        .map_err(|hash::Full| CreateEngineError::Index { expected: options.expected_items, memory: limit })
}
