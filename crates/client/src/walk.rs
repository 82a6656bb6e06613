//! All items of a live server, read one-sidedly pair by pair: for dumps and inspection.
//!
//! The walk promises what a SCAN of Redis does: an item that is there throughout is seen, one that comes or
//! goes meanwhile may be. An item may be seen twice if the index grows during the walk, or if it stands
//! beside it.

use longarm_base::{Csn, Place, UnixMillis};
use longarm_fabric::{QueuePair, Transport};
use longarm_index::hash::layout::INDEX_REGION;
use longarm_index::hash::{EntryRef, Record, Table, items};
use longarm_memory::Words;
use longarm_store::object;
use longarm_wire::{Request, RequestKind, SpilledKey};

use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::link::{Link, Trouble};
use crate::pipeline::Reply;

/// One item of a walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// Its version.
    pub csn: Csn,
    /// When it is gone, in Unix milliseconds of the server, or never.
    pub expiry: UnixMillis,
}

/// A copied-out window of the index region.
struct Window {
    at: u64,
    bytes: Vec<u8>,
}

impl Words for Window {
    fn bytes(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
    fn load(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.copy_out(at, &mut word);
        u64::from_le_bytes(word)
    }
    fn copy_out(&self, at: u64, into: &mut [u8]) {
        let from = (at - self.at) as usize;
        into.copy_from_slice(&self.bytes[from..from + into.len()]);
    }
}

impl<T: Transport> Client<T> {
    /// Calls `each` with every item; stops early when it returns `false`.
    pub fn walk(&mut self, mut each: impl FnMut(Item) -> bool) -> Result<(), Error> {
        // Before and after the tables: an item may get a slot meanwhile, or lose it.
        if self.walk_spilled(&mut each)? && self.walk_tables(&mut each)? {
            self.walk_spilled(&mut each)?;
        }
        Ok(())
    }

    /// Items that stand beside the tables, which the server lists. `false` if it was stopped.
    fn walk_spilled(&mut self, each: &mut impl FnMut(Item) -> bool) -> Result<bool, Error> {
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
            let Some(end) = keys.last() else { return Ok(true) };
            last = end.key.to_vec();
            for SpilledKey { key, expiry } in keys {
                if let Some((value, csn)) = self.get_versioned(key)?
                    && !each(Item { key: key.to_vec(), value, csn, expiry })
                {
                    return Ok(false);
                }
            }
        }
    }

    fn walk_tables(&mut self, each: &mut impl FnMut(Item) -> bool) -> Result<bool, Error> {
        let mut at = 0;
        loop {
            let deadline = &self.deadline();
            if let Err(trouble) = self.ensure_lease(deadline).map(|_| ()) {
                self.recover(trouble, deadline)?;
            }
            let live: Vec<Table> = self.link()?.geometry.live().copied().collect();
            let Some(table) = live.get(at) else { return Ok(true) };
            for pair in 0..table.pairs {
                for item in self.pair_items(table, pair)? {
                    if !each(item) {
                        return Ok(false);
                    }
                }
            }
            at += 1;
        }
    }

    fn pair_items(&mut self, table: &Table, pair: u64) -> Result<Vec<Item>, Error> {
        let deadline = &self.deadline();
        let mut problem = String::new();
        for _ in 0..longarm_base::limits::RETRIES_MAX {
            match self.try_pair(table, pair, deadline) {
                Ok(Ok(items)) => return Ok(items),
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

    /// One look at a pair: its items, or why it must be looked at again.
    fn try_pair(
        &mut self,
        table: &Table,
        pair: u64,
        deadline: &Deadline,
    ) -> Result<Result<Vec<Item>, String>, Trouble> {
        let link = self.connected()?;
        let size = table.shape.pair_bytes() as u32;
        let into = Link::<T::Qp>::slot(0);
        link.post_read(Place::new(INDEX_REGION, table.pair_at(pair), size), into, deadline)?;
        link.finish_reads(deadline)?;
        let mut window = Window { at: table.pair_at(pair), bytes: link.qp.landing(into, size).to_vec() };
        let header = window.bytes[table.shape.header_at() as usize..][..64].try_into().expect("a header");
        let header = longarm_index::hash::layout::Header::parse(header);
        // Slots of added groups lie elsewhere: they join the window as one more piece each.
        let extended = header.groups.iter().any(|&group| group != 0);
        if extended {
            window = self.whole_table_window(table, pair, &header, deadline)?;
        }
        let link = self.connected()?;
        let sums = link.sums.clone();
        let mut found = Vec::new();
        let mut entries = Vec::new();
        let looked = items(&window, table, pair, &sums, |record| match *record {
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

    /// A window from the pair to the end of its last added group.
    fn whole_table_window(
        &mut self,
        table: &Table,
        pair: u64,
        header: &longarm_index::hash::layout::Header,
        deadline: &Deadline,
    ) -> Result<Window, Trouble> {
        let base = table.shape.base_slots();
        let mut window = Window { at: 0, bytes: Vec::new() };
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
            link.fetch(entry.offset, 64, bytes, deadline)?;
            match object::total_len(bytes) {
                Ok(total) => len = total.next_multiple_of(8),
                Err(why) => return Ok(Err(why.to_string())),
            }
        }
        if !fits(len) {
            return Ok(Err("an entry outside the arena".into()));
        }
        link.fetch(entry.offset, len, bytes, deadline)?;
        Ok(object::read(bytes, entry.offset, &sums).map_err(|why| why.to_string()))
    }
}
