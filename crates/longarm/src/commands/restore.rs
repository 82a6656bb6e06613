//! `longarm restore`: makes a data directory of a backup.

use std::path::{Path, PathBuf};
use std::time::Instant;

use longarm_backup::{Origin, restore};
use serde_json::json;

use crate::backups;
use crate::config::Config;
use crate::config::units::show_size;
use crate::flags::size;
use crate::human;
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Make a data directory of a backup";

const AFTER: &str = "\
`longarm server --data DIR` then serves what the backed-up server held at the version of the backup: versions
and expiries are kept, and new versions go on above. The server is another one: it has keys of its own. Start
it with the memory that is given here.";

/// The arguments of `longarm restore`.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The backup: a directory, or - for a stream on stdin
    #[arg(value_name = "BACKUP")]
    pub backup: PathBuf,

    /// The data directory to make, which must be empty or not exist yet
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,

    /// Memory of the server that will run on it; without it the memory of the settings
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
}

/// Makes the directory.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let began = Instant::now();
    let memory = args.memory.unwrap_or(config.memory);
    let mut stdin = std::io::stdin().lock();
    let from = match args.backup == Path::new("-") {
        true => Origin::Stream(Path::new("stdin"), &mut stdin),
        false => Origin::Directory(&args.backup),
    };
    let restored = restore(from, &args.data, memory).map_err(|error| backups::failure(&error))?;
    if output.json() {
        let mut value = backups::to_json(&restored.backup);
        value["segments_used"] = restored.used.into();
        value["memory"] = memory.into();
        value["seconds"] = json!(began.elapsed().as_secs_f64());
        output.value(&value)?;
    } else {
        output.line(&format!(
            "{}, restored in {}; `longarm server --data {} --memory {}` starts from it",
            backups::to_text(&restored.backup),
            human::time(began.elapsed()),
            args.data.display(),
            show_size(memory),
        ))?;
    }
    Ok(Exit::Ok)
}
