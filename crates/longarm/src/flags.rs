//! Arguments that several commands share: where a value comes from, and how durations, sizes and counts are
//! read.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use longarm_base::limits::VALUE_MAX;

use crate::cluster::Durability;
use crate::config::units::{parse_duration, parse_size, show_size};
use crate::output::{Exit, Failure};

/// A value on the command line, in a file, or on stdin.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Source {
    /// The value itself; - reads it from stdin
    #[arg(value_name = "VALUE")]
    pub value: Option<String>,

    /// Read the value from this file, byte for byte; - is stdin
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Parses a duration with its unit, for clap.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
}

/// Parses a size with its unit, for clap.
pub fn size(text: &str) -> Result<u64, String> {
    parse_size(text)
}

/// Parses what a write of a cluster outlives, for clap.
pub fn durability() -> impl TypedValueParser<Value = Durability> {
    let names = PossibleValuesParser::new(Durability::ALL.map(Durability::name));
    names.try_map(|name| name.parse::<Durability>())
}

/// Parses a size a second, for clap.
pub fn byte_rate(text: &str) -> Result<u64, String> {
    match parse_size(text.strip_suffix("/s").unwrap_or(text))? {
        0 => Err("a rate is above zero".into()),
        rate => Ok(rate),
    }
}

/// Parses a number of connections, or of operations at once, for clap.
pub fn up_to_256() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=256)
}

/// Parses a share in percent, for clap.
pub fn percent() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(0..=100)
}

impl Source {
    /// Reads the bytes of the value, and stops at more bytes than a value may have.
    pub fn read(&self) -> Result<Vec<u8>, Failure> {
        let stdin = Path::new("-");
        match (&self.value, &self.file) {
            (Some(text), _) if text != "-" => Ok(text.clone().into_bytes()),
            (None, Some(path)) if path != stdin => {
                let file = std::fs::File::open(path).map_err(|error| Failure::io("open", path, &error))?;
                bounded(file, path)
            }
            _ => bounded(std::io::stdin().lock(), Path::new("stdin")),
        }
    }
}

fn bounded(from: impl Read, path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    from.take(VALUE_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::io("read the value from", path, &error))?;
    if bytes.len() > VALUE_MAX {
        let text = format!("the value in {} is longer than {}", path.display(), show_size(VALUE_MAX as u64));
        return Err(Failure::new(Exit::Usage, text).hint("split it over several keys"));
    }
    Ok(bytes)
}
