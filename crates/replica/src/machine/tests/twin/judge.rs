//! The judge sees everything in the world, at once and in real time, and says which invariant is broken.
//! Names are those of `ViewChange.tla`.

use std::collections::BTreeMap;

use longarm_base::{ReplicaId, Term};
use longarm_wire::Members;

use super::memory::{Lens, Memory, STREAMS};

#[derive(Default)]
pub struct Judge {
    /// The start set of each term that was installed.
    starts: BTreeMap<Term, Lens>,
    /// The replica that serves or served a term.
    served: BTreeMap<Term, ReplicaId>,
    committed: Lens,
    /// The end of the lease of a term, in real time.
    leases: BTreeMap<Term, u64>,
    /// The end of clients' leases of a term.
    readers: BTreeMap<Term, u64>,
    /// The term that each replica promised.
    promised: BTreeMap<ReplicaId, Term>,
    /// The first fault.
    pub wrong: Option<String>,
    /// The number of reads seen.
    pub reads: u64,
    pub commits: u64,
    /// The number of leaders that handed over, and whose transferee served next.
    pub handed: u64,
    transferees: BTreeMap<Term, ReplicaId>,
    /// The sets that majorities kept as the next replicas, and how often a term served with one of them.
    agreed: Vec<Members>,
    pub changed: u64,
}

fn len(lens: &Lens, term: Term, stream: usize) -> u64 {
    lens.get(&(term, stream)).copied().unwrap_or(0)
}

impl Judge {
    pub fn wrong(&mut self, text: String) {
        self.wrong.get_or_insert(text);
    }

    pub fn terms_served(&self) -> usize {
        self.served.len()
    }

    fn served_after(&self, term: Term) -> Option<Term> {
        self.served.range(term..).map(|(&other, _)| other).find(|&other| other > term)
    }

    pub fn promised(&mut self, replica: ReplicaId, term: Term, disk: Term) {
        let before = self.promised.insert(replica, term).unwrap_or_default();
        if before > term || disk < term {
            self.wrong(format!(
                "Promise: {replica} promised {before}, now {term}, and {disk} is on its disk"
            ));
        }
    }

    /// The disk of a replica is gone, and with it its promise.
    pub fn forgot(&mut self, replica: ReplicaId) {
        self.promised.remove(&replica);
    }

    pub fn installed(&mut self, term: Term, start: Lens) {
        if self.starts.insert(term, start).is_some() {
            self.wrong(format!("OneLeader: {term} was installed twice"));
        }
    }

    /// Majorities have kept this set: no later term has an older one.
    pub fn agrees(&mut self, members: &Members) {
        self.agreed.push(members.clone());
    }

    pub fn serves(&mut self, replica: ReplicaId, own: &Members, term: Term, now: u64) {
        self.changed += u64::from(self.agreed.last() == Some(own));
        let older = self.agreed.iter().find(|agreed| agreed.term < term && agreed.is_newer(own));
        if let Some(agreed) = older {
            let text = format!("Stays: {term} serves with {own:?}, {agreed:?} was agreed on");
            self.wrong(text);
        }
        if let Some(other) = self.served.insert(term, replica) {
            self.wrong(format!("OneLeader: {replica} serves {term}, as {other} did"));
        }
        let others: Vec<Term> = self.served.keys().copied().filter(|&other| other != term).collect();
        for other in others {
            self.compare(term.min(other), term.max(other));
        }
        let lost = self.committed.iter().find(|&(&(of, stream), &committed)| {
            of < term && len(&self.starts[&term], of, stream) < committed
        });
        if let Some(((of, stream), committed)) = lost {
            let text = format!("Complete: {term} serves without {of}/{stream} up to {committed}");
            self.wrong(text);
        }
        let before = self.transferees.range(..term).next_back();
        if before
            .is_some_and(|(&old, &transferee)| transferee == replica && old.counter() + 1 == term.counter())
        {
            self.handed += 1;
        }
        let mut held = self.leases.range(..term).chain(self.readers.range(..term));
        let held = held.find(|&(_, &end)| end > now);
        if let Some((old, end)) = held {
            let text = format!("OldLeasesOver: {term} serves {} ns before {old} has ended", end - now);
            self.wrong(text);
        }
    }

    /// Checks Complete and NoReturn, for two terms that served.
    fn compare(&mut self, old: Term, new: Term) {
        let (first, second) = (&self.starts[&old], &self.starts[&new]);
        let places = first.keys().chain(second.keys()).filter(|&&(of, _)| of < old);
        let differ = places.copied().find(|&(of, stream)| len(first, of, stream) != len(second, of, stream));
        if let Some((of, stream)) = differ {
            let (was, is) = (len(first, of, stream), len(second, of, stream));
            let name = if is < was { "Complete" } else { "NoReturn" };
            self.wrong(format!("{name}: {of}/{stream} was {was} in the start set of {old}, {is} in {new}'s"));
        }
    }

    pub fn commits(&mut self, term: Term, stream: usize, committed: u64) {
        let known = self.committed.entry((term, stream)).or_default();
        if committed <= *known {
            return;
        }
        *known = committed;
        self.commits += 1;
        let lost = self
            .served
            .range(term..)
            .map(|(&later, _)| later)
            .find(|&later| later > term && len(&self.starts[&later], term, stream) < committed);
        if let Some(later) = lost {
            self.wrong(format!("Complete: {term}/{stream} commits {committed}, which {later} does not have"));
        }
    }

    pub fn leases(&mut self, term: Term, end: u64, now: u64) {
        let known = self.leases.entry(term).or_default();
        *known = end.max(*known);
        if let Some(later) = self.served_after(term).filter(|_| end > now) {
            self.wrong(format!("OldLeasesOver: {term} has a lease while {later} serves"));
        }
    }

    /// A client may hold a lease until `end`.
    pub fn vouches(&mut self, term: Term, end: u64) {
        let known = self.readers.entry(term).or_default();
        *known = end.max(*known);
    }

    /// The leader of a term ends its lease, and wants another to lead.
    pub fn releases(&mut self, term: Term, transferee: ReplicaId, ended: bool) {
        if ended {
            self.leases.insert(term, 0);
        }
        self.transferees.insert(term, transferee);
    }

    pub fn reads(&mut self, term: Term) {
        self.reads += 1;
        if let Some(later) = self.served_after(term) {
            self.wrong(format!("OldLeasesOver: somebody reads {term} while {later} serves"));
        }
    }

    /// Checks SyncMeaning of a replica; `leader` is the memory of its term's leader, if that still has it.
    pub fn synced(&mut self, replica: ReplicaId, sync: Term, memory: &Memory, leader: Option<&Memory>) {
        let Some(start) = self.starts.get(&sync) else { return };
        let held = memory.before(sync);
        if held != *start || memory.has_holes_before(sync) {
            let text = format!("SyncMeaning: {replica} holds {held:?}, the start set of {sync} is {start:?}");
            return self.wrong(text);
        }
        let Some(leader) = leader else { return };
        for stream in 0..STREAMS {
            if memory.len(sync, stream) > leader.len(sync, stream) {
                self.wrong(format!("SyncMeaning: {replica} has more of {sync}/{stream} than its leader"));
            }
        }
    }
}
