//! `longarm server`: serves until SIGTERM or SIGINT, then hands over, drains and says goodbye to its clients.

mod args;
mod failure;
mod node;

use std::io::{Read, Write};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use longarm_fabric::tcp::{Identity, Tls};
use longarm_index::hash::{Discipline, SlotKind};
use longarm_server::{
    DataOptions, Durability, Eviction, KeepUp, Notice, Pages, Scrubbing, Server, ServerOptions,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

pub use args::Args;
use failure::start_failure;
use node::Node;

use crate::cluster;
use crate::config::units::{show_duration, show_size};
use crate::config::{self, Config, HugePages, Log, Slot, Standby, Updates};
use crate::connect;
use crate::human;
use crate::output::{Exit, Failure, Output, fault};

/// How long a server that stops goes on giving clients their answers.
const DRAIN: Duration = Duration::from_secs(5);

/// The line about the command in help texts.
pub const ABOUT: &str = "Serve a store until told to stop";

/// Serves until it is told to stop.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let node = Node::of(&args, config)?;
    let config = &match &node {
        Some(node) => node.config(config, output),
        None => config.clone(),
    };
    let report = config::check::check(config);
    for warning in &report.warnings {
        output.warn(warning);
    }
    if !report.errors.is_empty() {
        return Err(Failure::new(Exit::Usage, report.errors.join("\nerror: "))
            .hint("`longarm --print-config` shows where each value comes from"));
    }
    let (stop, stopped) = channel();
    // Signals are watched before the server starts: a signal during the start stops it in good order, too.
    watch_signals(stop.clone())?;
    if node.is_some() || config.data.is_some() {
        crash_when_broken();
    }
    let groups = node.as_ref().map(Node::groups).transpose()?.unwrap_or_default();
    let options = ServerOptions { groups, ..options(&args, config)? };
    let server = Server::start(options).map_err(|error| start_failure(&error))?;
    announce(&server, config, node.as_ref());
    if args.stop_with_stdin {
        watch_stdin(stop)?;
    }
    // The watching threads hold the other end as long as the process lives.
    let why = stopped.recv().unwrap_or("nobody is left to stop it");
    say(config, Log::Info, &format!("{why}: draining"));
    let stats = server.all_stats();
    let report = server.stop(DRAIN);
    say(
        config,
        Log::Info,
        &format!(
            "goodbye: {} clients were connected, {} items held, {} writes executed{}",
            report.clients,
            human::count(stats.iter().map(|stats| stats.items).sum()),
            human::count(stats.iter().map(|stats| stats.requests.writes()).sum()),
            if report.drained { "" } else { "; some requests were not answered in time" },
        ),
    );
    if report.panicked > 0 {
        let text =
            format!("{} threads of the server had ended by a broken invariant (see above)", report.panicked);
        return Err(Failure::new(Exit::Corrupt, text).hint("please report it with the lines above"));
    }
    Ok(Exit::Ok)
}

/// Has the process end when one of its threads breaks an invariant. A replica must not go on with the other
/// threads; the rest of its groups do without it. A server that keeps its data goes on when it is started
/// again.
fn crash_when_broken() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

