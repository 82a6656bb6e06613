//! Limits how many live entries a leader moves out of nearly dead segments while there is no need to hurry.
//!
//! If all keys are written equally often, all segments are nearly dead at the same time. A burst of moves
//! would hold up writes, and leave behind the followers that index new entries (`group/node/pace.rs`). If
//! their leader were lost then, the next leader would have to index all of them while no client is served.

use longarm_base::{Csn, Nanos};

/// Moves in a second that are always allowed: usually, and while the oldest segments are emptied
/// (`sweep.rs`). Followers index the latter at once, too.
const LEAST: u64 = 1_000;
const LEAST_SWEPT: u64 = 16_000;
/// How much of the oldest segments is taken to be alive.
const SWEPT_ALIVE: u32 = 50;
/// The allowed multiple of the moves that give back as much room as is written.
const AHEAD: u64 = 2;
/// The most moves that may be saved up.
const SAVED_MOST: u64 = 4_096;
const SECOND: u64 = 1_000_000_000;

/// The moves that may be made now.
pub(crate) struct MoveRate {
    /// The csn when it was last filled up.
    csn: Csn,
    /// Moves that may be made, in billionths.
    saved: u64,
}

impl MoveRate {
    pub fn new(csn: Csn) -> MoveRate {
        MoveRate { csn, saved: SAVED_MOST * SECOND }
    }

    /// Fills up, as `passed` has passed and the csn is `csn`. If collected segments are `percent` alive,
    /// `percent / (100 - percent)` entries are moved for each dead one. `sweeps` is whether the oldest
    /// segments are emptied, however much of them is alive.
    pub fn fill(&mut self, passed: Nanos, csn: Csn, percent: u32, sweeps: bool) {
        let (least, alive) = if sweeps { (LEAST_SWEPT, SWEPT_ALIVE) } else { (LEAST, 0) };
        let percent = u64::from(percent.max(alive).min(99));
        let each = AHEAD * SECOND * percent / (100 - percent);
        let written = csn.0.saturating_sub(self.csn.0);
        let more = least.saturating_mul(passed.0).saturating_add(each.saturating_mul(written));
        self.saved = self.saved.saturating_add(more).min(SAVED_MOST * SECOND);
        self.csn = csn;
    }

    /// Whether one more entry may be moved.
    pub fn is_due(&self) -> bool {
        self.saved >= SECOND
    }

    /// Notes that an entry was moved.
    pub fn spend(&mut self) {
        self.saved = self.saved.saturating_sub(SECOND);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(rate: &mut MoveRate) -> u64 {
        let mut moves = 0;
        while rate.is_due() {
            rate.spend();
            moves += 1;
        }
        moves
    }

    #[test]
    fn moves_follow_time_and_what_is_written() {
        let mut rate = MoveRate::new(Csn(5));
        assert_eq!(spend(&mut rate), SAVED_MOST);
        rate.fill(Nanos(SECOND / 2), Csn(5), 8, false);
        assert_eq!(spend(&mut rate), LEAST / 2);
        // Half alive: one entry is moved for each dead one, and twice that may be moved.
        rate.fill(Nanos(0), Csn(105), 50, false);
        assert_eq!(spend(&mut rate), 200);
        rate.fill(Nanos(0), Csn(1105), 8, false);
        assert_eq!(spend(&mut rate), 2 * 1000 * 8 / 92);
        // While the oldest segments are emptied.
        rate.fill(Nanos(0), Csn(1205), 8, true);
        assert_eq!(spend(&mut rate), 200);
        rate.fill(Nanos(SECOND / 10), Csn(1205), 8, true);
        assert_eq!(spend(&mut rate), LEAST_SWEPT / 10);
    }

    #[test]
    fn nothing_is_too_much_and_nothing_is_saved_for_ever() {
        let mut rate = MoveRate::new(Csn(0));
        rate.fill(Nanos(u64::MAX), Csn(u64::MAX), u32::MAX, false);
        assert_eq!(spend(&mut rate), SAVED_MOST);
    }
}
