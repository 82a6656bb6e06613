//! I4: a majority has each entry that counts as committed, and the whole majority is synced in the term (L1).
//! The leader applies an entry only then (M5). A replica that reports has all that commits counted from it
//! (L6), reports nothing that was cut off there (L16), leaves with all that it was counted for, and knows of
//! each free segment that it was told of (rule of reclaiming, for I13).

use std::collections::BTreeMap;

use longarm_base::{ReplicaId, Term};
use longarm_host::observe::Observation;

use super::book::Book;
use super::rules::{Rules, Seen};

#[derive(Debug, Default)]
pub(super) struct Streams {
    /// By term, follower and stream: how many positions commits counted from the follower.
    counted: BTreeMap<(Term, u32), BTreeMap<u16, u64>>,
    /// By term and follower: what it left with, by stream, until it counts again.
    left: BTreeMap<(Term, u32), Vec<u64>>,
    /// By term and follower: how many segments the leader told it are free.
    told: BTreeMap<(Term, u32), u64>,
    /// By term and follower: how many of these it must know of, since it has lost nothing since it was told.
    knows: BTreeMap<(Term, u32), u64>,
    /// By term and follower: how many of these it let go of, on its disk, too, if it has one.
    let_go: BTreeMap<(Term, u32), u64>,
    /// By replica: the cuts and their sync term, until it starts anew, or adopts or installs a start set.
    cuts: BTreeMap<u32, (Term, Vec<u64>)>,
}

impl Rules for Streams {
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String> {
        let Seen { node, term, .. } = seen;
        match seen.event {
            Observation::Committed { stream, below, by } => {
                self.committed(term, node, *stream, *below, by, book)
            }
            Observation::Counts { replica } => {
                self.left.remove(&(term, u32::from(replica.0)));
                Ok(())
            }
            Observation::Left { replica, floors } => self.leaves(term, u32::from(replica.0), floors),
            Observation::Tells { replica, reclaimed } => {
                // One that comes back has what others have still to let go of once more, also on its disk.
                for counts in [&mut self.told, &mut self.knows, &mut self.let_go] {
                    let count = counts.entry((term, u32::from(replica.0))).or_default();
                    *count = (*count).min(*reclaimed);
                }
                Ok(())
            }
            Observation::Told { replica, reclaimed } => {
                for counts in [&mut self.told, &mut self.knows] {
                    counts.insert((term, u32::from(replica.0)), *reclaimed);
                }
                Ok(())
            }
            Observation::LetGo { replica, reclaimed } => {
                let told = self.told.get(&(term, u32::from(replica.0))).copied().unwrap_or(0);
                if told >= *reclaimed {
                    self.let_go.insert((term, u32::from(replica.0)), *reclaimed);
                    return Ok(());
                }
                Err(format!(
                    "I13: node {replica} let go of {reclaimed} segments of term {term}, told of {told}"
                ))
            }
            Observation::Applied { stream, position } => {
                let committed =
                    book.terms.get(&term).and_then(|led| led.streams.get(stream)).map(|s| s.committed);
                if committed.is_some_and(|committed| *position < committed) {
                    return Ok(());
                }
                Err(format!("I4: term {term} applies {stream}:{position}, which is not committed"))
            }
            Observation::CutOff { sync, cuts } => {
                self.cuts.insert(node, (*sync, cuts.clone()));
                Ok(())
            }
            // A replica that keeps its data on a disk knows of what its disk let go of. What the leader told
            // it stays: the leader may learn later that the replica started anew.
            Observation::Started { .. } => {
                let of_node = self.knows.iter_mut().filter(|((_, follower), _)| *follower == node);
                for (key, knows) in of_node {
                    *knows = self.let_go.get(key).copied().unwrap_or(0);
                }
                self.cuts.remove(&node);
                Ok(())
            }
            // A candidate fetches entries that other replicas have.
            Observation::Adopted { .. } | Observation::Installing { .. } => {
                self.cuts.remove(&node);
                Ok(())
            }
            // A mixture has what was committed below a younger start set, but not each of its positions.
            Observation::Reported { sync, lens, reclaimed, mixed: false, .. } => {
                self.reported(node, *sync, *reclaimed, lens, book)
            }
            _ => Ok(()),
        }
    }
}

