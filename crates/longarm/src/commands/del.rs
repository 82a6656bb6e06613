//! `longarm del`: removes keys.

use longarm_client::{Error, Reply, Write};
use serde_json::json;

use crate::config::Config;
use crate::connect;
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Remove keys";

/// The arguments of `longarm del`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Prints how many keys were there. Ends with 1 if any did not exist.")]
pub struct Args {
    /// Keys to remove
    #[arg(required = true, value_name = "KEY")]
    pub keys: Vec<String>,
}

/// Removes the keys, one after another.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let mut client = connect::connect(config, "longarm del")?;
    let mut removed = 0;
    let mut missing = Vec::new();
    for key in &args.keys {
        let failed = |error: Error| {
            let mut failure = connect::failure(&error, config);
            failure.message = format!("{key}: {}; {removed} keys before it were removed", failure.message);
            failure
        };
        match client.write(&Write::delete(key.as_bytes())).map_err(failed)? {
            Reply::Done(_) => removed += 1,
            Reply::NotFound => missing.push(key),
            other => return Err(connect::unexpected(&other)),
        }
    }
    if output.json() {
        output.value(&json!({ "removed": removed, "missing": missing }))?;
    } else {
        output.line(&removed.to_string())?;
    }
    for key in &missing {
        output.note(&format!("not found: {key}"));
    }
    Ok(if missing.is_empty() { Exit::Ok } else { Exit::NotFound })
}
