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
//! Scans show pages of many keys, so that looking at each key alone is not enough: [`cycles`] judges all
//! operations and pages of a group together, [`scans`] the pages of each iterator. The search tries all
//! orders of them, too.
//!
//! Two more judge what is not in such answers: [`sessions`] that nothing was done twice, [`lost`] that what
//! was acknowledged is still there at the end. [`Evidence`] asks all of them. [`counters`] judges additions.
//!
//! [`losses`] judges a group that may lose its last writes: what came back is what it held at a moment.
//!
//! An operation without an answer is in doubt: it may have taken effect at any time after its call, or never.
//!
//! A value with a time to live is judged as if somebody removed it when that is over, at a time between two
//! bounds ([`Operation::expiry`]). So it may not be gone before them, be there after them, or be there again.
//! A write that asks for a version is judged when it arrives: it may still replace a value whose time is over
//! before it takes effect.
#![forbid(unsafe_code)]

mod chains;
pub mod counters;
pub mod cycles;
mod graph;
mod history;
pub mod losses;
pub mod lost;
mod operation;
mod page;
mod report;
pub mod scans;
pub mod search;
pub mod sessions;
pub mod sweep;
#[cfg(test)]
mod tests;
mod violation;
pub mod zones;

pub use history::History;
pub use operation::{Invocation, NEVER, Operation, OperationOutcome, Value};
pub use page::{Direction, Item, Page};
pub use report::{Evidence, HistoryReport};
pub use violation::{Before, Deed, Violation};
