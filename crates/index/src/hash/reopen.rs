//! An index whose tables outlived its server, in memory that is persistent: it goes on from the bytes that
//! are there, without a look at the entries (Continuity hashing III.C: log-free consistency).
//!
//! Only tables out of place are reopened. Whatever a loss of power leaves of them is one of these:
//! (1) A set bit says that a whole record is in its slot: it was set by one store, behind the write-back of
//!     the record. So no record is lost or torn. It may be hidden, and is shown: as a new one whose bit was
//!     just set, or as an old one whose bit was about to go. What is in a slot without a bit was on its way
//!     in or out, and is wiped.
//! (2) The lock of a pair may have become persistent with the line that it is in. Nobody holds it any more.
//! (3) A group may be named by a header before a record is in it, or after the last one went. It goes back.
//! (4) A record that was on its way to another slot of its pair, or to the next table, may be in both, with
//!     one version, which names one write. The one where a reader looks first stays: in the older table, or
//!     in the pair's own slots. The paper's recovery decides the same way, by whether an item of the old
//!     table is in the new one already; here the copy goes, and the move begins again.
//! (5) What stood beside the tables (`spill.rs`) is gone with the process. Who reopens puts it back.
//!
//! Anything else is damage. Then the index is built from the entries, as after a start without persistent
//! memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use longarm_base::Mutant;
use longarm_base::limits::PAIR_SLOTS_MAX;
use longarm_memory::{Budget, OwnedWords, SumKey};

use super::found::Found;
use super::layout::{Discipline, Geometry, Header, Table, header, indicator};
use super::owner::{Entries, LiveTable, Options, Owner};
use super::slot::turned;

/// What was found, and put right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reopened {
    /// Items in the tables.
    pub items: u64,
    /// Pairs that were locked.
    pub unlocked: u64,
    /// Slots that were wiped.
    pub wiped: u64,
    /// Records that were hidden.
    pub shown: u64,
    /// Records that were there twice.
    pub twice: u64,
    /// Added groups that went back.
    pub given_back: u64,
    /// Pairs of which items may have stood beside the table: by the number of the table, and of the pair.
    pub beside: Vec<(u32, u64)>,
}

/// Why tables cannot be reopened. The index is to be built from the entries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReopenError {
    /// There is no table, or one of another kind than asked for, or one that does not fit the memory.
    #[error("the list of tables is of no use: {0}")]
    Geometry(String),
    /// No loss of power leaves such a pair.
    #[error("pair {pair} of table {table} is damaged: {what}")]
    Pair {
        /// The table's id.
        table: u32,
        /// The pair's number.
        pair: u64,
        /// What is wrong.
        what: String,
    },
}

impl<M: OwnedWords, E: Entries> Owner<M, E> {
    /// The index over the tables of this geometry, which the memory held when its last owner ended. They are
    /// charged to the budget, whatever its limit. `publish` is told the geometry before this returns.
    pub fn reopen(
        memory: M,
        entries: E,
        sums: SumKey,
        budget: Arc<Budget>,
        options: Options,
        geometry: Geometry,
        publish: impl Fn(&Geometry) + Send + Sync + 'static,
    ) -> Result<(Owner<M, E>, Reopened), ReopenError> {
        check_geometry(&geometry, &options, memory.bytes())?;
        let owner = Owner::over(memory, entries, sums, budget, options, geometry, Box::new(publish));
        let mut report = Reopened::default();
        {
            let mut state = owner.state.write().expect("index state");
            let newest = geometry.live().map(|table| table.id).last();
            for table in geometry.live() {
                owner.budget.take_anyway(owner.bytes_of(table));
                let live = LiveTable::new(*table);
                owner.reopen_table(&live, Some(table.id) == newest, &mut report)?;
                state.live.push(Arc::new(live));
            }
            for at in 1..state.live.len() {
                let (older, later) = state.live.split_at(at);
                owner.drop_copies(older.last().expect("one before"), later, &mut report)?;
            }
            owner.republish(&mut state);
        }
        // Relaxed: a counter that publishes nothing else.
        owner.items.store(report.items, Ordering::Relaxed);
        Ok((owner, report))
    }

