//! Counters over losses: the sum that came back is one that the counter had, or was about to have.

use std::collections::BTreeMap;
use std::ops::Range;

use longarm_base::Nanos;

use crate::counters::{self, Count, Miscount};
use crate::{NEVER, Operation};

/// What counters say of a loss: additions, as operations.
#[derive(Clone, Default, Debug)]
pub(super) struct CounterCut {
    pub lost: Vec<Operation>,
    pub outlived: Vec<Operation>,
    /// All that were asked for and answered in the epoch.
    pub taken: Vec<Operation>,
}

/// What counters say.
pub(super) struct Counters {
    pub miscount: Option<Miscount>,
    /// Of each loss.
    pub cuts: Vec<CounterCut>,
}

/// Judges counters within each epoch, and says what was lost between two.
pub(super) fn of_epochs(counts: &[Count], at: &[Nanos]) -> Counters {
    let mut keys: BTreeMap<u32, Vec<Count>> = BTreeMap::new();
    counts.iter().for_each(|count| keys.entry(count.key).or_default().push(*count));
    let mut all = Counters { miscount: None, cuts: vec![CounterCut::default(); at.len()] };
    for counts in keys.values() {
        let judged = of_counter(counts, at, &mut all.cuts);
        all.miscount = all.miscount.or(judged.err());
    }
    all
}

/// The operations of an epoch on one counter.
struct Epoch {
    /// Those that were asked for and answered in it.
    own: Vec<Count>,
    /// Additions that may have been done in it.
    doubt: Vec<Count>,
}

impl Epoch {
    fn of(counts: &[Count], times: Range<Nanos>) -> Epoch {
        let told = |count: &&Count| count.told.is_some();
        let own = |count: &&Count| told(count) && count.call >= times.start && count.end < times.end;
        let touches = |count: &&Count| count.call < times.end && (!told(count) || count.end >= times.start);
        let doubt = counts.iter().filter(|count| count.adds && touches(count) && !own(count));
        let doubt =
            doubt.map(|count| Count { told: None, call: count.call.max(times.start), end: NEVER, ..*count });
        Epoch { own: counts.iter().filter(own).copied().collect(), doubt: doubt.collect() }
    }

    /// The additions that may have been done by a time.
    fn asked(&self, by: Nanos) -> u64 {
        let own = self.own.iter().filter(|count| count.adds).chain(&self.doubt);
        own.filter(|count| count.call <= by).count() as u64
    }

    /// The sum with which the epoch began is no higher than this, if anything was told.
    fn most(&self) -> Option<u64> {
        let told = self.own.iter().filter_map(|count| Some(count.told?.saturating_sub(count.adds.into())));
        told.min()
    }

    /// It is no lower than this.
    fn least(&self) -> u64 {
        let told =
            self.own.iter().filter_map(|count| Some(count.told?.saturating_sub(self.asked(count.end))));
        told.max().unwrap_or(0)
    }
}

fn of_counter(counts: &[Count], at: &[Nanos], cuts: &mut [CounterCut]) -> Result<(), Miscount> {
    let begins = [Nanos(0)].into_iter().chain(at.iter().copied());
    let ends = at.iter().copied().chain([NEVER]);
    let epochs: Vec<Epoch> = begins.zip(ends).map(|(from, to)| Epoch::of(counts, from..to)).collect();
    // A loss leaves at least what the one before it left.
    let mut most: Vec<Option<u64>> = epochs.iter().map(Epoch::most).collect();
    for number in (1..most.len()).rev() {
        most[number - 1] = [most[number - 1], most[number]].into_iter().flatten().min();
    }
    let mut base = 0;
    for (number, epoch) in epochs.iter().enumerate() {
        if let Some(before) = number.checked_sub(1) {
            // No more came back than had been added.
            let added = base + epochs[before].asked(NEVER);
            base = most[number].map_or(added, |most| most.min(added));
            let cut = &mut cuts[before];
            let adds = || epochs[before].own.iter().filter(|count| count.adds);
            let told = |count: &&Count| count.told.expect("it was answered");
            let lost = adds().filter(|count| most[number].is_some_and(|most| told(count) > most));
            let least = epoch.least();
            let outlived = adds().filter(|count| told(count) <= least);
            let operations = |counts: Vec<Count>| counters::operations(&counts);
            cut.lost.extend(operations(lost.copied().collect()));
            cut.outlived.extend(operations(outlived.copied().collect()));
            cut.taken.extend(operations(adds().copied().collect()));
        }
        within(epoch, base)?;
    }
    Ok(())
}

/// Judges an epoch that began with a sum.
fn within(epoch: &Epoch, base: u64) -> Result<(), Miscount> {
    let less = |count: &Count| Count { told: count.told.map(|told| told - base), ..*count };
    let more = |count: &Count| Count { told: count.told.map(|told| told + base), ..*count };
    let counts: Vec<Count> = epoch.own.iter().map(less).chain(epoch.doubt.iter().copied()).collect();
    counters::judge(&counts)
        .map_err(|miscount| Miscount { guilty: miscount.guilty.iter().map(more).collect(), ..miscount })
}
