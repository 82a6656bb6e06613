//! Examines kernel, cores, instructions and clock.

use super::{Finding, Machine};
use crate::config::{Config, Durability, Updates};

/// The first kernel that has all that the shared-memory transport needs: sealed memory files with a mode of
/// their own.
const KERNEL_MIN: (u32, u32) = (5, 4);

pub fn kernel(machine: &Machine) -> Finding {
    let Some(release) = machine.read("proc/sys/kernel/osrelease") else {
        return Finding::warn(
            "kernel",
            "unknown: /proc is not readable",
            "mount /proc; the other lines need it too",
        );
    };
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= KERNEL_MIN => Finding::ok("kernel", release),
        (Some(_), Some(_)) => {
            let (major, minor) = KERNEL_MIN;
            Finding::bad("kernel", release, format!("use Linux {major}.{minor} or newer"))
        }
        _ => Finding::warn("kernel", format!("{release:?} is no version"), "expected a number such as 6.1.0"),
    }
}

pub fn cores(machine: &Machine, config: &Config) -> Finding {
    let workers = config.workers_of(machine.cores);
    let configured = if config.workers.is_some() { "configured" } else { "by default" };
    let found = format!("{} usable, {workers} workers {configured}", machine.cores);
    if workers > machine.cores {
        return Finding::warn("cores", found, format!("set workers to at most {}", machine.cores));
    }
    if machine.cores == 1 {
        let advice = "clients and server take turns; set spin_us = 0, or give the process a second core";
        return Finding::warn("cores", found, advice);
    }
    Finding::ok("cores", found)
}

/// What `/proc/cpuinfo` says that the processor has.
fn flags_of(machine: &Machine) -> Option<Vec<String>> {
    let info = machine.read("proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let (_, flags) = line.and_then(|line| line.split_once(':'))?;
    Some(flags.split_whitespace().map(str::to_string).collect())
}

/// How the index replaces records, and what that takes of the processor.
pub fn updates(machine: &Machine, config: &Config) -> Finding {
    let name = config.index_updates.name();
    if config.index_updates == Updates::InPlace {
        return Finding::ok("index", format!("updates {name}"));
    }
    let flags = flags_of(machine).unwrap_or_default();
    let instruction = ["clwb", "clflushopt", "clflush", "dcpop"]
        .into_iter()
        .find(|wanted| flags.iter().any(|have| have == wanted));
    let by =
        instruction.map_or(String::new(), |instruction| format!(", lines written back by {instruction}"));
    let is_persistent = config.data.is_some() && config.durability == Durability::Pmem;
    let memory = if is_persistent {
        "a server serves from persistent memory"
    } else {
        "the memory itself is volatile"
    };
    Finding::ok("index", format!("updates {name}{by}; {memory}"))
}

pub fn flags(machine: &Machine) -> Finding {
    let Some(flags) = flags_of(machine) else {
        return Finding::warn(
            "cpu",
            "flags unknown: /proc/cpuinfo has none",
            "nothing depends on them but speed",
        );
    };
    let has = |flag: &str| flags.iter().any(|have| have == flag);
    // The hot paths and durable memory profit from these, on x86-64 and on aarch64.
    let wanted = ["avx2", "bmi2", "clwb", "constant_tsc", "nonstop_tsc", "atomics", "dcpop"];
    let have: Vec<&str> = wanted.into_iter().filter(|wanted| has(wanted)).collect();
    let found = if have.is_empty() { "none of the useful flags".to_string() } else { have.join(" ") };
    let lacks_clwb = has("sse2") && !has("clwb");
    if lacks_clwb {
        return Finding::ok("cpu", format!("{found} (no clwb: persistent memory would need clflushopt)"));
    }
    Finding::ok("cpu", found)
}

pub fn clock(machine: &Machine) -> Finding {
    let dir = "sys/devices/system/clocksource/clocksource0";
    let Some(current) = machine.read(&format!("{dir}/current_clocksource")) else {
        return Finding::warn("clock", "unknown: /sys is not readable", "mount /sys");
    };
    let quick = ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"];
    if quick.contains(&current.as_str()) {
        return Finding::ok("clock", current);
    }
    let others = machine.read(&format!("{dir}/available_clocksource")).unwrap_or_default();
    let advice = match others.split_whitespace().find(|other| quick.contains(other)) {
        Some(other) => format!("echo {other} > /{dir}/current_clocksource"),
        None => "the machine offers none that is read without a system call".to_string(),
    };
    Finding::warn("clock", format!("{current}: reading it is slow, and every lease check reads it"), advice)
}