    /// Puts the pairs of one table right, each by itself, and counts what its owner counts.
    fn reopen_table(&self, live: &LiveTable, newest: bool, report: &mut Reopened) -> Result<(), ReopenError> {
        let table = &live.table;
        let mut groups = HashSet::new();
        for pair in 0..table.pairs {
            let damage = |what: String| ReopenError::Pair { table: table.id, pair, what };
            self.clear_lock(table, pair, report).map_err(damage)?;
            let mut header = self.header(table, pair);
            check_header(table, &header, newest).map_err(damage)?;
            self.wipe_free_slots(table, pair, &header, report);
            self.show_hidden(table, pair, &header, report);
            let held = self.records_of(table, pair, &header).map_err(damage)?;
            for (i, found) in held.iter().enumerate() {
                let csn = found.record().csn();
                if held[..i].iter().any(|other| other.record().csn() == csn) {
                    report.twice += 1;
                    self.empty_slot(table, pair, found.slot, &mut header);
                }
            }
            self.drop_empty_groups(table, pair, &mut header, report);
            for &group in header.groups.iter().filter(|group| **group != 0) {
                if !groups.insert(group - 1) {
                    return Err(damage(format!("its group {group} is another pair's, too")));
                }
            }
            // Relaxed: counters that publish nothing else.
            live.extended.fetch_add(u64::from(header.is_extended()), Ordering::Relaxed);
            live.whole.fetch_add(u64::from(header.is_whole()), Ordering::Relaxed);
            report.items += u64::from(header.occupied().count_ones());
            if header.spilled() && !header.moved() {
                report.beside.push((table.id, pair));
            }
        }
        let used = groups.iter().max().map_or(0, |most| most + 1);
        *live.back.lock().expect("groups") = (0..used).filter(|group| !groups.contains(group)).collect();
        // Relaxed: as above.
        live.groups.store(u64::from(used), Ordering::Relaxed);
        Ok(())
    }

    fn clear_lock(&self, table: &Table, pair: u64, report: &mut Reopened) -> Result<(), String> {
        let (at, id) = (table.header_at(pair) + header::OWNER, u64::from(table.id) << 32);
        match self.memory.load(at) {
            0 => Ok(()),
            word if word == id => Ok(()),
            word if word == id | 1 => {
                self.memory.store(at, id);
                report.unlocked += 1;
                Ok(())
            }
            word => Err(format!("its owner word is {word:#x}")),
        }
    }

    /// Wipes the slots without a bit in which something is.
    fn wipe_free_slots(&self, table: &Table, pair: u64, header: &Header, report: &mut Reopened) {
        let mut free = header.existing(&table.shape) & !header.occupied();
        while free != 0 {
            let slot = free.trailing_zeros() as usize;
            free &= free - 1;
            let at = table.slot_at(pair, slot, &header.groups).expect("an existing slot has a place");
            if (at..at + table.shape.slot_bytes()).step_by(8).any(|word| self.memory.load(word) != 0) {
                self.wipe_slot(table, pair, slot, header);
                report.wiped += 1;
            }
        }
    }

    /// Shows the records with a bit that are hidden.
    fn show_hidden(&self, table: &Table, pair: u64, header: &Header, report: &mut Reopened) {
        for slot in (0..PAIR_SLOTS_MAX).filter(|slot| header.occupied() & 1 << slot != 0) {
            let Err(mut bytes) = self.look_at_slot(table, pair, slot, header) else { continue };
            let first = bytes.first_chunk_mut().expect("a slot's first word");
            *first = turned(table.shape.kind, u64::from_le_bytes(*first)).to_le_bytes();
            let at = self.slot_place(table, pair, slot, header);
            if self.is_sound(table, at, &bytes) && !Mutant::LeaveHidden.is_on() {
                self.turn_slot(table, pair, slot, header);
                report.shown += 1;
            }
        }
    }

