//! `longarm demo`: the whole store at work in under a minute, leaving nothing behind.
//!
//! The server is a process of its own, so that its CPU time can be told apart: [`host`]. The demo loads a
//! tree of files, and items that describe themselves ([`crate::items`]), so that a reader can judge every
//! byte of a value that a writer changes meanwhile. [`work`] has the threads that read and write.

mod group;
mod host;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::config::Config;
use crate::connect;
use crate::flags::duration;
use crate::human;
use crate::items::described::{scratch_item, small_item};
use crate::items::item::{Item, Next, Source};
use crate::items::send::{Progress, Sender, Sending};
use crate::items::tree::{Listed, Tree, refuse_empty};
use crate::output::{Exit, Failure, Output};
use crate::structures::live::{Soundness, soundness};
use host::Host;
use work::{PREFIX, Plan, Totals, Work};

/// The line about the command in help texts.
pub const ABOUT: &str =
    "Start a server, load real files and a million items, read all back while writers update";

/// The arguments of `longarm demo`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Ends with 6 if a single byte differs.")]
pub struct Args {
    /// Directory tree to load; without it the largest at hand of cargo's downloaded sources, the sources of
    /// Longarm, and the working directory
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,

    /// Small items to load beside it
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = items())]
    pub items: u64,

    /// Clients that update while everything is read back
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub writers: u16,

    /// How long the read phase lasts
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub time: Duration,

    /// Show a group of three replicas instead: its leaders are killed under load, and nothing is lost
    #[arg(long, conflicts_with_all = ["tree", "items", "writers", "time"])]
    pub group: bool,
}

fn items() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=100_000_000)
}

/// The number of clients that load and read.
const CLIENTS: u16 = 2;
/// The number of values of up to 64 KiB that writers replace while readers check them.
const SCRATCH: u64 = 512;
/// Bounds on what is taken of a tree.
const FILES_MAX: usize = 30_000;
const TREE_BYTES_MAX: u64 = 512 << 20;
/// The number of files from which on a tree of cargo's sources is preferred.
const FILES_ENOUGH: usize = 1000;
/// How long the phase without writers lasts.
const READ_ONLY: Duration = Duration::from_secs(3);

const NEXT: &str = "
Next: `longarm doctor`, `longarm server --memory 2GiB`, then `longarm put greeting hello` and
      `longarm get greeting`; `longarm bench c --clients 1,2` measures, `longarm --help` lists the rest.";

/// Runs the demo.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Failure::new(Exit::System, format!("cannot watch for signals: {error}")))?;
    }
    if args.group {
        return group::run(config, stop, output);
    }
    let (root, tree) = choose_tree(args.tree.as_deref())?;
    let bytes = tree.total().bytes.unwrap_or(0);
    // Segments are collected half empty at worst; an index of 64-byte slots is at worst a third full, and
    // grows.
    let memory = ((2 * bytes) + args.items * 512 + (256 << 20)).next_multiple_of(64 << 20);
    let host = Host::start(config, memory)?;
    let demo = Demo { args: &args, config: host.config().clone(), host: &host, stop, output, root };
    // Whatever comes of the demo, `host` ends the server and removes the directory when it is dropped.
    demo.run(tree)
}

struct Demo<'a> {
    args: &'a Args,
    config: Config,
    host: &'a Host,
    stop: Arc<AtomicBool>,
    output: &'a mut Output,
    root: PathBuf,
}

