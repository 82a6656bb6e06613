//! What processes hold of the machine, and bounds on it.

use std::collections::BTreeMap;

use longarm::human;

/// What one process holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// Resident bytes.
    pub memory: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
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
        Some(Held { memory: number("VmRSS:")? << 10, descriptors, threads: number("Threads:")? })
    }

    fn most(self, other: Held) -> Held {
        Held {
            memory: self.memory.max(other.memory),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
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

    /// What a process held beyond `bound`, in words.
    pub fn beyond(&self, bound: Held) -> Option<String> {
        let Held { memory, descriptors, threads } = self.most;
        let within = memory <= bound.memory && descriptors <= bound.descriptors && threads <= bound.threads;
        (!within).then(|| format!("a replica held more than it may: {} ({bound:?})", self.to_text()))
    }

    /// The greatest holdings as a text for people.
    pub fn to_text(&self) -> String {
        let Held { memory, descriptors, threads } = self.most;
        let longest = self.lives.values().max().unwrap_or(&0);
        format!(
            "at most {}, {descriptors} descriptors, {threads} threads a replica, of which one lived through \
             {longest} faults",
            human::bytes(memory)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_holds_something() {
        let mut watch = Watch::default();
        watch.look(std::process::id());
        watch.look(u32::MAX >> 1);
        assert!(watch.most.memory > 1 << 20 && watch.most.descriptors > 2 && watch.most.threads > 0);
        assert_eq!(watch.beyond(Held { memory: u64::MAX, descriptors: u64::MAX, threads: u64::MAX }), None);
        let little = Held { memory: u64::MAX, descriptors: 1, threads: u64::MAX };
        assert!(watch.beyond(little).expect("more than one").contains("descriptors"));
    }
}
