//! All items of a live server, read one-sidedly pair by pair: for dumps and inspection.
//!
//! The walk promises what a SCAN of Redis does: an item that is there throughout is seen, an item that comes
//! or goes meanwhile may be. An item may be seen twice if the index grows during the walk, if it is stored
//! beside the index, or if another server comes to lead meanwhile: the items of that server are walked from
//! the beginning.
//!
//! (1) Pairs move from older tables to newer ones. The walk takes the oldest table first, and after each
//!     table it asks anew which tables there are: a pair that was moved before it was looked at is in one of
//!     the tables still to come. So a table may also be withdrawn meanwhile, and its memory used for other
//!     records.
//! (2) Out of place a record changes its slot when it is replaced. One READ may have its old slot from after
//!     that, and its new one from before, when another record stood there. So two looks, the second posted
//!     after the first came, must show the same (as in the search, `crates/index/src/hash/reader.rs`).
//! (3) A look at a pair counts only under the lease (L9): a server that leads no more may have its memory
//!     used for something else.

use longarm_base::{Csn, EntryRef, Place, UnixMillis};
use longarm_fabric::{QueuePair, Transport};
use longarm_host::now;
use longarm_index::hash::layout::{Header, INDEX_REGION};
use longarm_index::hash::{Discipline, Record, Table, items};
use longarm_memory::{CopiedWords, SumKey, Words};
use longarm_store::object;
use longarm_wire::{ARENA_REGION, Request, RequestKind, SpilledKey};

use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::flight::Reply;
use crate::link::{Link, Trouble};

/// One item of a walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// Its version.
    pub csn: Csn,
    /// When the item is gone, in Unix milliseconds of the server, or never.
    pub expiry: UnixMillis,
}