impl Demo<'_> {
    fn run(mut self, tree: Tree) -> Result<Exit, Failure> {
        let began = Instant::now();
        let transport = connect::connect(&self.config, "longarm demo")?.describe();
        self.say(&format!("server      pid {}, transport {transport}", self.host.pid()))?;
        let files: Vec<Listed> = tree.files().to_vec();
        let names = format!("files of {}", self.root.display());
        let tree = self.load(&names, TreeItems(tree))?;
        let small = (0..self.args.items).map(|number| Ok(small_item(number, 0)));
        let small = self.load("items of 16 and 32 bytes", small)?;
        let scratch = (0..SCRATCH).map(|number| Ok(scratch_item(number, 0)));
        self.load("values that writers replace", scratch)?;
        let plan = Plan {
            root: self.root.clone(),
            files: Arc::new(files),
            items: self.args.items,
            scratch: SCRATCH,
            stop: self.stop.clone(),
        };
        let mixed = self.phase("reading, writers update", &plan, self.args.writers, self.args.time, true)?;
        let quiet = self.phase("reading only", &plan, 0, READ_ONLY, false)?;
        self.interrupted()?;
        let sound = self.inspect()?;
        let (cpu, time) = (self.host.cpu(), began.elapsed());
        self.verdict(&Figures { tree, small, mixed, quiet, sound, cpu, time })
    }

    fn say(&mut self, line: &str) -> Result<(), Failure> {
        if self.output.json() { Ok(()) } else { self.output.line(line) }
    }

    fn interrupted(&self) -> Result<(), Failure> {
        // Relaxed: a flag that a signal sets; nothing is read under it.
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::new(
                Exit::System,
                "interrupted; the server is stopped and its files are removed",
            ));
        }
        Ok(())
    }

    fn load(
        &mut self,
        what: &str,
        items: impl Iterator<Item = Result<Item, Failure>>,
    ) -> Result<Progress, Failure> {
        let began = Instant::now();
        let mut sender =
            Sender::start(&self.config, &Sending { clients: CLIENTS, pipeline: 64, ttl: None }, 0)?;
        for (record, item) in (0..).zip(items) {
            sender.push(record, item?)?;
            if record.is_multiple_of(256) {
                self.interrupted()?;
            }
        }
        let progress = sender.finish(|_| {})?;
        let time = began.elapsed();
        self.say(&format!(
            "loaded      {} {what}: {} in {}, {}",
            human::count(progress.items),
            human::bytes(progress.values),
            human::time(time),
            human::rate(progress.items, time),
        ))?;
        Ok(progress)
    }

    /// Reads for `time`, and with `all` until the readers have seen all files and items at least once.
    fn phase(
        &mut self,
        what: &'static str,
        plan: &Plan,
        writers: u16,
        time: Duration,
        all: bool,
    ) -> Result<Phase, Failure> {
        self.interrupted()?;
        let cpu = self.host.cpu();
        let work = Work::start(&self.config, plan, CLIENTS, writers, all)?;
        let began = Instant::now();
        let mut before = (began, Totals::default());
        while (began.elapsed() < time || (all && !work.seen_all())) && work.goes_on() {
            std::thread::park_timeout(Duration::from_millis(50));
            let now = Instant::now();
            if now - before.0 < Duration::from_secs(1) {
                continue;
            }
            let totals = work.totals();
            let (gone, then) = (now - before.0, before.1);
            self.say(&format!(
                "{:>4.0} s      {what}: {} GETs, {} checked, {} updates; server CPU {:.2} s",
                began.elapsed().as_secs_f64(),
                human::rate(totals.gets - then.gets, gone),
                human::byte_rate(totals.bytes - then.bytes, gone),
                human::rate(totals.updates - then.updates, gone),
                self.host.cpu() - cpu,
            ))?;
            before = (now, totals);
        }
        let totals = work.finish()?;
        Ok(Phase { totals, time: began.elapsed(), cpu: self.host.cpu() - cpu })
    }

    /// Looks afresh at every structure of the live server.
    fn inspect(&mut self) -> Result<Soundness, Failure> {
        let sound = soundness(&self.config)?;
        self.say(&format!(
            "inspected   {} items in {} tables, {} live entries: every invariant holds",
            human::count(sound.items),
            sound.tables,
            human::count(sound.entries),
        ))?;
        Ok(sound)
    }

    fn verdict(&mut self, figures: &Figures) -> Result<Exit, Failure> {
        let Figures { tree, small, mixed, quiet, sound, cpu, time } = figures;
        if self.output.json() {
            self.output.value(&json!({
                "files": tree.items, "file_bytes": tree.values, "items": small.items,
                "mixed": mixed.to_json(), "read_only": quiet.to_json(), "inspected": sound.items,
                "server_cpu_seconds": cpu, "seconds": time.as_secs_f64(), "mismatches": 0,
            }))?;
            return Ok(Exit::Ok);
        }
        let checked = mixed.totals.bytes + quiet.totals.bytes;
        let gets = mixed.totals.gets + quiet.totals.gets;
        let changed = mixed.totals.changed + quiet.totals.changed;
        self.say(&format!(
            "reads only  {} GETs in {}: {}; the server used {:.2} s of CPU",
            human::count(quiet.totals.gets),
            human::time(quiet.time),
            human::rate(quiet.totals.gets, quiet.time),
            quiet.cpu,
        ))?;
        self.say(&format!(
            "whole run   {}, server CPU {cpu:.2} s, {} updates while reading",
            human::time(*time),
            human::count(mixed.totals.updates),
        ))?;
        if changed > 0 {
            self.say(&format!(
                "            {changed} reads of files that changed on disk meanwhile were not compared"
            ))?;
        }
        self.say(&format!(
            "PASSED      {} GETs, {} compared byte for byte, no difference",
            human::count(gets),
            human::bytes(checked),
        ))?;
        self.say(NEXT)?;
        Ok(Exit::Ok)
    }
}

