//! `longarm put`: stores one value.

use std::time::Duration;

use longarm_client::Write;

use crate::conditional;
use crate::config::Config;
use crate::flags::{Source, duration};
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Store a value under a key";

/// The arguments of `longarm put`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Prints the new version. Ends with 1 if --if-absent or --if-present was not met.")]
pub struct Args {
    /// Key, 1 to 1,024 bytes
    pub key: String,

    /// What to store
    #[command(flatten)]
    pub source: Source,

    /// The item is gone after this time, such as 10min
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Option<Duration>,

    /// Only if the key does not exist
    #[arg(long, conflicts_with = "if_present")]
    pub if_absent: bool,

    /// Only if the key exists
    #[arg(long)]
    pub if_present: bool,
}

/// Stores the value.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let value = args.source.read()?;
    let mut write = Write::put(args.key.as_bytes(), &value);
    if let Some(ttl) = args.ttl {
        write = write.ttl(ttl);
    }
    if args.if_absent {
        write = write.if_absent();
    } else if args.if_present {
        write = write.if_present();
    }
    conditional::write(&args.key, &write, config, output)
}
