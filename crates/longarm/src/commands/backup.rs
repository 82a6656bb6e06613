//! `longarm backup`: what a serving leader holds at one version, copied by READs of its memory.

mod args;
mod pace;

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use longarm_backup::{BackupError, Chain, CopyError, Copying, Frame, Leader, Manifest, Since, Target};
use longarm_client::Error;
use serde_json::json;

use crate::backups;
use crate::config::Config;
use crate::connect;
use crate::human;
use crate::items::item::Total;
use crate::operator;
use crate::output::{Exit, Failure, Output};
use crate::progress::Bar;
pub use args::Args;
use pace::Pace;

/// The line about the command in help texts.
pub const ABOUT: &str = "Copy what a server holds at one version, while it serves";

/// Segments that may wait to be written.
const QUEUE: usize = 32;
/// The longest time between two looks at what the leader waits for.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often it is looked whether there is room in the queue.
const ROOM_EVERY: Duration = Duration::from_millis(1);

/// Makes a backup.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let began = Instant::now();
    let older = args.since.as_deref().map(Chain::open).transpose().map_err(|e| backups::failure(&e))?;
    let group = group(&args, config)?;
    let since = args.since.as_deref().zip(older.as_ref().map(Chain::manifest));
    let since_place = since.map(|(dir, manifest)| rests_on(dir, manifest)).transpose()?;
    let mut cluster = connect::connect(config, "longarm backup")?;
    let client = cluster.group(group).map_err(|error| connect::failure(&error, config))?;
    let failed = |error| copy_failure(error, config, args.since.as_deref());
    let leader = Leader::of(client).map_err(|error| connect::failure(&error, config))?;
    let copying = Copying::begin(leader, older.as_ref().map(Chain::manifest)).map_err(failed)?;
    let target = target(&args).map_err(|error| backups::failure(&error))?;
    let made = make(&args, copying, target, since_place, output).map_err(|error| match error {
        Failed::Copy(error) => failed(error),
        Failed::Target(error) => backups::failure(&error),
    })?;
    say(&args, &made, began.elapsed(), output)
}

/// Which group, by number.
fn group(args: &Args, config: &Config) -> Result<usize, Failure> {
    match &config.cluster {
        Some(file) => operator::chosen(&crate::cluster::read(file)?, file, args.group),
        None if args.group.is_some() => {
            let text = "--group goes with --cluster: there is one group at an address";
            Err(Failure::new(Exit::Usage, text.to_string()).hint("leave it out, or name the cluster's file"))
        }
        None => Ok(0),
    }
}

/// How another backup names this one.
fn rests_on(dir: &Path, manifest: &Manifest) -> Result<Since, Failure> {
    let path = std::fs::canonicalize(dir).map_err(|error| Failure::io("find", dir, &error))?;
    Ok(Since { id: manifest.id.clone(), path })
}

fn target(args: &Args) -> Result<Target, BackupError> {
    match args.is_stream() {
        true => Target::stream(Box::new(std::io::stdout())),
        false => Target::directory(&args.target),
    }
}

/// What a backup has.
struct Made {
    manifest: Manifest,
    bytes: u64,
    reused: u64,
}

/// Why it could not be made.
enum Failed {
    Copy(CopyError<Error>),
    Target(BackupError),
}

impl From<CopyError<Error>> for Failed {
    fn from(error: CopyError<Error>) -> Failed {
        Failed::Copy(error)
    }
}

/// Copies, while another thread writes. What was written is removed if it does not come to an end.
fn make(
    args: &Args,
    copying: Copying<Leader<'_>>,
    mut target: Target,
    since: Option<Since>,
    output: &Output,
) -> Result<Made, Failed> {
    let (frames, taken) = sync_channel(QUEUE);
    let (copied, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&mut target, taken));
        let copied = copy(args, copying, frames, output);
        (copied, writer.join().expect("the writer does not panic"))
    });
    // A target that is full is why nothing more was taken.
    let made = match (written, copied) {
        (Err(error), _) => Err(Failed::Target(error)),
        (Ok(()), Err(error)) => Err(Failed::Copy(error)),
        (Ok(()), Ok(manifest)) => Ok(Manifest { since, ..manifest }),
    };
    let manifest = match made {
        Ok(manifest) => manifest,
        Err(error) => {
            target.abandon();
            return Err(error);
        }
    };
    let reused = manifest.segments.iter().filter(|it| !it.here).map(|it| u64::from(it.run)).sum();
    let (manifest, bytes) = target.finish(manifest).map_err(Failed::Target)?;
    Ok(Made { manifest, bytes, reused })
}

