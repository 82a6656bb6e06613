//! What the commands that look at a data directory share.

use std::path::Path;

use longarm_server::{DirectoryReport, EntryAt, Look, LookError, ServedReport};
use serde_json::{Value, json};

use crate::human;
use crate::output::{Exit, Failure, Output};
use crate::structures::check::broken;

/// Names of the states of a segment, by number.
pub const STATES: [&str; 6] = ["free", "active", "sealed", "run heads", "run bodies", "quarantined"];

/// Looks at a directory, and shows each whole entry.
pub fn look(dir: &Path, how: Look, show: &mut dyn FnMut(&EntryAt<'_>)) -> Result<DirectoryReport, Failure> {
    longarm_server::look(dir, how, show).map_err(|error| failure(&error))
}

fn failure(error: &LookError) -> Failure {
    let exit = match error {
        error if error.is_damage() => Exit::Corrupt,
        LookError::Foreign(_) => Exit::Usage,
        LookError::InUse(_) | LookError::Served(_) => Exit::Refused,
        _ => Exit::System,
    };
    Failure::new(exit, error.to_string())
}

/// Looks at the directory of a server that serves from persistent memory, if it is one.
pub fn look_served(dir: &Path) -> Result<Option<ServedReport>, Failure> {
    longarm_server::look_served(dir).map_err(|error| failure(&error))
}

/// Shows what is in such a directory; fails, and names what is damaged, if anything is.
pub fn show_served(dir: &Path, report: &ServedReport, output: &mut Output) -> Result<(), Failure> {
    let ServedReport { items, entries, bytes, put_right, problems, problem_count } = report;
    let sound = *problem_count == 0;
    let right = [
        ("unlocked", put_right.unlocked),
        ("wiped", put_right.wiped),
        ("shown", put_right.shown),
        ("twice", put_right.twice),
    ];
    if output.json() {
        let right: serde_json::Map<String, Value> =
            right.iter().map(|(name, count)| (name.to_string(), (*count).into())).collect();
        output.value(&json!({
            "of": dir.display().to_string(), "sound": sound,
            "items": items, "entries": entries, "bytes": bytes,
            "put_right": right, "damaged": problem_count, "problem": problems,
        }))?;
    } else {
        let n = human::count;
        let right: Vec<String> = right.iter().map(|(name, count)| format!("{} {name}", n(*count))).collect();
        output.line(&format!("data directory {}, from which a server serves", dir.display()))?;
        output.line(&format!(
            "items       {}, {} of them entries ({})",
            n(*items),
            n(*entries),
            human::bytes(*bytes)
        ))?;
        output.line(&format!("put right   at the next start: {}", right.join(", ")))?;
        if sound {
            output.line("sound: every record, and every entry that one names, verifies")?;
        }
    }
    if sound {
        return Ok(());
    }
    let text = format!("{}: {}", dir.display(), broken(problems, *problem_count));
    Err(Failure::new(Exit::Corrupt, text).hint("put back a copy of the directory"))
}

/// Fails, and names what is damaged, if anything is.
pub fn sound(dir: &Path, report: &DirectoryReport) -> Result<(), Failure> {
    if report.is_sound() {
        return Ok(());
    }
    let text = format!("{}: {}", dir.display(), broken(&report.problems, report.problems.len() as u64));
    Err(Failure::new(Exit::Corrupt, text)
        .hint("restore a backup; or `longarm server --data DIR --accept-damage` does without it"))
}

/// Shows what is in a directory, with more that the caller found.
pub fn show(
    dir: &Path,
    report: &DirectoryReport,
    more: Option<Value>,
    output: &mut Output,
) -> Result<(), Failure> {
    if !output.json() {
        return output.write(to_text(dir, report).as_bytes());
    }
    let mut value = to_json(dir, report);
    if let Some(Value::Object(more)) = more {
        more.into_iter().for_each(|(name, found)| value[name] = found);
    }
    output.value(&value)
}

fn to_json(dir: &Path, report: &DirectoryReport) -> Value {
    let states: serde_json::Map<String, Value> =
        STATES.iter().zip(report.states).map(|(name, n)| (name.replace(' ', "_"), n.into())).collect();
    let note = report.note.as_ref().map(|note| {
        json!({
            "term": note.term.to_string(), "version": note.stable.0, "ceiling": note.ceiling.0,
            "ended": note.ended, "durability": if note.sync { "sync" } else { "async" },
        })
    });
    json!({
        "of": dir.display().to_string(), "sound": report.is_sound(),
        "group": format!("{:016x}", report.group),
        "promised": report.promised.to_string(), "note": note,
        "segments": report.segments, "table": report.table, "states": states,
        "entries": report.entries, "tombstones": report.tombstones, "bytes": report.bytes,
        "newest": report.newest.0, "tail": report.dropped, "torn_copies": report.torn_copies,
        "damaged": report.damaged, "problem": report.problems,
    })
}

fn to_text(dir: &Path, report: &DirectoryReport) -> String {
    let n = human::count;
    let mut text = format!("data directory {} of group {:016x}\n", dir.display(), report.group);
    match &report.note {
        None => text.push_str("note        none: nothing was ever acknowledged\n"),
        Some(note) => text.push_str(&format!(
            "note        term {}, {}, all up to version {} is there, new ones go above {}; its server {}\n",
            note.term,
            if note.sync { "sync" } else { "async" },
            note.stable.0,
            note.ceiling.0,
            if note.ended { "ended in order" } else { "did not end in order, or still runs" },
        )),
    }
    let states = STATES.iter().zip(report.states).filter(|(_, count)| *count > 0);
    let states: Vec<String> = states.map(|(name, count)| format!("{} {name}", n(count.into()))).collect();
    text.push_str(&format!(
        "arena       {} segments: {} table, {}\n",
        n(report.segments.into()),
        report.table,
        states.join(", "),
    ));
    text.push_str(&format!(
        "entries     {} up to version {}, {} of them deletes ({})\n",
        n(report.entries),
        report.newest.0,
        n(report.tombstones),
        human::bytes(report.bytes),
    ));
    text.push_str(&format!(
        "tail        {} entries go, not acknowledged as kept; {} copies of notes and pages are torn\n",
        n(report.dropped),
        report.torn_copies,
    ));
    if report.is_sound() {
        text.push_str("sound: everything that was acknowledged as kept verifies\n");
    }
    text
}
