//! The number of cores of this machine, and how long they have been idle.

use std::num::NonZero;

use longarm_base::Nanos;
use rustix::param::clock_ticks_per_second;

use crate::world::entered;

/// The number of cores that this process may use; one if it is unknown.
pub fn cores() -> usize {
    match entered() {
        None => std::thread::available_parallelism().map_or(1, NonZero::get),
        Some(world) => world.cores(),
    }
}

/// The core on which this thread runs. It may run on another one by now.
pub fn core() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

/// How long all cores together have been to spare since the machine started, if it says so (`/proc/stat`, in
/// ticks of some 10 ms): idle, or with processes of a lower priority, which yield to others. `None` in a
/// simulated world: its cores have nothing to share.
pub fn idle() -> Option<Nanos> {
    if entered().is_some() {
        return None;
    }
    parse(&std::fs::read_to_string("/proc/stat").ok()?, clock_ticks_per_second())
}

/// Parses the first line: `cpu`, then ticks of users, of nice ones, of the kernel, idle, waiting for a disk.
fn parse(text: &str, ticks_a_second: u64) -> Option<Nanos> {
    let mut words = text.lines().next()?.split_ascii_whitespace();
    let cpu = words.next()?;
    let mut next = || words.next()?.parse::<u64>().ok();
    let (_user, nice, _system, idle, waiting) = (next()?, next()?, next()?, next()?, next()?);
    let spare = nice.saturating_add(idle).saturating_add(waiting);
    (cpu == "cpu").then(|| Nanos(spare.saturating_mul(1_000_000_000 / ticks_a_second.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let text = "cpu  105136 7 27030 1046993 2394 0 675 761 0 0\ncpu0 1 2 3 4 5\n";
        assert_eq!(parse(text, 100), Some(Nanos((7 + 1_046_993 + 2394) * 10_000_000)));
        for odd in ["", "cpu", "cpu 1 2 3", "cpu 1 2 3 x 5", "cpu0 1 2 3 4 5"] {
            assert_eq!(parse(odd, 100), None, "{odd:?}");
        }
    }

    #[test]
    fn cores_are_idle_for_longer_and_longer() {
        let first = idle();
        assert!(idle() >= first);
    }
}