/// Writes frames until there are no more.
fn write(target: &mut Target, frames: Receiver<Frame>) -> Result<(), BackupError> {
    frames.iter().try_for_each(|frame| target.take(&frame))
}

/// Copies all segments, and has them written. The manifest, but for what the target knows.
fn copy(
    args: &Args,
    mut copying: Copying<Leader<'_>>,
    frames: SyncSender<Frame>,
    output: &Output,
) -> Result<Manifest, CopyError<Error>> {
    let start = copying.start();
    let [total, _] = copying.progress();
    let bytes = Some(total << 20);
    let bar = Bar::new("backup", Total { records: None, bytes }, !output.json());
    let mut pace = Pace::new(args.rate);
    let (mut copied, mut entries) = (0, 0);
    loop {
        // What the leader waits for is copied at once, whatever the rate.
        while let Some(wait) = pace.wait().filter(|_| !copying.is_waited_for()) {
            longarm_host::sleep(wait.min(LOOK_EVERY));
            copying.tell()?;
        }
        let Some(step) = copying.step()? else { break };
        pace.took(step.copied);
        copied += step.copied;
        if let Some(frame) = step.frame {
            entries += u64::from(frame.entries);
            if !give(&mut copying, &frames, frame)? {
                break;
            }
        }
        let [_, left] = copying.progress();
        bar.at(entries, (total - left) << 20);
    }
    let unfinished = copying.unfinished();
    let segments = copying.end()?;
    Ok(Manifest {
        id: backups::fresh_id(),
        group: format!("{:016x}", start.group),
        version: start.csn.0,
        unix_ms: start.unix.0,
        term: start.term.bits(),
        copied,
        unfinished,
        segments,
        ..Manifest::new()
    })
}

/// Gives a frame to the writer, when that has room. `false` if it takes no more: it says why.
fn give(
    copying: &mut Copying<Leader<'_>>,
    frames: &SyncSender<Frame>,
    mut frame: Frame,
) -> Result<bool, CopyError<Error>> {
    let mut looked = Instant::now();
    loop {
        match frames.try_send(frame) {
            Ok(()) => return Ok(true),
            Err(TrySendError::Disconnected(_)) => return Ok(false),
            Err(TrySendError::Full(back)) => frame = back,
        }
        longarm_host::sleep(ROOM_EVERY);
        if looked.elapsed() >= LOOK_EVERY {
            copying.tell()?;
            looked = Instant::now();
        }
    }
}

fn say(args: &Args, made: &Made, took: Duration, output: &mut Output) -> Result<Exit, Failure> {
    let Made { manifest, bytes, reused } = made;
    if manifest.unfinished > 0 {
        let rooms = human::count(manifest.unfinished);
        output.warn(&format!("{rooms} rooms hold what a leader before did not write to the end"));
    }
    let text = match output.json() {
        true => json!({
            "id": manifest.id, "group": manifest.group, "version": manifest.version,
            "entries": manifest.entries, "bytes": bytes, "copied": manifest.copied,
            "segments_of_since": reused, "parts": manifest.parts.len(),
            "seconds": took.as_secs_f64(),
        })
        .to_string(),
        false => format!(
            "backup of version {}: {} entries in {}, of {} copied in {} ({}){}",
            manifest.version,
            human::count(manifest.entries),
            human::bytes(*bytes),
            human::bytes(manifest.copied),
            human::time(took),
            human::byte_rate(manifest.copied, took),
            match reused {
                0 => String::new(),
                reused => format!("; {} segments are in the older one", human::count(*reused)),
            },
        ),
    };
    // On a stream stdout is the backup.
    match args.is_stream() {
        true => output.aside(&text),
        false => output.line(&text)?,
    }
    Ok(Exit::Ok)
}

fn copy_failure(error: CopyError<Error>, config: &Config, since: Option<&Path>) -> Failure {
    match error {
        CopyError::Source(error) => {
            let failure = connect::failure(&error, config);
            match error {
                Error::NoBackup(_) => failure.hint("`longarm dump` writes out the items of any server"),
                Error::BackupOver(_) => failure.hint(
                    "try again, at another time or to a faster target; the server's log says when it gave up",
                ),
                _ => failure,
            }
        }
        CopyError::Corrupt(what) => Failure::new(Exit::Corrupt, format!("the server's memory: {what}"))
            .hint("`longarm inspect` checks all of it; please report how this came about"),
        CopyError::Unrelated(what) => {
            let place = since.unwrap_or(Path::new("-")).display();
            Failure::new(Exit::Usage, format!("--since {place}: {what}"))
                .hint("take a whole backup, without --since")
        }
    }
}
