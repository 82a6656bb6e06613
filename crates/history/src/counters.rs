//! Counters: keys to which clients add one, and which they read. Each sum is given to one of them, and what
//! one was told bounds what others are told later.
//!
//! Quick: additions of one that were answered are as many points in time, each of which its sum names. One in
//! doubt may have taken effect or not, so it may account for one sum that nobody was told.

use std::collections::{BTreeMap, BTreeSet};

use longarm_base::{Csn, Nanos};

use crate::{Invocation, NEVER, Operation, OperationOutcome, Value};

/// An addition of one, or a read, of one counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// Who.
    pub client: u32,
    /// The counter, by number.
    pub key: u32,
    /// Whether it added one.
    pub adds: bool,
    /// The sum, or what was read; `None` in doubt.
    pub told: Option<u64>,
    /// Before it was asked.
    pub call: Nanos,
    /// After it was answered.
    pub end: Nanos,
}

/// Why no counter can have told that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Miscount {
    /// By which rule.
    pub rule: &'static str,
    /// The guilty ones.
    pub guilty: Vec<Count>,
}

impl std::fmt::Display for Miscount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.rule)?;
        for Count { client, key, adds, told, call, end } in &self.guilty {
            let what = if *adds { "adds one" } else { "reads" };
            let told = told.map_or("in doubt".into(), |told| told.to_string());
            write!(f, "\n  client {client}, counter {key}: {what} -> {told}, {} ns to {} ns", call.0, end.0)?;
        }
        Ok(())
    }
}

/// Judges operations on all counters, in any order. What was read at the very end belongs among them: then an
/// addition that was answered and lost is found.
pub fn judge(counts: &[Count]) -> Result<(), Miscount> {
    let mut counters: BTreeMap<u32, Vec<Count>> = BTreeMap::new();
    counts.iter().for_each(|count| counters.entry(count.key).or_default().push(*count));
    counters.values().try_for_each(|counts| {
        each_sum_once(counts)?;
        enough_added(counts)?;
        sums_ascend(counts)
    })
}

/// The same as operations, for judges of several keys: a sum is a value, and its own version. So a page that
/// shows a counter has the sum as the version of the item. A sum that nobody was told is of an addition in
/// doubt: the first of these that was called for the least such sum, and so on, as none of them is earlier
/// than that.
pub fn operations(counts: &[Count]) -> Vec<Operation> {
    let mut counters: BTreeMap<u32, Vec<Count>> = BTreeMap::new();
    counts.iter().for_each(|count| counters.entry(count.key).or_default().push(*count));
    counters.values().flat_map(|counts| of_counter(counts)).collect()
}

fn of_counter(counts: &[Count]) -> Vec<Operation> {
    let added = |count: &&Count| count.adds && count.told.is_some();
    let told: BTreeSet<u64> = counts.iter().filter(added).filter_map(|count| count.told).collect();
    let mut doubt: Vec<&Count> = counts.iter().filter(|count| count.adds && count.told.is_none()).collect();
    doubt.sort_by_key(|count| (count.call, count.client));
    let doubt = doubt.into_iter().zip((1..).filter(|sum| !told.contains(sum)));
    let in_doubt = doubt.map(|(count, sum)| {
        let outcome = OperationOutcome::InDoubt;
        operation(&Count { end: NEVER, ..*count }, Invocation::Put(Value(sum)), outcome, Some(sum))
    });
    let answered = counts.iter().filter_map(|count| {
        let sum = count.told?;
        let (action, outcome) = match (count.adds, sum) {
            (true, _) => (Invocation::Put(Value(sum)), OperationOutcome::Done),
            (false, 0) => (Invocation::Get, OperationOutcome::Absent),
            (false, _) => (Invocation::Get, OperationOutcome::Found(Value(sum))),
        };
        Some(operation(count, action, outcome, (sum > 0).then_some(sum)))
    });
    in_doubt.chain(answered).collect()
}

fn operation(count: &Count, action: Invocation, outcome: OperationOutcome, sum: Option<u64>) -> Operation {
    let &Count { client, key, call, end, .. } = count;
    Operation { client, key, action, outcome, call, end, version: sum.map(Csn) }
}

fn miscount<T>(rule: &'static str, guilty: &[Count]) -> Result<T, Miscount> {
    Err(Miscount { rule, guilty: guilty.to_vec() })
}

fn each_sum_once(counts: &[Count]) -> Result<(), Miscount> {
    let mut sums: Vec<&Count> = counts.iter().filter(|count| count.adds && count.told.is_some()).collect();
    sums.sort_by_key(|count| (count.told, count.client, count.call));
    if let Some(first) = sums.first().filter(|count| count.told == Some(0)) {
        return miscount("one was added, and the sum is nothing", &[**first]);
    }
    match sums.windows(2).find(|pair| pair[0].told == pair[1].told) {
        Some(pair) => miscount("two additions with one sum: one of them is lost", &[*pair[0], *pair[1]]),
        None => Ok(()),
    }
}

