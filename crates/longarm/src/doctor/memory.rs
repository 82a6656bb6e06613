//! Examines the memory: how much there is, in which pages, and how much may be locked.

use longarm_base::limits::{LINE, SEGMENT_BYTES};

use super::probe::verbs_addresses;
use super::{Finding, Machine};
use crate::config::units::show_size;
use crate::config::{Config, HugePages};

const HUGE_PAGE: u64 = 2 << 20;
/// A bound on what rounding adds to the regions, with the control page.
const ROUNDING: u64 = 2 << 20;
/// Bytes of the ring for the requests of a client that scans, on a connection of its own.
const SCAN_RING: u64 = 16 << 10;

fn meminfo(machine: &Machine, name: &str) -> Option<u64> {
    let text = machine.read("proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut words = line.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let unit = if words.next() == Some("kB") { 1024 } else { 1 };
    number.checked_mul(unit)
}

/// Shows whole MiB, since exact bytes are noise here.
fn show(bytes: u64) -> String {
    show_size(bytes >> 20 << 20)
}

pub fn available(machine: &Machine, config: &Config) -> Finding {
    let Some(free) = meminfo(machine, "MemAvailable") else {
        return Finding::warn("memory", "unknown: /proc/meminfo says nothing", "mount /proc");
    };
    let mut found = format!("{} available, {} configured", show(free), show_size(config.memory));
    // A NIC wants every page from the start; without one pages come as they are used, up to the limit.
    let registers = verbs_addresses(config).next().is_some();
    let halves = if registers { registered_halves(config) } else { 2 };
    if registers {
        let tree = if config.ordered { " and again half of it" } else { "" };
        found.push_str(&format!(", twice that{tree} locked for RDMA"));
    }
    let needed = (config.memory / 2).saturating_mul(halves);
    if needed > free {
        let most = show(free / halves * 2);
        return Finding::bad("memory", found, format!("set memory to less than {most}"));
    }
    if needed > free / 10 * 9 {
        return Finding::warn(
            "memory",
            found,
            "leave a tenth for clients, page tables and the rest of the machine",
        );
    }
    Finding::ok("memory", found)
}

pub fn page(machine: &Machine) -> Finding {
    let found = format!("{} pages", show_size(machine.page));
    if machine.page == 4096 {
        Finding::ok("pages", found)
    } else {
        Finding::bad("pages", found, "regions are laid out for 4KiB pages; use a kernel that has them")
    }
}

pub fn huge(machine: &Machine, config: &Config) -> Finding {
    let dir = "sys/kernel/mm/hugepages/hugepages-2048kB";
    let read = |name: &str| machine.read(&format!("{dir}/{name}")).and_then(|text| text.parse::<u64>().ok());
    let (total, free) = (read("nr_hugepages").unwrap_or(0), read("free_hugepages").unwrap_or(0));
    let needed = config.memory.div_ceil(HUGE_PAGE);
    let found = format!("{free} of {total} reserved 2MiB pages free, {needed} needed");
    let advice = format!("echo {} > /{dir}/nr_hugepages (as root)", total - free.min(total) + needed);
    match config.hugepages {
        HugePages::Off => Finding::ok("hugepages", format!("{found}; not used (hugepages = off)")),
        _ if free >= needed => Finding::ok("hugepages", found),
        HugePages::On => Finding::bad("hugepages", found, format!("{advice}, or set hugepages = auto")),
        HugePages::Auto => {
            let instead = "the index takes transparent ones instead where the kernel can (Linux 6.1)";
            Finding::warn("hugepages", format!("{found}; {instead}"), advice)
        }
    }
}

pub fn shared_huge(machine: &Machine) -> Finding {
    let path = "sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let Some(text) = machine.read(path) else {
        let advice = "the kernel lacks transparent huge pages; reserve huge pages instead";
        return Finding::warn("shmem-thp", "not there", advice);
    };
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        Some(chosen @ ("always" | "within_size" | "advise" | "force")) => Finding::ok("shmem-thp", chosen),
        Some("deny") => {
            let advice = format!("echo advise > /{path} (as root), or reserve huge pages");
            Finding::warn("shmem-thp", "deny: memory files get small pages only", advice)
        }
        Some(chosen) => {
            let advice = format!("echo advise > /{path} (as root), or reserve huge pages");
            let found = format!("{chosen}: small pages, but for the index, which asks for huge ones itself");
            Finding::warn("shmem-thp", found, advice)
        }
        None => {
            Finding::warn("shmem-thp", format!("{text:?} names no choice"), "expected one word in brackets")
        }
    }
}

/// Examines whether a server may lock the memory that a NIC accesses.
pub fn lockable(machine: &Machine, config: &Config) -> Finding {
    let limit = machine.lockable.map_or("unlimited".to_string(), show_size);
    let needed = registered(config);
    if machine.lockable.is_none_or(|bytes| bytes >= needed) {
        return Finding::ok("memlock", limit);
    }
    if locks_beyond_limits(machine) {
        return Finding::ok("memlock", format!("{limit}, from which CAP_IPC_LOCK exempts this process"));
    }
    let tree = if config.ordered { ", half of it for the ordered index" } else { "" };
    let found = format!(
        "{limit}; a verbs server with these settings locks up to {}: its memory for index and again for \
         items{tree}, and rings and buffers of {} clients",
        show(needed),
        config.max_clients
    );
    if verbs_addresses(config).next().is_none() {
        return Finding::ok(
            "memlock",
            format!("{found}. No address is a verbs address; shm and tcp lock none"),
        );
    }
    let kib = needed.div_ceil(1024);
    let advice = format!(
        "ulimit -l {kib} (or unlimited), LimitMEMLOCK=infinity in its systemd unit, or memlock in \
         /etc/security/limits.conf"
    );
    Finding::warn("memlock", found, advice)
}

/// How many halves of its memory limit a verbs server registers: all of the index, as much again for items,
/// and the memory of an ordered index.
fn registered_halves(config: &Config) -> u64 {
    if config.ordered { 5 } else { 4 }
}

/// Estimates the bytes that a verbs server registers: its regions with each device on which it listens, and
/// for each client the ring and the connection's own buffers, once more if it scans.
fn registered(config: &Config) -> u64 {
    let listeners = verbs_addresses(config).count().max(1) as u64;
    // The arena has a line for each segment, too.
    let table = config.memory / SEGMENT_BYTES * LINE;
    let regions = (config.memory / 2).saturating_mul(registered_halves(config));
    let lent = regions.saturating_add(table + ROUNDING);
    let buffers = config.verbs.transport().bytes_per_connection() as u64;
    let scans = if config.ordered { buffers + SCAN_RING } else { 0 };
    let clients = (buffers + config.ring_bytes + scans).saturating_mul(config.max_clients as u64);
    lent.saturating_mul(listeners).saturating_add(clients)
}

/// Whether the process has CAP_IPC_LOCK. The capability counts in the first user namespace only: the root of
/// a container without privileges has it in vain.
fn locks_beyond_limits(machine: &Machine) -> bool {
    const IPC_LOCK: u32 = 14;
    let status = machine.read("proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = set.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    let map = machine.read("proc/self/uid_map");
    let is_first = map.is_none_or(|map| map.split_whitespace().eq(["0", "0", "4294967295"]));
    set >> IPC_LOCK & 1 == 1 && is_first
}
