//! `longarm doctor`: what this machine has, what it lacks, and what to do about it.

use crate::config::Config;
use crate::doctor::{Machine, Verdict, examine};
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str =
    "Examine this machine: memory, cores, kernel, NICs, limits, and what to do about each";

/// The arguments of `longarm doctor`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Ends with 7 if a line is bad: a server with these settings would not start or work.")]
pub struct Args {}

/// Prints a line for each thing examined.
pub fn run(_args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let findings = examine(&Machine::this(config), config);
    for finding in &findings {
        if output.json() {
            output.value(&finding.to_json())?;
        } else {
            output.write(finding.to_text().as_bytes())?;
        }
    }
    let bad = findings.iter().any(|finding| finding.verdict == Verdict::Bad);
    Ok(if bad { Exit::System } else { Exit::Ok })
}
