//! I9: a leader's lease, and the trust of clients that rests on it, end before the promises that the lease
//! rests on. No replica reports for another term inside its promise (L8). When a term begins to serve, every
//! lease and every trust of older terms is over. A client counts only what it READ before its trust ended
//! (L9).
//!
//! Ends are compared in the time of the world, whatever the machines' clocks show. A promise lasts D on the
//! clock of the replica that made it, from when the replica saw the heartbeat, which is not before the leader
//! began the heartbeat.

use std::collections::BTreeMap;

use longarm_base::{Nanos, Term};
use longarm_host::observe::Observation;

use super::book::Book;
use super::rules::{Rules, Seen};
use crate::world::Machine;

#[derive(Debug)]
pub(super) struct Leases {
    promise: Nanos,
    clocks: Vec<Machine>,
    terms: BTreeMap<Term, Ends>,
    /// By boot number of each server that clients may know: its term.
    boots: BTreeMap<u64, Term>,
    /// By client and boot number of a server: until when the client trusts the server, on the client's clock.
    trusts: BTreeMap<(u32, u64), Nanos>,
    /// The reports: when, by which replica, for which term.
    reports: Vec<(Nanos, u32, Term)>,
    /// When each term began to serve.
    served: BTreeMap<Term, Nanos>,
}

/// Until when machines rely on one term.
#[derive(Debug, Default)]
struct Ends {
    /// The leader's lease.
    lease: Nanos,
    /// The latest trust of any machine, the leader included.
    trust: Nanos,
    /// The latest trust of any client.
    clients: Nanos,
    /// The end of the promises that the longest lease so far rests on.
    promise: Nanos,
    /// The replicas whose promises the leader counts on, and until when.
    by: BTreeMap<u32, Nanos>,
}

impl Leases {
    pub fn new(promise: Nanos, clocks: Vec<Machine>) -> Leases {
        let (terms, boots, served) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Leases { promise, clocks, terms, boots, trusts: BTreeMap::new(), reports: Vec::new(), served }
    }

    /// The time of the world at which a machine's clock shows this.
    fn when(&self, node: u32, clock: Nanos) -> Nanos {
        self.clocks[node as usize].when(clock)
    }

    /// When a promise ends that a replica made at this time of the world.
    fn promise_end(&self, node: u32, made: Nanos) -> Nanos {
        let clock = &self.clocks[node as usize];
        clock.when(clock.clock(made) + self.promise)
    }

    fn leased(&mut self, seen: Seen<'_>, renewed: Nanos, end: Nanos, by: &[u32]) -> Result<(), String> {
        let Seen { node, term, .. } = seen;
        let end = self.when(node, end);
        if self.terms.get(&term).is_some_and(|ends| ends.lease >= end) {
            return Ok(());
        }
        let begun = self.when(node, renewed);
        let promise = by.iter().map(|&node| self.promise_end(node, begun)).min().unwrap_or(Nanos(u64::MAX));
        if end > promise {
            return Err(format!("I9: the lease of term {term} outlasts a promise it rests on"));
        }
        let inside = |(time, by_node, of): &&(Nanos, u32, Term)| {
            *of > term && *time < end && (by.contains(by_node) || *by_node == node)
        };
        if let Some((_, reporter, of)) = self.reports.iter().find(inside) {
            return Err(format!(
                "I9: node {reporter} reported for term {of} inside its promise to the leader of {term}"
            ));
        }
        let ends = self.terms.entry(term).or_default();
        ends.lease = end;
        ends.promise = ends.promise.max(promise);
        for &node in by.iter().chain([&node]) {
            let until = ends.by.entry(node).or_default();
            *until = end.max(*until);
        }
        self.trust(term, end)
    }

    /// Notes that a machine relies on a term until then.
    fn trust(&mut self, term: Term, end: Nanos) -> Result<(), String> {
        let ends = self.terms.entry(term).or_default();
        ends.trust = ends.trust.max(end);
        match self.served.iter().find(|(of, since)| **of > term && **since < end) {
            None => Ok(()),
            Some((of, _)) => Err(format!("I9: term {term} is relied on while term {of} serves")),
        }
    }
}

impl Rules for Leases {
    fn hear(&mut self, seen: Seen<'_>, _: &Book) -> Result<(), String> {
        let Seen { time, node, term, .. } = seen;
        match seen.event {
            Observation::Leased { renewed, end, by } if term != Term::ZERO => {
                let by: Vec<u32> = by.iter().map(|node| u32::from(node.0)).collect();
                self.leased(seen, *renewed, *end, &by)
            }
            Observation::Relied { boot, at } => match self.trusts.get(&(node, *boot)) {
                Some(end) if at < end => Ok(()),
                end => {
                    Err(format!("I9: client {node} relies on what came at {at:?}, and trusts until {end:?}"))
                }
            },
            Observation::Trusted { boot, end } => {
                self.trusts.insert((node, *boot), *end);
                let Some(&term) = self.boots.get(boot) else { return Ok(()) };
                let end = self.when(node, *end);
                // This is no trust at all: the server has not vouched for its memory yet, or not for long.
                if end <= time {
                    return Ok(());
                }
                if self.terms.get(&term).is_none_or(|ends| ends.promise < end) {
                    return Err(format!("I9: a client trusts the leader of term {term} beyond the promises"));
                }
                let clients = &mut self.terms.entry(term).or_default().clients;
                *clients = end.max(*clients);
                self.trust(term, end)
            }
            Observation::HandedOver { term } => {
                let ends = self.terms.entry(*term).or_default();
                if ends.clients > time {
                    return Err(format!("I9: the leader of term {term} hands over, and clients rely on it"));
                }
                ends.trust = time.min(ends.trust);
                ends.lease = time.min(ends.lease);
                ends.by.clear();
                Ok(())
            }
            Observation::Answered if term != Term::ZERO => match self.terms.get(&term) {
                Some(ends) if time < ends.lease => Ok(()),
                _ => Err(format!("I9: the leader of term {term} answers by what it sees, without a lease")),
            },
            Observation::Reported { term: of, .. } => {
                self.reports.push((time, node, *of));
                let broken = |(term, ends): &(&Term, &Ends)| {
                    *term < of && ends.by.get(&node).is_some_and(|&until| time < until)
                };
                match self.terms.iter().find(broken) {
                    None => Ok(()),
                    Some((term, _)) => Err(format!(
                        "I9: node {node} reports for term {of} inside its promise to the leader of {term}"
                    )),
                }
            }
            Observation::Served { term, boot } => {
                self.boots.insert(*boot, *term);
                self.served.insert(*term, time);
                match self.terms.iter().find(|(of, ends)| *of < term && ends.trust > time) {
                    None => Ok(()),
                    Some((of, _)) => {
                        Err(format!("I9: term {term} serves while term {of} is still relied on"))
                    }
                }
            }
            _ => Ok(()),
        }
    }

    /// A term of the replica's own for which nobody else reported never was.
    fn reformatted(&mut self, node: u32) {
        let own = |of: Term| u32::from(of.leader().0) == node;
        let elsewhere: Vec<Term> =
            self.reports.iter().filter(|(_, by, _)| *by != node).map(|(.., of)| *of).collect();
        self.reports.retain(|(_, by, of)| *by != node || !own(*of) || elsewhere.contains(of));
    }
}
