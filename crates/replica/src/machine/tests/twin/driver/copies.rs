//! How a follower catches up: what it keeps, what it is given, in no order, and when it has everything.

use std::collections::BTreeSet;

use longarm_base::Term;
use longarm_wire::{Answer, Ask, SyncState};

use super::{Attached, Happening, Stage, World, Write, id};
use crate::{KeptMemory, Prepare};

/// The most positions of one WRITE of a copy.
const CHUNK: u64 = 8;
/// WRITEs of a copy that are under way together.
const COPIES_AT_ONCE: usize = 4;

impl World {
    /// Makes ready to be synced.
    pub(super) fn prepare(&mut self, replica: usize, prepare: Prepare) {
        let held = &mut self.replicas[replica];
        held.fence = Some(prepare.term);
        let wipes = match held.machine.sync() {
            Some(sync) if sync > prepare.base => !self.rules.overwritten_kept,
            _ => !self.rules.laggards_kept,
        };
        let answer = match prepare.kept {
            KeptMemory::Term => SyncState::Term,
            KeptMemory::Base => {
                if self.rules.cut {
                    for (stream, &cut) in prepare.cuts.iter().enumerate() {
                        held.memory.cut(prepare.base, stream, cut);
                    }
                }
                held.memory.forget_after(prepare.base);
                let lens = (0..prepare.cuts.len()).map(|stream| held.memory.len(prepare.base, stream));
                SyncState::Base(lens.collect())
            }
            KeptMemory::Other => {
                if wipes {
                    held.memory.clear();
                    (held.machine.sync, held.machine.mixed) = (None, false);
                }
                held.blended = true;
                held.machine.mixed &= self.rules.mixture_known;
                SyncState::Nothing
            }
            KeptMemory::Nothing => {
                held.memory.clear();
                SyncState::Nothing
            }
        };
        self.answer(replica, prepare.leader, Answer::Ready { term: prepare.term, held: answer });
    }

    /// Begins to copy what the follower does not have: the start set, and all of this term (rule ResyncAll).
    /// New entries are written to it, too.
    pub(super) fn begin_copy(&mut self, replica: usize, other: usize, term: Term, held: &SyncState) {
        let (rules, memory) = (self.rules, &self.replicas[replica].memory);
        let Some(leader_term) = &self.replicas[replica].leader_term else { return };
        let Some(attached) = leader_term.attached.get(&other) else { return };
        if leader_term.term != term || !matches!(attached.stage, Stage::Asked) {
            return;
        }
        let mut parts = Vec::new();
        let mut chunks: Vec<Write> = Vec::new();
        match held {
            SyncState::Nothing => {
                // Whole segments: what the leader has is copied, and everything else there is voided.
                let theirs = &self.replicas[other].memory;
                let places: BTreeSet<_> = memory.all_before(term).chain(theirs.all_before(term)).collect();
                chunks.extend(places.into_iter().map(|(of, stream, position)| Write::Place {
                    term: of,
                    stream,
                    position,
                    there: memory.has(of, stream, position),
                }));
            }
            SyncState::Base(lens) => {
                for (stream, &from) in lens.iter().enumerate() {
                    parts.push((
                        leader_term.start.base,
                        stream,
                        from,
                        memory.len(leader_term.start.base, stream),
                    ));
                }
            }
            SyncState::Term | SyncState::Disk(_) => {}
        }
        let given = (0..leader_term.gates.len()).map(|stream| memory.len(term, stream)).collect();
        for (stream, gate) in leader_term.gates.iter().enumerate() {
            let trusted =
                if matches!(held, SyncState::Term) { !rules.resync_from_zero } else { !rules.resync_all };
            let from = if trusted { gate.acked(id(other)) } else { 0 };
            parts.push((term, stream, from, memory.len(term, stream)));
        }
        chunks.extend(parts.into_iter().flat_map(|(term, stream, from, end)| {
            let begins = (from..end).step_by(CHUNK as usize);
            begins.map(move |from| Write::Copy { term, stream, from, to: end.min(from + CHUNK) })
        }));
        match self.dice.pick(4) {
            0 => {}
            1 => chunks.reverse(),
            _ => (1..chunks.len()).rev().for_each(|at| chunks.swap(at, self.dice.pick(at + 1))),
        }
        if let Some(attached) = self.attached(replica, other) {
            attached.stage = Stage::Copying(chunks, 1);
            attached.given = given;
        }
        self.copy_on(replica, other);
    }

    fn attached(&mut self, replica: usize, other: usize) -> Option<&mut Attached> {
        self.replicas[replica].leader_term.as_mut()?.attached.get_mut(&other)
    }

    /// Posts the next part of a copy; after the last one the follower counts itself synced.
    pub(super) fn copy_on(&mut self, replica: usize, other: usize) {
        let (now, awaited) = (self.now, self.rules.copy_awaited);
        let Some(attached) = self.attached(replica, other) else { return };
        let Stage::Copying(chunks, open) = &mut attached.stage else { return };
        let conn = attached.conn;
        *open -= 1;
        if *open > 0 {
            return;
        }
        let few = if awaited { COPIES_AT_ONCE } else { chunks.len() };
        let next = chunks.split_off(chunks.len().saturating_sub(few));
        *open = next.len();
        if next.is_empty() || !awaited {
            (attached.stage, attached.since) = (Stage::Adopting, now);
            let ask = Ask::Adopt { term: self.conns[conn].term, reclaimed: 0, floors: Vec::new() };
            self.send(Happening::Ask { from: replica, to: other, ask, conn: Some(conn) });
        }
        next.into_iter().for_each(|write| self.post(conn, write));
    }
}
