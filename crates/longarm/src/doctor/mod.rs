//! Examines a machine, and changes nothing on it; only a directory that is named to be measured has a file
//! for a moment ([`disk`]). Every other fact comes from below a root directory, from a few
//! numbers, or from what the verbs library told ([`probe`]), so that tests can invent a machine.

pub mod disk;
mod finding;
mod machine;
mod memory;
mod network;
pub mod probe;
mod processor;
mod rdma;

#[cfg(test)]
mod tests;

use crate::config::Config;
pub use finding::{Finding, Verdict};
pub use machine::Machine;

/// Examines everything, in the order it is printed.
pub fn examine(machine: &Machine, config: &Config) -> Vec<Finding> {
    let mut findings = vec![
        processor::kernel(machine),
        processor::cores(machine, config),
        processor::flags(machine),
        processor::updates(machine, config),
        processor::clock(machine),
        memory::available(machine, config),
        memory::page(machine),
        memory::huge(machine, config),
        memory::shared_huge(machine),
        memory::lockable(machine, config),
        network::files(machine, config),
        network::nics(machine),
    ];
    findings.extend(rdma::all(machine, config));
    findings
}