/// Calls `each` with the records of a pair. Or says why the pair must be looked at again: of an item of which
/// half is new, or that moved within the pair between two READs, this copy has no more.
pub(crate) fn records(
    window: &CopiedWords,
    table: &Table,
    pair: u64,
    sums: &SumKey,
    each: impl FnMut(&Record<'_>),
) -> Result<(), String> {
    match items(window, table, pair, sums, each)?.torn {
        0 => Ok(()),
        torn => Err(format!("{torn} slots of pair {pair} of table {} do not verify", table.id)),
    }
}

fn header_of(window: &CopiedWords, table: &Table, pair: u64) -> Header {
    let mut line = [0; 64];
    window.copy_out(table.header_at(pair), &mut line);
    Header::parse(&line)
}

/// What two looks at a pair must agree in: its indicator, and the versions in its slots.
fn versions(
    window: &CopiedWords,
    table: &Table,
    pair: u64,
    sums: &SumKey,
) -> Result<(u64, Vec<Csn>), String> {
    let mut versions = Vec::new();
    records(window, table, pair, sums, |record| versions.push(record.csn()))?;
    Ok((header_of(window, table, pair).indicator, versions))
}

/// The most other servers that may come to lead during a walk.
const LEADERS_MAX: usize = 16;

/// The end of a walk.
#[derive(PartialEq, Eq)]
enum Walked {
    /// All items were seen.
    All,
    /// The caller stops it.
    Stopped,
    /// Another server answers than at the beginning.
    Elsewhere,
}

impl<T: Transport> Client<T> {
    /// Calls `each` with every item; stops early when it returns `false`.
    pub fn walk(&mut self, mut each: impl FnMut(Item) -> bool) -> Result<(), Error> {
        for _ in 0..LEADERS_MAX {
            if self.walk_one(&mut each)? != Walked::Elsewhere {
                return Ok(());
            }
        }
        let reason = format!("{LEADERS_MAX} servers came to lead, one after the other, during one walk");
        Err(Error::Lost { address: self.address().to_string(), reason })
    }

    /// Walks all items of one server.
    fn walk_one(&mut self, each: &mut impl FnMut(Item) -> bool) -> Result<Walked, Error> {
        let boot = self.boot;
        // Before and after the tables: an item may get a slot meanwhile, or lose it.
        for spilled in [true, false, true] {
            let walked = if spilled { self.walk_spilled(each)? } else { self.walk_tables(boot, each)? };
            if walked != Walked::All {
                return Ok(walked);
            }
            if self.boot != boot {
                return Ok(Walked::Elsewhere);
            }
        }
        Ok(Walked::All)
    }

    /// Walks the items beside the tables, which the server lists.
    fn walk_spilled(&mut self, each: &mut impl FnMut(Item) -> bool) -> Result<Walked, Error> {
        let mut last = Vec::new();
        loop {
            let mut request = Request::new(RequestKind::Spilled, self.next_operation);
            request.value = &last;
            let deadline = self.deadline();
            let ticket = self.post(request, &deadline)?;
            let list = match self.wait(ticket).map_err(|error| self.unanswered(error))? {
                Reply::Value(list, _) => list,
                other => return Err(Error::Protocol(format!("a list of keys came as {other:?}"))),
            };
            let keys = SpilledKey::decode_all(&list).map_err(|bad| Error::Protocol(bad.to_string()))?;
            let Some(end) = keys.last() else { return Ok(Walked::All) };
            last = end.key.to_vec();
            for SpilledKey { key, expiry } in keys {
                if let Some((value, csn)) = self.get_versioned(key)?
                    && !each(Item { key: key.to_vec(), value, csn, expiry })
                {
                    return Ok(Walked::Stopped);
                }
            }
        }
    }

    fn walk_tables(&mut self, boot: u64, each: &mut impl FnMut(Item) -> bool) -> Result<Walked, Error> {
        let mut walked = Vec::new();
        loop {
            let Some(live) = self.live_tables(boot)? else { return Ok(Walked::Elsewhere) };
            let next = live.into_iter().find(|table| !walked.contains(&table.id));
            let Some(table) = next else { return Ok(Walked::All) };
            walked.push(table.id);
            for pair in 0..table.pairs {
                let Some(items) = self.pair_items(&table, pair, boot)? else { return Ok(Walked::Elsewhere) };
                for item in items {
                    if !each(item) {
                        return Ok(Walked::Stopped);
                    }
                }
            }
        }
    }

    /// The present tables, oldest first; `None` if another server answers.
    fn live_tables(&mut self, boot: u64) -> Result<Option<Vec<Table>>, Error> {
        let deadline = &self.deadline();
        while self.boot == boot {
            match self.connected().and_then(|link| link.look_at_heartbeat(deadline)) {
                Ok(()) => return Ok(Some(self.link()?.geometry.live().copied().collect())),
                Err(trouble) => self.recover(trouble, deadline)?,
            }
        }
        Ok(None)
    }

    /// The items of a pair; `None` if another server answers.
    fn pair_items(&mut self, table: &Table, pair: u64, boot: u64) -> Result<Option<Vec<Item>>, Error> {
        let deadline = &self.deadline();
        let mut problem = String::new();
        for _ in 0..longarm_base::limits::RETRIES_MAX {
            if self.boot != boot {
                return Ok(None);
            }
            match self.try_pair(table, pair, deadline) {
                Ok(Ok(items)) => return Ok(Some(items)),
                Ok(Err(why)) => {
                    problem = why;
                    let waited = self.link()?.wait_a_little(deadline);
                    waited.or_else(|trouble| self.recover(trouble, deadline))?;
                }
                Err(trouble) => self.recover(trouble, deadline)?,
            }
        }
        Err(Error::Protocol(problem))
    }

    /// Looks at a pair once: its items, or why it must be looked at again.
    fn try_pair(
        &mut self,
        table: &Table,
        pair: u64,
        deadline: &Deadline,
    ) -> Result<Result<Vec<Item>, String>, Trouble> {
        let begin = self.ensure_lease(deadline)?;
        let window = self.window_of(table, pair, deadline)?;
        if table.discipline == Discipline::OutOfPlace {
            let again = self.window_of(table, pair, deadline)?;
            let sums = &self.connected()?.sums;
            if versions(&window, table, pair, sums) != versions(&again, table, pair, sums) {
                return Ok(Err("it changed between two looks".into()));
            }
        }
        let (link, end) = (self.connected()?, now());
        if !link.trusted(begin, end) {
            return Ok(Err("a READ of it took longer than it may".into()));
        }
        let sums = link.sums.clone();
        // A slot's entry is right if its checksum and its version are: that needs no lease.
        let mut found = Vec::new();
        let mut entries = Vec::new();
        let looked = records(&window, table, pair, &sums, |record| match *record {
            Record::Inline { csn, key, value, expiry, .. } => {
                found.push(Item { key: key.to_vec(), value: value.to_vec(), csn, expiry })
            }
            Record::Entry { csn, entry, .. } => entries.push((entry, csn)),
        });
        if let Err(why) = looked {
            return Ok(Err(why));
        }
        let mut bytes = Vec::new();
        for (entry, csn) in entries {
            match self.fetch_entry(entry, &mut bytes, deadline)? {
                Ok(e) if e.csn == csn => {
                    found.push(Item { key: e.key.to_vec(), value: e.value.to_vec(), csn, expiry: e.expiry })
                }
                Ok(_) => return Ok(Err(format!("entry at {:#x} has another version", entry.offset))),
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Ok(found))
    }

    /// A window that has all slots of a pair.
    fn window_of(&mut self, table: &Table, pair: u64, deadline: &Deadline) -> Result<CopiedWords, Trouble> {
        let link = self.connected()?;
        let size = table.shape.pair_bytes() as u32;
        let into = Link::<T::Qp>::slot(0);
        link.post_read(Place::new(INDEX_REGION, table.pair_at(pair), size), into, deadline)?;
        link.finish_reads(deadline)?;
        let window = CopiedWords { at: table.pair_at(pair), bytes: link.qp.landing(into, size).to_vec() };
        let header = header_of(&window, table, pair);
        // Slots of added groups are elsewhere: each joins the window as one more piece.
        match header.groups.iter().any(|&group| group != 0) {
            true => self.whole_table_window(table, pair, &header, deadline),
            false => Ok(window),
        }
    }

    /// A window from the pair to the end of its last added group.
    pub(crate) fn whole_table_window(
        &mut self,
        table: &Table,
        pair: u64,
        header: &Header,
        deadline: &Deadline,
    ) -> Result<CopiedWords, Trouble> {
        let base = table.shape.base_slots();
        let mut window = CopiedWords { at: 0, bytes: Vec::new() };
        let link = self.connected()?;
        let size = table.shape.pair_bytes() as u32;
        let into = Link::<T::Qp>::slot(0);
        link.post_read(Place::new(INDEX_REGION, table.pair_at(pair), size), into, deadline)?;
        let mut groups = Vec::new();
        for (i, &group) in header.groups.iter().enumerate().filter(|(_, group)| **group != 0) {
            if let Some(at) = table.slot_at(pair, base + 4 * i, &header.groups) {
                let landing = Link::<T::Qp>::slot(1 + i);
                link.post_read(
                    Place::new(INDEX_REGION, at & !63, table.shape.group_bytes() as u32),
                    landing,
                    deadline,
                )?;
                groups.push((at, landing));
            }
            let _ = group;
        }
        link.finish_reads(deadline)?;
        let end = groups.iter().map(|(at, _)| at + table.shape.group_bytes()).max().unwrap_or(0);
        window.at = table.pair_at(pair);
        window.bytes = vec![0; (end.max(window.at + u64::from(size)) - window.at) as usize];
        window.bytes[..size as usize].copy_from_slice(link.qp.landing(into, size));
        for (at, landing) in groups {
            let bytes = link.qp.landing(landing, table.shape.group_bytes() as u32);
            let from = (at - window.at) as usize;
            window.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        }
        Ok(window)
    }

    fn fetch_entry<'b>(
        &mut self,
        entry: EntryRef,
        bytes: &'b mut Vec<u8>,
        deadline: &Deadline,
    ) -> Result<Result<object::Entry<'b>, String>, Trouble> {
        let link = self.connected()?;
        let arena = link.view().arena_bytes;
        let sums = link.sums.clone();
        let mut len = entry.len;
        let fits = |len: u32| entry.offset.checked_add(u64::from(len)).is_some_and(|end| end <= arena);
        if len == 0 {
            if !fits(64) {
                return Ok(Err("an entry outside the arena".into()));
            }
            link.fetch(Place::new(ARENA_REGION, entry.offset, 64), bytes, deadline)?;
            match object::total_len(bytes) {
                Ok(total) => len = total.next_multiple_of(8),
                Err(why) => return Ok(Err(why.to_string())),
            }
        }
        if !fits(len) {
            return Ok(Err("an entry outside the arena".into()));
        }
        link.fetch(Place::new(ARENA_REGION, entry.offset, len), bytes, deadline)?;
        Ok(object::read(bytes, entry.offset, &sums).map_err(|why| why.to_string()))
    }
}
