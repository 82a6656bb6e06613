//! `longarm put`: stores one value.

use std::time::Duration;

use longarm_client::{Reply, Write};
use serde_json::json;

use super::connect;
use super::value::{Source, duration};
use crate::config::Config;
use crate::output::{Exit, Failure, Output};

/// What it does.
pub const ABOUT: &str = "Store a value under a key";

/// Its arguments.
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
    conditional(&args.key, &write, config, output)
}

/// Sends a write that may have a condition, and prints the version it made or met.
pub(super) fn conditional(
    key: &str,
    write: &Write<'_>,
    config: &Config,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut client = connect::connect(config, "longarm write")?;
    let reply = client.write(write).map_err(|error| connect::failure(&error, config))?;
    let (stored, version) = match reply {
        Reply::Done(version) => (true, Some(version)),
        Reply::Mismatch(version) => (false, version),
        Reply::NotFound => (false, None),
        other => return Err(unexpected(&other)),
    };
    let number = version.map_or(0, |version| version.0);
    if output.json() {
        output.value(&json!({ "key": key, "stored": stored, "version": number }))?;
    } else {
        output.line(&number.to_string())?;
    }
    if stored {
        return Ok(Exit::Ok);
    }
    output.note(&match version {
        Some(version) => format!("not stored: {key} has version {}", version.0),
        None => format!("not stored: {key} does not exist"),
    });
    Ok(Exit::NotFound)
}

/// An answer that this request cannot have.
pub(super) fn unexpected(reply: &Reply) -> Failure {
    Failure::new(Exit::Corrupt, format!("the server gave an answer of another kind: {reply:?}"))
        .hint("client and server may be of different versions")
}
