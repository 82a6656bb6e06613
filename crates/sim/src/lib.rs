//! The deterministic simulator: many machines in one world, one thread, one seed.
//!
//! [`world`] runs the code that ships, unchanged: the world answers what `longarm-host` would ask of the
//! operating system. The same seed gives the same run (I21).

mod drive;
pub mod failover;
pub mod faults;
pub mod judge;
mod memory;
pub mod notes;
mod operator;
pub mod ordered;
pub mod plan;
pub mod points;
pub mod reduce;
pub mod replicas;
pub mod run;
pub mod scenario;
pub mod scenarios;
mod stumbles;
pub mod timeline;
pub mod traps;
mod witness;
mod workload;
pub mod world;

#[cfg(test)]
mod tests;
