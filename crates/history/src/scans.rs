//! The pages of one iterator: each begins after the last key of the one before, and together they leave out
//! nothing that was there throughout, and show nothing that cannot have been there (I15d).
//!
//! It trusts no version, and judges each iterator alone. What was there throughout was acknowledged before
//! the iterator began, and nobody can have removed it until the iterator ended.

use std::collections::BTreeMap;

use longarm_base::Nanos;

use crate::violation::Who;
use crate::{Direction, History, Item, NEVER, Operation, OperationOutcome, Page, Violation};

/// Judges the pages of each iterator.
pub fn judge(history: &History) -> Result<(), Violation> {
    let mut scans: BTreeMap<(u32, u32), Vec<&Page>> = BTreeMap::new();
    for page in history.pages() {
        scans.entry((page.client, page.scan)).or_default().push(page);
    }
    let mut keys: BTreeMap<u32, Key<'_>> = BTreeMap::new();
    for operation in history.operations() {
        keys.entry(operation.key).or_default().operations.push(operation);
    }
    keys.values_mut().for_each(Key::sort);
    for pages in scans.values_mut() {
        pages.sort_by_key(|page| (page.call, page.end));
        for page in pages.iter() {
            page.shape().or_else(|rule| accuse(rule, [Who::Page(page)]))?;
        }
        for pair in pages.windows(2) {
            follows(pair[0], pair[1])?;
        }
        for page in pages.iter() {
            for item in &page.items {
                match keys.get(&item.key) {
                    Some(key) => key.may_show(page, item)?,
                    None => return accuse("a page shows a key that nobody wrote", [Who::Page(page)]),
                }
            }
        }
        nothing_is_left_out(pages, &keys)?;
    }
    Ok(())
}

fn accuse<'a, T>(rule: &'static str, guilty: impl IntoIterator<Item = Who<'a>>) -> Result<T, Violation> {
    Err(Violation::by(rule, guilty))
}

/// A page goes on where the one before ended.
fn follows(page: &Page, next: &Page) -> Result<(), Violation> {
    let both = [Who::Page(page), Who::Page(next)];
    let (true, Some(last)) = (page.more, page.items.last()) else {
        return accuse("a page after the last one of its iterator", both);
    };
    if page.direction != next.direction {
        return accuse("an iterator that changes its direction", both);
    }
    if let Some(first) = next.items.first() {
        if first.key == last.key {
            return accuse("a page begins with the last key of the page before", both);
        }
        if !page.is_after(last.key, first.key) {
            return accuse("a page begins before the page before ended", both);
        }
    }
    let rest = match page.direction {
        Direction::Ascending => page.covered().end..page.asked().end,
        Direction::Descending => page.asked().start..page.covered().start,
    };
    if next.asked() != rest {
        return accuse("a page is not of what the page before left", both);
    }
    Ok(())
}

/// What was there before the first page was asked for, and not removed until the last was answered, is shown.
fn nothing_is_left_out(pages: &[&Page], keys: &BTreeMap<u32, Key<'_>>) -> Result<(), Violation> {
    let (Some(first), Some(end)) = (pages.first(), pages.iter().map(|page| page.end).max()) else {
        return Ok(());
    };
    for page in pages {
        let mut shown: Vec<u32> = page.items.iter().map(|item| item.key).collect();
        shown.sort_unstable();
        for (number, key) in page.among(keys) {
            if shown.binary_search(&number).is_ok() {
                continue;
            }
            if let Some(there) = key.throughout(first.call, end) {
                let rule = "a scan leaves out a key that was there throughout";
                return accuse(rule, [Who::Operation(there), Who::Page(page)]);
            }
        }
    }
    Ok(())
}

/// The operations on a key.
#[derive(Default)]
struct Key<'a> {
    /// By call.
    operations: Vec<&'a Operation>,
    /// Who may have removed the key, or written it.
    removals: Row<'a>,
    writes: Row<'a>,
    /// Who surely had something there, removed it, or changed it in any way.
    there: Row<'a>,
    removed: Row<'a>,
    changed: Row<'a>,
}

/// Operations by one of their times, each with that one of all up to it whose other time is the latest.
#[derive(Default)]
struct Row<'a>(Vec<Entry<'a>>);

struct Entry<'a> {
    at: Nanos,
    latest: &'a Operation,
}

