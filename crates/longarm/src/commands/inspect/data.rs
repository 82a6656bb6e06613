//! Inspects a data directory, at rest or while a server writes to it.

use std::collections::BTreeMap;
use std::path::Path;

use longarm_server::{EntryAt, Look};
use serde_json::{Value, json};

use crate::directories;
use crate::human::words;
use crate::output::{Exit, Failure, Output};

/// What was seen of a segment, or of a run.
struct Seen {
    of: Value,
    entries: u64,
    bytes: u64,
}

/// Inspects the directory, and reports on it: perhaps of a key, and with a list of its segments.
pub fn run(dir: &Path, key: Option<&str>, lists: bool, output: &mut Output) -> Result<Exit, Failure> {
    if let Some(report) = directories::look_served(dir)? {
        if key.is_some() || lists {
            let text = "of a directory from which a server serves keys and segments are not listed: start \
                        it, and inspect it by --address";
            return Err(Failure::new(Exit::Usage, text));
        }
        return directories::show_served(dir, &report, output).map(|()| Exit::Ok);
    }
    let (mut segments, mut versions) = (BTreeMap::<u32, Seen>::new(), Vec::new());
    let report = directories::look(dir, Look::Live, &mut |at| {
        if lists {
            let seen = segments.entry(at.used.segment).or_insert_with(|| begin(at));
            seen.entries += 1;
            seen.bytes += (at.entry.key.len() + at.entry.value.len()) as u64;
        }
        if key.is_some_and(|key| key.as_bytes() == at.entry.key) {
            versions.push((at.entry.csn, version(at)));
        }
    })?;
    // A copy that collection made is there beside what it is a copy of.
    versions.sort_by_key(|(csn, _)| *csn);
    let versions: Vec<Value> = versions.into_iter().map(|(_, version)| version).collect();
    let segments: Vec<Value> = segments.into_values().map(end).collect();
    let is_missing = key.is_some() && versions.is_empty();
    if output.json() {
        let mut more = json!({});
        if key.is_some() {
            more["key"] = Value::Array(versions);
        }
        if lists {
            more["by_segment"] = Value::Array(segments);
        }
        directories::show(dir, &report, Some(more), output)?;
    } else {
        directories::show(dir, &report, None, output)?;
        segments.iter().try_for_each(|segment| output.line(&words(segment)))?;
        versions.iter().try_for_each(|it| output.line(&format!("key         {}", words(it))))?;
        if is_missing {
            output.note("the key is not there");
        }
    }
    directories::sound(dir, &report)?;
    Ok(if is_missing { Exit::NotFound } else { Exit::Ok })
}

fn begin(at: &EntryAt<'_>) -> Seen {
    let line = &at.used.line;
    let of = json!({
        "segment": at.used.segment, "state": format!("{:?}", line.state), "term": line.term.to_string(),
        "generation": line.generation, "stream": line.stream, "stride": line.stride, "run": line.run,
        "claim": line.claim,
    });
    Seen { of, entries: 0, bytes: 0 }
}

fn end(seen: Seen) -> Value {
    let mut of = seen.of;
    of["entries"] = seen.entries.into();
    of["key_and_value_bytes"] = seen.bytes.into();
    of
}

fn version(at: &EntryAt<'_>) -> Value {
    let entry = at.entry;
    json!({
        "version": entry.csn.0, "kind": format!("{:?}", entry.kind), "value_bytes": entry.value.len(),
        "expiry_ms": entry.expiry.0, "entry": format!("{:#x}", at.offset), "segment": at.used.segment,
        "term": entry.term.to_string(), "stream": entry.stream, "position": entry.position,
        "moved": entry.moved,
    })
}
