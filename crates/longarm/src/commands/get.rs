//! `longarm get`: values of keys, read one-sidedly.

use std::io::IsTerminal;
use std::path::PathBuf;

use longarm_client::{ClusterClient, Csn};
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::connect;
use crate::items::record;
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Print the value of a key";

/// The arguments of `longarm get`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Ends with 1 if any key does not exist.")]
pub struct Args {
    /// Keys to look up. The value of one is printed byte for byte (on a terminal with a line end); several
    /// are a line each: key, tab, value
    #[arg(required = true, value_name = "KEY")]
    pub keys: Vec<String>,

    /// Write the bytes of the values and nothing else, no line end on a terminal either
    #[arg(long, conflicts_with = "exists")]
    pub raw: bool,

    /// Write the value of the one key to this file instead of stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["exists", "raw"])]
    pub output: Option<PathBuf>,

    /// Print nothing; only the exit code says whether all keys exist
    #[arg(long)]
    pub exists: bool,

    /// Show the version, for `cas`, and a tab before the value
    #[arg(long, conflicts_with_all = ["exists", "raw", "output"])]
    pub with_version: bool,
}

/// Looks the keys up and prints what it finds.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    if args.output.is_some() && args.keys.len() > 1 {
        return Err(Failure::new(Exit::Usage, "--output takes the value of one key")
            .hint("name one key, or use `longarm dump --format tree`"));
    }
    let mut client = connect::connect(config, "longarm get")?;
    let mut missing = false;
    for key in &args.keys {
        let found = look(&mut client, key, args.exists).map_err(|error| connect::failure(&error, config))?;
        missing |= found.is_none();
        show(&args, key, found, output)?;
    }
    Ok(if missing { Exit::NotFound } else { Exit::Ok })
}

fn look(
    client: &mut ClusterClient,
    key: &str,
    exists: bool,
) -> Result<Option<(Vec<u8>, Csn)>, longarm_client::Error> {
    if exists {
        return Ok(client.exists(key.as_bytes())?.then(|| (Vec::new(), Csn::NONE)));
    }
    client.get_versioned(key.as_bytes())
}

fn show(args: &Args, key: &str, found: Option<(Vec<u8>, Csn)>, output: &mut Output) -> Result<(), Failure> {
    let Some((value, version)) = found else {
        if output.json() {
            return output.value(&json!({ "key": key, "found": false }));
        }
        if !args.exists {
            output.note(&format!("not found: {key}"));
        }
        return Ok(());
    };
    if let Some(path) = &args.output {
        std::fs::write(path, &value).map_err(|error| Failure::io("write", path, &error))?;
    }
    if output.json() {
        let mut object = Map::new();
        object.insert("key".into(), key.into());
        object.insert("found".into(), true.into());
        if args.output.is_some() {
            object.insert("bytes".into(), value.len().into());
        } else if !args.exists {
            record::set(&mut object, "value", &value);
        }
        if !args.exists {
            object.insert("version".into(), version.0.into());
        }
        return output.value(&Value::Object(object));
    }
    if args.exists || args.output.is_some() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let several = args.keys.len() > 1 && !args.raw;
    if several {
        bytes.extend_from_slice(key.as_bytes());
        bytes.push(b'\t');
    }
    if args.with_version {
        bytes.extend_from_slice(format!("{}\t", version.0).as_bytes());
    }
    bytes.extend_from_slice(&value);
    if several || (!args.raw && std::io::stdout().is_terminal()) {
        bytes.push(b'\n');
    }
    output.write(&bytes)
}
