//! Memory: how much, in which pages, and how much may be locked.

use super::{Finding, Machine};
use crate::config::units::show_size;
use crate::config::{Config, HugePages};

const HUGE_PAGE: u64 = 2 << 20;

fn meminfo(machine: &Machine, name: &str) -> Option<u64> {
    let text = machine.read("proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut words = line.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let unit = if words.next() == Some("kB") { 1024 } else { 1 };
    number.checked_mul(unit)
}

/// Whole MiB: exact bytes are noise here.
fn show(bytes: u64) -> String {
    show_size(bytes >> 20 << 20)
}

pub fn available(machine: &Machine, config: &Config) -> Finding {
    let Some(free) = meminfo(machine, "MemAvailable") else {
        return Finding::warn("memory", "unknown: /proc/meminfo says nothing", "mount /proc");
    };
    let found = format!("{} available, {} configured", show(free), show_size(config.memory));
    if config.memory > free {
        return Finding::bad("memory", found, format!("set memory to less than {}", show(free)));
    }
    if config.memory > free / 10 * 9 {
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

pub fn lockable(machine: &Machine, config: &Config) -> Finding {
    match machine.lockable {
        None => Finding::ok("memlock", "unlimited"),
        Some(bytes) if bytes >= config.memory => Finding::ok("memlock", show(bytes)),
        Some(bytes) => Finding::warn(
            "memlock",
            format!("{}, less than the memory configured", show_size(bytes)),
            "shm and tcp do not lock memory; a NIC will: raise `ulimit -l` or LimitMEMLOCK= to unlimited",
        ),
    }
}
