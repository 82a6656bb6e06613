//! `longarm dump`: writes out every item, from a live server one-sidedly or from a saved arena.

mod sink;
mod tree;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use longarm_base::UnixMillis;
use longarm_client::Item;
use serde_json::json;

use super::inspect::saved::Saved;
use crate::config::Config;
use crate::connect;
use crate::human;
use crate::output::{Exit, Failure, Output};
use sink::Sink;

/// What it does.
pub const ABOUT: &str = "Write out all items";

const AFTER: &str = "\
An item that is there throughout is written; one that comes or goes meanwhile may be, and one may be written
twice if the index grows meanwhile (the later one is newer). In a tree, keys that cannot be relative paths are
named on stderr and passed over (4), and times to live are lost. `longarm load` reads every form back.";

/// How items are written.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object an item; bytes that are no Unicode text are base64 under key64 and value64
    Jsonl,
    /// Key, value and ttl_ms, separated by tabs; tabs, line ends and backslashes are escaped
    Tsv,
    /// Key, value and ttl_ms, comma-separated (RFC 4180), bytes as they are
    Csv,
    /// A file an item, the key is its relative path
    Tree,
}

/// Its arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// How to write them
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    pub format: Format,

    /// File to write instead of stdout; for a tree a directory, which must be empty or not exist yet
    #[arg(long, value_name = "PATH", required_if_eq("format", "tree"))]
    pub output: Option<PathBuf>,

    /// Write values of CSV and TSV as base64
    #[arg(long)]
    pub base64: bool,

    /// Only keys that begin so; in a tree they go without it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,

    /// Read the saved arena in this directory instead of a server's memory
    #[arg(long, value_name = "DIR")]
    pub arena: Option<PathBuf>,
}

/// Keys that could not be written and are named; further ones are counted.
const NAMED_MAX: usize = 20;

/// Writes all items out.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let mut sink = Sink::open(&args)?;
    let mut writer =
        Writer { prefix: args.prefix.as_bytes(), now: UnixMillis(0), failure: None, sink: &mut sink };
    match &args.arena {
        Some(directory) => {
            writer.now = UnixMillis(
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            );
            Saved::open(directory)?.items(|item| writer.take(item))?;
        }
        None => {
            let mut client = connect::connect(config, "longarm dump")?;
            let failed = |error: longarm_client::Error| connect::failure(&error, config);
            for group in 0..client.topology().groups().len() {
                let client = client.group(group).map_err(failed)?;
                writer.now = client.server_unix().map_err(failed)?;
                client.walk(|item| writer.take(item)).map_err(failed)?;
                if writer.failure.is_some() {
                    break;
                }
            }
        }
    }
    if let Some(failure) = writer.failure.take() {
        return Err(failure);
    }
    let summary = sink.finish()?;
    for refused in summary.refused.iter().take(NAMED_MAX) {
        output.warn(&format!("passed over {refused}"));
    }
    if args.output.is_some() {
        say(&summary, output)?;
    }
    match summary.refused_count {
        0 => Ok(Exit::Ok),
        n => Err(Failure::new(Exit::Refused, format!("{} keys cannot be paths of a tree", human::count(n)))
            .hint("--format jsonl takes any key")),
    }
}

fn say(summary: &sink::Summary, output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        return output.value(&json!({
            "items": summary.items, "bytes": summary.bytes, "passed_over": summary.refused_count,
        }));
    }
    output.line(&format!("wrote {} items, {}", human::count(summary.items), human::bytes(summary.bytes)))
}

/// Takes items from a walk until something fails.
struct Writer<'a> {
    prefix: &'a [u8],
    now: UnixMillis,
    failure: Option<Failure>,
    sink: &'a mut Sink,
}

impl Writer<'_> {
    fn take(&mut self, item: Item) -> bool {
        if !item.key.starts_with(self.prefix) || item.expiry.expired(self.now) {
            return true;
        }
        let ttl_ms = (item.expiry != UnixMillis::NEVER).then(|| item.expiry.0 - self.now.0);
        match self.sink.item(&item.key, &item.value, ttl_ms) {
            Ok(()) => true,
            Err(failure) => {
                self.failure = Some(failure);
                false
            }
        }
    }
}
