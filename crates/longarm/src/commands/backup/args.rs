//! The arguments of `longarm backup`.

use std::path::{Path, PathBuf};

use crate::flags::byte_rate;

const AFTER: &str = "\
The server must keep its data (--data), keep an ordered index, or lead a group: of a server that does neither
use `longarm dump`. Whoever may connect to a server may make a backup of it. The backup holds no keys of the
server; whoever has it has all items. `longarm restore` makes a data directory of it, `longarm check` verifies
it.";

/// The arguments of `longarm backup`.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// A directory, which must be empty or not exist yet; - writes a stream to stdout
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,

    /// The most that is copied in a second, such as 200MiB/s; what the server waits for is copied at once
    #[arg(long, value_name = "RATE", value_parser = byte_rate)]
    pub rate: Option<u64>,

    /// An older backup of the same server or group: what of it is still as it was is not copied again, and a
    /// restore needs both
    #[arg(long, value_name = "OLD")]
    pub since: Option<PathBuf>,

    /// Which group, counted from 1; only where there are several
    #[arg(long, value_name = "N")]
    pub group: Option<usize>,
}

impl Args {
    /// Whether it goes to stdout.
    pub fn is_stream(&self) -> bool {
        self.target == Path::new("-")
    }
}
