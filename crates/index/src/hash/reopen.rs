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
//! (5) An entry that was moved in a pair without a free slot ([`LockedPair::replace_anyway`]) may be in no
//!     slot, and its pair says so. Who reopens puts it back.
//! (6) Memory that older tables had, and that was not given back, is not zero where no table is. It is wiped,
//!     since the next table there begins with zeros.
//!
//! Anything else is damage.
//!
//! [`LockedPair::replace_anyway`]: super::pair::LockedPair::replace_anyway

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use longarm_base::Mutant;
use longarm_base::limits::{LINE, PAIR_SLOTS_MAX};
use longarm_memory::{Budget, OwnedWords, SumKey};

use super::found::Found;
use super::layout::{Discipline, Geometry, Header, Table, header, indicator};
use super::owner::{Entries, LiveTable, Options, Owner};
use super::slot::{Record, turned};

/// Pairs that a thread looks at at a time, and the most threads.
const PART: u64 = 1 << 12;
const THREADS_MAX: usize = 8;

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
    /// Pairs of which an entry may be in no slot: by the number of the table, and of the pair.
    pub beside: Vec<(u32, u64)>,
    /// Bytes outside the tables that were wiped.
    pub left: u64,
}

impl Reopened {
    fn add(&mut self, other: Reopened) {
        self.items += other.items;
        self.unlocked += other.unlocked;
        self.wiped += other.wiped;
        self.shown += other.shown;
        self.twice += other.twice;
        self.given_back += other.given_back;
        self.beside.extend(other.beside);
        self.left += other.left;
    }
}

/// What was found in a part of a table.
#[derive(Default)]
struct Part {
    report: Reopened,
    /// Groups that are named, and the pairs that name them.
    groups: Vec<(u32, u64)>,
}

impl Part {
    fn add(&mut self, other: Part) {
        self.report.add(other.report);
        self.groups.extend(other.groups);
    }
}

