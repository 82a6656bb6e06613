//! What clients did and saw, and whether one store that does one thing at a time could have shown them that
//! (linearizability; Herlihy and Wing, TOPLAS 1990).
//!
//! Three judges of that, because none is enough alone:
//! - [`sweep`] looks at every operation and trusts the versions that the store names. It is quick and names
//!   the guilty pair.
//! - [`zones`] trusts nothing but the values, which are unique. It is quick, too, and knows gets and blind
//!   writes only.
//! - [`search`] tries all orders. It knows every operation, and is for short histories.
//!
//! Two more judge what is not in such answers: [`sessions`] that nothing was done twice, [`lost`] that what
//! was acknowledged is still there at the end. [`Evidence`] asks all of them. [`counters`] judges additions.
//!
//! An operation without an answer is in doubt: it may have taken effect at any time after its call, or never.
//!
//! A value with a time to live is judged as if somebody removed it when that is over, at a time between two
//! bounds ([`Operation::expiry`]). So it may not be gone before them, be there after them, or be there again.
//! A write that asks for a version is judged when it arrives: it may still replace a value whose time is over
//! before it takes effect.
#![forbid(unsafe_code)]

pub mod counters;
pub mod lost;
mod operation;
mod report;
pub mod search;
pub mod sessions;
pub mod sweep;
#[cfg(test)]
mod tests;
pub mod zones;

pub use operation::{Action, Operation, Outcome, Value};
pub use report::{Evidence, Report};

use std::collections::BTreeMap;

/// Two operations that no order explains, or one: in words, with both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which judge says so, and by which rule.
    pub rule: &'static str,
    /// The guilty ones.
    pub guilty: Vec<Operation>,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.rule)?;
        self.guilty.iter().try_for_each(|operation| write!(f, "\n  {operation}"))
    }
}

/// Operations of all clients, in any order.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<Operation>);

impl History {
    /// Adds one. Whatever end it has, in doubt it has none.
    pub fn push(&mut self, operation: Operation) {
        let end = if operation.in_doubt() { sweep::NEVER } else { operation.end };
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
    fn by_key(&self) -> BTreeMap<u32, Vec<Operation>> {
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

    /// Asks all judges that need nothing else; the search gives up on a key after `steps` and then says
    /// nothing of it.
    pub fn judge(&self, steps: u64) -> Result<(), Violation> {
        let report = Evidence { history: self, answers: &[], left: &[], steps }.judge();
        report.violation.map_or(Ok(()), Err)
    }
}
