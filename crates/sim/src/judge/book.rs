//! The facts that all rules rest on: which node leads which term, where the term began, and what its streams
//! hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use longarm_base::{Csn, ReplicaId, Term};
use longarm_host::observe::Observation;

/// An entry of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub csn: Csn,
    /// The number of events that the judge had heard of before the entry was written.
    pub moment: u64,
    /// Key and whether it has a value, for a client's write; `None` for a copy.
    pub write: Option<(u64, bool)>,
}

/// A stream of a term.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub entries: Vec<Entry>,
    /// The number of positions that are committed, from the first on.
    pub committed: u64,
    /// The number of positions that are applied, from the first on.
    pub applied: u64,
}

/// A term that a node leads, or tried to lead.
#[derive(Clone, Debug)]
pub(super) struct LeaderTerm {
    /// The replicas of the group, in this term.
    pub members: BTreeSet<u32>,
    /// The term whose streams its start set has, up to the cuts.
    pub base: Term,
    /// By stream of the base: how many positions the start set has.
    pub cuts: Vec<u64>,
    /// Whether its leader had a mixture of the terms before the base.
    pub mixed: bool,
    /// If the start set is what a disk had: the version up to which it had everything.
    pub disk: Option<Csn>,
    pub served: bool,
    pub streams: BTreeMap<u16, Stream>,
}

/// What a term goes by, if it goes back to disks. What leaders wrote that began with what a disk had is not
/// given up with that.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenUp {
    /// The lowest version up to which one of these disks had everything.
    pub stable: Csn,
    /// The term of the first of these disks.
    pub base: Term,
    /// The first term that began with what a disk had.
    pub first: Term,
}

/// The machines of nodes.
pub(super) fn numbers(nodes: &[ReplicaId]) -> BTreeSet<u32> {
    nodes.iter().map(|node| u32::from(node.0)).collect()
}

/// Whether these are a majority of those replicas.
pub(super) fn is_majority_of(members: &BTreeSet<u32>, nodes: impl Iterator<Item = u32>) -> bool {
    let those: BTreeSet<u32> = nodes.filter(|node| members.contains(node)).collect();
    those.len() > members.len() / 2
}

/// The facts that the judge has heard of.
#[derive(Clone, Debug)]
pub(super) struct Book {
    /// The number of servers, which are the first machines.
    pub servers: u32,
    pub terms: BTreeMap<Term, LeaderTerm>,
    /// The nodes that ever held the start set of a term.
    pub adopted: BTreeSet<(Term, u32)>,
    /// The nodes among those that lost their memory since, and the number of events before each loss.
    lost: BTreeMap<(Term, u32), u64>,
    leading: BTreeMap<u32, Term>,
    /// The number of events that the judge heard of.
    moment: u64,
}

impl Book {
    pub fn new(servers: u32) -> Book {
        let (terms, adopted, lost, leading) = Default::default();
        Book { servers, terms, adopted, lost, leading, moment: 0 }
    }

    /// The term that a node leads, or is about to; zero if none.
    pub fn term_of(&self, node: u32) -> Term {
        self.leading.get(&node).copied().unwrap_or(Term::ZERO)
    }

    /// Whether these are a majority of the replicas that a term has.
    pub fn is_majority(&self, term: Term, nodes: impl Iterator<Item = u32>) -> bool {
        let Some(LeaderTerm { members, .. }) = self.terms.get(&term) else { return false };
        is_majority_of(members, nodes)
    }

    /// What a term goes by, if it goes back to disks: since the last term that served, leaders may have begun
    /// with what a disk had, which was given to the others, and so to the next leader.
    pub fn given_up(&self, term: Term) -> Option<GivenUp> {
        let (mut of, mut found) = (term, None::<GivenUp>);
        while let Some(led) = self.terms.get(&of).filter(|led| of == term || !led.served) {
            if let Some(stable) = led.disk {
                let stable = found.map_or(stable, |found| stable.min(found.stable));
                found = Some(GivenUp { stable, base: led.base, first: of });
            }
            of = led.base;
        }
        found
    }

