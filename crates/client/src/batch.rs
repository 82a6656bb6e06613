//! Keys that are looked up together: the keys without an answer, and the progress of each lookup.

use longarm_base::Nanos;

use crate::link::BATCH;
use crate::lookup::{Lookup, LookupStep};

/// Keys that are looked up together on one connection.
#[derive(Default)]
pub(crate) struct Batch {
    /// The numbers of the keys without an answer.
    pub(crate) rest: Vec<usize>,
    /// The keys among them that are got one by one, since their values are so long, or change so often, or
    /// since the server must be asked for them.
    pub(crate) large: Vec<usize>,
    pub(crate) flights: Vec<BatchLookup>,
    /// The number of READs under way.
    pub(crate) open: usize,
    /// The moment from which the READs count.
    pub(crate) begin: Nanos,
}

impl Batch {
    /// Takes as many numbers as may be looked up together; returns whether there was any.
    pub(crate) fn load(&mut self, numbers: &mut impl Iterator<Item = usize>) -> bool {
        self.rest.clear();
        self.rest.extend(numbers.take(BATCH));
        !self.rest.is_empty()
    }
}

/// One key's lookup in a batch.
pub(crate) struct BatchLookup {
    pub(crate) key: usize,
    pub(crate) lookup: Lookup,
    pub(crate) step: LookupStep,
    /// Whether the READ that it wants is in the queue.
    pub(crate) posted: bool,
}
