//! The operations of all clients together.

use std::collections::BTreeMap;

use crate::{NEVER, Operation};

/// Operations of all clients, in any order.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<Operation>);

impl History {
    /// Adds one. Whatever end it has, in doubt it has none.
    pub fn push(&mut self, operation: Operation) {
        let end = if operation.in_doubt() { NEVER } else { operation.end };
        self.0.push(Operation { end, ..operation });
    }

    /// Adds what another client noted for itself.
    pub fn merge(&mut self, other: History) {
        self.0.extend(other.0);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody did anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn operations(&self) -> &[Operation] {
        &self.0
    }

    /// Those of each key, in the order of their calls.
    pub(crate) fn by_key(&self) -> BTreeMap<u32, Vec<Operation>> {
        let mut keys: BTreeMap<u32, Vec<Operation>> = BTreeMap::new();
        for operation in &self.0 {
            keys.entry(operation.key).or_default().push(operation.clone());
        }
        for operations in keys.values_mut() {
            // By client, too: in whatever order clients were merged, the same one is found guilty.
            operations.sort_by_key(|operation| (operation.call, operation.end, operation.client));
        }
        keys
    }
}
