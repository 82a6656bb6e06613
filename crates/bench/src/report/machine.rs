//! The machine that a report is about.

use std::fs;

use serde::{Deserialize, Serialize};

/// What figures depend on besides the plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the CPU.
    pub cpu: String,
    /// CPUs this process may use.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
    /// Frequency governor of the first CPU; none in most virtual machines.
    pub governor: Option<String>,
    /// Last-level cache of the first CPU.
    pub last_level_cache: Option<String>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Reserved huge pages, and what the kernel does for shared memory without them.
    pub huge_pages: String,
    /// Seconds since the Unix epoch.
    pub time: u64,
    /// Version of this program.
    pub version: String,
}

impl Machine {
    /// Looks at this machine; what cannot be read is said to be unknown.
    pub fn look() -> Machine {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_string());
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_string())
        };
        let memory = read("/proc/meminfo").unwrap_or_default();
        let cpu = read("/proc/cpuinfo").unwrap_or_default();
        let cache =
            (0..8).rev().find_map(|i| read(&format!("/sys/devices/system/cpu/cpu0/cache/index{i}/size")));
        let reserved = field(&memory, "HugePages_Total").unwrap_or("0".into());
        let shared = read("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
        let shared = shared.split(['[', ']']).nth(1).unwrap_or("unknown").to_string();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Machine {
            cpu: field(&cpu, "model name").unwrap_or("unknown CPU".into()),
            cores: std::thread::available_parallelism().map_or(0, |cores| cores.get()),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or("unknown".into()),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            last_level_cache: cache.map(|size| match size.strip_suffix('K').map(str::parse::<u64>) {
                Some(Ok(kib)) if kib >= 1024 => format!("{} MiB", kib / 1024),
                _ => size,
            }),
            memory: field(&memory, "MemTotal")
                .and_then(|m| m.strip_suffix(" kB")?.parse::<u64>().ok())
                .map(|kb| kb << 10),
            huge_pages: format!("{reserved} reserved, shmem {shared}"),
            time: now.map_or(0, |now| now.as_secs()),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// One line.
    pub fn describe(&self) -> String {
        let memory =
            self.memory.map_or("?".into(), |bytes| format!("{:.0} GiB", bytes as f64 / (1u64 << 30) as f64));
        format!(
            "{}, {} cores, cache {}, memory {memory}, huge pages {}, kernel {}, governor {}",
            self.cpu,
            self.cores,
            self.last_level_cache.as_deref().unwrap_or("?"),
            self.huge_pages,
            self.kernel,
            self.governor.as_deref().unwrap_or("none"),
        )
    }
}
