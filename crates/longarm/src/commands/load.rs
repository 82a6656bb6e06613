//! `longarm load`: stores the files of a directory tree, or the records of a CSV, TSV or JSON-lines file.

mod args;
mod columns;
mod csv;
mod input;
mod jsonl;
mod line;
mod resume;
mod source;
mod tsv;
mod verify;

use std::time::{Duration, Instant};

use serde_json::json;

use crate::config::Config;
use crate::connect;
use crate::human;
use crate::items::digest::Digest;
use crate::items::item::{Next, Source};
use crate::items::send::{Progress, Sender, Sending};
use crate::output::{Exit, Failure, Output};
use crate::progress::Bar;
pub use args::Args;
use resume::Resume;

/// The line about the command in help texts.
pub const ABOUT: &str = "Load a directory tree, or a CSV, TSV or JSON-lines file";

/// The most skipped records that are named; further ones are counted.
const NAMED_MAX: usize = 20;

/// Loads, verifies if asked to, and sums up.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let mut source = source::open(&args)?;
    if args.verify && source.fingerprint().is_none() {
        return Err(Failure::new(Exit::Usage, "--verify reads the source again, and stdin cannot be")
            .hint("load from a file"));
    }
    let resume = match &args.resume {
        None => None,
        Some(path) => Some(Resume::open(path, &args, &*source, memory_of(config)?)?),
    };
    let mut job = Job { args: &args, config, output, resume, skipped: Vec::new(), named: 0 };
    let began = Instant::now();
    let progress = job.load(&mut *source)?;
    let time = began.elapsed();
    job.sum_up(&progress, time)?;
    let verified = if args.verify {
        let mut again = source::open(&args)?;
        let bar = Bar::new("verifying", again.total(), !args.no_progress && !job.output.json());
        Some(verify::verify(&mut *again, config, args.ttl.is_some(), &bar)?)
    } else {
        None
    };
    job.verdict(verified)
}

/// Gives a number for the memory that is loaded into: the number is another if loaded items may be gone. A
/// server's memory lives as long as its process, a cluster's as long as its groups, whichever nodes lead
/// them.
fn memory_of(config: &Config) -> Result<u64, Failure> {
    let mut client = connect::connect(config, "longarm load")?;
    let groups: Vec<u64> = client.topology().groups().iter().map(|group| group.id).collect();
    if groups != [0] {
        return Ok(Digest::new().words(&groups).0);
    }
    let server = client.group(0).map_err(|error| connect::failure(&error, config))?;
    Ok(server.server_boot())
}

/// One run of the command.
struct Job<'a> {
    args: &'a Args,
    config: &'a Config,
    output: &'a mut Output,
    resume: Option<Resume>,
    /// Numbers of the records skipped in this run.
    skipped: Vec<u64>,
    named: usize,
}

impl Job<'_> {
    fn load(&mut self, source: &mut dyn Source) -> Result<Progress, Failure> {
        let first = self.resume.as_ref().map_or(0, |resume| resume.done);
        for passed in 0..first {
            if !source.skip()? {
                return Err(Failure::new(
                    Exit::Usage,
                    format!("the source ends after {passed} records, {first} were done"),
                )
                .hint("remove the file of --resume to load everything from the beginning"));
            }
        }
        if first > 0 {
            self.output.note(&format!("going on after {} records done before", human::count(first)));
        }
        let how = Sending { clients: self.args.clients, pipeline: self.args.pipeline, ttl: self.args.ttl };
        let mut sender = Sender::start(self.config, &how, first)?;
        let bar = Bar::new("loading", source.total(), !self.args.no_progress && !self.output.json());
        let sent = self.send(source, &mut sender, first, &bar);
        if let Err(failure) = sent {
            // Acknowledged records stay noted, so that a rerun goes on from there.
            self.note(sender.progress().records, true)?;
            return Err(failure);
        }
        let mut noted = Ok(());
        let progress = sender.progress().records;
        let finished = sender.finish(|progress| {
            bar.at(progress.items, progress.bytes);
            if noted.is_ok() {
                noted = self.note(progress.records, false);
            }
        });
        noted?;
        match finished {
            Ok(progress) => {
                self.note(progress.records, true)?;
                Ok(progress)
            }
            Err(failure) => {
                self.note(progress, true)?;
                Err(failure)
            }
        }
    }

    fn send(
        &mut self,
        source: &mut dyn Source,
        sender: &mut Sender,
        first: u64,
        bar: &Bar,
    ) -> Result<(), Failure> {
        let mut record = first;
        while let Some(next) = source.next()? {
            match next {
                Next::Item(item) => sender.push(record, item)?,
                Next::Skipped(why) => {
                    sender.skip(record);
                    self.skip(record, &why, bar);
                }
            }
            record += 1;
            if record.is_multiple_of(64) {
                let progress = sender.progress();
                bar.at(progress.items, progress.bytes);
                self.note(progress.records, false)?;
            }
        }
        Ok(())
    }

    fn skip(&mut self, record: u64, why: &str, bar: &Bar) {
        self.skipped.push(record);
        self.named += 1;
        if self.named <= NAMED_MAX {
            bar.remark(|| self.output.warn(&format!("skipped {why}")));
        }
    }

    fn note(&mut self, done: u64, now: bool) -> Result<(), Failure> {
        let Some(resume) = self.resume.as_mut().filter(|resume| now || resume.is_due()) else {
            return Ok(());
        };
        let skipped = self.skipped.iter().filter(|&&record| record < done).count() as u64 + resume.skipped;
        resume.write(done, skipped)
    }

    fn skipped(&self) -> u64 {
        self.skipped.len() as u64 + self.resume.as_ref().map_or(0, |resume| resume.skipped)
    }

    fn sum_up(&mut self, progress: &Progress, time: Duration) -> Result<(), Failure> {
        if self.output.json() {
            return self.output.value(&json!({
                "loaded": progress.items, "bytes": progress.values, "skipped": self.skipped(),
                "records": progress.records, "seconds": time.as_secs_f64(),
            }));
        }
        self.output.line(&format!(
            "loaded {} items, {} in {} ({}, {})",
            human::count(progress.items),
            human::bytes(progress.values),
            human::time(time),
            human::rate(progress.items, time),
            human::byte_rate(progress.values, time),
        ))
    }

    fn verdict(&mut self, verified: Option<verify::Verified>) -> Result<Exit, Failure> {
        if let Some(verified) = verified {
            if self.output.json() {
                let wrong: Vec<&String> = verified.wrong.values().take(NAMED_MAX).collect();
                self.output.value(&json!({
                    "verified": verified.items, "bytes": verified.bytes, "expired": verified.expired,
                    "different": verified.wrong.len(), "first": wrong,
                }))?;
            } else if verified.wrong.is_empty() {
                self.output.line(&verified.text())?;
            }
            if !verified.wrong.is_empty() {
                let named: Vec<String> = verified.wrong.values().take(NAMED_MAX).cloned().collect();
                let text = format!("{}\n  {}", verified.text(), named.join("\n  "));
                return Err(Failure::new(Exit::Corrupt, text)
                    .hint("did the source change, or another client write these keys, meanwhile?"));
            }
        }
        match self.skipped() {
            0 => Ok(Exit::Ok),
            skipped => {
                let text = format!("{} records were skipped, all others are stored", human::count(skipped));
                Err(Failure::new(Exit::Refused, text).hint("the first of them are named above"))
            }
        }
    }
}
