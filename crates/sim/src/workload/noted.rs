//! What clients noted of a run, and the judges of it.

use std::collections::BTreeSet;

use longarm_base::Nanos;
use longarm_history::NEVER;
use longarm_history::counters::{self, Count};
use longarm_history::{Evidence, History, Invocation, Operation, OperationOutcome, Value, sweep, zones};

/// The steps of the exhaustive search for a key. A key that it cannot decide in so many is left to the other
/// judges.
const SEARCH: u64 = 20_000;
/// How much earlier or later than its time to live says an item is gone, because calendars of servers differ,
/// and clocks drift.
const AROUND: Nanos = Nanos::from_millis(100);
/// The client of operations that no client asked for: the expiries.
const NOBODY: u32 = u32::MAX - 1;

/// What clients did and saw.
#[derive(Debug, Default)]
pub struct Noted {
    /// Operations on keys that keep their values.
    pub plain: History,
    /// The last looks at these keys, after all was healed.
    pub left: Vec<Operation>,
    /// Operations on keys whose values may expire. They are noted without versions, as a new expiry makes a
    /// new one.
    pub expiring: Vec<Operation>,
    /// Whether any of these values may be gone at any time, as the server evicts.
    pub evicts: bool,
    /// The times at which clients said that these values expire.
    pub lives: Vec<Life>,
    /// Operations on counters.
    pub counts: Vec<Count>,
    /// The number of pages that clients asked for in vain.
    pub no_page: usize,
    /// The number of pages that clients made themselves.
    pub walks: u64,
    /// The number of backups among the pages.
    pub backups: u64,
}

/// The time to live that a client gave to an item, perhaps for ever.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The key.
    pub key: u32,
    /// The value that was written with it; `None` if the value that is there stays.
    pub value: Option<Value>,
    /// How long the item is to be there; `None`: for ever.
    pub ttl: Option<Nanos>,
    /// A time before the client asked.
    pub call: Nanos,
    /// A time after the answer; `NEVER` if the write is in doubt.
    pub end: Nanos,
}

/// How far the calendars of leaders may have been off.
#[derive(Clone, Copy, Debug)]
pub struct Calendars {
    /// How far they were set forward. An item may be gone earlier by so much than its time to live says.
    pub early: Nanos,
    /// Whether they may have stood still while no replica led, as a leader's host was behind. An item may
    /// then be gone later than its time to live says.
    pub stands: bool,
}

/// The verdict of the judges.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The number of operations that were noted.
    pub operations: usize,
    /// The number of these that are in doubt.
    pub in_doubt: usize,
    /// The number of pages of scans among the operations.
    pub pages: usize,
    /// The number of pages that clients asked for in vain.
    pub no_page: usize,
    /// The number of pages that clients made themselves.
    pub walks: u64,
    /// The number of backups among the pages.
    pub backups: u64,
    /// The first violation.
    pub violation: Option<String>,
}

impl Noted {
    /// Asks all judges.
    pub fn judge(&self, calendars: Calendars) -> Judged {
        let evidence = Evidence { history: &self.plain, answers: &[], left: &self.left, steps: SEARCH };
        let plain = evidence.judge();
        let open = self.expiring.iter().filter(|operation| operation.in_doubt()).count();
        let lost = self.counts.iter().filter(|count| count.adds && count.told.is_none()).count();
        Judged {
            operations: plain.operations + self.expiring.len() + self.counts.len(),
            in_doubt: plain.in_doubt + open + lost,
            pages: self.plain.pages().len(),
            no_page: self.no_page,
            walks: self.walks,
            backups: self.backups,
            violation: plain
                .violation
                .map(|violation| violation.to_string())
                .or_else(|| counters::judge(&self.counts).err().map(|wrong| wrong.to_string()))
                .or_else(|| self.misjudged_time(calendars)),
        }
    }

    fn misjudged_time(&self, calendars: Calendars) -> Option<String> {
        let keys: BTreeSet<u32> = self.expiring.iter().map(|operation| operation.key).collect();
        keys.into_iter().find_map(|key| self.misjudged(key, calendars))
    }

    /// Judges the operations on a key whose values may expire. From the earliest time on at which a value may
    /// expire, an expiry may have removed it; before that time the value is as one that never expires. The
    /// time to live of a write in doubt begins when the client asked for it.
    fn misjudged(&self, key: u32, Calendars { early, stands }: Calendars) -> Option<String> {
        let mut operations: Vec<Operation> =
            self.expiring.iter().filter(|operation| operation.key == key).cloned().collect();
        let lives: Vec<&Life> = self.lives.iter().filter(|life| life.key == key).collect();
        for operation in operations.iter().filter(|_| !stands) {
            if let Some(rule) = overstays(operation, &lives) {
                return Some(format!("{rule}\n  {operation}"));
            }
        }
        let ends = |life: &&Life| if self.evicts { eviction(life) } else { expiry(life, early) };
        operations.extend(lives.iter().filter_map(ends));
        operations.sort_by_key(|operation| (operation.call, operation.end, operation.client));
        let judged = sweep::judge(&operations).and_then(|()| zones::judge(&operations));
        judged.err().map(|violation| format!("of a key that expires: {violation}"))
    }
}

/// The expiry of an item, as a removal in doubt, which may have been at any time from the earliest one on.
fn expiry(life: &Life, early: Nanos) -> Option<Operation> {
    Some(removal(life, (life.call + life.ttl?).since(AROUND + early)))
}

/// The eviction of an item, or its expiry: a removal in doubt, at any time since it was written.
fn eviction(life: &Life) -> Option<Operation> {
    life.value.map(|_| removal(life, life.call))
}

fn removal(life: &Life, soonest: Nanos) -> Operation {
    let (client, key, action, outcome) = (NOBODY, life.key, Invocation::Delete, OperationOutcome::InDoubt);
    Operation { client, key, action, outcome, call: soonest, end: NEVER, version: None }
}

/// Whether a value was found that was to be gone by then, though no client gave it more time.
fn overstays(found: &Operation, lives: &[&Life]) -> Option<&'static str> {
    let OperationOutcome::Found(value) = found.outcome else { return None };
    let written = lives.iter().find(|life| life.value == Some(value) && life.end != NEVER)?;
    let more = |life: &&&Life| life.value.is_none() && life.end > written.call && life.call < found.end;
    let gone = written.end + written.ttl? + AROUND;
    (lives.iter().find(more).is_none() && gone < found.call).then_some("a value after its time")
}