/// Watches for signals: the first asks for a stop, the second ends the process.
fn watch_signals(stop: Sender<&'static str>) -> Result<(), Failure> {
    let refused =
        |error: std::io::Error| Failure::new(Exit::System, format!("cannot watch for signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(refused)?;
    let watch = move || {
        for (i, signal) in signals.forever().enumerate() {
            if i > 0 {
                // Sockets of shm addresses stay behind; the next server removes dead ones.
                std::process::exit(130);
            }
            // The receiver is gone if the start has failed already.
            let _ = stop.send(if signal == SIGINT { "SIGINT" } else { "SIGTERM" });
        }
    };
    std::thread::Builder::new().name("longarm-signals".into()).spawn(watch).map(|_| ()).map_err(refused)
}

fn watch_stdin(stop: Sender<&'static str>) -> Result<(), Failure> {
    let watch = move || {
        let mut bytes = [0; 256];
        while matches!(std::io::stdin().read(&mut bytes), Ok(n) if n > 0) {}
        let _ = stop.send("stdin ended");
    };
    let thread = std::thread::Builder::new().name("longarm-stdin".into()).spawn(watch);
    thread.map(|_| ()).map_err(|error| Failure::new(Exit::System, format!("cannot watch stdin: {error}")))
}

/// The workers, on this machine if their number is not set.
fn workers(config: &Config) -> usize {
    config.workers_of(longarm_host::cores())
}

/// Turns the settings into the options of the server.
fn options(args: &Args, config: &Config) -> Result<ServerOptions, Failure> {
    let level = config.log;
    Ok(ServerOptions {
        addresses: config.address.clone(),
        workers: workers(config),
        memory: config.memory,
        lease: config.lease,
        slots: match config.slot {
            Slot::Inline64 => SlotKind::Inline64,
            Slot::Pointer16 => SlotKind::Pointer16,
        },
        discipline: match config.index_updates {
            Updates::InPlace => Discipline::InPlace,
            Updates::OutOfPlace => Discipline::OutOfPlace,
        },
        expected_items: args.expected_items,
        pages: match config.hugepages {
            HugePages::Auto => Pages::HugeIfAvailable,
            HugePages::On => Pages::Huge,
            HugePages::Off => Pages::Ordinary,
        },
        standby: match config.standby {
            Standby::Idle => KeepUp::WhileIdle,
            Standby::Always => KeepUp::Always,
        },
        ordered: config.ordered,
        eviction: match config.eviction {
            config::Eviction::None => Eviction::None,
            config::Eviction::Lru => Eviction::Lru,
        },
        max_clients: config.max_clients,
        ring_bytes: config.ring_bytes,
        spin: Duration::from_micros(config.spin_us),
        login: connect::login(config)?,
        peers: connect::peers(config)?,
        tls: tls(config)?,
        verbs: config.verbs.transport(),
        data: data(args, config),
        log: longarm_server::Log::new(move |line| match line.notice {
            Notice::Fault => remark(&fault(line.text)),
            _ if level >= Log::Warn => remark(line.text),
            _ => {}
        }),
        ..ServerOptions::default()
    })
}

/// Where a server of its own keeps its data. A node of a cluster keeps promises there.
fn data(args: &Args, config: &Config) -> Option<DataOptions> {
    let dir = config.data.clone().filter(|_| config.cluster.is_none())?;
    let durability = match config.durability {
        config::Durability::Async => Durability::Async { window: config.loss_window },
        config::Durability::Sync | config::Durability::Pmem => Durability::Sync,
    };
    let medium = config.pmem.medium(config.durability == config::Durability::Pmem);
    let scrubbing = Scrubbing::hourly(config.scrub_rate);
    let vault = config.vault_dir.clone();
    Some(DataOptions { dir, vault, durability, medium, accept_damage: args.accept_damage, scrubbing })
}

fn tls(config: &Config) -> Result<Option<Tls>, Failure> {
    let Some((certificate, key)) = config.tls.cert.clone().zip(config.tls.key.clone()) else {
        return Ok(None);
    };
    let wrong = |error| Failure::new(Exit::Usage, format!("TLS settings: {error}"));
    let identity = Identity { certificate, key };
    let tls = Tls::default().with_server(&identity, config.tls.client_ca.as_deref()).map_err(wrong)?;
    match (&config.cluster, &config.tls.server_ca) {
        // A replica is a client of the other replicas.
        (Some(_), Some(ca)) => tls.with_client(ca, Some(&identity), None).map(Some).map_err(wrong),
        _ => Ok(Some(tls)),
    }
}

fn announce(server: &Server, config: &Config, node: Option<&Node>) {
    let pid = std::process::id();
    let who = node.map_or_else(String::new, |node| format!(", {}", node.name()));
    for address in server.addresses() {
        let how = match address {
            longarm_fabric::Address::Shm(_) => "shared memory: clients map it and read it themselves",
            longarm_fabric::Address::Verbs(_) => "RDMA: clients' NICs read it",
            _ if config.tls.cert.is_some() => "software NIC over TLS",
            _ => "software NIC",
        };
        say(config, Log::Info, &format!("listening at {address} ({how}), pid {pid}{who}"));
    }
    let lease = node.map_or(config.lease, |node| {
        let dir = node.dir().display();
        let what = match node.cluster.durability {
            cluster::Durability::Memory => "what it promises is kept".to_string(),
            mode => format!("what it promises, and its data ({}), are kept", mode.name()),
        };
        say(config, Log::Info, &format!("{}: {what} in {dir}", node.name()));
        Duration::from_nanos(node.cluster.timing.promise.0)
    });
    let shared = match node.map_or(1, Node::replicas) {
        1 => String::new(),
        count => format!(" for {count} groups"),
    };
    say(
        config,
        Log::Info,
        &format!(
            "memory {}{shared}, slots of {} bytes{}, lease {}, {} worker{}, eviction {}, login {}",
            show_size(config.memory),
            config.slot.bytes(),
            if config.index_updates == Updates::OutOfPlace { " out of place" } else { "" },
            show_duration(lease),
            workers(config),
            if workers(config) == 1 { "" } else { "s" },
            config.eviction.name(),
            if config.secret_file.is_some() { "by secret" } else { "not asked for" },
        ),
    );
    warn_of_checks(config);
}

/// Says so if the simulator is compiled into the same program: cargo builds what a workspace shares with the
/// features of all of it. Such a server checks each take-over against all entries, which takes seconds.
fn warn_of_checks(config: &Config) {
    if longarm_host::observe::WATCHED {
        let line = "built together with the simulator, so it checks itself and is slow: for figures, build \
                    it with `cargo build --release -p longarm`";
        say(config, Log::Info, line);
    }
}

fn say(config: &Config, level: Log, line: &str) {
    if config.log >= level {
        remark(line);
    }
}

/// Writes a line to stderr; a closed stderr must not stop a server.
fn remark(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{} longarm: {line}", human::moment(longarm_host::unix()));
}
