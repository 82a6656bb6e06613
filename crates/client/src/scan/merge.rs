//! The merge of several groups' scans: each has its keys in order, and no key is in two of them.

use std::collections::VecDeque;

use super::page::ScanItem;

/// What the merge does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum MergeStep {
    /// Show this item.
    Item(ScanItem),
    /// Fetch the next page of this part: no item can be shown before its next one is known.
    Fetch(usize),
    /// There are no more.
    End,
}

/// Items that came from each part and were not shown yet.
#[derive(Clone, Debug, Default)]
struct Part {
    items: VecDeque<ScanItem>,
    /// Whether there may be more behind them.
    more: bool,
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
        let part = Part { items: VecDeque::new(), more: true };
        Merge { parts: vec![part; parts], reverse }
    }

    /// Takes the next page of a part, and whether there may be more behind it.
    pub(crate) fn feed(&mut self, part: usize, items: Vec<ScanItem>, more: bool) {
        let part = &mut self.parts[part];
        part.items.extend(items);
        part.more = more;
    }

    /// The next item, or what must be fetched before it is known.
    pub(crate) fn step(&mut self) -> MergeStep {
        if let Some(empty) = self.parts.iter().position(|part| part.more && part.items.is_empty()) {
            return MergeStep::Fetch(empty);
        }
        let heads = self.parts.iter().enumerate();
        let heads = heads.filter_map(|(number, part)| Some((&part.items.front()?.key, number)));
        let next = if self.reverse { heads.max() } else { heads.min() }.map(|(_, number)| number);
        match next.and_then(|number| self.parts[number].items.pop_front()) {
            Some(item) => MergeStep::Item(item),
            None => MergeStep::End,
        }
    }
}

/// How many items to ask of each of `groups` groups for `limit` items in all: its share, and two standard
/// deviations of it, so that most scans ask no group twice.
pub(crate) fn share(limit: u64, groups: u64) -> u64 {
    let share = limit.div_ceil(groups.max(1));
    share + 2 * share.isqrt() + 4
}
