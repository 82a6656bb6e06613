//! `longarm dump`: writes out every item of a live server, one-sidedly.

mod args;
mod sink;
mod tree;

use longarm_base::UnixMillis;
use longarm_client::{ClusterClient, Error, Item, Scan, ScanItem};
use serde_json::json;

use crate::config::Config;
use crate::connect;
use crate::human;
use crate::output::{Exit, Failure, Output};
pub use args::Args;
use sink::{NAMED_MAX, Sink};

/// The line about the command in help texts.
pub const ABOUT: &str = "Write out all items";

/// Writes all items out.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let mut sink = Sink::open(&args)?;
    let mut writer =
        Writer { prefix: args.prefix.as_bytes(), now: UnixMillis(0), failure: None, sink: &mut sink };
    let mut client = connect::connect(config, "longarm dump")?;
    let taken = if args.sorted { scan(&mut client, &mut writer) } else { walk(&mut client, &mut writer) };
    taken.map_err(|error| connect::failure(&error, config))?;
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

/// Takes the items of each group as they come.
fn walk(client: &mut ClusterClient, writer: &mut Writer<'_>) -> Result<(), Error> {
    for group in 0..client.topology().groups().len() {
        let client = client.group(group)?;
        writer.now = client.server_unix()?;
        client.walk(|item| writer.take(item))?;
        if writer.failure.is_some() {
            break;
        }
    }
    Ok(())
}

/// Takes the items of all groups in the order of their keys.
fn scan(client: &mut ClusterClient, writer: &mut Writer<'_>) -> Result<(), Error> {
    writer.now = client.group(0)?.server_unix()?;
    for item in client.scan(&Scan::prefix(writer.prefix)) {
        let ScanItem { key, value, csn, expiry } = item?;
        if !writer.take(Item { key, value, csn, expiry }) {
            break;
        }
    }
    Ok(())
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
