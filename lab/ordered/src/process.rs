//! What was used: CPU time of a thread, and memory of the process.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// A moment of a thread, in nanoseconds of its CPU time.
#[derive(Clone, Copy)]
pub struct Moment(u64);

impl Moment {
    pub fn now() -> Moment {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Moment(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Nanoseconds since then.
    pub fn spent(self) -> u64 {
        Moment::now().0 - self.0
    }
}

/// Bytes of the process that are in memory, where the system says so.
pub fn resident() -> Option<u64> {
    let said = fs::read_to_string("/proc/self/status").ok()?;
    let line = said.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[test]
fn what_is_used_is_seen() {
    let begun = Moment::now();
    let used = std::hint::black_box(vec![1_u8; 64 << 20]);
    // Other tests of this process use memory, too, and give it back.
    if let Some(resident) = resident() {
        assert!((64 << 20..1 << 37).contains(&resident), "{resident}");
    }
    assert!(begun.spent() > 0 && used.len() == 64 << 20);
}
