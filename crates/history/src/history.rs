//! The operations and pages of all clients together.

use std::collections::BTreeMap;

use crate::violation::Who;
use crate::{NEVER, Operation, Page};

/// Operations and pages of all clients, in any order. Where there are pages, it is of one group: what other
/// groups have is absent from them.
#[derive(Clone, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
    pages: Vec<Page>,
}

impl History {
    /// Adds one. Whatever end it has, in doubt it has none.
    pub fn push(&mut self, operation: Operation) {
        let end = if operation.in_doubt() { NEVER } else { operation.end };
        self.operations.push(Operation { end, ..operation });
    }

    /// Adds a page that a client was answered.
    pub fn push_page(&mut self, page: Page) {
        self.pages.push(page);
    }

    /// Adds what another client noted for itself.
    pub fn merge(&mut self, other: History) {
        self.operations.extend(other.operations);
        self.pages.extend(other.pages);
    }

    /// How many operations and pages there are.
    pub fn len(&self) -> usize {
        self.operations.len() + self.pages.len()
    }

    /// Whether nobody did anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// All pages.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// The operations of each key, in the order of their calls.
    pub(crate) fn by_key(&self) -> BTreeMap<u32, Vec<Operation>> {
        let mut keys: BTreeMap<u32, Vec<Operation>> = BTreeMap::new();
        for operation in &self.operations {
            keys.entry(operation.key).or_default().push(operation.clone());
        }
        for operations in keys.values_mut() {
            // By client, too: in whatever order clients were merged, the same one is found guilty.
            operations.sort_by_key(|operation| (operation.call, operation.end, operation.client));
        }
        keys
    }

    /// All operations and pages, in the order of their calls.
    pub(crate) fn by_call(&self) -> Vec<Who<'_>> {
        let operations = self.operations.iter().map(Who::Operation);
        let mut all: Vec<Who<'_>> = operations.chain(self.pages.iter().map(Who::Page)).collect();
        // By client, too: in whatever order clients were merged, the same one is found guilty.
        all.sort_by_key(|who| (who.call(), who.end(), who.client()));
        all
    }
}
