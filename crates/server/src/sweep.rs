//! Decides when a leader reviews tombstones and saved outcomes, and when it empties its oldest segments so
//! that tombstones can go.
//!
//! A tombstone may go when no segment is left that was in use when it was applied (LoLKV 4.2, L10). A segment
//! of items that nobody overwrites stays for good, and with it every tombstone since: these would take all
//! memory in the end. So once they take a good part of it, all of them are reviewed, which is cheap. If too
//! many stay, segments are emptied in the order of their claims, once around, which copies what is alive; and
//! then all are reviewed once more.

use longarm_base::{Csn, Mutant};

/// The part of what they may take that they may take when memory is short.
const SHORT: u64 = 4;

/// How far a sweep is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Step {
    #[default]
    Rest,
    /// All tombstones and saved outcomes are reviewed: before anything is emptied, or at the end.
    Review { last: bool },
    /// Segments that were claimed before this version was drawn are emptied.
    Empty { before: Csn },
}

/// The sweeps of one leader.
#[derive(Default)]
pub(crate) struct Sweep {
    pub step: Step,
    /// The bytes of tombstones and saved outcomes when the review began.
    found: u64,
    /// The bytes that the last sweep left, if it gave back little: another one would leave as many.
    left: u64,
}

/// What there is.
pub(crate) struct Kept {
    /// The bytes of tombstones and saved outcomes.
    pub bytes: u64,
    /// The bytes that they may take, and whether memory is short.
    pub most: u64,
    pub short: bool,
    /// The version drawn last, and the least claim csn of the segments in use.
    pub csn: Csn,
    pub watermark: Option<Csn>,
    /// Whether a review is under way.
    pub reviews: bool,
}

impl Sweep {
    /// The step to be made now.
    pub fn next(&mut self, kept: &Kept) -> Step {
        let most = kept.most / if kept.short { SHORT } else { 1 };
        self.left = self.left.min(kept.bytes);
        let before = self.step;
        self.step = match before {
            Step::Rest if Mutant::NeverSweep.is_on() => Step::Rest,
            Step::Rest if kept.bytes >= most && kept.bytes - self.left >= most / 2 => {
                Step::Review { last: false }
            }
            Step::Review { .. } if kept.reviews => before,
            Step::Review { last: false } if kept.bytes >= most / 2 => Step::Empty { before: kept.csn },
            Step::Review { .. } => {
                self.left = if kept.bytes > self.found / 2 { kept.bytes } else { 0 };
                Step::Rest
            }
            Step::Empty { before } if kept.watermark.is_none_or(|oldest| oldest >= before) => {
                Step::Review { last: true }
            }
            step => step,
        };
        if self.step != before {
            self.found = kept.bytes;
        }
        self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 1 << 20;
    const LOOK: Step = Step::Review { last: false };
    const LAST: Step = Step::Review { last: true };

    fn kept(bytes: u64, csn: u64, oldest: u64) -> Kept {
        let watermark = Some(Csn(oldest));
        Kept { bytes, most: MOST, short: false, csn: Csn(csn), watermark, reviews: false }
    }

    #[test]
    fn if_a_review_does_not_suffice_all_that_was_there_is_emptied() {
        let mut sweep = Sweep::default();
        assert_eq!(sweep.next(&kept(MOST - 1, 10, 3)), Step::Rest);
        assert_eq!(sweep.next(&kept(MOST, 20, 3)), LOOK);
        assert_eq!(sweep.next(&Kept { reviews: true, ..kept(MOST / 2 - 1, 30, 3) }), LOOK, "to its end");
        assert_eq!(sweep.next(&kept(MOST / 2, 40, 3)), Step::Empty { before: Csn(40) });
        assert_eq!(sweep.next(&kept(MOST / 9, 50, 39)), Step::Empty { before: Csn(40) }, "to its end");
        assert_eq!(sweep.next(&kept(MOST / 9, 60, 40)), LAST);
        assert_eq!(sweep.next(&kept(MOST / 9, 70, 40)), Step::Rest);
    }

    #[test]
    fn if_a_review_suffices_nothing_is_copied() {
        let mut sweep = Sweep::default();
        assert_eq!(sweep.next(&kept(MOST, 20, 3)), LOOK);
        assert_eq!(sweep.next(&kept(MOST / 2 - 1, 30, 3)), Step::Rest);
    }

    #[test]
    fn what_a_sweep_left_is_no_reason_for_another_one() {
        let mut sweep = Sweep::default();
        let steps = [20, 30, 40, 50].map(|csn| sweep.next(&kept(2 * MOST, csn, csn)));
        assert_eq!(steps, [LOOK, Step::Empty { before: Csn(30) }, LAST, Step::Rest]);
        assert_eq!(sweep.next(&kept(2 * MOST + MOST / 2 - 1, 60, 20)), Step::Rest, "it gave back nothing");
        assert_eq!(sweep.next(&kept(2 * MOST + MOST / 2, 70, 20)), LOOK);
    }

    /// What is there then was written while the sweep lasted.
    #[test]
    fn a_sweep_that_gave_back_much_is_followed_by_another_one() {
        let mut sweep = Sweep::default();
        let steps = [20, 30, 40].map(|csn| sweep.next(&kept(4 * MOST, csn, csn)));
        assert_eq!(steps, [LOOK, Step::Empty { before: Csn(30) }, LAST]);
        assert_eq!(sweep.next(&kept(2 * MOST, 50, 40)), Step::Rest);
        assert_eq!(sweep.next(&kept(2 * MOST, 60, 40)), LOOK);
    }

    #[test]
    fn little_is_reason_enough_when_memory_is_short() {
        let mut sweep = Sweep::default();
        assert_eq!(sweep.next(&kept(MOST / 4, 10, 3)), Step::Rest);
        assert_eq!(sweep.next(&Kept { short: true, ..kept(MOST / 4, 10, 3) }), LOOK);
    }
}
