//! Judges a whole configuration, by relations that no single value shows.

use std::path::Path;

use longarm_base::limits;
use longarm_fabric::verbs::RETRIES_MAX;
use longarm_fabric::{Address, RECEIVES};

use super::units::{show_duration, show_size};
use super::{Config, Durability, Updates};

/// The least memory with which a server starts: the index and some segments of each size class must fit.
pub const MEMORY_MIN: u64 = 16 << 20;
const RING_MIN: u64 = 16 << 10;
const RING_MAX: u64 = 64 << 20;
/// The most threads of a server that execute writes.
pub const WORKERS_MAX: usize = 64;
const LEASE_MIN_MS: u128 = 1;
const LEASE_MAX_MS: u128 = 60_000;
const SPIN_US_MAX: u64 = 1_000_000;
const SECRET_MIN: u64 = 16;
const SECRET_MAX: u64 = 4096;

/// The faults of a configuration, and its doubtful settings.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Report {
    /// Faults with which a server does not start.
    pub errors: Vec<String>,
    /// Doubts about a configuration with which a server starts: its user should know of them.
    pub warnings: Vec<String>,
}

/// Checks the relations of the values, and the files that they name.
pub fn check(config: &Config) -> Report {
    let mut report = Report::default();
    numbers(config, &mut report.errors);
    addresses(config, &mut report);
    files(config, &mut report);
    let named = |keys: &str, text: &str| format!("{keys} ({}): {text}", config.origin(keys));
    let replica = [
        ("cluster", config.cluster.is_some()),
        ("ordered", config.ordered),
        ("data", config.data.is_some() && config.cluster.is_none() && config.durability != Durability::Pmem),
    ];
    if let Some((key, _)) = replica.into_iter().find(|(_, is_set)| *is_set)
        && config.index_updates == Updates::OutOfPlace
    {
        let unless = if key == "data" { ", unless it is in persistent memory (durability pmem)" } else { "" };
        let text = format!(
            "out-of-place does not go with {key} ({}): there each item is an entry{unless}",
            config.origin(key)
        );
        report.errors.push(named("index_updates", &text));
    }
    report
}

fn numbers(config: &Config, errors: &mut Vec<String>) {
    let mut range = |key: &str, ok: bool, shown: String, bounds: String| {
        if !ok {
            errors.push(format!("{key} ({}): {shown} is out of range; {bounds}", config.origin(key)));
        }
    };
    let memory_max = limits::SEGMENTS_MAX * limits::SEGMENT_BYTES;
    range(
        "memory",
        (MEMORY_MIN..=memory_max).contains(&config.memory),
        show_size(config.memory),
        format!("expected {} to {}", show_size(MEMORY_MIN), show_size(memory_max)),
    );
    range(
        "workers",
        config.workers.is_none_or(|workers| (1..=WORKERS_MAX).contains(&workers)),
        config.workers.map_or("auto".into(), |workers| workers.to_string()),
        format!("expected 1 to {WORKERS_MAX}, or auto"),
    );
    range(
        "lease",
        (LEASE_MIN_MS..=LEASE_MAX_MS).contains(&config.lease.as_millis()),
        show_duration(config.lease),
        "expected 1ms to 1min".into(),
    );
    range(
        "max_clients",
        (1..=limits::CLIENTS_MAX).contains(&config.max_clients),
        config.max_clients.to_string(),
        format!("expected 1 to {}", limits::CLIENTS_MAX),
    );
    range(
        "ring_bytes",
        config.ring_bytes.is_power_of_two() && (RING_MIN..=RING_MAX).contains(&config.ring_bytes),
        show_size(config.ring_bytes),
        format!("expected a power of two from {} to {}", show_size(RING_MIN), show_size(RING_MAX)),
    );
    range(
        "spin_us",
        config.spin_us <= SPIN_US_MAX,
        config.spin_us.to_string(),
        format!("expected at most {SPIN_US_MAX}"),
    );
    range(
        "verbs.timeout",
        (1..=31).contains(&config.verbs.timeout),
        config.verbs.timeout.to_string(),
        "expected 1 to 31".into(),
    );
    range(
        "verbs.retries",
        config.verbs.retries <= RETRIES_MAX,
        config.verbs.retries.to_string(),
        format!("expected 0 to {RETRIES_MAX}"),
    );
    range(
        "verbs.receives",
        (RECEIVES as u16..=4096).contains(&config.verbs.receives),
        config.verbs.receives.to_string(),
        format!("expected {RECEIVES} to 4096"),
    );
    range(
        "timeout",
        !config.timeout.is_zero(),
        show_duration(config.timeout),
        "expected more than nothing".into(),
    );
}

