//! What the commands about backups share.

use longarm_backup::{BackupError, Checked};
use serde_json::{Value, json};

use crate::human;
use crate::output::{Exit, Failure};

/// Turns an error of a backup into a failure that the user of the program understands.
pub fn failure(error: &BackupError) -> Failure {
    let exit = match error {
        error if error.is_damage() => Exit::Corrupt,
        BackupError::NotEmpty { .. } | BackupError::NotDirectory { .. } | BackupError::Absent { .. } => {
            Exit::Usage
        }
        BackupError::Stream { .. } | BackupError::OfServer { .. } => Exit::Usage,
        BackupError::Unrelated { .. } | BackupError::TooSmall { .. } => Exit::Usage,
        _ => Exit::System,
    };
    Failure::new(exit, error.to_string())
}

/// A number for a new backup.
pub fn fresh_id() -> String {
    // Without random numbers the time tells backups apart.
    let drawn = longarm_host::random().map_or(longarm_host::unix().0, |[drawn]| drawn);
    format!("{drawn:016x}")
}

/// What a backup has, for programs.
pub fn to_json(checked: &Checked) -> Value {
    let manifest = &checked.manifest;
    json!({
        "id": manifest.id, "group": manifest.group, "version": manifest.version,
        "backups": checked.backups, "entries": checked.entries, "tombstones": checked.tombstones,
        "segments": checked.segments, "bytes": checked.bytes, "parts": manifest.parts.len(),
        "since": manifest.since.as_ref().map(|since| since.path.display().to_string()),
    })
}

/// What a backup has, for people.
pub fn to_text(checked: &Checked) -> String {
    let manifest = &checked.manifest;
    let older = match checked.backups {
        1 => String::new(),
        2 => ", with an older one that it rests on".to_string(),
        count => format!(", with {} older ones that it rests on", human::count(count as u64 - 1)),
    };
    format!(
        "version {} of group {}: {} entries, {} of them deletes, of {} segments, in {}{older}",
        manifest.version,
        manifest.group,
        human::count(checked.entries),
        human::count(checked.tombstones),
        human::count(checked.segments),
        human::bytes(checked.bytes),
    )
}
