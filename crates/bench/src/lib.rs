//! Load generation and reports: the same workload, keys and clients against any number of stores, in one run
//! on one machine (NoSQL landscape 4.1).
//!
//! A [`Plan`] says what to do, [`open()`] (or a [`TargetFactory`] of one's own) to whom; [`run()`] does
//! it and returns a [`Report`], which prints itself as a table, as JSON, as `.hgrm` files and as SVG.
//! [`raw`] measures what the machine could do at best on the same kind of memory, and its RDMA
//! devices with the same requests.
//!
//! What makes a figure honest here: latencies of open loops count from the intended start (coordinated
//! omission), warm-up is excluded, runs are repeated and interleaved between the targets, values are checked,
//! CPU time of both sides is counted, and the report carries settings, seed, machine and versions.
#![forbid(unsafe_code)]

pub mod cpu;
pub mod driver;
mod open;
mod pause;
pub mod peer;
mod plan;
pub mod raw;
mod record;
pub mod report;
mod run;
mod spread;
pub mod url;
pub mod workload;

pub use driver::{Target, TargetFactory};
pub use open::{TargetOptions, open};
pub use plan::{Pace, Plan, Setting, Sweep};
pub use record::{Counts, Record};
pub use report::{Report, Style};
pub use run::{Around, BenchError, IdleResult, LoadResult, run, run_with};
pub use spread::Spread;

#[cfg(test)]
mod testing;