impl Streams {
    /// A leader counts a stream's positions below `below` as committed, by these followers.
    fn committed(
        &mut self,
        term: Term,
        node: u32,
        stream: u16,
        below: u64,
        by: &[ReplicaId],
        book: &Book,
    ) -> Result<(), String> {
        if !book.is_quorum(term, node, by) {
            return Err(format!("I4: term {term} commits {stream}:{below} without a majority: {by:?}"));
        }
        for follower in by.iter().map(|node| u32::from(node.0)) {
            let last = below.checked_sub(1).and_then(|last| book.entry(term, stream, last));
            if !book.may_count(term, follower, last) {
                return Err(format!(
                    "I4: term {term} counts node {follower}, not synced, for {stream}:{below}"
                ));
            }
            let left = self.left.get(&(term, follower));
            let left = left.map(|left| left.get(usize::from(stream)).copied().unwrap_or(0));
            if let Some(left) = left.filter(|left| *left < below) {
                return Err(format!(
                    "I4: term {term} counts node {follower} for {stream}:{below}, which left with {left}"
                ));
            }
            let counted = self.counted.entry((term, follower)).or_default().entry(stream).or_default();
            *counted = (*counted).max(below);
        }
        Ok(())
    }

    /// A leader lets a follower go that counted, and notes these floors of it.
    fn leaves(&mut self, term: Term, follower: u32, floors: &[u64]) -> Result<(), String> {
        self.left.insert((term, follower), floors.to_vec());
        let left = |stream: u16| floors.get(usize::from(stream)).copied().unwrap_or(0);
        let mut counted = self.counted.get(&(term, follower)).into_iter().flatten();
        match counted.find(|(stream, below)| left(**stream) < **below) {
            None => Ok(()),
            Some((stream, below)) => Err(format!(
                "I4: node {follower} leaves term {term} with {floors:?}, and was counted for {stream}:{below}"
            )),
        }
    }

    /// Whether a replica reports what it was counted for, and no more than was written.
    fn reported(
        &self,
        node: u32,
        sync: Term,
        reclaimed: u64,
        lens: &[u64],
        book: &Book,
    ) -> Result<(), String> {
        let told = self.knows.get(&(sync, node)).copied().unwrap_or(0);
        if reclaimed < told && sync != Term::ZERO {
            return Err(format!(
                "I13: node {node} knows of {reclaimed} free segments of term {sync}, told of {told}"
            ));
        }
        for (stream, &len) in (0..).zip(lens) {
            let written = book.len(sync, stream);
            if written.is_some_and(|written| len > written) {
                return Err(format!(
                    "I4: node {node} reports {stream}:{len} of term {sync}; written: {written:?}"
                ));
            }
        }
        if let Some((of, cuts)) = self.cuts.get(&node)
            && *of == sync
        {
            let cut = |stream: usize| cuts.get(stream).copied().unwrap_or(0);
            if let Some((stream, len)) = lens.iter().enumerate().find(|(stream, len)| **len > cut(*stream)) {
                return Err(format!(
                    "I4: node {node} reports {stream}:{len} of term {sync}, and was cut off at {cuts:?}"
                ));
            }
        }
        // The leader of a later term that served may have this replica catch up, and segments that this
        // leader reclaimed are gone here already. Nothing rests on this report: of each majority some replica
        // is synced in the later term.
        if book.served_after(sync).next().is_some() {
            return Ok(());
        }
        let counted = self.counted.get(&(sync, node)).into_iter().flatten();
        for (&stream, &below) in counted {
            let len = lens.get(usize::from(stream)).copied().unwrap_or(0);
            if len < below {
                return Err(format!(
                    "I4: node {node} has {stream}:{len} of term {sync}, and was counted for {below}"
                ));
            }
        }
        Ok(())
    }
}