    /// The terms after this one that began to serve.
    pub fn served_after(&self, term: Term) -> impl Iterator<Item = Term> + '_ {
        let later = self.terms.range((Bound::Excluded(term), Bound::Unbounded));
        later.filter(|(_, led)| led.served).map(|(&of, _)| of)
    }

    /// Whether the leader of a term and these followers are a majority.
    pub fn is_quorum(&self, term: Term, leader: u32, followers: &[ReplicaId]) -> bool {
        self.is_majority(term, followers.iter().map(|node| u32::from(node.0)).chain([leader]))
    }

    /// An entry of a term.
    pub fn entry(&self, term: Term, stream: u16, position: u64) -> Option<Entry> {
        let stream = self.terms.get(&term)?.streams.get(&stream)?;
        stream.entries.get(usize::try_from(position).ok()?).copied()
    }

    /// How many entries a stream of a term has; `None` if no node took the term.
    pub fn len(&self, term: Term, stream: u16) -> Option<u64> {
        let streams = &self.terms.get(&term)?.streams;
        Some(streams.get(&stream).map_or(0, |stream| stream.entries.len() as u64))
    }

    /// Whether a follower may count for an entry of a term. It must have held the start set of the term, then
    /// or later, and not have lost its memory since. A follower that lost its memory after the entry was
    /// written counts as well, as it may have acknowledged the entry before.
    pub fn may_count(&self, term: Term, follower: u32, written: Option<Entry>) -> bool {
        let key = (term, follower);
        let before = |lost: &u64| written.is_some_and(|entry| entry.moment < *lost);
        self.adopted.contains(&key) && self.lost.get(&key).is_none_or(before)
    }

    /// Records an event. An error says that it cannot have happened like this.
    pub fn record(&mut self, node: u32, event: &Observation) -> Result<(), String> {
        self.moment += 1;
        match event {
            Observation::Started { .. } => {
                self.leading.remove(&node);
                for &had in self.adopted.iter().filter(|(_, of)| *of == node) {
                    self.lost.entry(had).or_insert(self.moment);
                }
            }
            Observation::Installing { term, base, cuts, mixed, disk, members } => {
                let members = numbers(members);
                let (base, cuts, mixed, disk) = (*base, cuts.clone(), *mixed, *disk);
                let streams = BTreeMap::new();
                let led = LeaderTerm { members, base, cuts, mixed, disk, served: false, streams };
                if u32::from(term.leader().0) != node || self.terms.insert(*term, led).is_some() {
                    return Err(format!("I1: node {node} takes term {term}, which is not its own, or again"));
                }
                self.leading.insert(node, *term);
            }
            Observation::Adopted { term } => {
                self.adopted.insert((*term, node));
                self.lost.remove(&(*term, node));
            }
            Observation::Served { term, .. } => match self.terms.get_mut(term) {
                Some(led) if self.leading.get(&node) == Some(term) => led.served = true,
                _ => return Err(format!("I1: node {node} serves term {term}, which it did not install")),
            },
            Observation::SteppedDown { term } if self.leading.get(&node) == Some(term) => {
                self.leading.remove(&node);
            }
            Observation::Wrote { stream, position, csn, write } => {
                let entry = Entry { csn: *csn, moment: self.moment, write: *write };
                let stream = self.stream_of(node, *stream)?;
                if stream.entries.len() as u64 != *position {
                    let next = stream.entries.len();
                    return Err(format!("I4: node {node} writes position {position}, where {next} is next"));
                }
                stream.entries.push(entry);
            }
            Observation::Committed { stream, below, .. } => {
                let stream = self.stream_of(node, *stream)?;
                if *below > stream.entries.len() as u64 {
                    return Err(format!("I4: node {node} commits positions it has not written"));
                }
                stream.committed = stream.committed.max(*below);
            }
            Observation::Applied { stream, position } => {
                let stream = self.stream_of(node, *stream)?;
                if *position != stream.applied {
                    return Err(format!("I8: node {node} applies position {position} out of turn"));
                }
                stream.applied += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// A stream of the term that a node leads.
    fn stream_of(&mut self, node: u32, stream: u16) -> Result<&mut Stream, String> {
        let led = self.leading.get(&node).and_then(|term| self.terms.get_mut(term));
        let led = led.ok_or_else(|| format!("I1: node {node} uses streams of a term it does not lead"))?;
        Ok(led.streams.entry(stream).or_default())
    }
}