fn addresses(config: &Config, report: &mut Report) {
    let origin = config.origin("address");
    for (i, address) in config.address.iter().enumerate() {
        if config.address[..i].contains(address) {
            report.errors.push(format!("address ({origin}): {address} is listed twice"));
        }
        match address {
            Address::Tcp(host) if !is_loopback(host) => {
                let proof = config.secret_file.is_some() || config.tls.client_ca.is_some();
                if !proof {
                    report.warnings.push(format!(
                        "address ({origin}): {address} lets in everybody who reaches it; set secret_file or \
                         tls.client_ca"
                    ));
                }
            }
            // TLS does not reach what NICs exchange, so only a secret keeps strangers out.
            Address::Verbs(_) if config.secret_file.is_none() => report.warnings.push(format!(
                "address ({origin}): {address} lets in everybody who reaches it; set secret_file"
            )),
            _ => {}
        }
        let remote = match address {
            Address::Tcp(host) => !is_loopback(host),
            Address::Verbs(_) => true,
            _ => false,
        };
        if remote && config.cluster.is_some() && config.peer_secret_file.is_none() {
            report.warnings.push(format!(
                "address ({origin}): {address} is of a cluster whose clients may pass for replicas and \
                 operators; set peer_secret_file for its nodes and operators"
            ));
        }
    }
}

/// Whether the text of `host` names the loopback. Checking a configuration resolves no name.
fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name == "[::1]" || name.starts_with("127.")
}

fn files(config: &Config, report: &mut Report) {
    let tls = &config.tls;
    if tls.cert.is_some() != tls.key.is_some() {
        let (have, lack) = if tls.cert.is_some() { ("tls.cert", "tls.key") } else { ("tls.key", "tls.cert") };
        report.errors.push(format!("{have} ({}) needs {lack} beside it", config.origin(have)));
    }
    if tls.client_ca.is_some() && tls.cert.is_none() {
        let origin = config.origin("tls.client_ca");
        report
            .errors
            .push(format!("tls.client_ca ({origin}) needs tls.cert and tls.key: it is checked over TLS"));
    }
    let named = [
        ("tls.cert", &tls.cert, false),
        ("tls.key", &tls.key, true),
        ("tls.client_ca", &tls.client_ca, false),
        ("tls.server_ca", &tls.server_ca, false),
        ("secret_file", &config.secret_file, true),
        ("peer_secret_file", &config.peer_secret_file, true),
        ("cluster", &config.cluster, true),
    ];
    for (key, path, secret) in named {
        let Some(path) = path else { continue };
        if let Err(fault) = readable(path, secret, report, key) {
            report.errors.push(format!("{key} ({}): {}: {fault}", config.origin(key), path.display()));
        }
    }
}

fn readable(path: &Path, secret: bool, report: &mut Report, key: &str) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("is not a file".into());
    }
    std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mode = about.permissions().mode() & 0o777;
    if secret && mode & 0o077 != 0 {
        report.warnings.push(format!(
            "{key}: others may read {} (mode {mode:o}); run chmod 600 {}",
            path.display(),
            path.display()
        ));
    }
    if key.ends_with("secret_file") && !(SECRET_MIN..=SECRET_MAX).contains(&about.len()) {
        return Err(format!("has {} bytes; a secret has {SECRET_MIN} to {SECRET_MAX}", about.len()));
    }
    Ok(())
}
