//! The arguments of `longarm load`.

use std::path::PathBuf;
use std::time::Duration;

use crate::flags::{duration, up_to_256};

const AFTER: &str = "\
A record that cannot be stored (an empty key or one over 1,024 bytes, a value over 64 MiB, a file that cannot
be read, a line that is not understood) is named on stderr with its line or path and passed over; the load
goes on and ends with 4. Links and special files of a tree are left out. A column or member ttl_ms is the time
to live. What `longarm dump` writes loads again without further flags.";

/// How records are written.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// By the path: a directory is a tree; .csv, .tsv, .jsonl and .ndjson are what they say
    Auto,
    /// Each regular file under the directory: its relative path is the key, its bytes the value
    Tree,
    /// Comma-separated, RFC 4180
    Csv,
    /// Tab-separated; \t, \n, \r and \\ stand for themselves
    Tsv,
    /// One JSON object a line
    Jsonl,
}

/// The arguments of `longarm load`.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Directory or file to load; - is stdin
    pub path: PathBuf,

    /// How it is written
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub format: Format,

    /// Put this before every key
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,

    /// Column (name, or number from 1) or JSON member that is the key [default: key; 1 without a header]
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,

    /// Column or JSON member that is the value [default: value; 2 without a header]
    #[arg(long, value_name = "NAME")]
    pub value: Option<String>,

    /// The value is the whole line
    #[arg(long, conflicts_with = "value")]
    pub whole_line: bool,

    /// Values are base64 (JSON members key64 and value64 always are)
    #[arg(long, conflicts_with = "whole_line")]
    pub base64: bool,

    /// The first line of a CSV or TSV file is data, not names
    #[arg(long)]
    pub no_header: bool,

    /// Note the progress in this file, and go on from there if it exists; refused if the source changed or
    /// the server was started anew
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,

    /// Client connections, one thread each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to_256())]
    pub clients: u16,

    /// Writes under way at once on each connection
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = up_to_256())]
    pub pipeline: u16,

    /// The items are gone after this time, such as 10min
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Option<Duration>,

    /// Read everything back at the end and compare every byte; a difference ends with 6
    #[arg(long)]
    pub verify: bool,

    /// No progress bar (there is none either where stderr is no terminal)
    #[arg(long)]
    pub no_progress: bool,
}
