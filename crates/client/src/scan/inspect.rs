//! A full check of a replica's ordered index, by READs: every node of the tree, and the entry of every item.
//!
//! A tree changes step by step while it is READ. What was found counts if the header before and after says
//! the same step. A problem may also be a step whose header is not written yet; it counts if it is there in
//! several looks at one step.

use std::ops::Range;
use std::time::Duration;

use longarm_base::limits::{LINE, READ_MAX};
use longarm_base::{Csn, EntryRef, Place, RegionId};
use longarm_fabric::{Address, QueuePair, Transport};
use longarm_index::tree::layout::TREE_REGION;
use longarm_index::tree::{Header, LeafRecord, TreeReport, verify};
use longarm_memory::{CopiedWords, SumKey};
use longarm_store::object;
use longarm_wire::ARENA_REGION;

use super::link::{PIECES, ScanLink};
use super::walk::{NEAR_MAX, VALUES};
use crate::deadline::Deadline;
use crate::error::Error;
use crate::link::Trouble;
use crate::options::Options;

/// The most looks at a tree that changes.
const LOOKS: usize = 12;
/// The looks at one step that must see a problem.
const SURE: usize = 3;
/// The pause before a tree in which something is wrong is looked at again: longer than a step takes.
const PAUSE: Duration = Duration::from_millis(20);

/// What a full check of a replica's ordered index found.
#[derive(Clone, Debug)]
pub struct OrderedReport {
    /// The header of the tree, at the step that was looked at.
    pub header: Header,
    /// The nodes, and what is wrong with them or with the entries of their items.
    pub tree: TreeReport,
    /// Entries that were READ, and are what the tree says.
    pub entries: u64,
}

/// The outcome of a check.
#[derive(Clone, Debug)]
pub enum OrderedInspection {
    /// What was found.
    Report(Box<OrderedReport>),
    /// The tree changed during each of a dozen looks.
    Unsettled,
    /// There is no tree now: the replica leads, and leaves scans to its followers, or builds one.
    NoTree,
}

/// Checks the ordered index of the replica at an address, over a connection of its own. Refused with
/// [`longarm_wire::RefusalCode::NotOrdered`] by a replica that keeps none ([`crate::refusal`]).
pub fn inspect_ordered<T: Transport>(
    transport: &T,
    address: &Address,
    options: &Options,
) -> Result<OrderedInspection, Error> {
    let limit = options.connect_timeout;
    let mut link = ScanLink::connect(transport, address, options, limit).map_err(Error::Connect)?;
    let failed = |why: &str| Error::NoPage(format!("it cannot be looked at: {why}"));
    let troubled = |trouble: Trouble| match trouble {
        Trouble::Broken(why) | Trouble::Lost(why) => failed(&why),
        _ => failed("it did not answer in time"),
    };
    if link.tree_bytes == 0 {
        return Err(failed("the replica does not lend it"));
    }
    let mut seen = None;
    for _ in 0..LOOKS {
        let Some(before) = link.tree_header(&Deadline::within(options.timeout)).map_err(troubled)? else {
            return Ok(OrderedInspection::NoTree);
        };
        let report = link.look(before, options).map_err(troubled)?;
        let after = link.tree_header(&Deadline::within(options.timeout)).map_err(troubled)?;
        let here = (report.header.incarnation, report.header.step);
        if after.is_none_or(|after| (after.incarnation, after.step) != here) {
            continue;
        }
        let times = seen.filter(|&(step, _)| step == here).map_or(1, |(_, times)| times + 1);
        if report.tree.problem_count == 0 || times == SURE {
            return Ok(OrderedInspection::Report(Box::new(report)));
        }
        seen = Some((here, times));
        longarm_host::sleep(PAUSE);
    }
    Ok(OrderedInspection::Unsettled)
}

/// The items of a tree, whose entries are to be looked at.
#[derive(Default)]
struct Items {
    entries: Vec<(EntryRef, Csn, Range<usize>)>,
    /// All keys, one after the other.
    keys: Vec<u8>,
}

impl Items {
    fn note(&mut self, key: &[u8], record: &LeafRecord) {
        let Some(entry) = record.entry else { return };
        let from = self.keys.len();
        self.keys.extend_from_slice(key);
        self.entries.push((entry, record.csn, from..self.keys.len()));
    }
}

