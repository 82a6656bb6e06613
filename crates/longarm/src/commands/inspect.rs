//! `longarm inspect`: walks every structure and checks every invariant.

mod key;
mod tree;

use std::path::{Path, PathBuf};

use longarm_index::control::ServerState;
use longarm_index::hash::{Discipline, Geometry};
use longarm_store::segment::{Line, SegmentState};
use serde_json::{Value, json};

use crate::config::Config;
use crate::human;
use crate::output::{Exit, Failure, Output};
use crate::structures::check::{Findings, Stillness, View, check};
use crate::structures::live::look;
use crate::structures::saved::Saved;

/// The line about the command in help texts.
pub const ABOUT: &str = "Walk and verify all structures of a live server or a saved arena";

/// The arguments of `longarm inspect`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Ends with 6, and names each broken invariant and its place, if anything is wrong.")]
pub struct Args {
    /// Inspect the saved arena in this directory instead of a live server's memory
    #[arg(long, value_name = "DIR")]
    pub arena: Option<PathBuf>,

    /// Show where this key is: pair, slot, entry
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,

    /// Also list every segment
    #[arg(long)]
    pub segments: bool,

    /// Walk and verify the ordered index of each replica that keeps one, and the entry of each of its items
    #[arg(long, conflicts_with_all = ["arena", "key", "segments"])]
    pub tree: bool,
}

/// Names of the states of a segment, by number.
const STATES: [&str; 6] = ["free", "active", "sealed", "run heads", "run bodies", "quarantined"];
/// Inspects the structures and reports on them.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    match &args.arena {
        None if args.tree => tree::run(config, output),
        Some(directory) => inspect_saved(&args, directory, output),
        None => inspect_live(&args, config, output),
    }
}

fn inspect_saved(args: &Args, directory: &Path, output: &mut Output) -> Result<Exit, Failure> {
    let saved = Saved::open(directory)?;
    let beat = saved.heartbeat()?;
    let stillness = if beat.state == ServerState::Closed { Stillness::Stopped } else { Stillness::CutOff };
    let what = match stillness {
        Stillness::Stopped => "its server said goodbye",
        _ => "its server was cut off, or still runs",
    };
    let of = format!("saved arena in {} ({what}, boot {:016x})", directory.display(), beat.boot);
    let geometry = saved.geometry()?;
    let findings = check(saved.view(), stillness, || saved.geometry())?;
    report(args, &of, &findings, &geometry, saved.view(), output)
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
            output.line(&words(segment))?;
        }
        match &key {
            Some(Some(place)) => output.line(&format!("key         {}", words(place)))?,
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
        "compared": findings.compared,
        "under_way": findings.between,
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
    if findings.between > 0 {
        text.push_str(&format!("under way   {} changes when the memory stood still\n", n(findings.between)));
    }
    if findings.problem_count == 0 {
        let aside = if findings.between > 0 { "but for what was under way " } else { "" };
        text.push_str(&format!("sound: {aside}every record verifies and every invariant holds\n"));
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

/// Formats a flat object as words.
fn words(value: &Value) -> String {
    let Value::Object(members) = value else { return value.to_string() };
    let word = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name} {text}"),
        other => format!("{name} {other}"),
    };
    members.iter().map(word).collect::<Vec<_>>().join(", ")
}
