//! `longarm cas`: replaces a value only if no other client did.

use std::time::Duration;

use longarm_client::{Csn, Write};

use crate::conditional;
use crate::config::Config;
use crate::flags::{Source, duration};
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Replace a value if its version is still the expected one";

/// The arguments of `longarm cas`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Prints the new version. Ends with 1, and prints the version found, if it is another one."
)]
pub struct Args {
    /// Key to replace
    pub key: String,

    /// Version expected, as `get --with-version` shows it; 0 means the key must not exist
    pub version: u64,

    /// What to store
    #[command(flatten)]
    pub source: Source,

    /// The item is gone after this time, such as 10min
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Option<Duration>,
}

/// Replaces the value if the version is the expected one.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let value = args.source.read()?;
    let write = Write::put(args.key.as_bytes(), &value);
    let mut write = match args.version {
        0 => write.if_absent(),
        version => write.if_version(Csn(version)),
    };
    if let Some(ttl) = args.ttl {
        write = write.ttl(ttl);
    }
    conditional::write(&args.key, &write, config, output)
}