/// The figures of the whole run.
struct Figures {
    /// The files that were loaded.
    tree: Progress,
    /// The small items that were loaded.
    small: Progress,
    /// The phase in which writers update.
    mixed: Phase,
    /// The phase of reads alone.
    quiet: Phase,
    /// What the inspection of the server found.
    sound: Soundness,
    /// Seconds of CPU time that the server used.
    cpu: f64,
    /// How long the run took.
    time: Duration,
}

/// The figures of one phase.
struct Phase {
    totals: Totals,
    time: Duration,
    cpu: f64,
}

impl Phase {
    fn to_json(&self) -> serde_json::Value {
        json!({
            "gets": self.totals.gets, "bytes": self.totals.bytes, "updates": self.totals.updates,
            "changed_on_disk": self.totals.changed, "seconds": self.time.as_secs_f64(),
            "server_cpu_seconds": self.cpu,
        })
    }
}

/// The files of a tree as items; files that cannot be items are left out.
struct TreeItems(Tree);

impl Iterator for TreeItems {
    type Item = Result<Item, Failure>;

    fn next(&mut self) -> Option<Result<Item, Failure>> {
        loop {
            match self.0.next() {
                Ok(Some(Next::Item(item))) => return Some(Ok(item)),
                Ok(Some(Next::Skipped(_))) => {}
                Ok(None) => return None,
                Err(failure) => return Some(Err(failure)),
            }
        }
    }
}

/// Opens the named tree, or the best at hand, cut to the bounds.
fn choose_tree(named: Option<&Path>) -> Result<(PathBuf, Tree), Failure> {
    let open = |root: &Path| -> Result<(PathBuf, Tree), Failure> {
        let mut tree = Tree::open(root, PREFIX)?;
        let mut bytes = 0;
        let within = tree.files().iter().take(FILES_MAX).take_while(|file| {
            bytes += file.stamp[0];
            bytes <= TREE_BYTES_MAX
        });
        let files = within.count();
        tree.truncate(files);
        refuse_empty(&tree)?;
        Ok((root.into(), tree))
    };
    if let Some(root) = named {
        return open(root);
    }
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    if let Some(Ok(found)) = cargo.map(|cargo| open(&cargo.join("registry/src")))
        && found.1.files().len() >= FILES_ENOUGH
    {
        return Ok(found);
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    open(own).or_else(|_| open(Path::new(".")))
}
