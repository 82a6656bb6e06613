//! A replica that a leader is about to sync makes its memory ready for that.

use longarm_base::Mutant;
use longarm_fabric::Transport;
use longarm_host::observe::{Observation as Seen, ReplicaStep as Now, observe, reach};
use longarm_replica::{KeptMemory, Prepare};
use longarm_wire::{Answer, STREAMS_MAX, SyncState};

use super::Node;
use crate::scan::{ArenaScan, least};

impl<T: Transport> Node<T> {
    /// Makes the memory ready to be written by the leader, and answers which part of the leader's start set
    /// is here.
    pub(super) fn prepare(&mut self, prepare: &Prepare) {
        // Soon the leader writes to the memory, and the scan is out of date.
        let scan = self.scan.take();
        // The term is open, unless this replica wanted to stand for another and could not fence its leader.
        if let Err(error) = self.inbound.fence(prepare.term).and_then(|()| self.inbound.clear()) {
            return self.log(&format!("not ready to be synced: {error}"));
        }
        self.standby.keep(prepare, &self.arena.sums);
        self.order.prepare(prepare);
        self.prepare_disk(prepare.kept);
        let held = match prepare.kept {
            // Of what it had acknowledged from memory, this replica has what its disk had.
            KeptMemory::Term if self.began_from_disk(prepare.term) => {
                let scan = self.scan_unless(scan, prepare.term);
                SyncState::Disk(scan.lens(&vec![u64::MAX; usize::from(prepare.streams)]))
            }
            KeptMemory::Term => SyncState::Term,
            KeptMemory::Base => {
                let known = least(&self.floors(), &prepare.cuts);
                let scan = ArenaScan::down_to(scan, &self.arena, prepare.base, known);
                self.hold(&scan, &prepare.cuts);
                scan.cut(&self.arena.memory, &prepare.cuts);
                self.cut_disk(prepare.base, &prepare.cuts);
                observe(|| Seen::CutOff { sync: prepare.base, cuts: prepare.cuts.clone() });
                SyncState::Base(scan.lens(&prepare.cuts))
            }
            // Its content may still be needed: lines and entries stay until the leader overwrites them.
            KeptMemory::Other => {
                let sync = self.machine.sync().expect("a replica that lost its memory keeps nothing");
                self.hold(&self.scan_unless(scan, sync), &[u64::MAX; STREAMS_MAX]);
                SyncState::Nothing
            }
            KeptMemory::Nothing => {
                self.clear_floors();
                SyncState::Nothing
            }
        };
        reach(Now::Prepared);
        self.answer(prepare.leader, &Answer::Ready { term: prepare.term, held });
    }

    /// Notes in the page what a scan found here, before a leader overwrites it: see [`ArenaScan::floors`].
    fn hold(&self, scan: &ArenaScan, cuts: &[u64]) {
        if !Mutant::KeepFloors.is_on() {
            self.set_floors(&scan.floors(cuts));
        }
    }
}
