//! Tab-separated values as a source. `\t`, `\n`, `\r` and `\\` stand for what a field cannot hold as it is.

use super::Args;
use super::columns::Columns;
use super::jsonl::read_line;
use super::source::{Input, Next, Record, Rules, Source, Total, ttl};
use crate::output::Failure;

/// The file, and how its lines are read.
pub struct Tsv {
    input: Input,
    rules: Rules,
    columns: Columns,
    line: u64,
    bytes: Vec<u8>,
}

impl Tsv {
    pub(super) fn open(args: &Args, mut input: Input) -> Result<Tsv, Failure> {
        let (mut line, mut bytes) = (0, Vec::new());
        let mut header = None;
        if !args.no_header {
            read_line(&mut input, &mut line, &mut bytes)?;
            let names = trim(&bytes).split(|&byte| byte == b'\t').map(unescape);
            header = Some(names.collect::<Result<Vec<_>, String>>().map_err(|why| {
                let text = format!("{}: line 1: {why}", input.path.display());
                Failure::new(crate::output::Exit::Usage, text).hint("--no-header, if it has none")
            })?);
        }
        let columns = Columns::choose(args, header.as_deref(), &input.path)?;
        Ok(Tsv { input, rules: Rules::of(args), columns, line, bytes })
    }
}

/// Without its line end. A carriage return that belongs to a value is written as `\r`.
fn trim(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

/// Puts a field into a line.
pub fn escape(field: &[u8], line: &mut Vec<u8>) {
    for &byte in field {
        match byte {
            b'\t' => line.extend_from_slice(b"\\t"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\\' => line.extend_from_slice(b"\\\\"),
            _ => line.push(byte),
        }
    }
}

fn unescape(field: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match (byte, byte == b'\\') {
            (byte, false) => byte,
            _ => match rest.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b'\\') => b'\\',
                _ => return Err("has a backslash that is not \\t, \\n, \\r or \\\\".into()),
            },
        });
    }
    Ok(bytes)
}

impl Source for Tsv {
    fn next(&mut self) -> Result<Option<Next>, Failure> {
        if !read_line(&mut self.input, &mut self.line, &mut self.bytes)? {
            return Ok(None);
        }
        let text = trim(&self.bytes);
        let fields: Vec<&[u8]> = text.split(|&byte| byte == b'\t').collect();
        let field = |column| unescape(Columns::get(column, |i| fields.get(i).copied())?);
        let value = match self.columns.value {
            Some(column) => field(column),
            None => Ok(text.to_vec()),
        };
        let time = self.columns.ttl.and_then(|column| fields.get(column).copied());
        Ok(Some(self.rules.judge(Record {
            key: field(self.columns.key),
            value,
            ttl: time.map_or(Ok(None), |text| ttl(&String::from_utf8_lossy(text))),
            line: self.line,
            bytes: self.bytes.len() as u64,
        })))
    }

    fn skip(&mut self) -> Result<bool, Failure> {
        read_line(&mut self.input, &mut self.line, &mut self.bytes)
    }

    fn total(&self) -> Total {
        Total { records: None, bytes: self.input.bytes }
    }

    fn fingerprint(&self) -> Option<u64> {
        self.input.fingerprint
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_field_comes_back_and_keeps_to_its_line(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut line = Vec::new();
            escape(&bytes, &mut line);
            prop_assert!(!line.iter().any(|byte| matches!(byte, b'\t' | b'\n' | b'\r')));
            prop_assert_eq!(unescape(&line), Ok(bytes));
        }
    }

    #[test]
    fn a_lone_backslash_is_refused() {
        assert!(unescape(b"a\\").is_err());
        assert!(unescape(b"a\\x").is_err());
    }
}
