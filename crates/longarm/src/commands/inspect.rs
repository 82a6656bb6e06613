//! `longarm inspect`: walks every structure and checks every invariant.

mod data;
mod key;
mod tree;

use std::path::PathBuf;

use longarm_index::hash::{Discipline, Geometry};
use longarm_store::segment::{Line, SegmentState};
use serde_json::{Value, json};

use crate::config::Config;
use crate::directories::STATES;
use crate::human;
use crate::output::{Exit, Failure, Output};
use crate::structures::check::{Findings, View};
use crate::structures::live::look;

/// The line about the command in help texts.
pub const ABOUT: &str = "Walk and verify all structures of a live server, or a data directory";

/// The arguments of `longarm inspect`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Ends with 6, and names each broken invariant and its place, if anything is wrong. A \
                        data directory may be that of a server that runs: it is not locked, nothing is \
                        changed, and what is shown is what a start after a kill would find, about now."
)]
pub struct Args {
    /// Inspect the data directory of a server, which may run, instead of a live server's memory
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Show where this key is: pair, slot, entry; in a data directory, each of its versions
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,

    /// Also list every segment
    #[arg(long)]
    pub segments: bool,

    /// Walk and verify the ordered index of each replica that keeps one, and the entry of each of its items
    #[arg(long, conflicts_with_all = ["data", "key", "segments"])]
    pub tree: bool,
}

/// Inspects the structures and reports on them.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    match &args.data {
        None if args.tree => tree::run(config, output),
        Some(dir) => data::run(dir, args.key.as_deref(), args.segments, output),
        None => inspect_live(&args, config, output),
    }
}

fn inspect_live(args: &Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    look(config, args.key.as_deref(), |of, findings, geometry, view| {
        exit = report(args, of, findings, geometry, view, output)?;
        Ok(())
    })?;
    Ok(exit)
}

fn report(
    args: &Args,
    of: &str,
    findings: &Findings,
    geometry: &Geometry,
    view: View<'_>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let key = match &args.key {
        None => None,
        Some(key) => {
            let located = key::locate(key.as_bytes(), geometry, view);
            Some(located.map_err(|why| Failure::new(Exit::Corrupt, format!("looking for {key}: {why}")))?)
        }
    };
    let segments = if args.segments { segments(findings, view) } else { Vec::new() };
    if output.json() {
        let mut value = to_json(of, findings);
        if let Some(key) = &key {
            value["key"] = key.clone().unwrap_or(Value::Null);
        }
        if args.segments {
            value["by_segment"] = Value::Array(segments);
        }
        output.value(&value)?;
    } else {
        output.write(to_text(of, findings).as_bytes())?;
        for segment in &segments {
            output.line(&human::words(segment))?;
        }
        match &key {
            Some(Some(place)) => output.line(&format!("key         {}", human::words(place)))?,
            Some(None) => output.note("the key is not there"),
            None => {}
        }
    }
    findings.sound()?;
    Ok(if matches!(key, Some(None)) { Exit::NotFound } else { Exit::Ok })
}

fn to_json(of: &str, findings: &Findings) -> Value {
    let (index, store) = (&findings.index, &findings.store);
    let states: serde_json::Map<String, Value> =
        STATES.iter().zip(store.states).map(|(name, n)| (name.replace(' ', "_"), n.into())).collect();
    json!({
        "of": of,
        "sound": findings.problem_count == 0,
        "problems": findings.problem_count,
        "problem": findings.problems,
        "index": {
            "tables": index.tables, "pairs": index.pairs, "moved": index.moved, "extended": index.extended,
            "slots": index.slots, "items": index.items, "inline": index.inline,
            "updates": index.discipline.map(Discipline::name),
        },
        "arena": {
            "segments": store.segments, "table": store.table, "states": states,
            "live_entries": store.total.live_entries, "live_bytes": store.total.live_bytes,
            "superseded": store.total.superseded, "unfinished": store.total.unfinished,
        },
    })
}

fn to_text(of: &str, findings: &Findings) -> String {
    let (index, store) = (&findings.index, &findings.store);
    let n = human::count;
    let mut text = format!("{of}\n");
    text.push_str(&format!(
        "index       {} tables, {} pairs ({} moved, {} extended), {} slots, updates {}\n",
        index.tables,
        n(index.pairs),
        n(index.moved),
        n(index.extended),
        n(index.slots),
        index.discipline.map_or("unknown", Discipline::name),
    ));
    text.push_str(&format!(
        "items       {}: {} inline, {} in the arena\n",
        n(index.items),
        n(index.inline),
        n(index.items - index.inline),
    ));
    let states = STATES.iter().zip(store.states).filter(|(_, count)| *count > 0);
    let states: Vec<String> = states.map(|(name, count)| format!("{} {name}", n(count.into()))).collect();
    text.push_str(&format!(
        "arena       {} segments: {} table, {}\n",
        n(store.segments.into()),
        store.table,
        states.join(", "),
    ));
    text.push_str(&format!(
        "entries     {} live ({}), {} superseded, {} rooms without one\n",
        n(store.total.live_entries),
        human::bytes(store.total.live_bytes),
        n(store.total.superseded),
        n(store.total.unfinished),
    ));
    if findings.problem_count == 0 {
        text.push_str("sound: every record verifies and every invariant holds\n");
    }
    text
}

/// Describes every segment in use.
fn segments(findings: &Findings, view: View<'_>) -> Vec<Value> {
    let one = |segment: u32| {
        let line = Line::read(view.arena, view.sums, segment).ok()?;
        let found = findings.store.by_segment.get(segment as usize)?;
        (line.state != SegmentState::Free).then(|| {
            json!({
                "segment": segment, "state": format!("{:?}", line.state), "term": line.term.to_string(),
                "generation": line.generation, "stream": line.stream, "stride": line.stride,
                "run": line.run, "tail": line.tail,
                "live": found.live_entries, "live_bytes": found.live_bytes, "superseded": found.superseded,
            })
        })
    };
    (findings.store.table..findings.store.segments).filter_map(one).collect()
}
