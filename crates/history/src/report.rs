//! All judges over all there is to judge, and what came of it in words.

use std::collections::BTreeMap;

use longarm_base::Nanos;

use crate::sessions::SessionAnswer;
use crate::{History, Operation, Violation, cycles, lost, scans, search, sessions, sweep, zones};

/// Up to so many operations and pages together are searched, too: all their orders are not too many.
const SHORT: usize = 12;

/// What there is to judge.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// What clients did and saw.
    pub history: &'a History,
    /// Answers of sessions, repeated ones too; may be empty.
    pub answers: &'a [SessionAnswer],
    /// A get of each key after all is healed and done; empty if nobody looked. These need not stand in the
    /// history.
    pub left: &'a [Operation],
    /// How much to search, a key.
    pub steps: u64,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryReport {
    /// Operations and pages of the history.
    pub operations: usize,
    /// Of them, in doubt.
    pub in_doubt: usize,
    /// Keys they touched.
    pub keys: usize,
    /// Most operations that one key had under way at one time. Those in doubt stay under way.
    pub most_at_once: usize,
    /// Keys on which the search gave up; the other judges did look at them.
    pub undecided: usize,
    /// The first that was found.
    pub violation: Option<Violation>,
}

impl Evidence<'_> {
    /// Asks all judges.
    pub fn judge(&self) -> HistoryReport {
        let keys = self.history.by_key();
        let mut report = self.measure(&keys);
        report.violation = self.accuse(&keys, &mut report.undecided).err();
        report
    }

    /// How much there is to judge.
    pub(crate) fn measure(&self, keys: &BTreeMap<u32, Vec<Operation>>) -> HistoryReport {
        HistoryReport {
            operations: self.history.len(),
            in_doubt: self.history.operations().iter().filter(|operation| operation.in_doubt()).count(),
            keys: keys.len(),
            most_at_once: keys.values().map(|operations| most_at_once(operations)).max().unwrap_or(0),
            undecided: 0,
            violation: None,
        }
    }

    /// The quick judges see every key before the slow one sees any: they name the guilty more narrowly.
    fn accuse(&self, keys: &BTreeMap<u32, Vec<Operation>>, undecided: &mut usize) -> Result<(), Violation> {
        sessions::judge(self.answers)?;
        for operations in keys.values() {
            sweep::judge(operations)?;
            zones::judge(operations)?;
        }
        // Without pages each operation is on one key, and if each key has an order, all have one together.
        if !self.history.pages().is_empty() {
            scans::judge(self.history)?;
            cycles::judge(self.history)?;
        }
        for left in self.left {
            lost::judge(keys.get(&left.key).map_or(&[], Vec::as_slice), left)?;
        }
        for operations in keys.values() {
            match search::judge(operations, self.steps) {
                search::Verdict::Legal => {}
                search::Verdict::Illegal(violation) => return Err(violation),
                search::Verdict::Unknown => *undecided += 1,
            }
        }
        if !self.history.pages().is_empty()
            && self.history.len() <= SHORT
            && let search::Verdict::Illegal(violation) = search::judge_map(self.history, self.steps)
        {
            return Err(violation);
        }
        Ok(())
    }
}

impl History {
    /// Asks all judges that need nothing else; the search gives up on a key after `steps` and then says
    /// nothing of it.
    pub fn judge(&self, steps: u64) -> Result<(), Violation> {
        let report = Evidence { history: self, answers: &[], left: &[], steps }.judge();
        report.violation.map_or(Ok(()), Err)
    }
}

fn most_at_once(operations: &[Operation]) -> usize {
    let mut ends: Vec<Nanos> = operations.iter().map(|operation| operation.end).collect();
    ends.sort_unstable();
    let mut ended = 0;
    let under_way = operations.iter().enumerate().map(|(before, operation)| {
        // Times are closed: what ends at the moment of a call is under way with it.
        while ends[ended] < operation.call {
            ended += 1;
        }
        before + 1 - ended
    });
    under_way.max().unwrap_or(0)
}

impl std::fmt::Display for HistoryReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HistoryReport { operations, in_doubt, keys, most_at_once, undecided, violation } = self;
        write!(f, "{operations} operations, {in_doubt} in doubt, on {keys} keys, ")?;
        write!(f, "at most {most_at_once} at once on one: ")?;
        match violation {
            Some(violation) => write!(f, "{violation}"),
            None if *undecided > 0 => {
                write!(f, "legal, as far as seen: {undecided} keys not searched to the end")
            }
            None => f.write_str("legal"),
        }
    }
}