/// Why tables cannot be reopened.
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
    /// charged to the budget, whatever its limit. No table ever ended beyond `used` bytes. `publish` is told
    /// the geometry before this returns.
    #[allow(clippy::too_many_arguments, reason = "those of `create`, and what the memory was left as")]
    pub fn reopen(
        memory: M,
        entries: E,
        sums: SumKey,
        budget: Arc<Budget>,
        options: Options,
        geometry: Geometry,
        used: u64,
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
            report.left = owner.wipe_gaps(&geometry, used);
            owner.republish(&mut state);
        }
        // Relaxed: a counter that publishes nothing else.
        owner.items.store(report.items, Ordering::Relaxed);
        Ok((owner, report))
    }

    /// Shows every record to `see`, by several threads, while nothing is written. `Err` is the first that
    /// `see` returned.
    pub fn each_record<X: Send>(&self, see: impl Fn(&Record<'_>) -> Result<(), X> + Sync) -> Result<(), X> {
        let state = self.state.read().expect("index state");
        state.live.iter().try_for_each(|live| {
            each_part(&live.table, |mut pairs| {
                pairs.try_for_each(|pair| {
                    let header = self.header(&live.table, pair);
                    let mut slots = occupied(&header);
                    slots.try_for_each(|slot| see(&self.read_slot(&live.table, pair, slot, &header).record()))
                })
            })
        })
    }

    /// Wipes what is not zero below `used` and in no table; returns how many bytes that were, in lines.
    fn wipe_gaps(&self, geometry: &Geometry, used: u64) -> u64 {
        let mut tables: Vec<_> =
            geometry.live().map(|table| table.base..table.base + self.bytes_of(table)).collect();
        tables.sort_unstable_by_key(|table| table.start);
        let ends = std::iter::once(0).chain(tables.iter().map(|table| table.end));
        let starts = tables.iter().map(|table| table.start).chain(std::iter::once(used));
        let mut wiped = 0;
        for (from, to) in ends.zip(starts) {
            for line in (from..to).step_by(LINE as usize) {
                if (line..line + LINE).step_by(8).any(|at| self.memory.load(at) != 0) {
                    self.memory.discard(line, LINE);
                    self.memory.flush(line, LINE);
                    wiped += LINE;
                }
            }
        }
        self.memory.fence();
        wiped
    }

    /// Puts the pairs of one table right, each by itself, and counts what its owner counts.
    fn reopen_table(&self, live: &LiveTable, newest: bool, report: &mut Reopened) -> Result<(), ReopenError> {
        let table = &live.table;
        let damage = |pair, what: String| ReopenError::Pair { table: table.id, pair, what };
        let all = Mutex::new(Part::default());
        each_part(table, |pairs| {
            let mut part = Part::default();
            let opened = pairs.clone().try_for_each(|pair| {
                self.reopen_pair(live, pair, newest, &mut part).map_err(|what| damage(pair, what))
            });
            all.lock().expect("what was found").add(part);
            opened
        })?;
        let Part { report: found, mut groups } = all.into_inner().expect("what was found");
        groups.sort_unstable();
        if let Some(twice) = groups.windows(2).find(|two| two[0].0 == two[1].0) {
            let (group, pair) = twice[1];
            return Err(damage(pair, format!("its group {} is another pair's, too", group + 1)));
        }
        let used = groups.last().map_or(0, |(most, _)| most + 1);
        let named: HashSet<_> = groups.into_iter().map(|(group, _)| group).collect();
        *live.back.lock().expect("groups") = (0..used).filter(|group| !named.contains(group)).collect();
        // Relaxed: a counter that publishes nothing else.
        live.groups.store(u64::from(used), Ordering::Relaxed);
        report.add(found);
        Ok(())
    }

    /// Puts one pair right.
    fn reopen_pair(&self, live: &LiveTable, pair: u64, newest: bool, part: &mut Part) -> Result<(), String> {
        let (table, report) = (&live.table, &mut part.report);
        self.clear_lock(table, pair, report)?;
        let mut header = self.header(table, pair);
        check_header(table, &header, newest)?;
        self.wipe_free_slots(table, pair, &header, report);
        let held = self.shown(table, pair, &header, report)?;
        for (i, found) in held.iter().enumerate() {
            let csn = found.record().csn();
            if held[..i].iter().any(|other| other.record().csn() == csn) {
                report.twice += 1;
                self.empty_slot(table, pair, found.slot, &mut header);
            }
        }
        self.drop_empty_groups(table, pair, &mut header, report);
        let named = header.groups.iter().filter(|group| **group != 0);
        part.groups.extend(named.map(|group| (group - 1, pair)));
        // Relaxed: counters that publish nothing else.
        live.extended.fetch_add(u64::from(header.is_extended()), Ordering::Relaxed);
        live.whole.fetch_add(u64::from(header.is_whole()), Ordering::Relaxed);
        part.report.items += u64::from(header.occupied().count_ones());
        if header.spilled() && !header.moved() {
            part.report.beside.push((table.id, pair));
        }
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

    /// The records of a pair, in the order in which a reader looks at them; those that are hidden are shown.
    fn shown(
        &self,
        table: &Table,
        pair: u64,
        header: &Header,
        report: &mut Reopened,
    ) -> Result<Vec<Found>, String> {
        occupied(header)
            .map(|slot| {
                let bytes = match self.look_at_slot(table, pair, slot, header) {
                    Ok(found) => return Ok(found),
                    Err(bytes) => bytes,
                };
                let mut turned_back = bytes;
                let first = turned_back.first_chunk_mut().expect("a slot's first word");
                *first = turned(table.shape.kind, u64::from_le_bytes(*first)).to_le_bytes();
                let at = self.slot_place(table, pair, slot, header);
                if self.is_sound(table, at, &turned_back) && !Mutant::LeaveHidden.is_on() {
                    self.turn_slot(table, pair, slot, header);
                    report.shown += 1;
                }
                let found = self.look_at_slot(table, pair, slot, header);
                found.map_err(|_| format!("its slot {slot} has a bit and no record"))
            })
            .collect()
    }

    /// Groups in which no record is are named no more, also after a loss of power: another pair may soon have
    /// records there, which this one would wipe.
    fn drop_empty_groups(&self, table: &Table, pair: u64, header: &mut Header, report: &mut Reopened) {
        let before = header.groups;
        for (at, group) in before.into_iter().enumerate() {
            if group != 0 && header.occupied() & table.shape.group_mask(at) == 0 {
                self.set_group(table, pair, header, at, 0);
                report.given_back += 1;
            }
        }
        let is_extended = header.groups.iter().any(|group| *group != 0);
        if header.groups != before || is_extended != header.is_extended() {
            let extended = if is_extended { indicator::EXTENDED } else { 0 };
            self.set_indicator(table, pair, header, header.indicator & !indicator::EXTENDED | extended);
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
        for pair in (0..table.pairs).filter(|pair| self.may_have_copies(table, *pair, later)) {
            let header = self.header(table, pair);
            for slot in occupied(&header) {
                let found = self.read_slot(table, pair, slot, &header);
                let record = found.record();
                let Some(hash) = self.known_hash_of(&record) else {
                    let what = format!("its slot {slot} names {record:?}, which is not there");
                    return Err(ReopenError::Pair { table: table.id, pair, what });
                };
                for live in later {
                    let (home, _) = live.table.home(hash);
                    let mut header = self.header(&live.table, home);
                    for slot in occupied(&header).collect::<Vec<_>>() {
                        let copy = self.read_slot(&live.table, home, slot, &header);
                        if copy.record().csn() == record.csn() {
                            self.empty_slot(&live.table, home, slot, &mut header);
                            self.give_back(live, home, &mut header);
                            (report.twice, report.items) = (report.twice + 1, report.items - 1);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether something is in the pairs of later tables to which the keys of a pair go.
    fn may_have_copies(&self, table: &Table, pair: u64, later: &[Arc<LiveTable>]) -> bool {
        later.iter().any(|live| {
            let scaled = |pair: u64| u128::from(pair) * u128::from(live.table.pairs);
            let (from, to) = (scaled(pair), scaled(pair + 1).div_ceil(table.pairs.into()));
            let mut pairs = (from / u128::from(table.pairs)) as u64..to as u64;
            pairs.any(|pair| self.header(&live.table, pair).occupied() != 0)
        })
    }
}

/// Slots of a pair that have a bit.
fn occupied(header: &Header) -> impl Iterator<Item = usize> + use<> {
    let bits = header.occupied();
    (0..PAIR_SLOTS_MAX).filter(move |slot| bits & 1 << slot != 0)
}

/// Has several threads go over all pairs of a table, each over a part at a time. The first error counts.
fn each_part<X: Send>(table: &Table, go: impl Fn(Range<u64>) -> Result<(), X> + Sync) -> Result<(), X> {
    let (next, failed) = (AtomicU64::new(0), Mutex::new(None));
    let parts = table.pairs.div_ceil(PART).min(THREADS_MAX as u64) as usize;
    longarm_host::at_once(longarm_host::cores().min(parts), |_| {
        loop {
            // Relaxed: the thread that draws a number does that part.
            let from = next.fetch_add(PART, Ordering::Relaxed);
            if from >= table.pairs {
                return;
            }
            if let Err(why) = go(from..table.pairs.min(from + PART)) {
                failed.lock().expect("the first failure").get_or_insert(why);
                return;
            }
        }
    });
    failed.into_inner().expect("the first failure").map_or(Ok(()), Err)
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
