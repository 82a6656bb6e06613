//! The merge of several groups' scans: each has its keys in order, and no key is in two of them.

use super::items::{Items, ScanItemRef};

/// What the merge does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MergeStep {
    /// Show the next item of this part.
    Item(usize),
    /// Fetch the next page of this part: no item can be shown before its next one is known.
    Fetch(usize),
    /// There are no more.
    End,
}

/// Items that came from each part and were not shown yet.
#[derive(Clone, Debug, Default)]
struct Part {
    items: Items,
    /// The items that were shown.
    shown: usize,
    /// Whether there may be more behind them.
    more: bool,
}

impl Part {
    fn head(&self) -> Option<ScanItemRef<'_>> {
        self.items.get(self.shown)
    }
}

/// The merge, as a value that is fed pages.
#[derive(Clone, Debug)]
pub(crate) struct Merge {
    parts: Vec<Part>,
    reverse: bool,
}

impl Merge {
    /// A merge of so many parts, of none of which anything is known yet.
    pub(crate) fn new(parts: usize, reverse: bool) -> Merge {
        let part = Part { more: true, ..Part::default() };
        Merge { parts: vec![part; parts], reverse }
    }

    /// Takes the next page of a part, all of whose items were shown, and whether there may be more behind it.
    pub(crate) fn feed(&mut self, part: usize, items: Items, more: bool) {
        self.parts[part] = Part { items, shown: 0, more };
    }

    /// The part of the next item, or what must be fetched before it is known.
    pub(crate) fn step(&self) -> MergeStep {
        if let [part] = self.parts.as_slice() {
            return match part.head() {
                Some(_) => MergeStep::Item(0),
                None if part.more => MergeStep::Fetch(0),
                None => MergeStep::End,
            };
        }
        if let Some(empty) = self.parts.iter().position(|part| part.more && part.head().is_none()) {
            return MergeStep::Fetch(empty);
        }
        let heads = self.parts.iter().enumerate();
        let heads = heads.filter_map(|(number, part)| Some((part.head()?.key, number)));
        let next = if self.reverse { heads.max() } else { heads.min() };
        next.map_or(MergeStep::End, |(_, number)| MergeStep::Item(number))
    }

    /// Shows the next item of a part.
    pub(crate) fn show(&mut self, part: usize) -> ScanItemRef<'_> {
        let part = &mut self.parts[part];
        part.shown += 1;
        part.items.get(part.shown - 1).expect("the step has found an item")
    }
}

/// How many items to ask of each of `groups` groups for `limit` items in all: its share, and two standard
/// deviations of it, so that most scans ask no group twice.
pub(crate) fn share(limit: u64, groups: u64) -> u64 {
    let share = limit.div_ceil(groups.max(1));
    share + 2 * share.isqrt() + 4
}
