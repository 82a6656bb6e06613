//! `longarm check`: verifies every byte of a data directory at rest, or of a backup.

use std::path::{Path, PathBuf};

use longarm_backup::Chain;
use longarm_server::Look;

use crate::backups;
use crate::directories;
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Verify a data directory at rest, or a backup";

/// The arguments of `longarm check`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Ends with 6, and names what is damaged, if anything is not as it was written. A \
                        backup is verified with those that it rests on.")]
pub struct Args {
    /// A data directory of a server that does not run, or a backup; - reads a backup from stdin
    #[arg(value_name = "DIR")]
    pub path: PathBuf,
}

/// Verifies it.
pub fn run(args: Args, output: &mut Output) -> Result<Exit, Failure> {
    if args.path.join("identity").exists() || args.path.join("arena").exists() {
        if let Some(report) = directories::look_served(&args.path)? {
            return directories::show_served(&args.path, &report, output).map(|()| Exit::Ok);
        }
        let report = directories::look(&args.path, Look::AtRest, &mut |_| {})?;
        directories::show(&args.path, &report, None, output)?;
        return directories::sound(&args.path, &report).map(|()| Exit::Ok);
    }
    let checked = match args.path == Path::new("-") {
        true => Chain::visit_stream(Path::new("stdin"), &mut std::io::stdin().lock(), &mut |_| Ok(())),
        false => longarm_backup::check(&args.path),
    };
    let checked = checked.map_err(|error| backups::failure(&error))?;
    match output.json() {
        true => output.value(&backups::to_json(&checked))?,
        false => output.line(&format!("sound: {}", backups::to_text(&checked)))?,
    }
    Ok(Exit::Ok)
}
