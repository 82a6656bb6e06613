//! Sends a write that may have a condition, for `longarm put` and `longarm cas`, and prints its outcome.

use longarm_client::{Reply, Write};
use serde_json::json;

use crate::config::Config;
use crate::connect;
use crate::output::{Exit, Failure, Output};

/// Sends a write that may have a condition, and prints the version that it made or met.
pub fn write(key: &str, write: &Write<'_>, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let mut client = connect::connect(config, "longarm write")?;
    let reply = client.write(write).map_err(|error| connect::failure(&error, config))?;
    let (stored, version) = match reply {
        Reply::Done(version) => (true, Some(version)),
        Reply::Mismatch(version) => (false, version),
        Reply::NotFound => (false, None),
        other => return Err(connect::unexpected(&other)),
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
