//! Tests of the ordered tree: nodes, a model twin, every cut of every READ, limits.

mod cuts;
mod limits;
mod model;
mod nodes;

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex};

use longarm_base::{Csn, EntryRef, Term, UnixMillis};
use longarm_memory::{OwnedWords, SumKey, Words};

use super::*;

/// The entry store's stand-in: which copy of which version is where.
#[derive(Default)]
pub struct Book {
    entries: Mutex<HashMap<u64, (Csn, u128)>>,
}

impl Ages for Arc<Book> {
    fn age_of(&mut self, entry: EntryRef, csn: Csn) -> Option<u128> {
        let entries = self.entries.lock().expect("book");
        entries.get(&entry.offset).filter(|(have, _)| *have == csn).map(|(_, age)| *age)
    }
}

impl Book {
    pub fn write(&self, place: EntryRef, csn: Csn, age: u128) {
        self.entries.lock().expect("book").insert(place.offset, (csn, age));
    }

    pub fn free(&self, place: EntryRef) {
        self.entries.lock().expect("book").remove(&place.offset);
    }
}

/// A tree with helpers that speak of keys and versions.
pub struct Bed<M: OwnedWords> {
    pub memory: Arc<M>,
    pub owner: Owner<Arc<M>, Arc<Book>>,
    pub book: Arc<Book>,
    pub sums: SumKey,
    pub csn: u64,
}

/// What a test asks for beside the memory.
pub const SMALL: TreeOptions =
    TreeOptions { unit: Unit::Small, bytes_max: u64::MAX, least_keys: 2, leaves_kept: 3, inner_kept: 3 };

/// A key and its version.
pub type Shown = (Vec<u8>, u64);

pub fn bed<M: OwnedWords>(memory: M, options: TreeOptions) -> Bed<M> {
    let (memory, book, sums) = (Arc::new(memory), Arc::new(Book::default()), SumKey::new(99));
    let owner =
        Owner::create(memory.clone(), book.clone(), sums.clone(), 77, options).expect("room for a tree");
    Bed { memory, owner, book, sums, csn: 0 }
}

pub fn place(line: u64) -> EntryRef {
    EntryRef { offset: line * 64, len: 64 }
}

pub fn put_of(key: &[u8], csn: u64) -> TreeEntry<'_> {
    TreeEntry {
        key,
        kind: EntryKind::Put,
        csn: Csn(csn),
        age: 0,
        entry: place(csn),
        expiry: UnixMillis::NEVER,
    }
}

pub fn standing(stable: u64) -> Standing<'static> {
    Standing { term: Term::ZERO, stable: Csn(stable), applied: &[1, 2, 3, 4] }
}

impl<M: OwnedWords> Bed<M> {
    /// Puts these keys in one step, and returns its number.
    pub fn put(&mut self, keys: &[&[u8]]) -> u64 {
        for key in keys {
            self.csn += 1;
            let put = put_of(key, self.csn);
            assert_eq!(self.owner.begin().apply(&put), Ok(true));
        }
        self.publish()
    }

    /// Deletes these keys in one step.
    pub fn delete(&mut self, keys: &[&[u8]]) -> u64 {
        for key in keys {
            self.csn += 1;
            let entry = TreeEntry { kind: EntryKind::Tombstone, ..put_of(key, self.csn) };
            assert_eq!(self.owner.begin().apply(&entry), Ok(true));
        }
        self.publish()
    }

    pub fn publish(&mut self) -> u64 {
        let stable = self.csn;
        self.owner.begin().publish(&standing(stable));
        self.owner.step()
    }

    pub fn header(&self) -> Header {
        newest_header(&*self.memory, &self.sums).expect("a header")
    }

    /// All items as the owner sees them.
    pub fn all(&mut self) -> Vec<Shown> {
        self.range(&TreeRange::ALL)
    }

    pub fn range(&mut self, range: &TreeRange<'_>) -> Vec<Shown> {
        let mut all = Vec::new();
        let ended = self.owner.walk(range, |item| {
            all.push((item.key.to_vec(), item.csn.0));
            ControlFlow::Continue(())
        });
        assert!(ended.is_continue());
        all
    }

    /// All items of a range as a reader sees them with atomic READs, and the number of READs.
    pub fn read(&self, range: &TreeRange<'_>) -> (Vec<Shown>, usize) {
        let header = self.header();
        let sight = Sight { header: &header, sums: &self.sums, bytes: self.memory.bytes() };
        let mut all = Vec::new();
        let (mut walk, mut step) = TreeWalk::start(range, None, &sight);
        for reads in 0..1_000_000 {
            let pointer = match step {
                TreeStep::Read(pointer) => pointer,
                TreeStep::End => return (all, reads),
                other => panic!("{other:?} with nobody writing"),
            };
            let mut bytes = vec![0; pointer.bytes(header.unit)];
            self.memory.copy_out(pointer.at(header.unit), &mut bytes);
            // Every other inner node as if it was remembered.
            let fed = match pointer.level > 0 && reads % 2 == 0 && is_node(pointer, &bytes, &sight) {
                true => walk.feed_known(&bytes, &sight),
                false => walk.feed(pointer, &bytes, &sight),
            };
            step = match fed {
                TreeStep::Read(next) => TreeStep::Read(next),
                TreeStep::Leaf(leaf) => {
                    show(&leaf, range, &mut all);
                    walk.go_on(range, &sight)
                }
                other => panic!("{other:?} with nobody writing"),
            };
        }
        panic!("a walk that does not end");
    }

    pub fn check(&self) -> TreeReport {
        let report = verify(&*self.memory, &self.sums, |_, _| Ok(()));
        assert_eq!(report.problem_count, 0, "{:#?}", report.problems);
        let counts = self.owner.counts();
        assert_eq!(
            (counts.items, counts.markers, counts.nodes),
            (report.items, report.markers, report.nodes())
        );
        assert!(self.owner.is_accounted_for());
        report
    }
}

/// Appends a leaf's items that are in a range, in its order.
pub fn show(leaf: &NodeView<'_>, range: &TreeRange<'_>, all: &mut Vec<Shown>) {
    let item = |i: usize| {
        let record = leaf.record(i).expect("a record");
        let mut key = Vec::new();
        leaf.key(i).append_to(&mut key);
        (!record.is_marker()).then_some((key, record.csn.0))
    };
    let slots = range.slots(leaf);
    match range.reverse {
        true => all.extend(slots.rev().filter_map(item)),
        false => all.extend(slots.filter_map(item)),
    }
}
