//! What an entry does to its key. Pure functions.
//!
//! Entries of several streams come in an order that need not be that of their versions: a put may come after
//! the delete that removed it, and the copy that collection made of an entry before that entry. So versions
//! decide. A delete leaves a marker, which goes once no older write can come any more; copies of one version
//! are told apart by age.

use longarm_base::{Csn, EntryRef, Mutant, UnixMillis};

use super::record::LeafRecord;

/// What the tree must know of entries, which it does not read itself.
pub trait Ages {
    /// The age of the entry there, in numbers that are greater for the younger of two copies of one version;
    /// `None` if no entry of this version is there any more. What is there may be any bytes: parts of a value
    /// that was written since, which may look like the words of an entry.
    fn age_of(&mut self, entry: EntryRef, csn: Csn) -> Option<u128>;
}

/// What an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// An item, as it was written.
    Put,
    /// The key is deleted.
    Tombstone,
    /// A copy of an item that collection made; it has the original's version.
    Move,
    /// A copy of a tombstone, or nothing at all.
    Noop,
}

/// An entry of a stream, as far as a tree is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeEntry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What it is.
    pub kind: EntryKind,
    /// Version.
    pub csn: Csn,
    /// Among copies of one version, the younger has the greater.
    pub age: u128,
    /// Where it is.
    pub entry: EntryRef,
    /// When the item is gone.
    pub expiry: UnixMillis,
}

/// What becomes of the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It has this record.
    Set(LeafRecord),
    /// It stays as it is.
    Ignore,
}

/// Decides, by what the tree has of the key, markers included. All writes up to `stable` are in the tree.
pub(super) fn judge(
    entry: &TreeEntry<'_>,
    current: Option<&LeafRecord>,
    stable: Csn,
    ages: &mut impl Ages,
) -> Verdict {
    let item = LeafRecord { csn: entry.csn, entry: Some(entry.entry), expiry: entry.expiry };
    let older = current.is_none_or(|current| current.csn < entry.csn);
    // Of one version, who is younger; what is not there any more is older than all.
    let mut younger = || {
        let same = current.filter(|current| current.csn == entry.csn);
        let place = same.and_then(|current| current.entry);
        place.is_some_and(|place| ages.age_of(place, entry.csn).is_none_or(|age| age < entry.age))
    };
    let sets = match entry.kind {
        EntryKind::Put => older || younger(),
        EntryKind::Tombstone if older => {
            return Verdict::Set(LeafRecord { csn: entry.csn, entry: None, expiry: UnixMillis::NEVER });
        }
        EntryKind::Tombstone | EntryKind::Noop => false,
        // One that is not above `stable` is of a key that was deleted or overwritten, of which nothing need
        // be left; otherwise the original comes later, in another stream.
        EntryKind::Move => (older && (entry.csn > stable || Mutant::TreeMoveAnyway.is_on())) || younger(),
    };
    if sets { Verdict::Set(item) } else { Verdict::Ignore }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ages are the places.
    struct ByPlace;
    impl Ages for ByPlace {
        fn age_of(&mut self, entry: EntryRef, _: Csn) -> Option<u128> {
            (entry.offset != 0).then_some(u128::from(entry.offset))
        }
    }

    fn place(line: u64) -> EntryRef {
        EntryRef { offset: line * 64, len: 64 }
    }

    /// What the tree has: version and, but for a marker, line.
    #[derive(Clone, Copy)]
    struct Has(u64, Option<u64>);

    fn judged(kind: EntryKind, csn: u64, line: u64, has: Option<Has>) -> Verdict {
        let (csn, entry) = (Csn(csn), place(line));
        let age = u128::from(entry.offset);
        let entry = TreeEntry { key: b"k", kind, csn, age, entry, expiry: UnixMillis::NEVER };
        let current = has.map(|Has(csn, line)| LeafRecord {
            csn: Csn(csn),
            entry: line.map(place),
            expiry: UnixMillis::NEVER,
        });
        judge(&entry, current.as_ref(), Csn(10), &mut ByPlace)
    }

    fn sets(kind: EntryKind, csn: u64, line: u64, has: Option<Has>) -> bool {
        let wanted = LeafRecord { csn: Csn(csn), entry: Some(place(line)), expiry: UnixMillis::NEVER };
        judged(kind, csn, line, has) == Verdict::Set(wanted)
    }

    #[test]
    fn the_newest_version_counts_and_of_its_copies_the_youngest() {
        use EntryKind::Put;
        assert!(sets(Put, 20, 5, None) && sets(Put, 5, 5, None));
        assert!(sets(Put, 20, 5, Some(Has(19, Some(9)))) && sets(Put, 20, 5, Some(Has(19, None))));
        assert!(!sets(Put, 20, 5, Some(Has(21, Some(9)))) && !sets(Put, 20, 5, Some(Has(21, None))));
        assert!(sets(Put, 20, 5, Some(Has(20, Some(4)))) && !sets(Put, 20, 5, Some(Has(20, Some(5)))));
        assert!(!sets(Put, 20, 5, Some(Has(20, Some(6)))), "its copy came first");
        assert!(sets(Put, 20, 5, Some(Has(20, Some(0)))), "what was there is gone");
    }

    #[test]
    fn a_delete_leaves_a_marker_unless_something_newer_is_there() {
        let marker = LeafRecord { csn: Csn(20), entry: None, expiry: UnixMillis::NEVER };
        for has in [None, Some(Has(19, Some(1))), Some(Has(19, None))] {
            assert_eq!(judged(EntryKind::Tombstone, 20, 0, has), Verdict::Set(marker));
        }
        for has in [Has(20, None), Has(21, Some(1)), Has(21, None)] {
            assert_eq!(judged(EntryKind::Tombstone, 20, 0, Some(has)), Verdict::Ignore);
        }
    }

    #[test]
    fn a_move_sets_a_key_only_ahead_of_its_original_or_over_an_older_copy() {
        use EntryKind::Move;
        assert!(sets(Move, 20, 5, Some(Has(20, Some(4)))));
        assert!(!sets(Move, 20, 5, Some(Has(20, Some(6)))), "a later copy came first");
        assert!(sets(Move, 20, 5, None) && sets(Move, 20, 5, Some(Has(19, Some(1)))));
        assert!(!sets(Move, 10, 5, None), "the key was deleted, and its marker is gone");
        assert!(!sets(Move, 10, 5, Some(Has(9, Some(1)))));
        assert!(!sets(Move, 20, 5, Some(Has(21, None))) && !sets(Move, 20, 5, Some(Has(20, None))));
    }

    #[test]
    fn what_says_nothing_changes_nothing() {
        assert_eq!(judged(EntryKind::Noop, 20, 5, None), Verdict::Ignore);
        assert_eq!(judged(EntryKind::Noop, 20, 5, Some(Has(1, Some(1)))), Verdict::Ignore);
    }
}
