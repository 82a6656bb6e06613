//! The index of an engine, by the engine's options.

use std::sync::Arc;

use longarm_index::control::Control;
use longarm_index::hash::{self, Geometry, SlotKind};
use longarm_memory::OwnedWords;

use crate::options::EngineOptions;
use crate::persistent::root::Root;

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
