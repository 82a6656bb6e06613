//! `longarm doctor`: what this machine has, what it lacks, and what to do about it.

use std::path::PathBuf;

use crate::config::Config;
use crate::doctor::{Machine, Verdict, disk, examine};
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str =
    "Examine this machine: memory, cores, kernel, NICs, limits, and what to do about each";

/// The arguments of `longarm doctor`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Ends with 7 if a line is bad: a server with these settings would not start or work.")]
pub struct Args {
    /// Directory whose disk is measured: how long it takes until a few bytes are surely there. It has a file
    /// for two seconds at most. Also whether it is on persistent memory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Prints a line for each thing examined.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let mut findings = examine(&Machine::this(config), config);
    findings.extend(args.data.iter().flat_map(|dir| [disk::sync(dir), disk::persistent(dir)]));
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
