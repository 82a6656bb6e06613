//! Losses: all replicas of a group that acknowledges from memory are killed at one time, and it goes on from
//! what its disks have (decision 50). What came back must be what the group held at a moment, and what is
//! lost must have been taken within the window.
//!
//! A loss is one moment: nothing of the old memory is served after it, and nothing of the new before. Between
//! two losses is an epoch. The judges of a history look at each epoch by itself: it begins with writes of
//! what is known to have come back, and with what was under way, which may take effect in any later epoch. So
//! a read is explained by its own epoch, whether or not the writes that it saw came back.
//!
//! What is new is judged at each loss. A value that was written before it and is seen after it came back, so
//! the later writes of its key are lost. A key that is absent after it, though nobody can have removed it
//! since, came back without a value, so what nobody can have removed before is lost. Then
//! - no write is lost that has a lower version than one that came back, nor one that had taken effect before
//!   one that came back was called (what came back is the state of a moment);
//! - no write is taken later than a window after one that is lost had taken effect ([`Losses::window`]);
//! - what is lost never comes back, and its version is never given to another write.
//!
//! Of a key that nobody looked at before it was written again nothing is known, so whoever wants to know
//! looks at all keys after each loss. An operation that was called before a loss and answered after it may
//! have taken effect in both epochs: it is in doubt in both, and what it saw is no evidence. Values with a
//! time to live are not judged over a loss. Sums of counters name no version: of these the times of additions
//! count. Additions and answers of sessions are judged within an epoch, since what a session remembers may be
//! lost with what it wrote.

mod counts;
mod cut;
mod epochs;
mod keys;

use longarm_base::Nanos;

use crate::counters::{Count, Miscount};
use crate::{Evidence, HistoryReport, Violation};
use cut::Cut;
use epochs::Epochs;
use keys::Keys;

/// The losses of a group, and what they may cost.
#[derive(Clone, Copy, Debug)]
pub struct Losses<'a> {
    /// When, in order. What was answered from old memory was called before, what is answered from new memory
    /// is answered after.
    pub at: &'a [Nanos],
    /// All writes that a loss takes were taken within so much time. A write is taken as long as the notes of
    /// a majority cover a moment that is no older than this, and what was acknowledged by that moment is not
    /// lost. So none is called later than this after one that is lost had taken effect, however long the
    /// disks stood still before the loss, and whatever was under way meanwhile.
    pub window: Nanos,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LossReport {
    /// What is said of operations and pages.
    pub history: HistoryReport,
    /// The first violation on counters.
    pub miscount: Option<Miscount>,
    /// How many writes and additions are known to be lost that had taken effect.
    pub lost: usize,
    /// The longest time that is known from when a lost one had taken effect to when the last one was called.
    pub longest: Nanos,
}

/// Judges all evidence of a group that had losses, and its counters. All keys are of one group, since groups
/// have no versions and no moment in common. An addition stands in a violation as a PUT of its sum.
pub fn judge(evidence: &Evidence<'_>, counts: &[Count], losses: Losses<'_>) -> LossReport {
    let history = evidence.measure(&evidence.history.by_key());
    let mut report = LossReport { history, miscount: None, lost: 0, longest: Nanos(0) };
    let judged = over_losses(evidence, counts, losses, &mut report);
    report.history.violation = judged.err();
    report
}

fn over_losses(
    evidence: &Evidence<'_>,
    counts: &[Count],
    losses: Losses<'_>,
    report: &mut LossReport,
) -> Result<(), Violation> {
    if let Some(expiry) = evidence.history.operations().iter().find(|one| one.expires().is_some()) {
        return Err(Violation::of(
            "a value with a time to live: these are not judged over a loss",
            &[expiry],
        ));
    }
    let counters = counts::of_epochs(counts, losses.at);
    report.miscount = counters.miscount.clone();
    let keys = Keys::of(evidence.history);
    let mut epochs = Epochs::of(evidence, losses.at);
    let (mut states, mut wrong) = (keys.none(), None);
    for (number, &at) in losses.at.iter().enumerate() {
        let from = number.checked_sub(1).map_or(Nanos(0), |before| losses.at[before]);
        wrong = wrong.or(versions_go_on(&keys, at).err());
        // What is wrong at one loss may be why something is at the next.
        let came = match keys.came_back(from..at, &states) {
            Ok(came) => came,
            Err(violation) => return Err(wrong.unwrap_or(violation)),
        };
        let mut cut = Cut::of(&keys, from..at, &states, &came);
        cut.add(&counters.cuts[number]);
        report.lost += cut.lost();
        report.longest = report.longest.max(cut.longest());
        let version = cut.version();
        // An epoch that nothing explains says more than that its beginning is wrong.
        wrong = wrong.or(cut.judge(losses.window).err());
        epochs.begin(&keys, from..at, &came, version);
        states = came;
    }
    report.history.undecided = epochs.judge()?;
    wrong.map_or(Ok(()), Err)
}

/// No version that may name a write that is lost is given to another.
fn versions_go_on(keys: &Keys<'_>, at: Nanos) -> Result<(), Violation> {
    let told = keys.told(at);
    match keys.later(at).find(|write| write.version <= told) {
        Some(write) => {
            Err(Violation::of("a write after a loss has a version that was drawn before it", &[write]))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
