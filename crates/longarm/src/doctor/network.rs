//! Open files, NICs and RDMA devices.

use super::{Finding, Machine};
use crate::config::Config;

/// Descriptors of one shm client: socket, its ring, the answer ring, two event counters.
const FILES_PER_CLIENT: u64 = 5;
/// What a server opens for itself.
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

pub fn rdma(machine: &Machine) -> Finding {
    let devices = machine.list("sys/class/infiniband");
    let absent = "this build has no verbs transport: shm and tcp serve";
    if devices.is_empty() {
        return Finding::ok("rdma", format!("no device in /sys/class/infiniband; {absent}"));
    }
    let mut shown = Vec::new();
    let mut lacks = Vec::new();
    for device in &devices {
        let ports = machine.list(&format!("sys/class/infiniband/{device}/ports"));
        for port in ports {
            let read =
                |file: &str| machine.read(&format!("sys/class/infiniband/{device}/ports/{port}/{file}"));
            let state = read("state").unwrap_or_else(|| "unknown".into());
            let rate = read("rate").unwrap_or_else(|| "unknown rate".into());
            if !state.contains("ACTIVE") {
                lacks.push(format!("{device}/{port}: bring the link up"));
            }
            shown.push(format!("{device}/{port} {state} {rate}"));
        }
    }
    if !machine.has("dev/infiniband/uverbs0") {
        lacks.push("load ib_uverbs (no /dev/infiniband/uverbs0)".into());
    }
    if !machine.has("sys/module/rdma_ucm") {
        lacks.push("load rdma_ucm for connection set-up".into());
    }
    let found = format!("{}; {absent}", shown.join(", "));
    if lacks.is_empty() { Finding::ok("rdma", found) } else { Finding::warn("rdma", found, lacks.join("; ")) }
}
