//! The arguments of `longarm dump`.

use std::path::PathBuf;

const AFTER: &str = "\
An item that is there throughout is written; one that comes or goes meanwhile may be, and one may be written
twice if the index grows meanwhile (the later one is newer). With --sorted each item is written once, as it
is when its page is read. In a tree, keys that cannot be relative paths are
named on stderr and passed over (4), and times to live are lost. `longarm load` reads every form back.";

/// How items are written.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object an item; bytes that are no Unicode text are base64 under key64 and value64
    Jsonl,
    /// Key, value and ttl_ms, separated by tabs; tabs, line ends and backslashes are escaped
    Tsv,
    /// Key, value and ttl_ms, comma-separated (RFC 4180), bytes as they are
    Csv,
    /// A file an item, the key is its relative path
    Tree,
}

/// The arguments of `longarm dump`.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// How to write them
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    pub format: Format,

    /// File to write instead of stdout; for a tree a directory, which must be empty or not exist yet
    #[arg(long, value_name = "PATH", required_if_eq("format", "tree"))]
    pub output: Option<PathBuf>,

    /// Write values of CSV and TSV as base64
    #[arg(long)]
    pub base64: bool,

    /// Only keys that begin so; in a tree they go without it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,

    /// In the order of keys, from an ordered index (`longarm server --ordered true`)
    #[arg(long)]
    pub sorted: bool,
}