    /// The records of a pair, in the order in which a reader looks at them.
    fn records_of(&self, table: &Table, pair: u64, header: &Header) -> Result<Vec<Found>, String> {
        let slots = (0..PAIR_SLOTS_MAX).filter(|slot| header.occupied() & 1 << slot != 0);
        slots
            .map(|slot| {
                let found = self.look_at_slot(table, pair, slot, header);
                found.map_err(|_| format!("its slot {slot} has a bit and no record"))
            })
            .collect()
    }

    /// Groups in which no record is are named no more.
    fn drop_empty_groups(&self, table: &Table, pair: u64, header: &mut Header, report: &mut Reopened) {
        let shape = &table.shape;
        for at in 0..header.groups.len() {
            if header.groups[at] != 0 && header.occupied() & shape.group_mask(at) == 0 {
                self.set_group(table, pair, header, at, 0);
                report.given_back += 1;
            }
        }
        let is_extended = header.groups.iter().any(|group| *group != 0);
        if is_extended != header.is_extended() {
            let word = header.indicator ^ indicator::EXTENDED;
            self.set_indicator(table, pair, header, word);
        }
    }

    /// What is in an older table is in no later one.
    fn drop_copies(
        &self,
        older: &LiveTable,
        later: &[Arc<LiveTable>],
        report: &mut Reopened,
    ) -> Result<(), ReopenError> {
        let table = &older.table;
        for pair in 0..table.pairs {
            let damage = |what: String| ReopenError::Pair { table: table.id, pair, what };
            let header = self.header(table, pair);
            for found in self.records_of(table, pair, &header).map_err(damage)? {
                let record = found.record();
                let Some(hash) = self.known_hash_of(&record) else {
                    return Err(damage(format!(
                        "its slot {} names {record:?}, which is not there",
                        found.slot
                    )));
                };
                for live in later {
                    let (home, _) = live.table.home(hash);
                    let mut header = self.header(&live.table, home);
                    let there = self.records_of(&live.table, home, &header).map_err(damage)?;
                    let copies = there.iter().filter(|copy| copy.record().csn() == record.csn());
                    for copy in copies {
                        self.empty_slot(&live.table, home, copy.slot, &mut header);
                        self.give_back(live, home, &mut header);
                        (report.twice, report.items) = (report.twice + 1, report.items - 1);
                    }
                }
            }
        }
        Ok(())
    }
}

fn check_geometry(geometry: &Geometry, options: &Options, bytes: u64) -> Result<(), ReopenError> {
    let wrong = |text: String| Err(ReopenError::Geometry(text));
    if geometry.live().next().is_none() {
        return wrong("it is empty".into());
    }
    for table in geometry.live() {
        if (table.shape.kind, table.discipline) != (options.slots, Discipline::OutOfPlace) {
            return wrong(format!("table {} is {:?} and {:?}", table.id, table.shape.kind, table.discipline));
        }
        if table.base.checked_add(table.bytes()).is_none_or(|end| end > bytes) {
            return wrong(format!("table {} ends beyond the {bytes} bytes of memory", table.id));
        }
    }
    Ok(())
}

/// Whether a loss of power can leave such a header.
fn check_header(table: &Table, header: &Header, newest: bool) -> Result<(), String> {
    let groups = header.groups;
    if header.table == 0 && (header.indicator != 0 || groups.iter().any(|group| *group != 0)) {
        return Err("it was never used, and is not empty".into());
    }
    if let Some(group) = groups.iter().find(|group| u64::from(**group) > table.groups) {
        return Err(format!("it names group {group} of {}", table.groups));
    }
    if header.occupied() & !header.existing(&table.shape) != 0 {
        return Err("it has bits of slots that do not exist".into());
    }
    if header.moved() && (newest || header.occupied() != 0) {
        return Err(format!(
            "it has MOVED, and is {}",
            if newest { "in the newest table" } else { "not empty" }
        ));
    }
    Ok(())
}
