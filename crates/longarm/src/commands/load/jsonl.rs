//! JSON lines as a source: one object a line.

use std::io::{BufRead, Read};
use std::time::Duration;

use longarm_base::limits::VALUE_MAX;
use serde_json::{Map, Value};

use super::args::Args;
use super::input::Input;
use super::line::{Record, Rules, ttl};
use crate::items::item::{Next, Source, Total};
use crate::items::record;
use crate::output::{Exit, Failure};

/// Longest line: a value of the greatest length with every byte escaped, and room for the rest.
pub(super) const LINE_MAX: u64 = 6 * VALUE_MAX as u64 + (1 << 20);

/// The file, and how its objects are read.
pub struct Jsonl {
    input: Input,
    rules: Rules,
    key: String,
    value: Option<String>,
    line: u64,
    bytes: Vec<u8>,
}

impl Jsonl {
    pub(super) fn open(args: &Args, input: Input) -> Jsonl {
        let value = (!args.whole_line).then(|| args.value.clone().unwrap_or_else(|| "value".into()));
        let key = args.key.clone().unwrap_or_else(|| "key".into());
        Jsonl { input, rules: Rules::of(args), key, value, line: 0, bytes: Vec::new() }
    }

    fn record(&self) -> Record {
        let line = self.line;
        let bytes = self.bytes.len() as u64;
        let text = trim(&self.bytes);
        let broken =
            |why: String| Record { key: Err(why.clone()), value: Err(why), ttl: Ok(None), line, bytes };
        let object: Map<String, Value> = match serde_json::from_slice(text) {
            Ok(Value::Object(object)) => object,
            Ok(other) => return broken(format!("is no JSON object but {}", kind(&other))),
            Err(error) => return broken(format!("is no JSON: {error}")),
        };
        let member = |name: &str| {
            record::get(&object, name)?.ok_or_else(|| format!("has no member \"{name}\" or \"{name}64\""))
        };
        let value = match &self.value {
            Some(name) => member(name),
            None => Ok(text.to_vec()),
        };
        Record { key: member(&self.key), value, ttl: time(&object), line, bytes }
    }
}

fn time(object: &Map<String, Value>) -> Result<Option<Duration>, String> {
    match object.get("ttl_ms") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => ttl(&value.to_string()),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

/// Reads one line with its end into `bytes`; `false` at the end of the input.
pub(super) fn read_line(input: &mut Input, line: &mut u64, bytes: &mut Vec<u8>) -> Result<bool, Failure> {
    bytes.clear();
    let read = (&mut input.reader).take(LINE_MAX + 1).read_until(b'\n', bytes);
    let read = read.map_err(|error| input.failed(*line + 1, &error))?;
    if read == 0 {
        return Ok(false);
    }
    *line += 1;
    if bytes.len() as u64 > LINE_MAX {
        let text = format!("{}: line {line} is longer than any item", input.path.display());
        return Err(Failure::new(Exit::Usage, text).hint("is it a file of lines?"));
    }
    Ok(true)
}

impl Source for Jsonl {
    fn next(&mut self) -> Result<Option<Next>, Failure> {
        while read_line(&mut self.input, &mut self.line, &mut self.bytes)? {
            // An empty line is no item; editors leave one at the end.
            if !trim(&self.bytes).is_empty() {
                return Ok(Some(self.rules.judge(self.record())));
            }
        }
        Ok(None)
    }

    fn skip(&mut self) -> Result<bool, Failure> {
        while read_line(&mut self.input, &mut self.line, &mut self.bytes)? {
            if !trim(&self.bytes).is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn total(&self) -> Total {
        Total { records: None, bytes: self.input.bytes }
    }

    fn fingerprint(&self) -> Option<u64> {
        self.input.fingerprint
    }
}
