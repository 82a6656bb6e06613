//! Opens the source that the arguments name, in the format in which it is written.

use std::path::Path;

use super::args::{Args, Format};
use super::csv::Csv;
use super::input::Input;
use super::jsonl::Jsonl;
use super::tsv::Tsv;
use crate::items::item::Source;
use crate::items::tree::Tree;
use crate::output::{Exit, Failure};

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

/// Chooses the format: by the path, if the user named none.
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
