//! Tab-separated values as a source. `\t`, `\n`, `\r` and `\\` stand for what a field cannot hold as it is.

use super::args::Args;
use super::columns::Columns;
use super::input::Input;
use super::jsonl::read_line;
use super::line::{Record, Rules, ttl};
use crate::items::escape::unescape;
use crate::items::item::{Next, Source, Total};
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

/// Cuts the line end off. A carriage return that belongs to a value is written as `\r`.
fn trim(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
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
