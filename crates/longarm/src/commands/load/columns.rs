//! Chooses the columns of a table that are key, value and time to live.

use std::path::Path;

use super::args::Args;
use crate::output::{Exit, Failure};

/// Columns by number, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Columns {
    pub(super) key: usize,
    /// `None` is the whole line.
    pub(super) value: Option<usize>,
    pub(super) ttl: Option<usize>,
}

impl Columns {
    /// Chooses the columns that the arguments name; `header` has the names of all, if there is one.
    pub(super) fn choose(args: &Args, header: Option<&[Vec<u8>]>, path: &Path) -> Result<Columns, Failure> {
        let find = |flag: &str, wanted: &Option<String>, name: &str, number: usize| {
            let text = match (wanted, header) {
                (Some(text), _) => text.clone(),
                (None, Some(_)) => name.to_string(),
                (None, None) => return Ok(number),
            };
            column(&text, header).ok_or_else(|| missing(flag, &text, header, path))
        };
        let key = find("--key", &args.key, "key", 0)?;
        let value = if args.whole_line { None } else { Some(find("--value", &args.value, "value", 1)?) };
        let ttl = header.and_then(|_| column("ttl_ms", header));
        Ok(Columns { key, value, ttl })
    }

    /// Reads one column of a record.
    pub(super) fn get<'a>(
        column: usize,
        mut field: impl FnMut(usize) -> Option<&'a [u8]>,
    ) -> Result<&'a [u8], String> {
        field(column).ok_or_else(|| format!("has no column {}", column + 1))
    }
}

/// Finds a column by a name in the header, or by a number from 1.
fn column(text: &str, header: Option<&[Vec<u8>]>) -> Option<usize> {
    let named = header.and_then(|names| names.iter().position(|name| name == text.as_bytes()));
    named.or_else(|| text.parse::<usize>().ok()?.checked_sub(1))
}

fn missing(flag: &str, text: &str, header: Option<&[Vec<u8>]>, path: &Path) -> Failure {
    let failure = Failure::new(Exit::Usage, format!("{}: it has no column {text:?}", path.display()));
    let Some(names) = header else {
        return failure.hint(format!("without a header {flag} is a number from 1"));
    };
    let names: Vec<_> = names.iter().take(20).map(|name| String::from_utf8_lossy(name)).collect();
    failure.hint(format!("its columns are {}; choose one with {flag}", names.join(", ")))
}
