//! Keys that are looked up together: those without an answer, and how far each lookup is.

use longarm_base::Nanos;

use crate::link::BATCH;
use crate::lookup::{Lookup, LookupStep};

/// Keys that are looked up together on one connection.
#[derive(Default)]
pub(crate) struct Batch {
    /// Those without an answer, by number.
    pub(crate) rest: Vec<usize>,
    /// Of them, those whose values are so long, or change so often, that they are got one by one, and those
    /// that the server must be asked for.
    pub(crate) large: Vec<usize>,
    pub(crate) flights: Vec<BatchLookup>,
    /// READs under way.
    pub(crate) open: usize,
    /// From when on they count.
    pub(crate) begin: Nanos,
}

impl Batch {
    /// Takes as many numbers as may be looked up together; whether there was any.
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
    pub(crate) want: LookupStep,
    /// The READ wanted is in the queue.
    pub(crate) posted: bool,
}
