//! The judge that watches a group while it runs: the rules of the specification in plain Rust. The judge
//! hears of what happens event by event (`longarm_host::observe`). It sees all machines and the time of the
//! world, which no machine does, and knows nothing of how machines decide.
//!
//! - [`book`]: the facts that every rule rests on: which node leads which term, from which start set, with
//!   which entries.
//! - [`promises`]: one leader a term, by a majority's promises (I1); what is promised is kept (L2).
//! - [`fences`]: a leader that is fenced off writes no more (I5).
//! - [`races`]: no two WRITEs to one place race (I23).
//! - [`leases`]: leases end before the promises they rest on, and no replica reports inside its promise (I9).
//! - [`streams`]: only synced followers count, and what they acknowledged they have (I4).
//! - [`start_sets`]: committed entries are in each later term that serves, and deleted items do not come back
//!   (I2, I6, I13).
//! - [`versions`]: versions are used once and never decrease, and what is acknowledged is visible (I7, I8).
//! - [`sessions`]: each operation has one effect (I14).
//! - [`losses`]: what a loss of power takes (D2).
//! - [`repairs`]: what is written again of what a disk has lost (D9).
//! - [`members`]: replicas change one at a time, and what was agreed on stays (M14).
//! - [`prompt`]: where nothing goes wrong, writes are committed soon (I20).
//!
//! docs/mechanisms.md, "Invariants", says which invariants are looked at elsewhere.

mod book;
mod fences;
mod leases;
mod losses;
mod members;
mod promises;
mod prompt;
mod races;
mod repairs;
mod rules;
mod sessions;
mod start_sets;
mod streams;
#[cfg(test)]
mod tests;
mod versions;

use longarm_base::{Nanos, Term};
use longarm_host::observe::Observation;
use longarm_server::Timing;

use crate::world::{Drift, Machine};
use book::Book;
use rules::{Rules, Seen};

/// Watches one run.
pub struct Judge {
    book: Book,
    rules: Vec<Box<dyn Rules>>,
    violation: Option<String>,
    heard: u64,
}

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Judge").field("heard", &self.heard).field("violation", &self.violation).finish()
    }
}

impl Judge {
    /// A judge of a group whose replicas, and the nodes that may become replicas, are the first machines.
    /// `clocks` are those of all machines. A server that keeps its data and `loses` some to a loss of power
    /// loses the writes of so much time at most.
    pub fn new(servers: u32, timing: Timing, clocks: &[Drift], loses: Option<Nanos>) -> Judge {
        let clocks: Vec<Machine> = clocks.iter().map(|&drift| Machine::new(drift)).collect();
        let mut rules: Vec<Box<dyn Rules>> = vec![
            Box::new(promises::Promises::default()),
            Box::new(fences::Fences::default()),
            Box::new(races::Races),
            Box::new(leases::Leases::new(timing.promise, clocks)),
            Box::new(streams::Streams::default()),
            Box::new(versions::Versions::default()),
            Box::new(members::Agreements::default()),
            Box::new(repairs::Repairs::default()),
        ];
        match loses {
            Some(window) if servers == 1 => rules.push(Box::new(losses::Losses::new(window))),
            _ => {
                rules.push(Box::new(start_sets::StartSets::within(loses.unwrap_or_default())));
                rules.push(Box::new(sessions::Sessions::default()));
            }
        }
        Judge { book: Book::new(servers), rules, violation: None, heard: 0 }
    }

    /// Hears of an event at a time of the world on a machine. After the first violation it judges nothing any
    /// more.
    pub fn hear(&mut self, time: Nanos, machine: u32, event: &Observation) {
        if self.violation.is_some() {
            return;
        }
        self.heard += 1;
        if let Err(violated) = self.judge(time, machine, event) {
            self.blame(time, &violated);
        }
    }

    fn judge(&mut self, time: Nanos, node: u32, event: &Observation) -> Result<(), String> {
        self.book.record(node, event)?;
        let seen = Seen { time, node, term: self.book.term_of(node), event };
        self.rules.iter_mut().try_for_each(|rules| rules.hear(seen, &self.book))
    }

    /// Demands that writes are committed soon, which holds in runs in which nothing goes wrong.
    pub fn be_prompt(&mut self) {
        self.rules.push(Box::new(prompt::Prompt::default()));
    }

    /// Notes a violation that another party saw, unless there is one already.
    pub fn blame(&mut self, time: Nanos, violated: &str) {
        self.violation.get_or_insert_with(|| format!("{violated}, at {:.6} ms", time.0 as f64 / 1e6));
    }

    /// Notes that a replica's disk was lost with its memory.
    pub fn reformatted(&mut self, node: u32) {
        self.rules.iter_mut().for_each(|rules| rules.reformatted(node));
    }

    /// Whether the leader of a term leads it still, or is about to: with the memory that it began with.
    pub fn is_led(&self, term: Term) -> bool {
        self.book.term_of(u32::from(term.leader().0)) == term
    }

    /// Notes that bytes on disks may have changed by themselves.
    pub fn rotted(&mut self) {
        self.rules.iter_mut().for_each(|rules| rules.rotted());
    }

    /// Whether a leader served with what a disk had, so that what clients saw may be given up.
    pub fn gave_up(&self) -> bool {
        self.book.terms.iter().any(|(&term, led)| led.served && self.book.given_up(term).is_some())
    }

    /// The first violation.
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// The number of events heard of so far.
    pub fn heard(&self) -> u64 {
        self.heard
    }
}
