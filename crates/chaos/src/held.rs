//! What processes hold of the machine, and bounds on it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use longarm::human;
use longarm_bench::cpu;
use longarm_host::sleep;

/// How long the processes are watched while nobody asks for anything, and how many times at most: until they
/// take so few hundredths of a core.
const REST: Duration = Duration::from_secs(1);
const RESTS: u32 = 5;
const QUIET: u64 = 5;

/// What one process holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// Resident bytes.
    pub memory: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// CPU while nobody asks for anything, in hundredths of a core.
    pub idle_cpu: u64,
}

impl Held {
    /// What a process holds; `None` if it is gone.
    fn of(pid: u32) -> Option<Held> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |name: &str| -> Option<u64> {
            let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
            rest.split_whitespace().next()?.parse().ok()
        };
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        let (memory, threads) = (number("VmRSS:")? << 10, number("Threads:")?);
        Some(Held { memory, descriptors, threads, idle_cpu: 0 })
    }

    fn most(self, other: Held) -> Held {
        Held {
            memory: self.memory.max(other.memory),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
            idle_cpu: self.idle_cpu.max(other.idle_cpu),
        }
    }
}

/// What the processes of a run held at most.
#[derive(Default)]
pub struct Watch {
    most: Held,
    lives: BTreeMap<u32, u32>,
}

impl Watch {
    /// Looks at a process, after a fault was overcome.
    pub fn look(&mut self, pid: u32) {
        if let Some(held) = Held::of(pid) {
            self.most = self.most.most(held);
            *self.lives.entry(pid).or_default() += 1;
        }
    }

    /// Looks at what processes do while nobody asks for anything: a thread that never sleeps takes the core
    /// that others need. A replica that has just come back may have something to finish first.
    pub fn rest(&mut self, pids: &[u32]) {
        let mut least = u64::MAX;
        for _ in 0..RESTS {
            least = least.min(share_of_the_busiest(pids));
            if least <= QUIET {
                break;
            }
        }
        self.most.idle_cpu = self.most.idle_cpu.max(least);
    }

    /// What a process held beyond `bound`, in words.
    pub fn beyond(&self, bound: Held) -> Option<String> {
        let Held { memory, descriptors, threads, idle_cpu } = self.most;
        let within = memory <= bound.memory
            && descriptors <= bound.descriptors
            && threads <= bound.threads
            && idle_cpu <= bound.idle_cpu;
        (!within).then(|| format!("a replica held more than it may: {} ({bound:?})", self.to_text()))
    }

    /// The greatest holdings as a text for people.
    pub fn to_text(&self) -> String {
        let Held { memory, descriptors, threads, idle_cpu } = self.most;
        let longest = self.lives.values().max().unwrap_or(&0);
        format!(
            "at most {}, {descriptors} descriptors, {threads} threads a replica, of which one lived through \
             {longest} faults, and {idle_cpu}% of a core while nobody asked",
            human::bytes(memory)
        )
    }
}

/// The share of a core that the busiest of these processes takes, in hundredths.
fn share_of_the_busiest(pids: &[u32]) -> u64 {
    let used = || pids.iter().map(|&pid| cpu::seconds_of(&[pid])).collect::<Vec<_>>();
    let (began, before) = (Instant::now(), used());
    sleep(REST);
    let took = began.elapsed().as_secs_f64();
    let share = |(before, after): (Option<f64>, Option<f64>)| Some((after? - before?) / took * 100.0);
    before.into_iter().zip(used()).filter_map(share).fold(0.0, f64::max) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Held = Held { memory: u64::MAX, descriptors: u64::MAX, threads: u64::MAX, idle_cpu: u64::MAX };

    #[test]
    fn this_process_holds_something() {
        let mut watch = Watch::default();
        watch.look(std::process::id());
        watch.look(u32::MAX >> 1);
        assert!(watch.most.memory > 1 << 20 && watch.most.descriptors > 2 && watch.most.threads > 0);
        assert_eq!(watch.beyond(ALL), None);
        assert!(watch.beyond(Held { descriptors: 1, ..ALL }).expect("more than one").contains("descriptors"));
    }

    #[test]
    fn a_process_that_never_sleeps_is_found() {
        let mut watch = Watch::default();
        let sleeper = std::process::Command::new("sleep").arg("60").spawn();
        let spinner = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        let (mut sleeper, mut spinner) = (sleeper.expect("sleep"), spinner.expect("sh"));
        watch.rest(&[sleeper.id(), u32::MAX >> 1]);
        assert_eq!(watch.most.idle_cpu, 0);
        watch.rest(&[sleeper.id(), spinner.id()]);
        assert!(watch.most.idle_cpu > 0);
        assert!(watch.beyond(Held { idle_cpu: 0, ..ALL }).expect("it spins").contains("idle_cpu"));
        for child in [&mut sleeper, &mut spinner] {
            child.kill().expect("it is ours");
            child.wait().expect("it ended");
        }
    }
}
