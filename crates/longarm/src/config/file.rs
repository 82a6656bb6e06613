//! The file layer: turns TOML into [`Given`] values. An unknown key is an error that suggests the nearest
//! known key.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::nearest::nearest;
use super::settings::{SETTINGS, Setting, YES_OR_NO, retired};
use super::{Given, Origin};

/// Reads the settings that `text` states, and reports all faults in it. `path` only stands in messages.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Given>, Vec<String>> {
    let document = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        vec![format!("{}:{line}: {}", path.display(), error.message())]
    })?;
    let mut reader = Reader { path, text, given: Vec::new(), faults: Vec::new() };
    reader.table("", document.get_ref());
    // The parser keeps tables in an order of its own, so the settings are sorted by their places in the file.
    reader.given.sort_by_key(|given| match given.origin {
        Origin::File(_, line) => line,
        _ => 0,
    });
    if reader.faults.is_empty() { Ok(reader.given) } else { Err(reader.faults) }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    given: Vec<Given>,
    faults: Vec<String>,
}

impl Reader<'_> {
    /// Reads a table and the tables in it, which nest as deep as keys have dots. The parser bounds the
    /// recursion.
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key = format!("{prefix}{}", name.get_ref());
            let line = line_of(self.text, name.span().start);
            match (Setting::find(&key), value.get_ref()) {
                (Some(setting), _) => self.value(setting, line, value),
                (None, DeValue::Table(inner)) if is_table(&key) => self.table(&format!("{key}."), inner),
                (None, _) => self.unknown(&key, line),
            }
        }
    }

    fn value(&mut self, setting: &'static Setting, line: usize, value: &Spanned<DeValue<'_>>) {
        let values = match value.get_ref() {
            DeValue::Array(items) if setting.list => {
                items.iter().map(|item| scalar(item.get_ref())).collect()
            }
            DeValue::Boolean(yes) if setting.form == YES_OR_NO => Some(vec![yes.to_string()]),
            other => scalar(other).map(|text| vec![text]),
        };
        let origin = Origin::File(self.path.to_path_buf(), line);
        match values {
            Some(values) => self.given.push(Given { key: setting.key, values, origin }),
            None => {
                let form =
                    if setting.list { "a string or a list of strings" } else { "a string or a number" };
                self.faults.push(format!("{} ({origin}): expected {form}", setting.key));
            }
        }
    }

    fn unknown(&mut self, key: &str, line: usize) {
        let near = nearest(key, SETTINGS.iter().map(|setting| setting.key));
        let hint = match (retired(key), near) {
            (Some(advice), _) => advice.to_string(),
            (None, Some(known)) => format!("did you mean {known:?}?"),
            (None, None) => "`longarm --print-config` lists the known ones".to_string(),
        };
        self.faults.push(format!("{}:{line}: unknown setting {key:?}; {hint}", self.path.display()));
    }
}

/// Whether the table of this name has a setting.
fn is_table(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}
