//! `longarm stats`: what a server has done and holds.

use std::time::{Duration, Instant};

use longarm_client::{Client, ClusterClient, Options};
use serde_json::{Map, Value};

use crate::config::Config;
use crate::connect;
use crate::flags::duration;
use crate::human;
use crate::ordered;
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Show a server's counters, memory and clients";

/// The arguments of `longarm stats`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Show them again every so often, with rates, until interrupted
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub watch: Option<Duration>,
}

/// Shows the statistics, once or again and again: of each group of a cluster, as far as it has a leader.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let failed = |error: longarm_client::Error| connect::failure(&error, config);
    let mut client = connect::connect(config, "longarm stats")?;
    let groups = client.topology().groups().len();
    let mut before: Vec<Option<(Instant, Value)>> = vec![None; groups];
    loop {
        let mut exit = Exit::Ok;
        for (number, before) in before.iter_mut().enumerate() {
            let id = client.topology().groups()[number].id;
            let title = format!("group {} of {groups}, {id:016x}", number + 1);
            let text = match client.group(number).and_then(Client::stats) {
                Ok(text) => text,
                Err(error) if groups == 1 => return Err(failed(error)),
                Err(error) => {
                    let failure = failed(error);
                    output.note(&format!("{title}: {}", failure.message));
                    exit = failure.exit;
                    continue;
                }
            };
            let now = Instant::now();
            let mut stats: Value = serde_json::from_str(&text).map_err(|error| {
                Failure::new(Exit::Corrupt, format!("the server's statistics are no JSON: {error}"))
            })?;
            if id != 0 || stats["group"].is_object() {
                add_indexes(&mut stats, &client, number, config)?;
            }
            if output.json() {
                output.value(&stats)?;
            } else {
                if groups > 1 {
                    output.line(&title)?;
                }
                let since = before.as_ref().map(|(then, stats)| (now.duration_since(*then), stats));
                output.write(show(&stats, since).as_bytes())?;
            }
            *before = Some((now, stats));
        }
        let Some(every) = args.watch else { return Ok(exit) };
        std::thread::park_timeout(every);
        if !output.json() {
            output.line("")?;
        }
    }
}

/// Adds how the ordered indexes of the replicas of a group stand, if any of them keeps one: the leader knows
/// nothing of them.
fn add_indexes(
    stats: &mut Value,
    client: &ClusterClient,
    number: usize,
    config: &Config,
) -> Result<(), Failure> {
    let group = &client.topology().groups()[number];
    let options = Options { group: group.id, ..connect::options(config, "longarm stats")? };
    let indexes = ordered::ask_all(&connect::transport(config)?, &group.addresses, &options);
    if !indexes.is_empty() {
        stats["ordered"] = Value::Array(indexes);
    }
    Ok(())
}

/// Formats lines for people. A number that grew since `before` has its rate beside it.
fn show(stats: &Value, before: Option<(Duration, &Value)>) -> String {
    let mut text = String::new();
    if let Value::Object(members) = stats {
        lines(&mut text, "", members, before);
    }
    text
}

fn lines(text: &mut String, path: &str, members: &Map<String, Value>, before: Option<(Duration, &Value)>) {
    for (name, value) in members {
        let label = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let before = before.and_then(|(time, stats)| Some((time, stats.get(name)?)));
        match value {
            Value::Object(inner) => lines(text, &label, inner, before),
            Value::Array(items) => {
                text.push_str(&format!("{label:<24}{:>20}\n", items.len()));
                for item in items {
                    text.push_str(&format!("  {}\n", one_line(item)));
                }
            }
            value => {
                let rate = before.map(|(time, old)| rate(time, old, value)).unwrap_or_default();
                text.push_str(&format!("{label:<24}{:>20}{rate}\n", scalar(name, value)));
            }
        }
    }
}

/// Names whose numbers are identities, not amounts.
const NAMES: [&str; 2] = ["boot", "pid"];

fn scalar(name: &str, value: &Value) -> String {
    let is_size = name.ends_with("bytes") || name.starts_with("memory_");
    match (value.as_u64(), value) {
        (Some(number), _) if is_size => human::bytes(number),
        (Some(number), _) if name.ends_with("_ms") => human::time(Duration::from_millis(number)),
        (Some(number), _) if !NAMES.contains(&name) => human::count(number),
        (None, Value::Number(number)) => format!("{:.3}", number.as_f64().unwrap_or(f64::NAN)),
        (None, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

fn rate(time: Duration, old: &Value, new: &Value) -> String {
    let grown = new.as_u64().zip(old.as_u64()).and_then(|(new, old)| new.checked_sub(old));
    match grown {
        Some(grown) if grown > 0 => format!("  +{}", human::rate(grown, time)),
        _ => String::new(),
    }
}

fn one_line(item: &Value) -> String {
    match item {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let words = members.iter().map(|(name, value)| format!("{name} {}", scalar(name, value)));
            words.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_grow_show_their_rate() {
        let old = json!({ "requests": { "put": 1000 }, "items": 5, "index_bytes": 1 << 20 });
        let new = json!({ "requests": { "put": 5000 }, "items": 5, "index_bytes": 1 << 20,
            "clients": [{ "name": "a", "requests": 7 }] });
        let text = show(&new, Some((Duration::from_secs(2), &old)));
        assert!(text.contains("requests.put") && text.contains("5,000  +2,000/s\n"), "{text}");
        assert!(text.contains("1.0 MiB\n"), "{text}");
        assert!(text.contains("  name a, requests 7\n"), "{text}");
    }
}