impl<'a> Row<'a> {
    /// By the times of their calls; the latest end counts.
    fn by_call(operations: impl Iterator<Item = &'a Operation>) -> Row<'a> {
        Row::of(operations, |operation| operation.call, |operation| operation.end)
    }

    /// By the times of their ends; the latest call counts.
    fn by_end(operations: impl Iterator<Item = &'a Operation>) -> Row<'a> {
        Row::of(operations, |operation| operation.end, |operation| operation.call)
    }

    fn of(
        operations: impl Iterator<Item = &'a Operation>,
        at: fn(&Operation) -> Nanos,
        other: fn(&Operation) -> Nanos,
    ) -> Row<'a> {
        let mut sorted: Vec<&Operation> = operations.collect();
        sorted.sort_by_key(|operation| (at(operation), other(operation)));
        let mut row: Vec<Entry<'a>> = Vec::new();
        for operation in sorted {
            let last = row.last().map(|last| last.latest).filter(|last| other(last) > other(operation));
            row.push(Entry { at: at(operation), latest: last.unwrap_or(operation) });
        }
        Row(row)
    }

    /// Of those up to a time, the one whose other time is the latest.
    fn up_to(&self, time: Nanos) -> Option<&'a Operation> {
        let count = self.0.partition_point(|entry| entry.at <= time);
        Some(self.0[count.checked_sub(1)?].latest)
    }

    /// Of those before a time, the one whose other time is the latest.
    fn before(&self, time: Nanos) -> Option<&'a Operation> {
        self.up_to(Nanos(time.0.checked_sub(1)?))
    }
}

impl<'a> Key<'a> {
    fn sort(&mut self) {
        let all = || self.operations.iter().copied();
        let may_remove = |operation: &&Operation| operation.removed() || operation.expires().is_some();
        let found = |operation: &Operation| matches!(operation.outcome, OperationOutcome::Found(_));
        let done = |operation: &Operation| operation.end != NEVER && !operation.in_doubt();
        let wrote = |operation: &Operation| operation.wrote().is_some() && done(operation);
        let removed = |operation: &Operation| operation.removed() && done(operation);
        let removals = Row::by_call(all().filter(may_remove));
        let writes = Row::by_call(all().filter(|operation| operation.wrote().is_some()));
        let there = Row::by_end(all().filter(|operation| found(operation) || wrote(operation)));
        let gone = Row::by_end(all().filter(|operation| removed(operation)));
        let changed = Row::by_end(all().filter(|operation| removed(operation) || wrote(operation)));
        (self.removals, self.writes, self.there, self.removed, self.changed) =
            (removals, writes, there, gone, changed);
        self.operations.sort_by_key(|operation| operation.wrote());
    }

    /// Who shows that the key was there all the time between these two.
    fn throughout(&self, from: Nanos, to: Nanos) -> Option<&'a Operation> {
        let there = self.there.before(from)?;
        let removal = self.removals.up_to(to);
        removal.is_none_or(|removal| removal.end < there.call).then_some(there)
    }

    /// Whether what a page shows of the key can have been there.
    fn may_show(&self, page: &Page, item: &Item) -> Result<(), Violation> {
        let who = Who::Page(page);
        let Some(value) = item.value else { return self.may_be_there(page) };
        let by_value = self.operations.binary_search_by_key(&Some(value), |operation| operation.wrote());
        let Ok(writer) = by_value.map(|at| self.operations[at]) else {
            return accuse("a page shows a value that nobody wrote", [who]);
        };
        if page.end < writer.call {
            return accuse("a page shows a value before it was written", [Who::Operation(writer), who]);
        }
        match self.changed.before(page.call).filter(|change| writer.end < change.call) {
            Some(change) => {
                let rule = "a page shows a value that was replaced or removed before";
                accuse(rule, [Who::Operation(writer), Who::Operation(change), who])
            }
            None => Ok(()),
        }
    }

    /// Whether anything can have been there for a page that shows the key alone.
    fn may_be_there(&self, page: &Page) -> Result<(), Violation> {
        let who = Who::Page(page);
        let Some(write) = self.writes.up_to(page.end) else {
            return accuse("a page shows a key before it was written", [who]);
        };
        match self.removed.before(page.call).filter(|removal| write.end < removal.call) {
            Some(removal) => accuse("a page shows a key that was removed", [Who::Operation(removal), who]),
            None => Ok(()),
        }
    }
}