/// What is told was added before: by those who had asked by then.
fn enough_added(counts: &[Count]) -> Result<(), Miscount> {
    let mut asked: Vec<Nanos> = counts.iter().filter(|count| count.adds).map(|count| count.call).collect();
    asked.sort_unstable();
    for count in counts {
        let Some(told) = count.told else { continue };
        if told > asked.partition_point(|&call| call <= count.end) as u64 {
            return miscount("more than was added by then: an addition was done twice", &[*count]);
        }
    }
    Ok(())
}

/// Who was told before another asked was told less, if that one added, and no more, if it read.
fn sums_ascend(counts: &[Count]) -> Result<(), Miscount> {
    let mut ended: Vec<&Count> = counts.iter().filter(|count| count.told.is_some()).collect();
    let mut called = ended.clone();
    ended.sort_by_key(|count| count.end);
    called.sort_by_key(|count| count.call);
    let (mut ended, mut most) = (ended.into_iter().peekable(), None::<&Count>);
    for count in called {
        while let Some(earlier) = ended.next_if(|earlier| earlier.end < count.call) {
            if most.is_none_or(|most| most.told < earlier.told) {
                most = Some(earlier);
            }
        }
        let Some(most) = most else { continue };
        if count.told < most.told || count.adds && count.told == most.told {
            return miscount("a sum went backwards: an addition is lost", &[*most, *count]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn add(told: u64, call: u64, end: u64) -> Count {
        Count { client: 1, key: 0, adds: true, told: Some(told), call: Nanos(call), end: Nanos(end) }
    }

    fn doubt(call: u64) -> Count {
        Count { told: None, end: Nanos(u64::MAX), ..add(0, call, 0) }
    }

    fn read(told: u64, call: u64, end: u64) -> Count {
        Count { client: 2, adds: false, ..add(told, call, end) }
    }

    fn rule(counts: &[Count]) -> &'static str {
        judge(counts).expect_err("a miscount").rule
    }

    #[test]
    fn each_rule_has_its_breach() {
        judge(&[]).expect("nothing happened");
        judge(&[add(2, 0, 9), add(1, 0, 9), read(1, 3, 4), read(2, 10, 11)]).expect("at one time");
        judge(&[add(1, 0, 1), doubt(2), add(3, 3, 4)]).expect("the one in doubt took effect");
        judge(&[add(1, 0, 1), doubt(2), add(2, 3, 4), read(3, 9, 10)]).expect("it did later");
        judge(&[add(1, 0, 1), Count { key: 1, ..add(1, 2, 3) }]).expect("each counter has its own sum");
        assert!(rule(&[add(0, 0, 1)]).starts_with("one was added"));
        assert!(rule(&[add(1, 0, 1), add(1, 2, 3)]).starts_with("two additions"));
        assert!(rule(&[add(2, 0, 1)]).starts_with("more than was added"));
        assert!(rule(&[read(1, 0, 1), add(1, 2, 3)]).starts_with("more than was added"));
        assert!(rule(&[add(1, 0, 9), add(2, 0, 1), add(3, 3, 5), read(2, 6, 7)]).starts_with("a sum went"));
        assert!(rule(&[add(2, 0, 1), add(1, 2, 9), doubt(0)]).starts_with("a sum went"));
        assert!(rule(&[add(1, 0, 1), read(0, 5, 6)]).starts_with("a sum went"), "it was acknowledged");
    }

    proptest! {
        /// A counter of its own, some of whose answers are lost, is never accused; and it is, if one of its
        /// additions did not count.
        #[test]
        fn one_that_counts_is_believed(
            steps in proptest::collection::vec((any::<bool>(), 0..4u64, 0..3u64, 0..8u8), 1..60),
        ) {
            let (mut sum, mut counts) = (0, Vec::new());
            for (i, &(adds, before, after, chance)) in steps.iter().enumerate() {
                // It takes effect at 10 (i + 1).
                let at = 10 * (i as u64 + 1);
                let lost = chance == 0;
                sum += u64::from(adds && !(lost && after == 0));
                let end = if lost { u64::MAX } else { at + 9 * after };
                let told = (!lost).then_some(sum);
                counts.push(Count { told, adds, ..read(0, at - 3 * before, end) });
            }
            prop_assert_eq!(judge(&counts), Ok(()));
            let total = counts.iter().filter(|count| count.adds && count.told.is_some()).count() as u64;
            if total > 0 {
                counts.push(read(total - 1, 100_000, 100_001));
                prop_assert!(judge(&counts).is_err());
            }
        }
    }
}
