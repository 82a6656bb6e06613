//! Where dumped items go: lines of one of three forms, or a directory tree.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::args::{Args, Format};
use super::tree::Tree;
use crate::items::escape::escape;
use crate::items::record;
use crate::output::{Exit, Failure};

/// The most keys that could not be written and are named; further ones are counted.
pub const NAMED_MAX: usize = 20;

/// How much was written.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The number of items.
    pub items: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Some of the keys that could not be written, with the reasons.
    pub refused: Vec<String>,
    /// The number of all keys that could not be written.
    pub refused_count: u64,
}

enum Form {
    Jsonl(Box<dyn Write>),
    Csv(Box<csv::Writer<Box<dyn Write>>>),
    Tsv(Box<dyn Write>),
    Tree(Tree),
}

/// A place that takes items.
pub struct Sink {
    form: Form,
    path: PathBuf,
    base64: bool,
    summary: Summary,
    line: Vec<u8>,
}

impl Sink {
    /// Opens the file, the directory or stdout.
    pub fn open(args: &Args) -> Result<Sink, Failure> {
        let lines = || -> Result<Box<dyn Write>, Failure> {
            let Some(path) = &args.output else { return Ok(Box::new(BufWriter::new(std::io::stdout()))) };
            let file = std::fs::File::create(path).map_err(|error| Failure::io("create", path, &error))?;
            Ok(Box::new(BufWriter::with_capacity(1 << 20, file)))
        };
        let path = args.output.clone().unwrap_or_else(|| "stdout".into());
        let form = match args.format {
            Format::Jsonl => Form::Jsonl(lines()?),
            Format::Csv => Form::Csv(Box::new(csv::Writer::from_writer(lines()?))),
            Format::Tsv => Form::Tsv(lines()?),
            Format::Tree => Form::Tree(Tree::open(&path, args.prefix.as_bytes())?),
        };
        let mut sink =
            Sink { form, path, base64: args.base64, summary: Summary::default(), line: Vec::new() };
        sink.header().map_err(|error| sink.failed(&error))?;
        Ok(sink)
    }

    fn header(&mut self) -> std::io::Result<()> {
        match &mut self.form {
            Form::Csv(writer) => Ok(writer.write_record(["key", "value", "ttl_ms"])?),
            Form::Tsv(writer) => writer.write_all(b"key\tvalue\tttl_ms\n"),
            Form::Jsonl(_) | Form::Tree(_) => Ok(()),
        }
    }

    /// Writes one item.
    pub fn item(&mut self, key: &[u8], value: &[u8], ttl_ms: Option<u64>) -> Result<(), Failure> {
        if let Form::Tree(tree) = &mut self.form {
            match tree.item(key, value)? {
                Ok(()) => {}
                Err(why) => {
                    self.summary.refused_count += 1;
                    if self.summary.refused.len() < NAMED_MAX {
                        self.summary.refused.push(format!("{}: {why}", crate::human::key(key)));
                    }
                    return Ok(());
                }
            }
        }
        self.summary.items += 1;
        self.summary.bytes += value.len() as u64;
        self.write(key, value, ttl_ms).map_err(|error| self.failed(&error))
    }

    fn write(&mut self, key: &[u8], value: &[u8], ttl_ms: Option<u64>) -> std::io::Result<()> {
        let ttl = || ttl_ms.map(|ms| ms.to_string()).unwrap_or_default();
        let encoded;
        let field = if self.base64 {
            encoded = record::encode(value);
            encoded.as_bytes()
        } else {
            value
        };
        match &mut self.form {
            Form::Tree(_) => Ok(()),
            Form::Csv(writer) => Ok(writer.write_record([key, field, ttl().as_bytes()])?),
            Form::Tsv(writer) => {
                self.line.clear();
                escape(key, &mut self.line);
                self.line.push(b'\t');
                escape(field, &mut self.line);
                self.line.push(b'\t');
                self.line.extend_from_slice(ttl().as_bytes());
                self.line.push(b'\n');
                writer.write_all(&self.line)
            }
            Form::Jsonl(writer) => {
                let mut object = Map::new();
                record::set(&mut object, "key", key);
                record::set(&mut object, "value", value);
                if let Some(ms) = ttl_ms {
                    object.insert("ttl_ms".into(), ms.into());
                }
                serde_json::to_writer(&mut *writer, &Value::Object(object))?;
                writer.write_all(b"\n")
            }
        }
    }

    /// Writes out what is still buffered, and gives how much was written.
    pub fn finish(mut self) -> Result<Summary, Failure> {
        let flushed = match &mut self.form {
            Form::Jsonl(writer) | Form::Tsv(writer) => writer.flush(),
            Form::Csv(writer) => writer.flush(),
            Form::Tree(_) => Ok(()),
        };
        flushed.map_err(|error| self.failed(&error))?;
        Ok(std::mem::take(&mut self.summary))
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe && self.path == Path::new("stdout") {
            // The reader of stdout has seen enough (`| head`).
            std::process::exit(Exit::Ok.code().into());
        }
        Failure::io("write to", &self.path, error)
    }
}
