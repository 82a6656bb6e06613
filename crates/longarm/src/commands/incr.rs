//! `longarm incr`: adds to a number.

use std::time::Duration;

use longarm_client::{Reply, Write};
use serde_json::json;

use crate::config::Config;
use crate::connect;
use crate::flags::duration;
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Add to the number stored under a key";

/// The arguments of `longarm incr`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Prints the sum. A missing key counts from 0; a value that is no number is refused (4)."
)]
pub struct Args {
    /// Key of a decimal number
    pub key: String,

    /// What to add; may be negative
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    pub by: i64,

    /// The item is gone this time after the addition, such as 10min; without it an expiry stays as it is
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Option<Duration>,
}

/// Adds, and prints the sum.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let mut client = connect::connect(config, "longarm incr")?;
    let failed = |error: longarm_client::Error| connect::failure(&error, config);
    let key = args.key.as_bytes();
    let sum = match client.write(&Write::increment(key, args.by)).map_err(failed)? {
        Reply::Number(sum, _) => sum,
        other => return Err(connect::unexpected(&other)),
    };
    if let Some(ttl) = args.ttl {
        // The sum stands, whatever becomes of the expiry. The failure says so, or a script would add again.
        client.touch(key, Some(ttl)).map_err(|error| {
            let mut failure = failed(error);
            failure.message = format!("the sum is {sum}, but its expiry was not set: {}", failure.message);
            failure
        })?;
    }
    if output.json() {
        output.value(&json!({ "key": args.key, "number": sum }))?;
    } else {
        output.line(&sum.to_string())?;
    }
    Ok(Exit::Ok)
}
