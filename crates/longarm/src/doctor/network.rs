//! Examines open files, NICs and RDMA devices.

use super::{Finding, Machine};
use crate::config::Config;

/// Descriptors of one shm client: socket, its ring, the answer ring, two event counters.
const FILES_PER_CLIENT: u64 = 5;
/// Descriptors that a server opens for itself.
const FILES_OWN: u64 = 64;

pub fn files(machine: &Machine, config: &Config) -> Finding {
    let needed = config.max_clients as u64 * FILES_PER_CLIENT + FILES_OWN;
    let show = |limit: Option<u64>| limit.map_or("unlimited".to_string(), |limit| limit.to_string());
    let (soft, hard) = machine.files;
    let found = format!(
        "{} may be open (at most {}), {needed} needed for {} clients",
        show(soft),
        show(hard),
        config.max_clients
    );
    if soft.is_none_or(|limit| limit >= needed) {
        return Finding::ok("files", found);
    }
    let fits = soft.unwrap_or(0).saturating_sub(FILES_OWN) / FILES_PER_CLIENT;
    if hard.is_none_or(|limit| limit >= needed) {
        return Finding::warn("files", found, format!("ulimit -n {needed}, or set max_clients = {fits}"));
    }
    let advice =
        format!("raise LimitNOFILE= (or nofile in limits.conf) to {needed}, or set max_clients = {fits}");
    Finding::warn("files", found, advice)
}

pub fn nics(machine: &Machine) -> Finding {
    let mut shown = Vec::new();
    for name in machine.list("sys/class/net") {
        let read = |file: &str| machine.read(&format!("sys/class/net/{name}/{file}"));
        let state = read("operstate").unwrap_or_else(|| "unknown".into());
        // Virtual interfaces have no speed, and a link that is down says -1.
        let speed = read("speed").and_then(|text| text.parse::<u64>().ok()).filter(|speed| *speed > 0);
        let speed = speed.map_or(String::new(), |megabits| format!(" {megabits} Mb/s"));
        shown.push(format!("{name} {state}{speed}"));
    }
    if shown.is_empty() {
        return Finding::warn("nics", "none", "tcp works on this host alone; shm needs no NIC");
    }
    Finding::ok("nics", shown.join(", "))
}
