//! What clients noted of a run, and the judges of it.

use longarm_base::Nanos;
use longarm_history::NEVER;
use longarm_history::counters::{self, Count};
use longarm_history::{Evidence, History, Invocation, Operation, OperationOutcome, Value, sweep, zones};

/// Steps of the exhaustive search, a key; what it cannot decide in so many is left to the other judges.
const SEARCH: u64 = 20_000;
/// How much earlier or later an item is gone than it was said: calendars of servers differ, and clocks drift.
const AROUND: Nanos = Nanos::from_millis(100);
/// Whose operations those are that nobody asked for: the expiries.
const NOBODY: u32 = u32::MAX - 1;

/// What clients did and saw.
#[derive(Debug, Default)]
pub struct Noted {
    /// With keys that keep their values.
    pub plain: History,
    /// The last looks at them, when all was well again.
    pub left: Vec<Operation>,
    /// With keys whose values may expire; without versions, as a new expiry makes a new one.
    pub expiring: Vec<Operation>,
    /// What said when they do.
    pub lives: Vec<Life>,
    /// With counters.
    pub counts: Vec<Count>,
}

/// Somebody said when a key expires, perhaps never.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The key.
    pub key: u32,
    /// What was written with it; `None` where what is there stays.
    pub value: Option<Value>,
    /// How long it is to be there.
    pub ttl: Option<Nanos>,
    /// Before it was asked for.
    pub call: Nanos,
    /// After it was answered; never, in doubt.
    pub end: Nanos,
}

/// What the calendars of leaders did.
#[derive(Clone, Copy, Debug)]
pub struct Calendars {
    /// By so much they were set forward, so that an item may be gone earlier than it was said.
    pub early: Nanos,
    /// They stood still for as long as nobody led, where a leader's host was behind: so an item may be gone
    /// later than it was said.
    pub stands: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Operations that were noted.
    pub operations: usize,
    /// Of them, in doubt.
    pub in_doubt: usize,
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
            violation: plain
                .violation
                .map(|violation| violation.to_string())
                .or_else(|| self.miscount())
                .or_else(|| self.misjudged_time(calendars)),
        }
    }

    fn miscount(&self) -> Option<String> {
        let keys = self.counts.iter().map(|count| count.key);
        let of = |key| self.counts.iter().filter(|count| count.key == key).copied().collect::<Vec<_>>();
        unique(keys).find_map(|key| counters::judge(&of(key)).err()).map(|wrong| wrong.to_string())
    }

    fn misjudged_time(&self, calendars: Calendars) -> Option<String> {
        let keys = self.expiring.iter().map(|operation| operation.key);
        unique(keys).find_map(|key| self.misjudged(key, calendars))
    }

    /// From the time on at which a key may be gone, somebody may have removed what is there; before it is as
    /// if it never expired. The time of what is in doubt begins when it was asked for.
    fn misjudged(&self, key: u32, Calendars { early, stands }: Calendars) -> Option<String> {
        let mut operations: Vec<Operation> =
            self.expiring.iter().filter(|operation| operation.key == key).cloned().collect();
        let lives: Vec<&Life> = self.lives.iter().filter(|life| life.key == key).collect();
        for operation in operations.iter().filter(|_| !stands) {
            if let Some(rule) = overstays(operation, &lives) {
                return Some(format!("{rule}\n  {operation}"));
            }
        }
        operations.extend(lives.iter().filter_map(|life| expiry(life, early)));
        operations.sort_by_key(|operation| (operation.call, operation.end, operation.client));
        let judged = sweep::judge(&operations).and_then(|()| zones::judge(&operations));
        judged.err().map(|violation| format!("of a key that expires: {violation}"))
    }
}

/// A removal that may have been at any time since.
fn expiry(life: &Life, early: Nanos) -> Option<Operation> {
    let soonest = (life.call + life.ttl?).since(AROUND + early);
    let (client, key, action, outcome) = (NOBODY, life.key, Invocation::Delete, OperationOutcome::InDoubt);
    Some(Operation { client, key, action, outcome, call: soonest, end: NEVER, version: None })
}

/// Whether a value is found that was to be gone by then, and nobody gave it more time.
fn overstays(found: &Operation, lives: &[&Life]) -> Option<&'static str> {
    let OperationOutcome::Found(value) = found.outcome else { return None };
    let written = lives.iter().find(|life| life.value == Some(value) && life.end != NEVER)?;
    let more = |life: &&&Life| life.value.is_none() && life.end > written.call && life.call < found.end;
    let gone = written.end + written.ttl? + AROUND;
    (lives.iter().find(more).is_none() && gone < found.call).then_some("a value after its time")
}

fn unique(keys: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    keys.collect::<std::collections::BTreeSet<u32>>().into_iter()
}
