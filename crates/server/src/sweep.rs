//! Decides when a leader reviews tombstones and saved outcomes, and when it empties its oldest segments so
//! that tombstones can go.
//!
//! A tombstone may go when no segment is left that was in use when it was applied (LoLKV 4.2, L10). A segment
//! of items that nobody overwrites stays for good, and with it every tombstone since: these would take all
//! memory in the end. So once they take a good part of it, all of them are reviewed, which is cheap. If too
//! many stay, segments are emptied in the order of their claims, once around, which copies what is alive; and
//! then all are reviewed once more.

use longarm_base::{Csn, Mutant, Nanos};

/// The part of what they may take that they may take when memory is short.
const SHORT: u64 = 4;
/// How long segments that are empty are waited for: followers let go of them, unless something is wrong.
const LEAVING: Nanos = Nanos::from_millis(2_000);

/// How far a sweep is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Step {
    #[default]
    Rest,
    /// All tombstones and saved outcomes are reviewed: before anything is emptied, or at the end.
    Review { last: bool },
    /// Segments that were claimed before this version was drawn are emptied.
    Empty { before: Csn },
    /// Those that are empty are waited for.
    Wait { before: Csn, until: Nanos },
}

/// The sweeps of one leader.
#[derive(Default)]
pub(crate) struct Sweep {
    pub step: Step,
    /// The bytes of tombstones when segments began to be emptied: all of these may go at the end.
    there: u64,
    /// The bytes of tombstones and saved outcomes when the review began.
    found: u64,
    /// The bytes that the last sweep could not drop. Another one could not, either.
    left: u64,
}

/// What there is.
pub(crate) struct Kept {
    pub now: Nanos,
    /// The bytes of tombstones, and of saved outcomes.
    pub tombstones: u64,
    pub outcomes: u64,
    /// The bytes that both may take, and whether memory is short.
    pub most: u64,
    pub short: bool,
    /// The version drawn last.
    pub csn: Csn,
    /// The least claim csn of all segments in use, and of those that are not dead.
    pub watermark: Option<Csn>,
    pub filled: Option<Csn>,
    /// Whether a review is under way.
    pub reviews: bool,
}