impl<Q: QueuePair> ScanLink<Q> {
    /// Looks at all nodes and at all entries once.
    fn look(&mut self, header: Header, options: &Options) -> Result<OrderedReport, Trouble> {
        let bytes = (header.top * header.unit.bytes()).min(self.tree_bytes);
        let mut image = CopiedWords { at: 0, bytes: vec![0; bytes as usize] };
        self.copy(TREE_REGION, &mut image.bytes, options)?;
        let mut items = Items::default();
        let mut tree = verify(&image, &self.sums.clone(), |key, record| {
            items.note(key, record);
            Ok(())
        });
        drop(image);
        let mut entries = 0;
        for chunk in items.entries.chunks(VALUES) {
            let item = |(entry, csn, key): &(EntryRef, Csn, Range<usize>)| Item {
                entry: *entry,
                csn: *csn,
                key: &items.keys[key.clone()],
            };
            let chunk: Vec<Item<'_>> = chunk.iter().map(item).collect();
            let wrong = self.wrong_entries(&chunk, options)?;
            entries += (chunk.len() - wrong.len()) as u64;
            wrong.into_iter().for_each(|why| tree.problem(why));
        }
        Ok(OrderedReport { header, tree, entries })
    }

    /// Copies the beginning of a region.
    fn copy(&mut self, region: RegionId, into: &mut [u8], options: &Options) -> Result<(), Trouble> {
        let mut at = 0;
        for part in into.chunks_mut(PIECES as usize * READ_MAX as usize) {
            let places: Vec<Place> = (0..part.len())
                .step_by(READ_MAX as usize)
                .map(|from| {
                    let len = (part.len() - from).min(READ_MAX as usize);
                    Place::new(region, at + from as u64, len as u32)
                })
                .collect();
            self.read_all(&places, &Deadline::within(options.timeout))?;
            for (i, piece) in part.chunks_mut(READ_MAX as usize).enumerate() {
                piece.copy_from_slice(self.landed(i));
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    /// READs some entries, each of which is to be of its version and key; what is wrong with some of them.
    fn wrong_entries(&mut self, items: &[Item<'_>], options: &Options) -> Result<Vec<String>, Trouble> {
        let deadline = &Deadline::within(options.timeout);
        let mut wrong = Vec::new();
        let (near, far): (Vec<&Item<'_>>, Vec<&Item<'_>>) =
            items.iter().partition(|item| (1..=NEAR_MAX).contains(&item.entry.len));
        let places: Vec<Place> = near.iter().map(|item| item.place()).collect();
        for item in &near {
            self.check_place(item.entry)?;
        }
        self.read_all(&places, deadline)?;
        for (i, item) in near.iter().enumerate() {
            wrong.extend(item.wrong(self.landed(i), &self.sums));
        }
        let mut bytes = Vec::new();
        for item in far {
            bytes.clear();
            self.far_entry(item.entry, &mut bytes, &Deadline::within(options.timeout))?;
            wrong.extend(item.wrong(&bytes, &self.sums));
        }
        Ok(wrong)
    }

    /// READs a long entry. The tree does not say how long the longest are: the entry itself does.
    fn far_entry(&mut self, entry: EntryRef, into: &mut Vec<u8>, deadline: &Deadline) -> Result<(), Trouble> {
        let mut entry = entry;
        if entry.len == 0 {
            entry.len = LINE as u32;
            self.check_place(entry)?;
            self.fetch(entry, into, deadline)?;
            let Ok(len) = object::total_len(into) else { return Ok(()) };
            entry.len = len;
            into.clear();
        }
        self.check_place(entry)?;
        self.fetch(entry, into, deadline)
    }
}

/// An item of a tree.
struct Item<'a> {
    entry: EntryRef,
    csn: Csn,
    key: &'a [u8],
}

impl Item<'_> {
    fn place(&self) -> Place {
        Place::new(ARENA_REGION, self.entry.offset, self.entry.len)
    }

    /// What is wrong with the bytes at its place, if they are not its entry.
    fn wrong(&self, bytes: &[u8], sums: &SumKey) -> Option<String> {
        let Item { entry, csn, key } = self;
        match object::read(bytes, entry.offset, sums) {
            Ok(found) if found.csn == *csn && found.key == *key => None,
            Ok(found) => Some(format!("{entry:?} of {csn:?} holds {:?}, or another key", found.csn)),
            Err(error) => Some(format!("{entry:?} of {csn:?}: {error}")),
        }
    }
}
