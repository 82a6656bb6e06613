//! Where items come from: one record after another, each with the place that a message names.
//!
//! A record that cannot be an item (malformed, too long, unreadable) is [`Next::Skipped`] with the reason and
//! the source goes on; what ends the source is a [`Failure`]. Records are numbered from 0 in an order that is
//! the same as long as the source does not change: that is what a resumed load counts by.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longarm_base::limits::{KEY_MAX, VALUE_MAX};
use longarm_memory::SumKey;

use super::csv::Csv;
use super::jsonl::Jsonl;
use super::tree::Tree;
use super::tsv::Tsv;
use super::{Args, Format};
use crate::config::units::show_size;
use crate::output::{Exit, Failure};

/// What is to be stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its key, prefix included.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its own time to live.
    pub ttl: Option<Duration>,
    /// Where it came from: `line 7`, or a path.
    pub place: String,
    /// How much of the source it was.
    pub bytes: u64,
}

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// An item that can be stored.
    Item(Item),
    /// One that cannot: where, and why.
    Skipped(String),
}

/// How much there is, where it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Total {
    /// Records.
    pub records: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
}

/// A sequence of records.
pub trait Source {
    /// The next record, or `None` at the end.
    fn next(&mut self) -> Result<Option<Next>, Failure>;

    /// Passes over one record as cheaply as possible; `false` at the end.
    fn skip(&mut self) -> Result<bool, Failure> {
        Ok(self.next()?.is_some())
    }

    /// How much there is.
    fn total(&self) -> Total;

    /// Changes when the source does; `None` where that cannot be known.
    fn fingerprint(&self) -> Option<u64>;
}

/// What one line of text has, before it is judged.
pub(super) struct Record {
    pub(super) key: Result<Vec<u8>, String>,
    pub(super) value: Result<Vec<u8>, String>,
    pub(super) ttl: Result<Option<Duration>, String>,
    pub(super) line: u64,
    pub(super) bytes: u64,
}

/// What all lines have in common.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) prefix: Vec<u8>,
    pub(super) base64: bool,
}

impl Rules {
    pub(super) fn of(args: &Args) -> Rules {
        Rules { prefix: args.prefix.clone().into_bytes(), base64: args.base64 }
    }

    /// Makes an item of a line, or says why it is none.
    pub(super) fn judge(&self, record: Record) -> Next {
        let place = format!("line {}", record.line);
        let item = || -> Result<Item, String> {
            let key = [&self.prefix[..], &record.key?].concat();
            let mut value = record.value?;
            if self.base64 {
                value = crate::commands::record::decode(&value).map_err(|e| format!("the value {e}"))?;
            }
            Ok(Item { key, value, ttl: record.ttl?, place: place.clone(), bytes: record.bytes })
        };
        match item().and_then(within_limits) {
            Ok(item) => Next::Item(item),
            Err(why) => Next::Skipped(format!("{place}: {why}")),
        }
    }
}

/// The item, if the server would take it.
pub(super) fn within_limits(item: Item) -> Result<Item, String> {
    if item.key.is_empty() {
        return Err("the key is empty".into());
    }
    if item.key.len() > KEY_MAX {
        return Err(format!("the key has {} bytes, at most {KEY_MAX} are possible", item.key.len()));
    }
    if item.value.len() > VALUE_MAX {
        return Err(too_long(item.value.len() as u64));
    }
    Ok(item)
}

pub(super) fn too_long(bytes: u64) -> String {
    format!("the value has {bytes} bytes, at most {} are possible", show_size(VALUE_MAX as u64))
}

/// A number of milliseconds.
pub(super) fn ttl(text: &str) -> Result<Option<Duration>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("ttl_ms is {text:?}, expected a whole number of milliseconds above 0")),
        Ok(ms) => Ok(Some(Duration::from_millis(ms))),
    }
}

/// Opens the source that the arguments name.
pub fn open(args: &Args) -> Result<Box<dyn Source>, Failure> {
    let stdin = args.path == Path::new("-");
    Ok(match format(args)? {
        Format::Tree => Box::new(Tree::open(&args.path, args.prefix.as_bytes())?),
        Format::Csv => Box::new(Csv::open(args, Input::open(&args.path, stdin)?)?),
        Format::Tsv => Box::new(Tsv::open(args, Input::open(&args.path, stdin)?)?),
        Format::Jsonl => Box::new(Jsonl::open(args, Input::open(&args.path, stdin)?)),
        Format::Auto => unreachable!("format() names one"),
    })
}

/// The format, by the path where the user named none.
pub fn format(args: &Args) -> Result<Format, Failure> {
    if args.format != Format::Auto {
        return Ok(args.format);
    }
    let unknown = |what: &str| {
        Failure::new(Exit::Usage, format!("{}: {what}", args.path.display()))
            .hint("say --format tree, csv, tsv or jsonl")
    };
    if args.path == Path::new("-") {
        return Err(unknown("the format of stdin is not known"));
    }
    let about = std::fs::metadata(&args.path).map_err(|error| Failure::io("examine", &args.path, &error))?;
    if about.is_dir() {
        return Ok(Format::Tree);
    }
    match args.path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Ok(Format::Csv),
        Some("tsv") => Ok(Format::Tsv),
        Some("jsonl" | "ndjson") => Ok(Format::Jsonl),
        _ => Err(unknown("its name does not say how it is written")),
    }
}

/// An open file, or stdin.
pub(super) struct Input {
    pub(super) path: PathBuf,
    pub(super) reader: Box<dyn std::io::BufRead>,
    pub(super) bytes: Option<u64>,
    pub(super) fingerprint: Option<u64>,
}

impl Input {
    fn open(path: &Path, stdin: bool) -> Result<Input, Failure> {
        if stdin {
            let reader = Box::new(std::io::stdin().lock());
            return Ok(Input { path: "stdin".into(), reader, bytes: None, fingerprint: None });
        }
        let file = std::fs::File::open(path).map_err(|error| Failure::io("open", path, &error))?;
        let about = file.metadata().map_err(|error| Failure::io("examine", path, &error))?;
        if about.is_dir() {
            let text = format!("{} is a directory", path.display());
            return Err(Failure::new(Exit::Usage, text).hint("load it with --format tree"));
        }
        // A pipe or a device has neither a size nor a second reading.
        let plain = about.is_file();
        Ok(Input {
            path: path.into(),
            reader: Box::new(std::io::BufReader::with_capacity(1 << 20, file)),
            bytes: plain.then_some(about.len()),
            fingerprint: plain.then(|| Digest::new().words(&stamp(&about)).0),
        })
    }

    /// The failure of a read at this line.
    pub(super) fn failed(&self, line: u64, error: &std::io::Error) -> Failure {
        let text = format!("cannot read {} at line {line}: {error}", self.path.display());
        Failure::new(Exit::System, text)
    }
}

/// Size and time of change.
pub fn stamp(about: &std::fs::Metadata) -> [u64; 3] {
    use std::os::unix::fs::MetadataExt;
    [about.len(), about.mtime() as u64, about.mtime_nsec() as u64]
}

/// A number that stands for all that was fed to it, the same in every run.
pub(super) struct Digest(pub(super) u64);

impl Digest {
    pub(super) fn new() -> Digest {
        Digest(0)
    }
    pub(super) fn bytes(self, bytes: &[u8]) -> Digest {
        Digest(SumKey::new(0x4C4F_4144).sum(self.0, bytes))
    }
    pub(super) fn words(self, words: &[u64]) -> Digest {
        words.iter().fold(self, |digest, word| digest.bytes(&word.to_le_bytes()))
    }
}