impl Sweep {
    /// The step to be made now.
    pub fn next(&mut self, kept: &Kept) -> Step {
        let most = kept.most / if kept.short { SHORT } else { 1 };
        let bytes = kept.tombstones + kept.outcomes;
        let gone = |least: Option<Csn>, before: Csn| least.is_none_or(|least| least >= before);
        self.left = self.left.min(bytes);
        let before = self.step;
        self.step = match before {
            Step::Rest if bytes >= most && bytes - self.left >= most / 2 => Step::Review { last: false },
            Step::Review { .. } if kept.reviews => before,
            // Outcomes do not wait for segments.
            Step::Review { last: false } if kept.tombstones >= most / 2 && !Mutant::NeverSweep.is_on() => {
                self.there = kept.tombstones;
                Step::Empty { before: kept.csn }
            }
            Step::Review { last } => {
                let dropped = self.found.saturating_sub(bytes);
                let stuck = if last { self.there.saturating_sub(dropped) } else { bytes };
                self.left = stuck.min(bytes);
                Step::Rest
            }
            Step::Empty { before } if gone(kept.filled, before) => {
                Step::Wait { before, until: kept.now + LEAVING }
            }
            Step::Wait { before, until } if gone(kept.watermark, before) || kept.now >= until => {
                Step::Review { last: true }
            }
            step => step,
        };
        if self.step != before {
            self.found = bytes;
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

    /// So many bytes of tombstones, at this version, with the oldest segment of that one.
    fn kept(tombstones: u64, csn: u64, oldest: u64) -> Kept {
        let oldest = Some(Csn(oldest));
        Kept {
            now: Nanos(csn),
            tombstones,
            outcomes: 0,
            most: MOST,
            short: false,
            csn: Csn(csn),
            watermark: oldest,
            filled: oldest,
            reviews: false,
        }
    }

    fn empty(before: u64) -> Step {
        Step::Empty { before: Csn(before) }
    }

    fn wait(before: u64, since: u64) -> Step {
        Step::Wait { before: Csn(before), until: Nanos(since) + LEAVING }
    }

    #[test]
    fn if_a_review_does_not_suffice_all_that_was_there_is_emptied() {
        let mut sweep = Sweep::default();
        assert_eq!(sweep.next(&kept(MOST - 1, 10, 3)), Step::Rest);
        assert_eq!(sweep.next(&kept(MOST, 20, 3)), LOOK);
        assert_eq!(sweep.next(&Kept { reviews: true, ..kept(MOST / 2 - 1, 30, 3) }), LOOK, "to its end");
        assert_eq!(sweep.next(&kept(MOST / 2, 40, 3)), empty(40));
        assert_eq!(sweep.next(&kept(MOST / 9, 50, 39)), empty(40), "to its end");
        assert_eq!(sweep.next(&Kept { watermark: Some(Csn(39)), ..kept(9, 60, 40) }), wait(40, 60));
        assert_eq!(sweep.next(&Kept { watermark: Some(Csn(39)), ..kept(9, 70, 40) }), wait(40, 60));
        assert_eq!(sweep.next(&kept(MOST / 9, 80, 40)), LAST);
        assert_eq!(sweep.next(&kept(MOST / 9, 90, 40)), Step::Rest);
    }

    #[test]
    fn if_a_review_suffices_nothing_is_copied() {
        let mut sweep = Sweep::default();
        assert_eq!(sweep.next(&kept(MOST, 20, 3)), LOOK);
        assert_eq!(sweep.next(&kept(MOST / 2 - 1, 30, 3)), Step::Rest);
        // No segment holds outcomes up.
        let outcomes = |csn| Kept { outcomes: 2 * MOST, ..kept(0, csn, 3) };
        assert_eq!([40, 50, 60].map(|csn| sweep.next(&outcomes(csn))), [LOOK, Step::Rest, Step::Rest]);
    }

    #[test]
    fn what_a_sweep_could_not_drop_is_no_reason_for_another_one() {
        let mut sweep = Sweep::default();
        let steps = [20, 30, 40, 50, 60].map(|csn| sweep.next(&kept(2 * MOST, csn, csn)));
        assert_eq!(steps, [LOOK, empty(30), wait(30, 40), LAST, Step::Rest]);
        assert_eq!(sweep.next(&kept(2 * MOST + MOST / 2 - 1, 70, 20)), Step::Rest, "it gave back nothing");
        assert_eq!(sweep.next(&kept(2 * MOST + MOST / 2, 80, 20)), LOOK);
    }

    #[test]
    fn what_was_written_while_a_sweep_lasted_is_a_reason_for_another_one() {
        let mut sweep = Sweep::default();
        assert_eq!([20, 30].map(|csn| sweep.next(&kept(2 * MOST, csn, csn))), [LOOK, empty(30)]);
        assert_eq!([40, 50].map(|csn| sweep.next(&kept(7 * MOST, csn, csn))), [wait(30, 40), LAST]);
        // The five that came meanwhile stay.
        assert_eq!([60, 70].map(|csn| sweep.next(&kept(5 * MOST, csn, csn))), [Step::Rest, LOOK]);
    }

    /// A segment that is held back for good is one.
    #[test]
    fn segments_that_followers_do_not_let_go_of_do_not_hold_a_sweep_up() {
        let mut sweep = Sweep::default();
        assert_eq!([20, 30].map(|csn| sweep.next(&kept(MOST, csn, 3))), [LOOK, empty(30)]);
        let stuck = |now| Kept { now, watermark: Some(Csn(3)), ..kept(MOST, 40, 30) };
        assert_eq!(sweep.next(&stuck(Nanos(40))), wait(30, 40));
        assert_eq!(sweep.next(&stuck(Nanos(39) + LEAVING)), wait(30, 40));
        assert_eq!(sweep.next(&stuck(Nanos(40) + LEAVING)), LAST);
    }

    #[test]
    fn little_is_reason_enough_when_memory_is_short() {
        let mut sweep = Sweep::default();
        assert_eq!(sweep.next(&kept(MOST / 4, 10, 3)), Step::Rest);
        assert_eq!(sweep.next(&Kept { short: true, ..kept(MOST / 4, 10, 3) }), LOOK);
    }
}
